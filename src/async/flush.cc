#include "async/flush.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace belay {
namespace {

using Clock = std::chrono::steady_clock;

// Is written at a time, and its way to the device begun.
constexpr int64_t kPieceBytes = int64_t{4} << 20;

Status GiveUp(const FlushJob& job, FlushProgress& progress,
              std::string_view why) {
  progress.has_given_up = true;
  return absl::CancelledError(
      Cat("save \"", job.path, "\" in the background: ", why));
}

// Keeps to a number of bytes per second.
class Throttle {
 public:
  Throttle(const FlushJob& job, FlushProgress& progress)
      : job_(job), progress_(progress) {}

  // Waits until so many more bytes may have been moved.
  Status Pass(int64_t bytes) {
    constexpr std::chrono::milliseconds kNap{20};
    if (job_.bytes_per_second <= 0) return absl::OkStatus();
    bytes_ += bytes;
    const std::chrono::duration<double> due(
        static_cast<double>(bytes_) /
        static_cast<double>(job_.bytes_per_second));
    while (Clock::now() - start_ < due) {
      BELAY_RETURN_IF_ERROR(CheckCancelled(job_, progress_));
      job_.node->Tick();
      const auto left = due - (Clock::now() - start_);
      std::this_thread::sleep_for(
          std::min<std::chrono::duration<double>>(kNap, left));
    }
    return absl::OkStatus();
  }

 private:
  const FlushJob& job_;
  FlushProgress& progress_;
  const Clock::time_point start_ = Clock::now();
  int64_t bytes_ = 0;
};

// Calls `move` with each piece of a file: its offset there, its bytes in the
// snapshot, and how many they are.
Status ForEachPiece(const FlushJob& job, const SnapshotFile& file,
                    FlushProgress& progress, Throttle& throttle,
                    absl::FunctionRef<Status(
                        int64_t offset, const std::byte* data, int64_t bytes)>
                        move) {
  const std::byte* data = file.data;
  for (const SnapshotRun& run : file.runs) {
    for (int64_t done = 0; done < run.bytes;) {
      BELAY_RETURN_IF_ERROR(CheckCancelled(job, progress));
      const int64_t bytes = std::min(kPieceBytes, run.bytes - done);
      BELAY_RETURN_IF_ERROR(move(run.offset + done, data, bytes));
      done += bytes;
      data += bytes;
      job.node->Tick();
      BELAY_RETURN_IF_ERROR(throttle.Pass(bytes));
    }
  }
  return absl::OkStatus();
}

// Calls `visit` with what goes into each file, metadata first, and with whether
// it is values.
Status ForEachFile(const FlushJob& job,
                   absl::FunctionRef<Status(const SnapshotFile&, bool)> visit) {
  for (const LaterWrite& write : job.metadata) {
    for (const LaterWrite::Region& region : write.regions) {
      BELAY_RETURN_IF_ERROR(
          visit({.path = write.path,
                 .mode = PosixFile::Mode::kWrite,
                 .data = std::as_bytes(std::span(region.bytes)).data(),
                 .runs = {{region.offset, std::ssize(region.bytes)}}},
                false));
    }
  }
  for (const SnapshotFile& file : job.files) {
    BELAY_RETURN_IF_ERROR(visit(file, true));
  }
  return absl::OkStatus();
}

Status WriteFile(const FlushJob& job, const SnapshotFile& snapshot,
                 FlushProgress& progress, Throttle& throttle, int64_t& calls) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(snapshot.path, snapshot.mode));
  BELAY_RETURN_IF_ERROR(job.once_open());
  const auto write = [&](int64_t offset, const std::byte* data,
                         int64_t bytes) -> Status {
    const std::span<const std::byte> part(data, static_cast<size_t>(bytes));
    const Status status = file.PwriteParts(offset, std::span(&part, 1));
    if (status.ok() && job.durable && bytes == kPieceBytes) {
      file.StartWriteback(offset, bytes);
    }
    return status;
  };
  BELAY_RETURN_IF_ERROR(ForEachPiece(job, snapshot, progress, throttle, write));
  calls = file.write_calls();
  return file.Close();
}

// Waits until all ranks of the node have written.
Status WaitForNode(const FlushJob& job, FlushProgress& progress) {
  constexpr std::chrono::milliseconds kNap{1};
  while (!job.node->AllReached(job.number)) {
    BELAY_RETURN_IF_ERROR(CheckCancelled(job, progress));
    if (job.node->AnyFailed(job.number)) {
      return GiveUp(job, progress, "another rank of this node has failed");
    }
    std::this_thread::sleep_for(kNap);
  }
  return absl::OkStatus();
}

Status CompareFile(const FlushJob& job, const SnapshotFile& snapshot,
                   FlushProgress& progress, Throttle& throttle) {
  BELAY_ASSIGN_OR_RETURN(
      PosixFile file, PosixFile::Open(snapshot.path, PosixFile::Mode::kRead));
  const auto room = std::make_unique<std::byte[]>(kPieceBytes);
  const auto compare = [&](int64_t offset, const std::byte* data,
                           int64_t bytes) -> Status {
    const Status status = file.PreadAll(offset, room.get(), bytes);
    if (!status.ok() || std::memcmp(room.get(), data, bytes) == 0) {
      return status;
    }
    return NotWhatWasWritten(snapshot.path, offset, bytes);
  };
  BELAY_RETURN_IF_ERROR(
      ForEachPiece(job, snapshot, progress, throttle, compare));
  return file.Close();
}

Status WriteFiles(const FlushJob& job, FlushProgress& progress) {
  Throttle throttle(job, progress);
  return ForEachFile(job, [&](const SnapshotFile& file, bool is_values) {
    int64_t calls = 0;
    const Status status = WriteFile(job, file, progress, throttle, calls);
    if (is_values) progress.write_calls += calls;
    return status;
  });
}

}  // namespace

Status CheckCancelled(const FlushJob& job, FlushProgress& progress) {
  if (!progress.is_cancelled) return absl::OkStatus();
  return GiveUp(job, progress, "it was given up");
}

Status WriteSnapshot(FlushJob& job, FlushProgress& progress) {
  const Clock::time_point start = Clock::now();
  const Status status = WriteFiles(job, progress);
  job.node->Tell(status.ok() ? job.number : -job.number);
  BELAY_RETURN_IF_ERROR(status);
  if (!job.synced.empty()) {
    BELAY_RETURN_IF_ERROR(WaitForNode(job, progress));
    BELAY_RETURN_IF_ERROR(job.synced.SyncAll([&] { job.node->Tick(); }));
  }
  progress.seconds =
      std::chrono::duration<double>(Clock::now() - start).count();
  return absl::OkStatus();
}

Status ReadBackSnapshot(const FlushJob& job, FlushProgress& progress) {
  Throttle throttle(job, progress);
  return ForEachFile(job, [&](const SnapshotFile& file, bool /*is_values*/) {
    return CompareFile(job, file, progress, throttle);
  });
}

}  // namespace belay
