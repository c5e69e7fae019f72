// The snapshot of a save in the background: taken in the call, or by the thread
// while the program goes on.
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "async/background_save.h"
#include "async/save_under_way.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "mpi/deadline.h"
#include "pipeline/listing.h"
#include "pipeline/lost_values.h"
#include "pipeline/stages.h"
#include "save/data_file_job.h"
#include "save/transfer_choice.h"

namespace belay {
namespace {

// Files that this rank syncs, opened before anybody has written.
StatusOr<FilesToSync> OpenFilesToSync(const SaveFrame& frame,
                                      const PlannedSave& planned) {
  std::vector<std::string> paths;
  for (const PlannedFile& file : planned.files) {
    paths.push_back(frame.target.DataPath(file));
  }
  return FilesToSync::Open(std::move(paths));
}

// Copies all values, and drops what says where they are. Local.
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

// Agrees on what became of copying, and tells which values were lost: none yet
// where the thread is to copy. Collective; agreed.
Status AgreeOnCopy(const SaveFrame& frame, const Status& mine,
                   SaveUnderWay& save) {
  if (StoresAllAsTheyAre(frame.options)) return Agree(frame.context, mine);
  std::vector<int64_t> has_lost = {AnyLost(save.written.losses) ? 1 : 0};
  BELAY_RETURN_IF_AGREED(MaxAll(frame.context, has_lost, mine));
  return TellLostValues(frame, save.prepared.listed.shards, save.prepared.plan,
                        has_lost[0] == 1, save.step, save.written);
}

// The same in the thread, which owns nothing of the save: see WaitForCopy.
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

// All that copying needs. Local.
Status BackgroundSaver::PrepareSnapshot(const SaveFrame& frame,
                                        IndexCreation& index,
                                        SaveUnderWay& save) {
  const PlannedSave& planned = save.prepared.plan.planned;
  if (index.IsDue()) {
    BELAY_RETURN_IF_ERROR(index.Create(&save.flush->metadata));
  }
  if (frame.options.durable && (planned.is_syncer || node_->is_alone())) {
    BELAY_ASSIGN_OR_RETURN(save.flush->synced, OpenFilesToSync(frame, planned));
  }
  int64_t bytes = 0;
  for (const PlannedFile& file : planned.files) bytes += file.writes.bytes;
  const int64_t limit = options_.max_staging_bytes;
  const bool touch = FitsInAnyRuns(bytes, limit);
  bytes = std::min(bytes, limit);
  BELAY_RETURN_IF_ERROR(memory_->Reserve(bytes, touch));
  save.snapshot = {.data = memory_->data(),
                   .room = bytes,
                   .touched = memory_->touched_bytes(),
                   .limit = limit};
  for (const PlannedFile& file : planned.files) {
    save.copies.push_back(DataFileJob(frame, save.prepared.listed.shards,
                                      save.prepared.plan, file,
                                      DatasetPart::kPlain));
    save.copies.back().registers = save.written.registers;
    save.copies.back().losses = save.written.losses;
    save.copies.back().once_open = save.flush->once_open;
  }
  return absl::OkStatus();
}

// Stage snapshot. Collective; agreed.
Status BackgroundSaver::FillSnapshot(const SaveFrame& frame,
                                     IndexCreation& index, SaveUnderWay& save) {
  const PlannedSave& planned = save.prepared.plan.planned;
  frame.stages.Enter("snapshot", planned.work);
  if (node_ == nullptr) {
    BELAY_ASSIGN_OR_RETURN_AGREED(NodeProgress node,
                                  NodeProgress::Create(frame.context));
    node_ = std::make_shared<NodeProgress>(std::move(node));
  }
  if (memory_ == nullptr) memory_ = std::make_shared<SnapshotMemory>();
  save.written.registers.assign(
      frame.options.checksums ? planned.num_blocks : 0, 0);
  ResetLosses(save.prepared.listed.shards, save.prepared.plan, save.written);
  save.written.transfer = Transfer::kIndependent;
  save.written.transfer_note =
      ChooseTransfer(frame.options.transfer, frame.options.file_layout,
                     planned.mean_run_bytes, planned.stripes)
          .note;
  save.flush->path = frame.target.path;
  save.flush->once_open = OnceOpen(frame.target, save.step.nonce);
  save.flush->memory = memory_;
  save.flush->durable = frame.options.durable;
  save.flush->node = node_;
  save.flush->bytes_per_second = options_.max_bytes_per_second;
  const bool is_lazy = options_.snapshot == SnapshotMode::kLazy;
  const Status mine = CatchExceptions([&]() -> Status {
    BELAY_RETURN_IF_ERROR(PrepareSnapshot(frame, index, save));
    return is_lazy ? absl::OkStatus() : CopyValues(save);
  });
  BELAY_RETURN_IF_AGREED(AgreeOnCopy(frame, mine, save));
  save.flush->number = ++number_;
  save.is_snapshot_due = is_lazy;
  if (is_lazy || save.written.registers.empty()) return absl::OkStatus();
  return XorToRoot(frame.context, save.written.registers);
}

// What follows once all ranks have copied. Local.
void BackgroundSaver::EndSnapshot(const SaveFrame& frame, SaveUnderWay& save) {
  save.copies.clear();
  KeepListing(std::move(save.prepared.listed), save.prepared.plan);
  save.prepared.listed = {};
  save.prepared.blocks.clear();
  save.written.counters = {.bytes = save.counts.bytes,
                           .staged_bytes = save.snapshot.bytes,
                           .io_calls = save.counts.io_calls};
  save.written.stripes = std::move(save.counts.stripes);
  save.is_snapshot_due = false;
  if (!is_root_) return;
  const ReusablePlan& plan = save.prepared.plan;
  save.commit = std::make_shared<CommitWork>();
  save.commit->finish = FinishOf(frame, save.reserved, save.written, plan);
  save.commit->files = plan.planned.saved.files;
}

void BackgroundSaver::StartFlush() {
  SaveUnderWay& save = *under_way_;
  save.doing = SaveUnderWay::Doing::kWriting;
  SaveUnderWay* copied = save.is_snapshot_due ? &save : nullptr;
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

Status BackgroundSaver::WaitForSnapshot() {
  constexpr std::chrono::microseconds kNap{200};
  if (under_way_ == nullptr || !under_way_->is_snapshot_due) {
    return absl::OkStatus();
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
  // Another operation of this name is watched at the end.
  CommContext context{
      comm(), Deadline(comm(), save.options.deadline_seconds,
                       absl::StrFormat("save \"%s\"", save.target.path), true,
                       -save.flush->number)};
  context.deadline.Enter("snapshot", save.prepared.plan.planned.work);
  context.messages = save.messages;
  Stages stages(context);
  const SaveFrame frame{context, stages, save.target, save.options};
  Status status = AgreeOnCopy(frame, mine, save);
  if (status.ok() && !save.written.registers.empty()) {
    status = XorToRoot(context, save.written.registers);
  }
  if (!status.ok()) {
    // The thread may have done all of its part before it sees this.
    save.progress->is_cancelled = true;
    save.is_snapshot_due = false;
    save.refused = status;
    save.mine.failed = true;
    return Wait().status();
  }
  EndSnapshot(frame, save);
  save.messages = context.messages;
  save.stages.push_back({"copy", save.progress->copy_seconds});
  return absl::OkStatus();
}

}  // namespace belay
