#include "save/background_save.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/log.h"
#include "core/option_table.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "format/paths.h"
#include "mpi/collective.h"
#include "mpi/deadline.h"
#include "pipeline/listing.h"
#include "pipeline/result_text.h"
#include "pipeline/stages.h"
#include "save/transfer_choice.h"

namespace belay {
namespace {

std::string NobodyWaited() {
  return Cat("nobody has called ", kWaitWord.InProgram(), " before");
}

Status Unwaited(const std::string& path, std::string_view why) {
  return absl::FailedPreconditionError(
      Cat("save \"", path, "\" in the background is lost: ", NobodyWaited(),
          ", and ", why));
}

// Returns why a save must finish before the call returns; "" if it may run in
// the background.
std::string WhyInForeground(const RankPlan& plan, const SaveOptions& options) {
  if (plan.has_filters) {
    return "saved in the foreground: chunks with filters are written by all "
           "ranks together";
  }
  if (!NeedsAllRanks(options.transfer, options.file_layout)) return "";
  return "saved in the foreground: all ranks carry out this transfer together";
}

uint64_t FingerprintAsync(const AsyncOptions& options) {
  WireWriter out;
  out.Put(options.max_staging_bytes);
  out.Put(options.max_bytes_per_second);
  out.Put(options.snapshot);
  return Fingerprint(out.bytes());
}

// Returns options that use this saver's plan cache. Nobody waits for short
// writes, so ranks need not gather them.
SaveOptions InBackground(const SaveOptions& options, PlanCache& cache) {
  SaveOptions changed = options;
  if (options.cache == nullptr) changed.cache = &cache;
  if (options.transfer == Transfer::kAuto) {
    changed.transfer = Transfer::kIndependent;
  }
  return changed;
}

}  // namespace

BackgroundSaver::BackgroundSaver(const Comm& comm, const AsyncOptions& options)
    : comm_(&comm),
      options_(options),
      is_root_(comm.rank() == 0),
      process_(::getpid()) {
  // Touched memory counts towards the limit even if unused, so this leaves room
  // for the list of runs.
  const int64_t most = options.max_staging_bytes;
  const int64_t bytes =
      std::min(options.initial_staging_bytes,
               most - most / (1 + static_cast<int64_t>(sizeof(SnapshotRun))));
  if (bytes <= 0) return;
  memory_ = std::make_shared<SnapshotMemory>();
  // If the memory is not available, the first save tries again and reports the
  // error.
  memory_->Reserve(bytes, true).IgnoreError();
}

BackgroundSaver::~BackgroundSaver() {
  // A child process has no part in the save.
  if (process_ != ::getpid()) return;
  ForgetSaver(*this);
  if (under_way_ == nullptr) return;
  under_way_->progress->is_cancelled = true;
  thread_.Hurry();
  // After this destructor, the program may destroy the values.
  under_way_->WaitForCopy();
  // A commit that has begun must not be overtaken by another save of the step.
  if (under_way_->thread_work == SaveUnderWay::ThreadWork::kCommitting) {
    thread_.Finish();
    TakeResult();
  }
  if (!is_root_ || under_way_->mine.committed) return;
  Log(LogLevel::kWarning,
      Cat("save \"", under_way_->target.path,
          "\" in the background was given up: its saver has ended, and ",
          NobodyWaited()));
}

Agreed<PendingSave> BackgroundSaver::Begin(const SaveJob& job,
                                           const SaveOptions& given,
                                           OnEnd on_end) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm(), "save", GetParent(job.path)));
  BELAY_ASSIGN_OR_RETURN_AGREED(const SaveOptions options,
                                WithOperatorTransfer(comm(), job.path, given));
  GiveUpLeftSaves(comm(), GetParent(job.path));
  const SaveOptions with_cache = InBackground(options, own_cache_);
  CachedPlan& cache = PlanOf(*with_cache.cache);
  SaveFrame frame(comm(),
                  Deadline(comm(), options.deadline_seconds,
                           absl::StrFormat("save \"%s\"", job.path)),
                  SaveTarget::Of(job), with_cache, job.before);
  const auto begin = [&]() -> Agreed<PendingSave> {
    if (number_ == 0) {
      BELAY_RETURN_IF_AGREED(
          AgreeSame(frame.context, Cat("save: ", kSaverOptionsWord.InProgram()),
                    FingerprintAsync(options_), CheckRanges("save", options_)));
    }
    BELAY_ASSIGN_OR_RETURN_AGREED(PreparedSave prepared,
                                  PrepareSave(frame, job, cache));
    const std::string note = WhyInForeground(prepared.plan, with_cache);
    if (note.empty()) {
      return BeginFlush(frame, job, std::move(prepared), cache);
    }
    const Agreed<SaveResult> result =
        FinishSave(frame, job, std::move(prepared), cache);
    BELAY_RETURN_IF_AGREED(result);
    LogResult(frame.context, result);
    return PendingSave{.path = frame.target.path,
                       .step = frame.target.step,
                       .saved = *result,
                       .note = note};
  };
  Agreed<PendingSave> pending = begin();
  if (!pending.ok()) {
    LogError(frame.context, pending.status());
  } else if (under_way_ != nullptr) {
    under_way_->on_end = std::move(on_end);
  } else if (on_end) {
    on_end(true);
  }
  return pending;
}

Agreed<PendingSave> BackgroundSaver::BeginFlush(SaveFrame& frame,
                                                const SaveJob& job,
                                                PreparedSave prepared,
                                                CachedPlan& cache) {
  auto save = std::make_unique<SaveUnderWay>();
  save->target = frame.target;
  save->options = frame.options;
  save->cache = &cache;
  save->cache_is_there = cache.is_there;
  save->prepared = std::move(prepared);
  save->step = std::make_shared<StepInProgress>(frame);
  IndexCreation index(frame, job.graph, save->prepared);
  Agreed<> begun = Reserve(frame, save->prepared, index, *save->step,
                           &save->flush->metadata);
  if (begun.ok()) begun = FillSnapshot(frame, index, *save);
  if (!begun.ok()) {
    return EndStep(frame, *save->step, std::move(begun), job.at_files).error();
  }
  if (!save->is_snapshot_due) EndSnapshot(*save);
  PendingSave pending{.path = save->target.path,
                      .step = save->target.step,
                      .staged_bytes = save->is_snapshot_due
                                          ? save->snapshot.room
                                          : save->snapshot.bytes};
  save->costs = {.messages = frame.context.messages,
                 .agreement_bytes = frame.context.agreement_bytes,
                 .stages = frame.stages.Finish()};
  under_way_ = std::move(save);
  StartFlush();
  if (is_comm_open_ == nullptr) {
    alias_ = Comm(comm().raw(), comm().rank(), comm().size(),
                  comm().deadline_seconds_, comm().transfer_variable());
    is_comm_open_ = RegisterSaver(*this);
  }
  return pending;
}

void BackgroundSaver::Leave(const Status& lost) {
  comm_ = &alias_;
  if (under_way_ == nullptr) return;
  SaveUnderWay& save = *under_way_;
  if (save.lost.ok() && !lost.ok()) {
    // All ranks vote on the failure, because the other ranks may not know of it
    // and still wait.
    save.lost = lost;
    save.mine.failed = true;
    save.progress->is_cancelled = true;
    save.WaitForCopy();
    save.is_snapshot_due = false;
  }
  // Never destroyed: their destructors may need objects that no longer exist
  // when MPI_Finalize runs.
  new OnEnd(std::exchange(save.on_end, nullptr));                // NOLINT
  new auto(std::exchange(save.options.before_commit, nullptr));  // NOLINT
  new auto(std::exchange(save.options.after_commit, nullptr));   // NOLINT
  if (save.step->CallsProgram()) {  // else the thread may be using the step
    new auto(std::exchange(save.step->before_commit, nullptr));  // NOLINT
    new auto(std::exchange(save.step->finalizers, {}));          // NOLINT
  }
  auto& policy = save.options.sharding_policy;
  new auto(std::exchange(policy.group, nullptr));  // NOLINT
}

Status BackgroundSaver::WhyLost() const {
  const std::string& path = under_way_->target.path;
  if (!*is_comm_open_) {
    return Unwaited(path, "its communicator was closed before");
  }
  if (under_way_->is_snapshot_due) {
    return Unwaited(path, Cat(kWaitForSnapshotWord.InProgram(),
                              " was not called, so the values may have changed "
                              "before they were copied"));
  }
  if (under_way_->step->CallsProgram()) {
    return Unwaited(
        path, "it has to call functions of the program, which may be gone");
  }
  return absl::OkStatus();
}

Status BackgroundSaver::FinishLeft() {
  SaveUnderWay& save = *under_way_;
  const std::string path = save.target.path;
  Leave(WhyLost());
  if (!*is_comm_open_) return save.lost;
  Deadline deadline(comm(), save.options.deadline_seconds,
                    absl::StrFormat("finish save \"%s\"", path));
  deadline.Enter("MPI_Finalize");
  const Agreed<std::optional<SaveResult>> ended = Wait();
  if (!ended.ok() || !is_root_) return ended.status();
  Log(LogLevel::kWarning,
      Cat("save \"", path,
          "\" in the background was finished in MPI_Finalize, since ",
          NobodyWaited()));
  return absl::OkStatus();
}

bool BackgroundSaver::is_own() const { return process_ == ::getpid(); }

bool BackgroundSaver::is_snapshot_due() const {
  return under_way_ != nullptr && under_way_->is_snapshot_due;
}

const SaveTarget& BackgroundSaver::target() const { return under_way_->target; }

// The snapshot of a save in the background. It is taken in the call, or by the
// thread while the program continues.

namespace {

// Copies all values to the snapshot.
Status CopyValues(SaveUnderWay& save) {
  const Status status = CatchExceptions([&]() -> Status {
    for (const WriteJob& copy : save.copies) {
      BELAY_RETURN_IF_ERROR(TakeSnapshot(copy, save.snapshot, save.counts));
    }
    return absl::OkStatus();
  });
  save.flush->files = std::move(save.snapshot.files);
  return status;
}

// Agrees on the result of copying, and warns of lost values. There are none yet
// if the thread is to copy. Collective; agreed.
Agreed<> AgreeOnCopy(SaveFrame& frame, const Status& mine, SaveUnderWay& save) {
  if (StoresAllAsTheyAre(frame.options)) return Agree(frame.context, mine);
  std::vector<int64_t> has_lost = {AnyLost(save.written.losses) ? 1 : 0};
  BELAY_RETURN_IF_AGREED(MaxAll(frame.context, has_lost, mine));
  return TellLostValues(frame, save.prepared, has_lost[0] == 1, *save.step,
                        save.written);
}

// Copies in the thread. The thread does not own `save`; WaitForCopy keeps it
// alive.
Status CopyInThread(SaveUnderWay& save, FlushProgress& progress) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const Status status = CopyValues(save);
  progress.copy_has_failed = !status.ok();
  progress.copy_seconds =
      std::chrono::duration<double>(Clock::now() - start).count();
  progress.has_copied = true;
  progress.has_copied.notify_all();
  return status;
}

}  // namespace

Status BackgroundSaver::PrepareSnapshot(const SaveFrame& frame,
                                        IndexCreation& index,
                                        SaveUnderWay& save) {
  const RankPlan& plan = save.prepared.plan;
  if (index.IsDue()) {
    BELAY_RETURN_IF_ERROR(index.Create(&save.flush->metadata));
  }
  if (frame.options.durable && (plan.is_syncer || node_->is_alone())) {
    BELAY_ASSIGN_OR_RETURN(save.flush->synced, OpenFilesToSync(frame, plan));
  }
  int64_t bytes = 0;
  for (const PlannedFile& file : plan.files) bytes += file.writes.bytes;
  const int64_t limit = options_.max_staging_bytes;
  const bool touch = FitsInAnyRuns(bytes, limit);
  bytes = std::min(bytes, limit);
  BELAY_RETURN_IF_ERROR(memory_->Reserve(bytes, touch));
  save.snapshot = {.data = memory_->data(),
                   .room = bytes,
                   .touched = memory_->touched_bytes(),
                   .limit = limit};
  for (const PlannedFile& file : plan.files) {
    save.copies.push_back(
        DataFileJob(frame, save.prepared, file, DatasetPart::kPlain));
    save.copies.back().registers = save.written.registers;
    save.copies.back().losses = save.written.losses;
    save.copies.back().once_open = save.flush->once_open;
  }
  return absl::OkStatus();
}

// The snapshot stage. Collective; agreed.
Agreed<> BackgroundSaver::FillSnapshot(SaveFrame& frame, IndexCreation& index,
                                       SaveUnderWay& save) {
  const RankPlan& plan = save.prepared.plan;
  frame.stages.Enter("snapshot", plan.work);
  if (node_ == nullptr) {
    BELAY_ASSIGN_OR_RETURN_AGREED(NodeProgress node,
                                  NodeProgress::Create(frame.context));
    node_ = std::make_shared<NodeProgress>(std::move(node));
  }
  if (memory_ == nullptr) memory_ = std::make_shared<SnapshotMemory>();
  save.written.Reset(frame, save.prepared);
  save.written.transfer = Transfer::kIndependent;
  save.written.transfer_note =
      ChooseTransfer(frame.options.transfer, frame.options.file_layout,
                     plan.mean_run_bytes, plan.stripes)
          .note;
  FlushJob& flush = *save.flush;
  flush.path = frame.target.path;
  flush.once_open = OnceOpen(*save.step);
  flush.memory = memory_;
  flush.durable = frame.options.durable;
  flush.node = node_;
  flush.bytes_per_second = options_.max_bytes_per_second;
  const bool is_lazy = options_.snapshot == SnapshotMode::kLazy;
  const Status mine = CatchExceptions([&]() -> Status {
    BELAY_RETURN_IF_ERROR(PrepareSnapshot(frame, index, save));
    return is_lazy ? absl::OkStatus() : CopyValues(save);
  });
  BELAY_RETURN_IF_AGREED(AgreeOnCopy(frame, mine, save));
  flush.number = ++number_;
  save.is_snapshot_due = is_lazy;
  if (is_lazy || save.written.registers.empty()) return {};
  return XorToRoot(frame.context, save.written.registers);
}

// Called once all ranks have copied their values.
void BackgroundSaver::EndSnapshot(SaveUnderWay& save) {
  save.copies.clear();
  ReleaseShards(save.prepared);
  save.written.counters = {.bytes = save.counts.bytes,
                           .staged_bytes = save.snapshot.bytes,
                           .io_calls = save.counts.io_calls};
  save.written.stripes = std::move(save.counts.stripes);
  save.is_snapshot_due = false;
  if (!is_root_) return;
  CompleteStep(save.options, save.prepared.plan, save.written, *save.step);
}

void BackgroundSaver::StartFlush() {
  SaveUnderWay& save = *under_way_;
  save.thread_work = SaveUnderWay::ThreadWork::kWriting;
  SaveUnderWay* const copied = save.is_snapshot_due ? &save : nullptr;
  if (copied != nullptr) {
    save.snapshot.before_tile = [flush = save.flush, progress = save.progress] {
      flush->node->Tick();
      return CheckCancelled(*flush, *progress);
    };
  }
  if (copied == nullptr) save.progress->writing.Begin(*save.flush);
  thread_.Begin([copied, flush = save.flush, progress = save.progress,
                 read_back = save.options.read_back]() -> Status {
    if (copied != nullptr) {
      const Status status = CopyInThread(*copied, *progress);
      if (!status.ok()) flush->node->Tell(-flush->number);
      BELAY_RETURN_IF_ERROR(status);
    }
    BELAY_RETURN_IF_ERROR(WriteSnapshot(*flush, *progress));
    return read_back ? ReadBackSnapshot(*flush, *progress) : absl::OkStatus();
  });
}

Agreed<> BackgroundSaver::WaitForSnapshot() {
  constexpr std::chrono::microseconds kNap{200};
  if (under_way_ == nullptr || !under_way_->is_snapshot_due) {
    return {};
  }
  SaveUnderWay& save = *under_way_;
  BELAY_RETURN_IF_AGREED(CheckComm(comm(), "save", save.target.path));
  thread_.Hurry();
  while (!save.progress->has_copied) {
    CheckStalled();
    std::this_thread::sleep_for(kNap);
  }
  if (save.progress->copy_has_failed) thread_.Finish();
  const Status mine =
      save.progress->copy_has_failed ? thread_.result() : absl::OkStatus();
  // End() has a deadline with the same name; the number tells them apart.
  SaveFrame frame(comm(),
                  Deadline(comm(), save.options.deadline_seconds,
                           absl::StrFormat("save \"%s\"", save.target.path),
                           true, -save.flush->number),
                  save.target, save.options, {.messages = save.costs.messages});
  frame.context.deadline.Enter("snapshot", save.prepared.plan.work);
  Agreed<> copied = AgreeOnCopy(frame, mine, save);
  if (copied.ok() && !save.written.registers.empty()) {
    copied = XorToRoot(frame.context, save.written.registers);
  }
  if (!copied.ok()) {
    // The thread may have written everything before it sees that the save is
    // cancelled.
    save.progress->is_cancelled = true;
    save.is_snapshot_due = false;
    save.refused = copied.status();
    save.mine.failed = true;
    return Wait().ended();
  }
  EndSnapshot(save);
  save.costs.messages = frame.context.messages;
  save.costs.stages.push_back({"copy", save.progress->copy_seconds});
  return {};
}

}  // namespace belay
