#include "async/background_save.h"

#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "async/save_under_way.h"
#include "base/catch_exceptions.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "bytes/fingerprint.h"
#include "bytes/wire.h"
#include "format/paths.h"
#include "mpi/agree_same.h"
#include "pipeline/result_text.h"
#include "pipeline/stages.h"

namespace belay {
namespace {

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
    : comm_(comm),
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
  if (under_way_ == nullptr || process_ != ::getpid()) return;
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
      Cat("save \"", under_way_->target.path,
          "\" in the background was given up: its saver has ended, and nobody "
          "has called Close, Wait or WaitUntilFinished before"));
}

StatusOr<PendingSave> BackgroundSaver::Begin(const SaveJob& job,
                                             const SaveOptions& options,
                                             OnEnd on_end) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm_, "save", ParentOf(job.path)));
  const SaveOptions with_cache = InBackground(options, own_cache_);
  CachedPlan& cache = PlanOf(*with_cache.cache);
  CommContext context{comm_,
                      Deadline(comm_, options.deadline_seconds,
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
  return pending;
}

}  // namespace belay
