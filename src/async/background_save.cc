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
#include "format/paths.h"
#include "pipeline/result_text.h"
#include "pipeline/stages.h"
#include "save/data_file_job.h"

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
  if (options.max_staging_bytes >= 0 && options.max_bytes_per_second >= 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "AsyncOptions: max_staging_bytes or max_bytes_per_second is out of range "
      "(need at least 0, found %d and %d)",
      options.max_staging_bytes, options.max_bytes_per_second));
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
      process_(::getpid()) {}

BackgroundSaver::~BackgroundSaver() {
  // A child of the program has no part in it.
  if (under_way_ == nullptr || process_ != ::getpid()) return;
  under_way_->progress->is_cancelled = true;
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
      BELAY_RETURN_IF_AGREED(Agree(context, CheckAsyncOptions(options_)));
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
  StatusOr<ReservedSave> reserved =
      Reserve(frame, prepared.listed, prepared.plan, save->step);
  Status status = reserved.status();
  IndexCreation index(frame, job.graph, save->reuse, prepared.plan);
  if (status.ok()) status = FillSnapshot(frame, prepared, index, *save);
  if (!status.ok()) return EndStep(frame, save->step, status, job.at_files);
  save->reserved = *std::move(reserved);
  save->plan = std::move(prepared.plan);
  if (frame.context.is_root()) {
    save->commit = std::make_shared<CommitWork>();
    save->commit->finish =
        FinishOf(frame, save->reserved, save->written, save->plan);
    save->commit->files = save->plan.planned.saved.files;
  }
  PendingSave pending{.path = save->target.path,
                      .step = save->target.step,
                      .staged_bytes = save->written.counters.staged_bytes};
  save->stages = frame.stages.Finish();
  save->messages = frame.context.messages;
  save->agreement_bytes = frame.context.agreement_bytes;
  under_way_ = std::move(save);
  StartFlush();
  return pending;
}

// Stage snapshot. Collective; agreed.
Status BackgroundSaver::FillSnapshot(const SaveFrame& frame,
                                     const PreparedSave& prepared,
                                     IndexCreation& index, SaveUnderWay& save) {
  const PlannedSave& planned = prepared.plan.planned;
  frame.stages.Enter("snapshot", planned.work);
  if (node_ == nullptr) {
    BELAY_ASSIGN_OR_RETURN_AGREED(NodeProgress node,
                                  NodeProgress::Create(frame.context));
    node_ = std::make_shared<NodeProgress>(std::move(node));
  }
  if (memory_ == nullptr) memory_ = std::make_shared<SnapshotMemory>();
  WrittenData& written = save.written;
  written.registers.assign(frame.options.checksums ? planned.num_blocks : 0, 0);
  written.transfer = Transfer::kIndependent;
  auto flush = std::make_shared<FlushJob>();
  WriteCounts counts;
  const auto fill = [&]() -> Status {
    if (index.IsDue()) BELAY_RETURN_IF_ERROR(index.Create());
    if (frame.options.durable && (planned.is_syncer || node_->is_alone())) {
      std::vector<std::string> paths;
      for (const PlannedFile& file : planned.files) {
        paths.push_back(frame.target.DataPath(file));
      }
      BELAY_ASSIGN_OR_RETURN(flush->synced,
                             FilesToSync::Open(std::move(paths)));
    }
    int64_t bytes = 0;
    for (const PlannedFile& file : planned.files) bytes += file.writes.bytes;
    bytes = std::min(bytes, options_.max_staging_bytes);
    BELAY_RETURN_IF_ERROR(memory_->Reserve(bytes));
    Snapshot snapshot{.data = memory_->data(),
                      .room = bytes,
                      .limit = options_.max_staging_bytes};
    for (const PlannedFile& file : planned.files) {
      WriteJob job = DataFileJob(frame, prepared.listed.shards, prepared.plan,
                                 file, DatasetPart::kPlain);
      job.registers = written.registers;
      BELAY_RETURN_IF_ERROR(TakeSnapshot(job, snapshot, counts));
    }
    written.counters = {.bytes = counts.bytes,
                        .staged_bytes = snapshot.bytes,
                        .io_calls = counts.io_calls};
    written.stripes = std::move(counts.stripes);
    flush->files = std::move(snapshot.files);
    return absl::OkStatus();
  };
  BELAY_RETURN_IF_AGREED(Agree(frame.context, CatchExceptions(fill)));
  flush->path = frame.target.path;
  flush->memory = memory_;
  flush->durable = frame.options.durable;
  flush->node = node_;
  flush->number = ++number_;
  flush->bytes_per_second = options_.max_bytes_per_second;
  save.flush = std::move(flush);
  if (written.registers.empty()) return absl::OkStatus();
  return XorToRoot(frame.context, written.registers);
}

}  // namespace belay
