#include "storage/index_file.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "format/paths.h"
#include "format/stored_columns.h"
#include "storage/posix_file.h"

namespace belay {
namespace {

// What metadata takes in memory may be so much more than what it takes in the
// file: short texts do.
constexpr int64_t kMemoryPerByte = 40;
// A file system may compress what it stores; a hole takes no space at all.
constexpr int64_t kMostCompressed = 8;
constexpr int64_t kLeastBudget = int64_t{16} << 20;

}  // namespace

// So that a damaged length does not exhaust memory.
int64_t MetadataBudget(int64_t stored_bytes) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (stored_bytes > (kMost - kLeastBudget) / kMemoryPerByte) return kMost;
  return stored_bytes * kMemoryPerByte + kLeastBudget;
}

StatusOr<std::optional<int64_t>> MaxMetadataBytes() {
  const char* const text = std::getenv(kMaxMetadataBytes);
  if (text == nullptr || *text == '\0') return std::nullopt;
  int64_t bytes = 0;
  if (absl::SimpleAtoi(text, &bytes) && bytes > 0) return bytes;
  return absl::InvalidArgumentError(Cat(kMaxMetadataBytes,
                                        ": not a number of bytes (need at ",
                                        "least 1, found \"", text, "\")"));
}

int64_t BytesWithoutHoles(const PosixFile& file, const FileStat& stat) {
  if (stat.allocated_bytes >= stat.size / kMostCompressed) return stat.size;
  // Some file systems count what they have stored only later, or never; some
  // of these know no holes either.
  constexpr int64_t kMostUncounted = int64_t{1} << 30;
  const int64_t data = std::min(file.DataBytes(), kMostUncounted);
  return std::clamp(stat.allocated_bytes * kMostCompressed,
                    std::min(data, stat.size), stat.size);
}

Hdf5Bytes::Hdf5Bytes(PosixFile file, const FileStat& stat, int64_t budget)
    : file_(std::move(file)),
      bytes_(
          file_.path(), stat.size, budget,
          [this](int64_t offset, void* data, int64_t bytes) {
            return file_.PreadAll(offset, data, bytes);
          },
          Cat("; if you trust it, allow more with ", kMaxMetadataBytes)) {}

StatusOr<std::unique_ptr<Hdf5Bytes>> Hdf5Bytes::Open(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kRead));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  BELAY_ASSIGN_OR_RETURN(const std::optional<int64_t> said, MaxMetadataBytes());
  const int64_t budget =
      said ? *said : MetadataBudget(BytesWithoutHoles(file, stat));
  return std::unique_ptr<Hdf5Bytes>(
      new Hdf5Bytes(std::move(file), stat, budget));
}

// --- Index file ---

Status CreateEmptyIndex(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kCreate));
  return file.Close();
}

Status WriteNewIndex(const std::string& path, const IndexImage& image) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kCreate));
  BELAY_RETURN_IF_ERROR(file.PwriteAll(
      0, image.bytes.data(), static_cast<int64_t>(image.bytes.size())));
  return file.Close();
}

Status FinishIndex(const std::string& path, const IndexImage& image,
                   int64_t step, int64_t time,
                   const std::vector<uint32_t>& checksums, bool durable,
                   const std::function<Status()>& once_open) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kWrite));
  if (once_open) BELAY_RETURN_IF_ERROR(once_open());
  BELAY_RETURN_IF_ERROR(file.PwriteAll(image.step_offset, &step, sizeof(step)));
  BELAY_RETURN_IF_ERROR(file.PwriteAll(image.time_offset, &time, sizeof(time)));
  if (image.checksum_offset >= 0) {
    BELAY_RETURN_IF_ERROR(file.PwriteAll(
        image.checksum_offset, checksums.data(),
        static_cast<int64_t>(checksums.size() * sizeof(uint32_t))));
  }
  // The second part of the digest is about these.
  const uint32_t digest = DigestOfValues(step, time, checksums);
  BELAY_RETURN_IF_ERROR(file.PwriteAll(image.digest_offset + sizeof(digest),
                                       &digest, sizeof(digest)));
  if (durable) BELAY_RETURN_IF_ERROR(file.Sync());
  return file.Close();
}

StatusOr<uint64_t> FileIdentity(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kRead));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  BELAY_RETURN_IF_ERROR(file.Close());
  WireWriter out;
  out.Put(stat.size);
  out.Put(stat.number);
  out.Put(stat.modified_ns);
  return Fingerprint(out.bytes()) | 1;
}

StatusOr<uint64_t> IndexIdentity(const std::string& directory) {
  return FileIdentity(JoinPath(directory, IndexName()));
}

namespace {

// `found` is what has the path now; `what` it is.
Status CheckIdentity(std::string_view operation, const std::string& path,
                     std::string_view what, uint64_t identity,
                     const StatusOr<uint64_t>& found) {
  if (found.ok() && *found == identity) return absl::OkStatus();
  if (!found.ok() && !absl::IsNotFound(found.status())) return found.status();
  return absl::FailedPreconditionError(
      Cat(operation, " \"", path, "\": the ", what, " was ",
          found.ok() ? "replaced by another save" : "deleted",
          " while it was read; read again what is there now"));
}

}  // namespace

Status CheckSameFile(std::string_view operation, const std::string& path,
                     uint64_t identity) {
  return CheckIdentity(operation, path, "file", identity, FileIdentity(path));
}

Status CheckSameStep(std::string_view operation, const std::string& directory,
                     uint64_t identity) {
  return CheckIdentity(operation, directory, "step", identity,
                       IndexIdentity(directory));
}

namespace {

// Finds files of several names, whose bytes are stored once. Those without
// values may have them: who saves space by links finds them equal.
class LinkedFiles {
 public:
  explicit LinkedFiles(const SavedCheckpoint& saved)
      : saved_(saved), has_values_(saved.files.size()) {
    for (const StoredDataset& dataset : saved.datasets) {
      if (!IsEmpty(dataset.box)) has_values_[dataset.file] = true;
    }
  }

  // Checks a file that is there.
  Status Add(size_t file, const std::string& path, const FileStat& stat) {
    if (stat.links <= 1 || !has_values_[file]) return absl::OkStatus();
    const auto [known, is_new] = by_number_.try_emplace(stat.number, file);
    if (is_new) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrFormat("open \"%s\": the data file is \"%s\" by another name, "
                        "whose bytes are stored once",
                        path, saved_.files[known->second].name));
  }

 private:
  const SavedCheckpoint& saved_;
  std::vector<bool> has_values_;
  absl::flat_hash_map<uint64_t, size_t> by_number_;
};

}  // namespace

Status CheckDataFiles(const std::string& directory,
                      const SavedCheckpoint& saved) {
  LinkedFiles linked(saved);
  for (size_t i = 0; i < saved.files.size(); ++i) {
    const StoredFile& expected = saved.files[i];
    const std::string path = JoinPath(directory, expected.name);
    StatusOr<PosixFile> file = PosixFile::Open(path, PosixFile::Mode::kRead);
    if (absl::IsNotFound(file.status())) {
      return absl::DataLossError(
          absl::StrFormat("open \"%s\": the data file is missing (need %d "
                          "bytes, found none)",
                          path, expected.bytes));
    }
    // A link, or what is no file at all, has been put in its place.
    if (absl::IsInvalidArgument(file.status())) {
      return absl::DataLossError(file.status().message());
    }
    BELAY_RETURN_IF_ERROR(file.status());
    BELAY_ASSIGN_OR_RETURN(const FileStat stat, file->Stat());
    if (stat.size != expected.bytes) {
      return absl::DataLossError(absl::StrFormat(
          "open \"%s\": the data file is %s (need %d bytes, found %d)", path,
          stat.size < expected.bytes ? "truncated" : "too long", expected.bytes,
          stat.size));
    }
    BELAY_RETURN_IF_ERROR(linked.Add(i, path, stat));
  }
  return absl::OkStatus();
}

Status CheckChunksFit(std::string_view operation, const std::string& directory,
                      const SavedCheckpoint& saved) {
  // In a plan, and in a file.
  constexpr int64_t kBytesPlanned = 256, kLeastBytesStored = 64;
  constexpr int64_t kFewChunks = int64_t{1} << 18;
  int64_t chunks = 0;
  for (const StoredDataset& dataset : saved.datasets) {
    if (dataset.chunk.empty() || !dataset.filters.empty()) continue;
    chunks += NumElements(ChunkGrid(dataset));
  }
  if (chunks <= kFewChunks) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const std::optional<int64_t> allowed,
                         MaxMetadataBytes());
  int64_t most = kFewChunks;
  for (const StoredFile& expected : saved.files) {
    const StatusOr<PosixFile> file = PosixFile::Open(
        JoinPath(directory, expected.name), PosixFile::Mode::kRead);
    if (absl::IsNotFound(file.status())) continue;
    BELAY_RETURN_IF_ERROR(file.status());
    BELAY_ASSIGN_OR_RETURN(const FileStat stat, file->Stat());
    most += BytesWithoutHoles(*file, stat) / kLeastBytesStored;
  }
  if (allowed) most = *allowed / kBytesPlanned;
  if (chunks <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%s \"%s\": there are too many chunks for what the data files there "
      "hold; "
      "if you trust the index, set %s to %d or more (need at most %d chunks, "
      "found %d)",
      AbslView(operation), directory, kMaxMetadataBytes, chunks * kBytesPlanned,
      most, chunks));
}

}  // namespace belay
