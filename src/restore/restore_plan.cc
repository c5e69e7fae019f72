// Stage plan of a restore: who reads what of all that ranks want.
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "bytes/wire.h"
#include "pipeline/gather_lists.h"
#include "pipeline/listing.h"
#include "plan/restore/local_reads.h"
#include "plan/restore/restore_planner.h"
#include "restore/flat_file.h"
#include "restore/restore_options.h"
#include "restore/restore_run.h"
#include "values/conversions.h"

namespace belay {
namespace {

// What rank 0 tells all ranks.
std::string EncodeCommon(const RestoreRun& run,
                         const std::vector<StackedArray>& stacked) {
  WireWriter common;
  common.PutText(run.source.path);
  common.Put(run.source.step);
  common.Put(run.saved.has_checksums);
  common.Put(run.plan.num_blocks);
  common.Put(run.plan.stream_bytes);
  common.Put(run.plan.sharing);
  common.PutText(run.plan.note);
  common.Put<int64_t>(run.plan.arrays.size());
  common.Put<uint64_t>(run.saved.files.size());
  for (const StoredFile& file : run.saved.files) common.PutText(file.name);
  PutFiltered(common, run.plan.filtered);
  common.Put<uint64_t>(stacked.size());
  for (const StackedArray& array : stacked) array.Put(common);
  return common.Take();
}

// Returns the arrays of which this rank plans its reads.
std::vector<StackedArray> DecodeCommon(std::string_view bytes,
                                       RestoreRun& run) {
  WireReader in(bytes);
  run.source.path = in.GetText();
  run.source.step = in.Get<int64_t>();
  run.checks = in.Get<bool>() && run.options.checksums;
  const auto num_blocks = in.Get<int64_t>();
  run.stream_bytes = in.Get<int64_t>();
  run.result.read_sharing = in.Get<ReadSharing>();
  run.result.sharing_note = in.GetText();
  run.registers.assign(run.checks ? num_blocks : 0, 0);
  run.covered.assign(run.checks ? num_blocks : 0, 0);
  run.result.num_arrays = in.Get<int64_t>();
  run.file_names.resize(in.Get<uint64_t>());
  for (std::string& name : run.file_names) name = in.GetText();
  run.filtered = GetFiltered(in);
  return in.GetAll<StackedArray>([&] { return StackedArray::Get(in); });
}

Tolerance MostOf(const RestoreRun& run) {
  Tolerance most = MostTolerance(run.options);
  most.nothing = run.may_read_nothing;
  return most;
}

// What all ranks want, as it is stored; each rank's own part only if it may
// plan that by itself. Rank 0 only.
StatusOr<DividedWants> WantOnRoot(const ListedRanks& listed, Dividing dividing,
                                  RestoreRun& run) {
  DividedWants wants = DivideWants(run.saved, listed, dividing);
  BELAY_ASSIGN_OR_RETURN(run.result.conversions,
                         WantAsStored(run.saved, MostOf(run), wants.central));
  return wants;
}

// Rank 0 only.
Status OfRestore(const RestoreRun& run, const Status& status) {
  if (status.ok()) return status;
  return Status(
      status.code(),
      absl::StrFormat("restore \"%s\": %s", run.source.path, status.message()));
}

// Returns the arrays of which each rank plans its reads. Rank 0 only.
StatusOr<std::vector<StackedArray>> PlanOnRoot(const ListedRanks& listed,
                                               RestoreRun& run) {
  ReadRules rules = ReadRulesOf(run.options);
  if (!run.no_shared_memory.empty()) rules.sharing = ReadSharing::kEachRank;
  // Who reads for all is a decision.
  const Dividing dividing =
      rules.primary_replica ? Dividing::kNothing : Dividing::kWhatPays;
  StatusOr<DividedWants> wants = WantOnRoot(listed, dividing, run);
  if (!wants.ok()) return OfRestore(run, wants.status());
  BELAY_RETURN_IF_ERROR(OfRestore(run, CheckKinds(run.saved, wants->central)));
  StatusOr<RestorePlan> plan = PlanRestore(run.saved, wants->central, rules);
  if (!plan.ok()) return OfRestore(run, plan.status());
  AddLocalArrays(run.saved, *wants, *plan);
  run.plan = *std::move(plan);
  if (!run.no_shared_memory.empty()) {
    run.plan.note = Cat("each rank reads: no memory can be shared (",
                        run.no_shared_memory, ")");
  }
  return std::move(wants->stacked);
}

// Tells all ranks what rank 0 makes of all that they want. Collective; agreed.
StatusOr<Briefed> AskForWanted(
    RestoreRun& run,
    absl::FunctionRef<StatusOr<Briefing>(const ListedRanks&)> answer) {
  run.stages.Enter("plan");
  RankShards wanted{.node = 0, .shards = DescribeShards(run.shards)};
  // How long a text has been says nothing, and differs between ranks.
  for (ShardInfo& shard : wanted.shards) shard.string_bytes = 0;
  SentLists sent_lists;
  return GatherDescriptions(run.team, wanted, sent_lists, answer);
}

}  // namespace

Status PlanStage(RestoreRun& run) {
  const auto plan = [&](const ListedRanks& listed) -> StatusOr<Briefing> {
    BELAY_ASSIGN_OR_RETURN(const std::vector<StackedArray> stacked,
                           PlanOnRoot(listed, run));
    Briefing briefing{.common = EncodeCommon(run, stacked)};
    for (const RankReads& reads : run.plan.ranks) {
      briefing.parts.push_back(EncodeRankReads(reads));
    }
    return briefing;
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(const Briefed briefed, AskForWanted(run, plan));
  if (MayConvert(run.options)) BELAY_RETURN_IF_AGREED(ShareForms(run));
  const std::vector<StackedArray> stacked = DecodeCommon(briefed.common, run);
  run.reads = DecodeRankReads(briefed.part);
  std::vector<WantedBox> wanted;
  for (const Shard& shard : run.shards) {
    wanted.push_back({.key = shard.key, .box = &shard.box});
  }
  AddLocalReads(stacked, wanted, run.reads);
  return absl::OkStatus();
}

Status ReadFlat(RestoreRun& run) {
  if (run.options.read_sharing == ReadSharing::kOnce ||
      run.options.primary_replica) {
    return Agree(
        run.team,
        absl::UnimplementedError(absl::StrFormat(
            "restore \"%s\": of a file of another program every rank reads "
            "what it wants: leave read_sharing and primary_replica as they are",
            run.source.path)));
  }
  run.result.sharing_note = "each rank reads a file of another program";
  if (MayConvert(run.options)) {
    const auto want = [&](const ListedRanks& listed) -> StatusOr<Briefing> {
      BELAY_RETURN_IF_ERROR(
          OfRestore(run, WantOnRoot(listed, Dividing::kNothing, run).status()));
      return Briefing();
    };
    BELAY_RETURN_IF_AGREED(AskForWanted(run, want).status());
    BELAY_RETURN_IF_AGREED(ShareForms(run));
  }
  run.stages.Enter("read");
  return Agree(run.team, ReadFlatFile(run.source.path, run.shards, run.forms,
                                      &run.result.counters.staged_bytes));
}

}  // namespace belay
