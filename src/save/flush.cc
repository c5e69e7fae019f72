#include "save/flush.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "storage/transfer.h"

namespace belay {
namespace {

// Most bytes of a piece. In a durable save, the writeback of a full piece
// begins as soon as it is written.
constexpr int64_t kPieceBytes = int64_t{4} << 20;
// Most runs of a piece. Each run needs a call.
constexpr size_t kMaxRuns = 256;

}  // namespace

void FlushPass::Begin(const FlushJob& job) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::exchange(has_begun_, true)) return;
  start_ = Clock::now();
  SkipEmpty(job);
}

void FlushPass::SkipEmpty(const FlushJob& job) {
  while (metadata_ < job.metadata.size() &&
         region_ == job.metadata[metadata_].regions.size()) {
    ++metadata_;
    region_ = 0;
  }
}

bool FlushPass::HasSource(const FlushJob& job) const {
  return metadata_ < job.metadata.size() || file_ < job.files.size();
}

// Returns the next source. All metadata comes before the data files.
FlushPass::Source FlushPass::NextSource(const FlushJob& job) {
  if (metadata_ < job.metadata.size()) {
    const LaterWrite& write = job.metadata[metadata_];
    const LaterWrite::Region& region = write.regions[region_++];
    SkipEmpty(job);
    return {.path = write.path,
            .data = std::as_bytes(std::span(region.bytes)).data(),
            .only = {region.offset, std::ssize(region.bytes)}};
  }
  const SnapshotFile& file = job.files[file_++];
  return {.path = file.path,
          .mode = file.mode,
          .data = file.data,
          .runs = &file.runs,
          .only = {},
          .is_values = true};
}

bool FlushPass::HasPiece(const FlushJob& job) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!has_begun_ || !status_.ok() || IsTooFast(job)) return false;
  return HasSource(job) ||
         std::any_of(open_.begin(), open_.end(), [](const OpenFile& open) {
           return open.file && open.next.run < open.source.num_runs();
         });
}

FlushPass::Work FlushPass::Take(const FlushJob& job, Piece& piece) {
  for (OpenFile& open : open_) {
    Place& next = open.next;
    if (!open.file || next.run == open.source.num_runs()) continue;
    piece = {.file = &open, .from = next};
    for (size_t runs = 0; runs < kMaxRuns && piece.bytes < kPieceBytes &&
                          next.run < open.source.num_runs();
         ++runs) {
      const int64_t left = open.source.run(next.run).bytes - next.done;
      const int64_t bytes = std::min(left, kPieceBytes - piece.bytes);
      piece.bytes += bytes;
      next.data += bytes;
      next.done += bytes;
      if (bytes < left) break;
      ++next.run;
      next.done = 0;
    }
    bytes_ += piece.bytes;
    return Work::kMove;
  }
  if (!HasSource(job)) return Work::kNone;
  OpenFile& open = open_.emplace_back();
  open.source = NextSource(job);
  open.next.data = open.source.data;
  piece.file = &open;
  return Work::kOpen;
}

Status FlushPass::Open(const FlushJob& job, OpenFile& open) {
  const bool writes = goal_ == Goal::kWrite;
  BELAY_ASSIGN_OR_RETURN(
      PosixFile file,
      PosixFile::Open(open.source.path,
                      writes ? open.source.mode : PosixFile::Mode::kRead));
  if (writes) BELAY_RETURN_IF_ERROR(job.once_open());
  const std::lock_guard<std::mutex> lock(mutex_);
  open.file = std::move(file);
  return absl::OkStatus();
}

Status FlushPass::MovePart(const FlushJob& job, OpenFile& open, int64_t offset,
                           const std::byte* data, int64_t bytes,
                           std::byte* room) {
  PosixFile& file = *open.file;
  if (goal_ == Goal::kCompare) {
    BELAY_RETURN_IF_ERROR(file.PreadAll(offset, room, bytes));
    if (std::memcmp(room, data, static_cast<size_t>(bytes)) == 0) {
      return absl::OkStatus();
    }
    return NotWhatWasWritten(open.source.path, offset, bytes);
  }
  const std::span<const std::byte> part(data, static_cast<size_t>(bytes));
  BELAY_RETURN_IF_ERROR(file.PwriteParts(offset, std::span(&part, 1)));
  if (job.durable && bytes == kPieceBytes) file.StartWriteback(offset, bytes);
  return absl::OkStatus();
}

Status FlushPass::Move(const FlushJob& job, const Piece& piece) {
  std::unique_ptr<std::byte[]> room;
  if (goal_ == Goal::kCompare) room = TakeRoom();
  Status status;
  Place at = piece.from;
  for (int64_t left = piece.bytes; left > 0 && status.ok();) {
    const SnapshotRun& run = piece.file->source.run(at.run);
    const int64_t bytes = std::min(left, run.bytes - at.done);
    if (bytes > 0) {
      status = MovePart(job, *piece.file, run.offset + at.done, at.data, bytes,
                        room.get());
      job.node->Tick();
    }
    left -= bytes;
    at.data += bytes;
    ++at.run;
    at.done = 0;
  }
  if (room != nullptr) {
    const std::lock_guard<std::mutex> lock(mutex_);
    rooms_.push_back(std::move(room));
  }
  return status;
}

std::unique_ptr<std::byte[]> FlushPass::TakeRoom() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!rooms_.empty()) {
      std::unique_ptr<std::byte[]> room = std::move(rooms_.back());
      rooms_.pop_back();
      return room;
    }
  }
  return std::make_unique_for_overwrite<std::byte[]>(kPieceBytes);
}

// The last thread that leaves a file closes it.
void FlushPass::Leave(OpenFile& open, FlushProgress& progress,
                      std::unique_lock<std::mutex>& lock) {
  --open.threads;
  const bool is_last =
      open.threads == 0 && open.file && open.next.run == open.source.num_runs();
  if (!is_last || !status_.ok()) return;
  PosixFile file = *std::move(open.file);
  const bool is_values = open.source.is_values;
  open_.remove_if([&](const OpenFile& one) { return &one == &open; });
  lock.unlock();
  if (is_values && goal_ == Goal::kWrite) {
    progress.write_calls += file.write_calls();
  }
  const Status status = file.Close();
  lock.lock();
  status_.Update(status);
}

FlushPass::Step FlushPass::MoveOne(const FlushJob& job,
                                   FlushProgress& progress) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (!has_begun_ || !status_.ok()) return Step::kNothing;
  if (IsTooFast(job) && !progress.is_cancelled) return Step::kTooFast;
  Piece piece;
  Work work = Work::kNone;
  status_ = CatchExceptions([&]() -> Status {
    BELAY_RETURN_IF_ERROR(CheckCancelled(job, progress));
    work = Take(job, piece);
    return absl::OkStatus();
  });
  if (!status_.ok() || work == Work::kNone) return Step::kNothing;
  ++threads_;
  ++piece.file->threads;
  lock.unlock();
  const Status status = CatchExceptions([&] {
    return work == Work::kOpen ? Open(job, *piece.file) : Move(job, piece);
  });
  lock.lock();
  status_.Update(status);
  Leave(*piece.file, progress, lock);
  --threads_;
  changed_.notify_all();
  return Step::kMoved;
}

FlushPass::Seconds FlushPass::TimeUntilDue(const FlushJob& job) const {
  if (job.bytes_per_second <= 0) return Seconds(0);
  const Seconds due(static_cast<double>(bytes_) /
                    static_cast<double>(job.bytes_per_second));
  return due - (Clock::now() - start_);
}

bool FlushPass::IsDone(const FlushJob& job) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!has_begun_ || threads_ > 0) return false;
  if (!status_.ok()) return true;
  return open_.empty() && !HasSource(job) && !IsTooFast(job);
}

void FlushPass::Rest(const FlushJob& job) const {
  constexpr Seconds kMax(0.02);
  constexpr Seconds kNap(0.001);
  std::unique_lock<std::mutex> lock(mutex_);
  const Seconds until_due = TimeUntilDue(job);
  changed_.wait_for(lock,
                    until_due > Seconds(0) ? std::min(kMax, until_due) : kNap);
}

double FlushPass::seconds() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return Seconds(Clock::now() - start_).count();
}

Status FlushPass::result() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

// --- Flush ---

namespace {

Status GiveUp(const FlushJob& job, FlushProgress& progress,
              std::string_view why) {
  progress.has_given_up = true;
  return absl::CancelledError(
      Cat("save \"", job.path, "\" in the background: ", why));
}

// Makes a pass. Calls that wait for the pass help with it.
Status Make(FlushPass& pass, const FlushJob& job, FlushProgress& progress) {
  pass.Begin(job);
  while (!pass.IsDone(job)) {
    const FlushPass::Step step = pass.MoveOne(job, progress);
    if (step == FlushPass::Step::kMoved || pass.IsDone(job)) continue;
    if (step == FlushPass::Step::kTooFast) job.node->Tick();
    pass.Rest(job);
  }
  return pass.result();
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

}  // namespace

Status CheckCancelled(const FlushJob& job, FlushProgress& progress) {
  if (!progress.is_cancelled) return absl::OkStatus();
  return GiveUp(job, progress, "it was given up");
}

Status WriteSnapshot(FlushJob& job, FlushProgress& progress) {
  const Status status = Make(progress.writing, job, progress);
  job.node->Tell(status.ok() ? job.number : -job.number);
  BELAY_RETURN_IF_ERROR(status);
  if (!job.synced.empty()) {
    BELAY_RETURN_IF_ERROR(WaitForNode(job, progress));
    BELAY_RETURN_IF_ERROR(job.synced.SyncAll([&] { job.node->Tick(); }));
  }
  progress.seconds = progress.writing.seconds();
  return absl::OkStatus();
}

Status ReadBackSnapshot(const FlushJob& job, FlushProgress& progress) {
  return Make(progress.comparing, job, progress);
}

bool CanHelpFlush(const FlushJob& job, const FlushProgress& progress) {
  return progress.writing.HasPiece(job) || progress.comparing.HasPiece(job);
}

bool HelpFlush(const FlushJob& job, FlushProgress& progress) {
  return progress.writing.MoveOne(job, progress) == FlushPass::Step::kMoved ||
         progress.comparing.MoveOne(job, progress) == FlushPass::Step::kMoved;
}

}  // namespace belay
