#include "io/index/hdf5_bytes.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/status_macros.h"
#include "base/text.h"

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

}  // namespace belay
