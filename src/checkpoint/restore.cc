#include "absl/strings/str_format.h"
#include "base/fingerprint.h"
#include "base/status_macros.h"
#include "base/wire.h"
#include "belay/save_restore.h"
#include "checkpoint/listing.h"
#include "checkpoint/stations.h"
#include "model/restore_planner.h"
#include "store/commit.h"
#include "store/index_file.h"
#include "store/paths.h"
#include "store/reader.h"
#include "store/verify.h"

namespace belay {
namespace {

// One restore on one rank.
struct RestoreRun {
  RestoreRun(const Comm& comm, const PendingRestore& wanted,
             const RestoreOptions& chosen)
      : team{comm, Deadline(comm, chosen.deadline_seconds,
                            absl::StrFormat("restore \"%s\"", wanted.dir))},
        stations(team),
        dir(wanted.dir),
        step(wanted.step),
        identity(wanted.identity),
        options(chosen) {}

  Team team;
  Stations stations;
  std::string dir;
  int64_t step;       // a number once the index is open
  uint64_t identity;  // 0: of any save, until the index is open
  const RestoreOptions& options;
  std::vector<Shard> shards;
  // Rank 0 only.
  SavedCheckpoint saved;
  RestorePlan plan;
  // This rank's part.
  RankReads reads;
  std::vector<std::string> file_names;
  bool checks = false;  // equal on all ranks
  std::vector<uint32_t> registers;
  std::vector<int64_t> covered;
  RestoreResult result;

  std::string Directory() const { return JoinPath(dir, StepName(step)); }
};

// Collective.
Status Begin(RestoreRun& run, const State& state) {
  run.stations.Enter("list");
  run.shards = ListShards(state, run.team.rank());
  Status status = state.status();
  if (status.ok() && run.step < 0 && run.step != kLatestStep) {
    status = absl::InvalidArgumentError(
        absl::StrFormat("restore \"%s\": step is out of range (need 0 to %d, "
                        "found %d)",
                        run.dir, INT64_MAX, run.step));
  }
  BELAY_RETURN_IF_AGREED(Agree(run.team, status));
  BELAY_RETURN_IF_AGREED(
      AgreeSame(run.team, "restore: the directory", Fingerprint(run.dir)));
  WireWriter rest;
  rest.Put(run.step);
  rest.Put(run.identity);
  rest.Put(run.options.checksums);
  return AgreeSame(run.team, "restore: the step or an option",
                   Fingerprint(rest.bytes()));
}

// Rank 0 only.
Status FindStep(RestoreRun& run) {
  if (run.step != kLatestStep) return absl::OkStatus();
  StatusOr<std::vector<int64_t>> steps = CommittedSteps(run.dir);
  if (steps.ok() && steps->empty()) {
    return absl::NotFoundError(absl::StrFormat(
        "restore \"%s\": the directory has no committed step", run.dir));
  }
  BELAY_RETURN_IF_ERROR(steps.status());
  run.step = steps->back();
  return absl::OkStatus();
}

// Runs after the index was read, which is then at worst older than what this
// sees. Rank 0 only.
Status CheckIdentity(RestoreRun& run) {
  BELAY_ASSIGN_OR_RETURN(const uint64_t found, IndexIdentity(run.Directory()));
  if (run.identity != 0 && run.identity != found) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "restore \"%s\": another save has replaced the step since the restore "
        "was asked for",
        run.Directory()));
  }
  run.identity = found;
  return absl::OkStatus();
}

// Rank 0 only.
Status OpenIndex(RestoreRun& run) {
  BELAY_RETURN_IF_ERROR(FindStep(run));
  StatusOr<SavedCheckpoint> saved = ReadIndex(run.Directory());
  if (absl::IsNotFound(saved.status())) {
    return absl::NotFoundError(
        absl::StrFormat("restore \"%s\": no such step (%s)", run.Directory(),
                        saved.status().message()));
  }
  BELAY_RETURN_IF_ERROR(saved.status());
  run.saved = *std::move(saved);
  if (run.saved.step != run.step) {
    return absl::DataLossError(absl::StrFormat(
        "restore \"%s\": the index is of another step (need %d, found %d)",
        run.Directory(), run.step, run.saved.step));
  }
  BELAY_RETURN_IF_ERROR(CheckIdentity(run));
  return CheckDataFiles(run.Directory(), run.saved);
}

// What rank 0 tells each rank.
std::vector<std::string> EncodeParts(const RestoreRun& run) {
  WireWriter common;
  common.Put(run.step);
  common.Put(run.saved.has_checksums);
  common.Put(run.plan.num_blocks);
  common.Put<int64_t>(run.plan.arrays.size());
  common.Put<uint64_t>(run.saved.files.size());
  for (const StoredFile& file : run.saved.files) common.PutText(file.name);
  std::vector<std::string> parts;
  for (const RankReads& reads : run.plan.ranks) {
    parts.push_back(common.bytes() + EncodeRankReads(reads));
  }
  return parts;
}

void DecodePart(std::string_view bytes, RestoreRun& run) {
  WireReader in(bytes);
  run.step = in.Get<int64_t>();
  run.checks = in.Get<bool>() && run.options.checksums;
  const auto num_blocks = in.Get<int64_t>();
  run.registers.assign(run.checks ? num_blocks : 0, 0);
  run.covered.assign(run.checks ? num_blocks : 0, 0);
  run.result.num_arrays = in.Get<int64_t>();
  run.file_names.resize(in.Get<uint64_t>());
  for (std::string& name : run.file_names) name = in.GetText();
  run.reads = DecodeRankReads(in.Rest());
}

// Rank 0 only.
Status PlanOnRoot(const std::vector<std::string>& gathered, RestoreRun& run) {
  std::vector<RankShards> wanted;
  for (const std::string& bytes : gathered) {
    wanted.push_back(DecodeRankShards(bytes));
  }
  StatusOr<RestorePlan> plan = PlanRestore(run.saved, wanted);
  if (!plan.ok()) {
    return Status(plan.status().code(),
                  absl::StrFormat("restore \"%s\": %s", run.Directory(),
                                  plan.status().message()));
  }
  run.plan = *std::move(plan);
  return absl::OkStatus();
}

// Station open. Collective.
Status Open(RestoreRun& run) {
  run.stations.Enter("open");
  return OnRoot(run.team, [&] { return OpenIndex(run); });
}

// Station plan. Collective.
Status Plan(RestoreRun& run) {
  run.stations.Enter("plan");
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<std::string> gathered,
      Gather(run.team, EncodeRankShards(
                           {.node = 0, .shards = DescribeShards(run.shards)})));
  BELAY_RETURN_IF_AGREED(
      OnRoot(run.team, [&] { return PlanOnRoot(gathered, run); }));
  std::vector<std::string> parts;
  if (run.team.is_root()) parts = EncodeParts(run);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string part,
                                Scatter(run.team, parts));
  DecodePart(part, run);
  return absl::OkStatus();
}

// Station read. Collective.
Status Read(RestoreRun& run) {
  run.stations.Enter("read");
  for (size_t i = 0; i < run.shards.size(); ++i) {
    if (run.shards[i].dtype == DType::kString) {
      run.shards[i].text->resize(run.reads.string_bytes[i]);
    }
  }
  ReadCounts counts;
  const ReadJob job{.shards = run.shards,
                    .reads = run.reads,
                    .directory = run.Directory(),
                    .file_names = run.file_names,
                    .registers = run.registers,
                    .covered = run.covered};
  BELAY_RETURN_IF_AGREED(Agree(run.team, ReadAll(job, counts)));
  run.result.counters.bytes = counts.bytes;
  run.result.counters.io_calls = counts.io_calls;
  return absl::OkStatus();
}

// Station verify. Collective.
Status Verify(RestoreRun& run) {
  if (!run.checks) return absl::OkStatus();
  run.stations.Enter("verify");
  BELAY_RETURN_IF_AGREED(XorToRoot(run.team, run.registers));
  BELAY_RETURN_IF_AGREED(SumAll(run.team, run.covered));
  BlockCounts counts;
  BELAY_RETURN_IF_AGREED(OnRoot(run.team, [&] {
    return CompareChecksums(run.saved, run.plan,
                            absl::StrFormat("restore \"%s\"", run.Directory()),
                            run.registers, run.covered, counts);
  }));
  std::vector<int64_t> shared = {counts.verified, counts.partial};
  BELAY_RETURN_IF_AGREED(MaxAll(run.team, shared));
  run.result.blocks_verified = shared[0];
  run.result.blocks_partial = shared[1];
  return absl::OkStatus();
}

// Collective.
Status Report(RestoreRun& run) {
  run.result.path = run.Directory();
  run.result.step = run.step;
  run.result.counters.files = static_cast<int64_t>(run.file_names.size());
  run.result.counters.peak_memory_bytes = PeakMemoryBytes();
  run.result.counters.stations = run.stations.Finish();
  return CombineCounters(run.team, run.result.counters);
}

// All stations. Collective.
StatusOr<RestoreResult> RunAll(RestoreRun& run, const State& state) {
  BELAY_RETURN_IF_AGREED(Begin(run, state));
  BELAY_RETURN_IF_AGREED(Open(run));
  BELAY_RETURN_IF_AGREED(Plan(run));
  BELAY_RETURN_IF_AGREED(Read(run));
  BELAY_RETURN_IF_AGREED(Verify(run));
  BELAY_RETURN_IF_AGREED(Report(run));
  return std::move(run.result);
}

}  // namespace

StatusOr<RestoreResult> Restore(const Comm& comm, const std::string& dir,
                                int64_t step, const State& state,
                                const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  RestoreRun run(comm, {.dir = dir, .step = step}, options);
  return RunAll(run, state);
}

StatusOr<RestoreResult> Restore(const Comm& comm, const PendingRestore& pending,
                                const State& state,
                                const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", pending.dir));
  RestoreRun run(comm, pending, options);
  Status status;
  if (pending.identity == 0) {
    status = absl::FailedPreconditionError(absl::StrFormat(
        "restore \"%s\": nothing is pending: call RestoreLater", pending.dir));
  }
  BELAY_RETURN_IF_AGREED(Agree(run.team, status));
  return RunAll(run, state);
}

StatusOr<PendingRestore> RestoreLater(const Comm& comm, const std::string& dir,
                                      int64_t step,
                                      const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  RestoreRun run(comm, {.dir = dir, .step = step}, options);
  BELAY_RETURN_IF_AGREED(Begin(run, State()));
  BELAY_RETURN_IF_AGREED(Open(run));
  WireWriter found;
  found.Put(run.step);
  found.Put(run.identity);
  std::string bytes = found.Take();
  BELAY_RETURN_IF_AGREED(Broadcast(run.team, bytes));
  WireReader in(bytes);
  PendingRestore pending{.dir = dir};
  pending.step = in.Get<int64_t>();
  pending.identity = in.Get<uint64_t>();
  return pending;
}

std::string StepPath(const std::string& dir, int64_t step) {
  return JoinPath(dir, StepName(step));
}

StatusOr<std::vector<int64_t>> ListSteps(const std::string& dir) {
  return CommittedSteps(dir);
}

}  // namespace belay
