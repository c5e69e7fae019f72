#include "save/snapshot.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "core/checksum.h"
#include "core/status_macros.h"
#include "storage/file_system.h"

namespace belay {
namespace {

// Small enough that a tile read for its checksum is still in the core's cache
// when it is copied.
constexpr int64_t kSnapshotTileBytes = int64_t{256} << 10;
constexpr auto kRunBytes = static_cast<int64_t>(sizeof(SnapshotRun));

// Appends parts of one file to the snapshot. Parts that do not fit are written
// to the file.
class Copier {
 public:
  Copier(Snapshot& snapshot, SnapshotFile& file, const WriteJob& job)
      : snapshot_(snapshot), file_(file), job_(job), stripes_(job.striping) {}

  const StripeCounter& stripes() const { return stripes_; }
  int64_t write_calls() const { return written_ ? written_->write_calls() : 0; }

  // Returns room for a part, which is then counted as copied; null if there is
  // no room.
  StatusOr<char*> Room(int64_t offset, int64_t bytes) {
    if (snapshot_.before_tile) BELAY_RETURN_IF_ERROR(snapshot_.before_tile());
    std::deque<SnapshotRun>& runs = file_.runs;
    const bool joins =
        !runs.empty() && runs.back().offset + runs.back().bytes == offset;
    if (!Fits(bytes, joins)) return nullptr;
    if (joins) {
      runs.back().bytes += bytes;
    } else {
      runs.push_back({offset, bytes});
      ++snapshot_.runs;
    }
    stripes_.Add(offset, bytes);
    char* const room =
        reinterpret_cast<char*>(snapshot_.data + snapshot_.bytes);
    snapshot_.bytes += bytes;
    return room;
  }

  Status Take(int64_t offset, int64_t bytes,
              std::span<const std::span<const std::byte>> parts) {
    BELAY_ASSIGN_OR_RETURN(char* room, Room(offset, bytes));
    if (room == nullptr) return Write(offset, bytes, parts);
    for (const std::span<const std::byte>& part : parts) {
      StreamCopy(room, reinterpret_cast<const char*>(part.data()),
                 std::ssize(part));
      room += std::ssize(part);
    }
    return absl::OkStatus();
  }

  Status Close() {
    if (!written_) return absl::OkStatus();
    BELAY_RETURN_IF_ERROR(read_->Close());
    return written_->Close();
  }

 private:
  bool Fits(int64_t bytes, bool joins) const {
    const int64_t runs = snapshot_.runs + (joins ? 0 : 1);
    if (snapshot_.room - snapshot_.bytes < bytes) return false;
    const int64_t held = std::max(snapshot_.bytes + bytes, snapshot_.touched);
    return snapshot_.limit - held >= runs * kRunBytes;
  }

  Status Write(int64_t offset, int64_t bytes,
               std::span<const std::span<const std::byte>> parts) {
    stripes_.Add(offset, bytes);
    if (!written_) {
      BELAY_ASSIGN_OR_RETURN(written_, PosixFile::Open(file_.path, file_.mode));
      BELAY_RETURN_IF_ERROR(CheckOpened(job_, absl::OkStatus()));
      BELAY_ASSIGN_OR_RETURN(
          read_, PosixFile::Open(file_.path, PosixFile::Mode::kRead));
    }
    BELAY_RETURN_IF_ERROR(written_->PwriteParts(offset, parts));
    found_.resize(static_cast<size_t>(bytes));
    BELAY_RETURN_IF_ERROR(read_->PreadAll(offset, found_.data(), bytes));
    const std::byte* found = found_.data();
    for (const std::span<const std::byte>& part : parts) {
      if (std::memcmp(found, part.data(), part.size()) != 0) {
        return NotWhatWasWritten(file_.path, offset, bytes);
      }
      found += part.size();
    }
    return absl::OkStatus();
  }

  Snapshot& snapshot_;
  SnapshotFile& file_;
  const WriteJob& job_;
  StripeCounter stripes_;
  std::optional<PosixFile> written_;
  std::optional<PosixFile> read_;
  std::vector<std::byte> found_;
};

}  // namespace

bool FitsInAnyRuns(int64_t bytes, int64_t limit) {
  return bytes <= limit / (1 + kRunBytes);
}

Status SnapshotMemory::Reserve(int64_t bytes, bool touch) {
  if (bytes <= bytes_) return absl::OkStatus();
  memory_ = ScratchMemory();
  bytes_ = touched_bytes_ = 0;
  BELAY_ASSIGN_OR_RETURN(memory_, ScratchMemory::Take(bytes, ""));
  bytes_ = bytes;
  // Mapping new pages costs several times a copy, so map them all now.
  if (!touch) return absl::OkStatus();
  std::memset(memory_.data(), 0, static_cast<size_t>(bytes));
  touched_bytes_ = bytes;
  return absl::OkStatus();
}

Status TakeSnapshot(const WriteJob& job, Snapshot& snapshot,
                    WriteCounts& counts) {
  if (job.writes.orders.empty()) return absl::OkStatus();
  SnapshotFile file{.path = job.path,
                    .mode = ChooseMode(job),
                    .data = snapshot.data + snapshot.bytes};
  Copier copier(snapshot, file, job);
  BELAY_RETURN_IF_ERROR(HandOverParts(
      job, kSnapshotTileBytes,
      [&](int64_t offset, int64_t bytes,
          std::span<const std::span<const std::byte>> parts) {
        return copier.Take(offset, bytes, parts);
      },
      counts,
      [&](int64_t offset, int64_t bytes) {
        return copier.Room(offset, bytes);
      }));
  counts.bytes += job.writes.bytes;
  counts.io_calls += copier.write_calls();
  copier.stripes().AddTo(counts.stripes);
  snapshot.files.push_back(std::move(file));
  return copier.Close();
}

}  // namespace belay
