// The votes on a background save, and the actions that follow from them.
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "core/agreed.h"
#include "core/program_words.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/paths.h"
#include "mpi/deadline.h"
#include "pipeline/result_text.h"
#include "pipeline/stages.h"
#include "save/background_save.h"
#include "storage/verify.h"

namespace belay {
namespace {

// A phase is encoded by the phases that are still missing, so that the bitwise
// OR of all votes is the earliest phase.
enum Bits : uint64_t {
  kNotWritten = 1,
  kNotReadBack = 2,
  kFailed = 4,
  kWantsReadBack = 8,
  kCommitted = 16,
};

}  // namespace

uint64_t ToWord(const Vote& vote) {
  uint64_t word = 0;
  if (vote.phase < FlushPhase::kWritten) word |= kNotWritten;
  if (vote.phase < FlushPhase::kReadBack) word |= kNotReadBack;
  if (vote.failed) word |= kFailed;
  if (vote.wants_read_back) word |= kWantsReadBack;
  if (vote.committed) word |= kCommitted;
  return word;
}

Vote FromWord(uint64_t word) {
  Vote vote;
  if ((word & kNotWritten) == 0) vote.phase = FlushPhase::kWritten;
  if ((word & (kNotWritten | kNotReadBack)) == 0) {
    vote.phase = FlushPhase::kReadBack;
  }
  vote.failed = (word & kFailed) != 0;
  vote.wants_read_back = (word & kWantsReadBack) != 0;
  vote.committed = (word & kCommitted) != 0;
  return vote;
}

namespace {

using Clock = std::chrono::steady_clock;

// Returns true if any file has holes.
// Errors: those of CheckWrittenFile.
StatusOr<bool> HasHoles(const SaveTarget& target,
                        const std::vector<StoredFile>& files) {
  bool any = false;
  for (const StoredFile& file : files) {
    bool has_holes = false;
    BELAY_RETURN_IF_ERROR(CheckWrittenFile(
        JoinPath(target.Directory(), file.name), file.bytes, has_holes));
    any = any || has_holes;
  }
  return any;
}

void MergeWords(void* in, void* in_out, int* count, MPI_Datatype*) {
  const auto* from = static_cast<const uint64_t*>(in);
  auto* into = static_cast<uint64_t*>(in_out);
  for (int i = 0; i < *count; ++i) into[i] |= from[i];
}

// Adds the save's name to an error: the program may have begun another save by
// now.
Status OfBackground(const std::string& path, const Status& status) {
  if (absl::StartsWith(status.message(), "save \"")) return status;
  return Status(status.code(), Cat("save \"", path, "\" in the background: ",
                                   std::string(status.message())));
}

}  // namespace

void BackgroundSaver::TakeResult() {
  using ThreadWork = SaveUnderWay::ThreadWork;
  SaveUnderWay& save = *under_way_;
  if (save.thread_work == ThreadWork::kNone || !thread_.IsIdle()) return;
  if (save.is_snapshot_due && thread_.result().ok()) return;
  const ThreadWork done = std::exchange(save.thread_work, ThreadWork::kNone);
  save.status = thread_.result();
  if (!save.status.ok()) {
    save.mine.failed = true;
  } else if (done == ThreadWork::kWriting && !save.options.read_back) {
    save.mine.phase = FlushPhase::kWritten;
  } else if (done != ThreadWork::kCommitting) {
    save.mine.phase = FlushPhase::kReadBack;
  } else {
    save.mine.wants_read_back |= save.progress->has_holes;
    save.mine.committed = save.step->phase == StepInProgress::Phase::kCommitted;
  }
}

void BackgroundSaver::StartNext(const Vote& all) {
  using ThreadWork = SaveUnderWay::ThreadWork;
  SaveUnderWay& save = *under_way_;
  if (save.thread_work != ThreadWork::kNone || save.mine.failed) return;
  if (all.wants_read_back && save.mine.phase < FlushPhase::kReadBack) {
    save.thread_work = ThreadWork::kReadingBack;
    save.progress->comparing.Begin(*save.flush);
    thread_.Begin([flush = save.flush, progress = save.progress] {
      return ReadBackSnapshot(*flush, *progress);
    });
    return;
  }
  const FlushPhase needed = save.mine.wants_read_back || save.options.read_back
                                ? FlushPhase::kReadBack
                                : FlushPhase::kWritten;
  if (!is_root_ || save.is_snapshot_due || save.mine.committed ||
      all.phase < needed) {
    return;
  }
  BeginCommit(all.phase == FlushPhase::kReadBack);
}

void BackgroundSaver::BeginCommit(bool is_read_back) {
  SaveUnderWay& save = *under_way_;
  save.thread_work = SaveUnderWay::ThreadWork::kCommitting;
  const auto commit = [step = save.step, progress = save.progress, is_read_back,
                       files = save.prepared.plan.saved.files]() -> Status {
    BELAY_ASSIGN_OR_RETURN(const bool has_holes, HasHoles(step->target, files));
    // Files that were read back are complete even if they seem to have holes.
    progress->has_holes = has_holes && !is_read_back;
    if (progress->has_holes) return absl::OkStatus();
    BELAY_RETURN_IF_ERROR(CallFinalizers(*step));
    return CommitInPlace(*step);
  };
  if (!save.step->CallsProgram()) return thread_.Begin(commit);
  // The program's functions must run in the program's thread.
  thread_.Hold(commit());
  TakeResult();
}

Agreed<std::optional<SaveResult>> BackgroundSaver::Poll() {
  if (under_way_ == nullptr) return std::exchange(kept_, std::nullopt);
  BELAY_RETURN_IF_AGREED(CheckComm(comm(), "save", under_way_->target.path));
  if (word_.is_started()) {
    Agreed<std::optional<SaveResult>> ended = FinishVote();
    if (!ended.ok() || *ended) return ended;
  }
  BELAY_RETURN_IF_AGREED(StartVote());
  return std::nullopt;
}

Agreed<std::optional<SaveResult>> BackgroundSaver::Wait() {
  // The longest time that other ranks wait for this rank's vote.
  constexpr std::chrono::milliseconds kMaxWait{20};
  BELAY_RETURN_IF_AGREED(WaitForSnapshot());
  while (under_way_ != nullptr) {
    BELAY_RETURN_IF_AGREED(CheckComm(comm(), "save", under_way_->target.path));
    if (word_.is_started()) {
      const Status helped = HelpUntilVoted();
      if (!helped.ok()) return MpiFailed(helped);
      Agreed<std::optional<SaveResult>> ended = FinishVote();
      if (!ended.ok() || *ended) return ended;
    }
    const Clock::time_point end = Clock::now() + kMaxWait;
    thread_.Hurry();
    Help([&] { return Clock::now() < end; });
    if (Clock::now() < end) {
      thread_.WaitFor(
          std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()));
    }
    BELAY_RETURN_IF_AGREED(StartVote());
  }
  return std::exchange(kept_, std::nullopt);
}

void BackgroundSaver::Help(absl::FunctionRef<bool()> goes_on) {
  SaveUnderWay& save = *under_way_;
  if (!CanHelpFlush(*save.flush, *save.progress)) return;
  // Only this deadline notices if the calling thread gets stuck.
  Deadline deadline(comm(), save.options.deadline_seconds,
                    absl::StrFormat("save \"%s\"", save.target.path));
  deadline.Enter("flush");
  while (goes_on() && HelpFlush(*save.flush, *save.progress))
    deadline.Restart();
}

Status BackgroundSaver::HelpUntilVoted() {
  Status status;
  Help([&] {
    const StatusOr<bool> is_there = word_.IsThere();
    status = is_there.status();
    return is_there.ok() && !*is_there;
  });
  return status;
}

Agreed<std::optional<SaveResult>> BackgroundSaver::WaitBeforeNext() {
  if (is_snapshot_due()) {
    SaveUnderWay& save = *under_way_;
    save.refused = absl::FailedPreconditionError(
        absl::StrFormat("save \"%s\": given up, since %s was not called before "
                        "the next save: the program may have changed values "
                        "that were not copied yet",
                        save.target.path, kWaitForSnapshotWord.InProgram()));
    save.progress->is_cancelled = true;
    thread_.Hurry();
    save.WaitForCopy();
    save.is_snapshot_due = false;
    save.mine.failed = true;
  }
  return Wait();
}

Vote BackgroundSaver::MyVote() {
  CheckStalled();
  TakeResult();
  return under_way_->mine;
}

Agreed<std::optional<SaveResult>> BackgroundSaver::Take(const Vote& all) {
  if (all.failed || all.committed) return End(all);
  TakeResult();
  StartNext(all);
  return std::nullopt;
}

Agreed<> BackgroundSaver::StartVote() {
  const Status started = word_.Start(comm(), ToWord(MyVote()), &MergeWords);
  if (!started.ok()) return MpiFailed(started);
  return {};
}

Agreed<std::optional<SaveResult>> BackgroundSaver::FinishVote() {
  const SaveUnderWay& save = *under_way_;
  const StatusOr<uint64_t> word = word_.Finish(
      comm(), save.options.deadline_seconds,
      absl::StrFormat("poll or wait for save \"%s\"", save.target.path));
  if (!word.ok()) return MpiFailed(word.status());
  return Take(FromWord(*word));
}

Agreed<std::optional<SaveResult>> BackgroundSaver::End(const Vote& all) {
  constexpr std::chrono::milliseconds kNap{20};
  if (all.failed) under_way_->progress->is_cancelled = true;
  thread_.Hurry();
  while (!thread_.WaitFor(kNap)) CheckStalled();
  TakeResult();
  // Poll may have started another vote after the one that led here: complete
  // it.
  if (word_.is_started()) {
    const StatusOr<uint64_t> word =
        word_.Finish(comm(), under_way_->options.deadline_seconds, "save");
    if (!word.ok()) return MpiFailed(word.status());
  }
  const std::unique_ptr<SaveUnderWay> save = std::move(under_way_);
  save->costs.stages.push_back({"flush", save->progress->seconds});
  save->written.counters.io_calls += save->progress->write_calls;
  // Begin() already used a deadline with this name; the number tells them
  // apart.
  SaveFrame frame(comm(),
                  Deadline(comm(), save->options.deadline_seconds,
                           absl::StrFormat("save \"%s\"", save->target.path),
                           true, save->flush->number),
                  save->target, save->options, std::move(save->costs));
  frame.context.deadline.Enter("end");
  Agreed<> ended;
  if (all.failed) {
    // All ranks have the same `refused`. A rank that gave up because of another
    // rank reports no error itself.
    Status mine = save->lost;
    if (!save->progress->has_given_up) mine.Update(save->status);
    const Agreed<> why = !save->refused.ok() ? SameOnAllRanks(save->refused)
                                             : Agree(frame.context, mine);
    ended = SameOnAllRanks(OfBackground(
        save->target.path,
        !why.ok() ? why.status()
                  : absl::InternalError(
                        "it was abandoned, and no rank has reported why")));
  }
  ended = EndStep(frame, *save->step, std::move(ended), &failed_at_files_);
  Agreed<SaveResult> result = [&]() -> Agreed<SaveResult> {
    BELAY_RETURN_IF_AGREED(ended);
    CachedPlan unused;
    const bool has_cache = !save->cache_is_there.expired();
    return EndSave(frame, save->prepared.reuse, std::move(save->prepared.plan),
                   save->written, has_cache ? *save->cache : unused);
  }();
  LogResult(frame.context, result);
  if (save->on_end) save->on_end(result.ok());
  BELAY_RETURN_IF_AGREED(result);
  return *std::move(result);
}

void BackgroundSaver::CheckStalled() {
  SaveUnderWay& save = *under_way_;
  // A change of the thread's work is also progress.
  const int64_t progress =
      node_->ticks() + static_cast<int64_t>(save.thread_work);
  const double limit = save.options.deadline_seconds;
  const bool is_stuck =
      save.watch.IsStuck(std::chrono::steady_clock::now(), progress, limit);
  if (thread_.IsIdle() || !is_stuck) return;
  EndJob(absl::StrFormat(
      "save \"%s\", stage flush: nothing was written for %g s on rank %d",
      save.target.path, limit, comm().rank()));
}

}  // namespace belay
