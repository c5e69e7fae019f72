#include "async/background_save.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "async/left_saves.h"
#include "async/save_under_way.h"
#include "base/catch_exceptions.h"
#include "base/log.h"
#include "base/program_words.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "bytes/fingerprint.h"
#include "bytes/wire.h"
#include "format/paths.h"
#include "mpi/agree_same.h"
#include "mpi/deadline.h"
#include "pipeline/result_text.h"
#include "pipeline/stages.h"
#include "save/operator_transfer.h"

namespace belay {
namespace {

constexpr std::string_view kNobodyWaited =
    "nobody has called Close, Wait or WaitUntilFinished before";

Status Unwaited(const std::string& path, std::string_view why) {
  return absl::FailedPreconditionError(
      Cat("save \"", path, "\" in the background is lost: ", kNobodyWaited,
          ", and ", why));
}

// Why a save is done before the call returns; empty: it need not be.
std::string WhyInForeground(const PlannedSave& planned,
                            const SaveOptions& options) {
  if (planned.has_filters) {
    return "saved in the foreground: chunks with filters are written by all "
           "ranks together";
  }
  if (!NeedsAllRanks(options.transfer, options.file_layout)) return "";
  return "saved in the foreground: all ranks carry out this transfer together";
}

Status CheckAsyncOptions(const AsyncOptions& options) {
  for (const auto& [name, value] :
       {std::pair("max_staging_bytes", options.max_staging_bytes),
        std::pair("initial_staging_bytes", options.initial_staging_bytes),
        std::pair("max_bytes_per_second", options.max_bytes_per_second)}) {
    if (value >= 0) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "AsyncOptions: %s is out of range (need at least 0, found %d)", name,
        value));
  }
  return absl::OkStatus();
}

uint64_t FingerprintOf(const AsyncOptions& options) {
  WireWriter out;
  out.Put(options.max_staging_bytes);
  out.Put(options.max_bytes_per_second);
  out.Put(options.snapshot);
  return Fingerprint(out.bytes());
}

// As for a save that reuses the plans of this saver. Nobody waits for short
// writes, so the ranks need not gather them.
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
  // What is touched counts, whether in use or not: leaves room for runs.
  const int64_t most = options.max_staging_bytes;
  const int64_t bytes =
      std::min(options.initial_staging_bytes,
               most - most / (1 + static_cast<int64_t>(sizeof(SnapshotRun))));
  if (bytes <= 0) return;
  memory_ = std::make_shared<SnapshotMemory>();
  // The first save asks again, and can say why there is none.
  memory_->Reserve(bytes, true).IgnoreError();
}

BackgroundSaver::~BackgroundSaver() {
  // A child of the program has no part in it.
  if (process_ != ::getpid()) return;
  ForgetSaver(*this);
  if (under_way_ == nullptr) return;
  under_way_->progress->is_cancelled = true;
  thread_.Hurry();
  // The values may go with the program.
  WaitForCopy(*under_way_);
  // A commit that has begun must not be overtaken by another save of the step.
  if (under_way_->doing == SaveUnderWay::Doing::kCommitting) {
    thread_.Finish();
    TakeResult();
  }
  if (!is_root_ || under_way_->mine.committed) return;
  Log(LogLevel::kWarning,
      InWordsOfProgram(
          Cat("save \"", under_way_->target.path,
              "\" in the background was given up: its saver has ended, and ",
              kNobodyWaited)));
}

StatusOr<PendingSave> BackgroundSaver::Begin(const SaveJob& job,
                                             const SaveOptions& given,
                                             OnEnd on_end) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm(), "save", ParentOf(job.path)));
  BELAY_ASSIGN_OR_RETURN_AGREED(const SaveOptions options,
                                WithOperatorTransfer(comm(), job.path, given));
  GiveUpLeftSaves(comm(), ParentOf(job.path));
  const SaveOptions with_cache = InBackground(options, own_cache_);
  CachedPlan& cache = PlanOf(*with_cache.cache);
  CommContext context{comm(),
                      Deadline(comm(), options.deadline_seconds,
                               absl::StrFormat("save \"%s\"", job.path))};
  context.messages = job.messages;
  context.agreement_bytes = job.agreement_bytes;
  Stages stages(context, job.stages);
  const SaveTarget target{.path = WithoutSlashes(job.path),
                          .step = job.step,
                          .is_managed = job.at_files != nullptr};
  const SaveFrame frame{context, stages, target, with_cache};
  const auto begin = [&]() -> StatusOr<PendingSave> {
    if (number_ == 0) {
      BELAY_RETURN_IF_AGREED(AgreeSame(context, "save: AsyncOptions",
                                       FingerprintOf(options_),
                                       CheckAsyncOptions(options_)));
    }
    BELAY_ASSIGN_OR_RETURN_AGREED(PreparedSave prepared,
                                  PrepareSave(frame, job, cache));
    PendingSave pending{.path = target.path, .step = target.step};
    pending.note = WhyInForeground(prepared.plan.planned, with_cache);
    if (pending.note.empty()) {
      return BeginFlush(frame, job, std::move(prepared), cache);
    }
    const StatusOr<SaveResult> result =
        FinishSave(frame, job, std::move(prepared), cache);
    BELAY_RETURN_IF_AGREED(result.status());
    LogResult(context, result);
    pending.saved = *result;
    return pending;
  };
  StatusOr<PendingSave> pending = begin();
  if (!pending.ok()) {
    LogError(context, pending.status());
  } else if (under_way_ != nullptr) {
    under_way_->on_end = std::move(on_end);
  } else if (on_end) {
    on_end(true);
  }
  return pending;
}

StatusOr<PendingSave> BackgroundSaver::BeginFlush(const SaveFrame& frame,
                                                  const SaveJob& job,
                                                  PreparedSave prepared,
                                                  CachedPlan& cache) {
  auto save = std::make_unique<SaveUnderWay>();
  save->target = frame.target;
  save->options = frame.options;
  save->cache = &cache;
  save->cache_is_there = cache.is_there;
  save->reuse = prepared.listed.reuse;
  save->prepared = std::move(prepared);
  save->flush = std::make_shared<FlushJob>();
  IndexCreation index(frame, job.graph, save->reuse, save->prepared.plan);
  StatusOr<ReservedSave> reserved =
      Reserve(frame, save->prepared.listed, save->prepared.plan, index,
              save->step, &save->flush->metadata);
  Status status = reserved.status();
  if (status.ok()) status = FillSnapshot(frame, index, *save);
  if (!status.ok()) return EndStep(frame, save->step, status, job.at_files);
  save->reserved = *std::move(reserved);
  if (!save->is_snapshot_due) EndSnapshot(frame, *save);
  PendingSave pending{.path = save->target.path,
                      .step = save->target.step,
                      .staged_bytes = save->is_snapshot_due
                                          ? save->snapshot.room
                                          : save->snapshot.bytes};
  save->stages = frame.stages.Finish();
  save->messages = frame.context.messages;
  save->agreement_bytes = frame.context.agreement_bytes;
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
    // In the words of Wait: other ranks may know no reason, and may still be
    // asking.
    save.lost = lost;
    save.mine.failed = true;
    save.progress->is_cancelled = true;
    WaitForCopy(save);
    save.is_snapshot_due = false;
  }
  // Never destroyed: they may need what is gone by then.
  new OnEnd(std::exchange(save.on_end, nullptr));                // NOLINT
  new auto(std::exchange(save.options.before_commit, nullptr));  // NOLINT
  new auto(std::exchange(save.options.after_commit, nullptr));   // NOLINT
  new auto(std::exchange(save.reserved.finalizers, {}));         // NOLINT
  auto& policy = save.options.sharding_policy;
  new auto(std::exchange(policy.group, nullptr));  // NOLINT
}

Status BackgroundSaver::WhyLost() const {
  const std::string& path = under_way_->target.path;
  if (!*is_comm_open_) {
    return Unwaited(path, "its communicator was closed before");
  }
  if (under_way_->is_snapshot_due) {
    return Unwaited(path,
                    "WaitForSnapshot was not called, so the values may have "
                    "changed before they were copied");
  }
  if (under_way_->CallsProgram()) {
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
  BELAY_RETURN_IF_AGREED(Wait().status());
  if (!is_root_) return absl::OkStatus();
  Log(LogLevel::kWarning,
      InWordsOfProgram(Cat("save \"", path,
                           "\" in the background was finished in "
                           "MPI_Finalize, since ",
                           kNobodyWaited)));
  return absl::OkStatus();
}

bool BackgroundSaver::is_own() const { return process_ == ::getpid(); }

bool BackgroundSaver::is_snapshot_due() const {
  return under_way_ != nullptr && under_way_->is_snapshot_due;
}

const SaveTarget& BackgroundSaver::target() const { return under_way_->target; }

}  // namespace belay
