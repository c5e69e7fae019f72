// Stages plan and read of a restore: who reads what of all that ranks want,
// and how it reaches them.
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "mpi/collective.h"
#include "pipeline/listing.h"
#include "plan/local_reads.h"
#include "plan/restore_planner.h"
#include "plan/shared_targets.h"
#include "restore/flat_file.h"
#include "restore/restore.h"
#include "restore/restore_stages.h"
#include "state/stored_answer.h"
#include "storage/deliver.h"
#include "storage/reader.h"

namespace belay {
namespace {

// What rank 0 tells all ranks.
std::string EncodeCommon(const OpenedStep& opened, const RestorePlan& plan,
                         const std::vector<StackedArray>& stacked) {
  WireWriter common;
  common.PutText(opened.source.path);
  common.Put(opened.source.step);
  common.Put(opened.saved.has_checksums);
  common.Put(plan.num_blocks);
  common.Put(plan.stream_bytes);
  common.Put(plan.sharing);
  common.PutText(plan.note);
  common.Put<int64_t>(plan.arrays.size());
  common.Put<uint64_t>(opened.saved.files.size());
  for (const StoredFile& file : opened.saved.files) common.PutText(file.name);
  common(plan.filtered, stacked);
  return common.Take();
}

// Returns the arrays of which this rank plans its reads.
std::vector<StackedArray> DecodeCommon(std::string_view bytes,
                                       const RestoreOptions& options,
                                       PlannedReads& planned) {
  WireReader in(bytes);
  planned.path = in.GetText();
  planned.step = in.Get<int64_t>();
  planned.checks = in.Get<bool>() && options.checksums;
  planned.num_blocks = in.Get<int64_t>();
  planned.stream_bytes = in.Get<int64_t>();
  planned.sharing = in.Get<ReadSharing>();
  planned.note = in.GetText();
  planned.num_arrays = in.Get<int64_t>();
  planned.file_names.resize(in.Get<uint64_t>());
  for (std::string& name : planned.file_names) name = in.GetText();
  std::vector<StackedArray> stacked;
  in(planned.filtered, stacked);
  return stacked;
}

Tolerance MostOf(const RestoreFrame& frame) {
  Tolerance most = MostTolerance(frame.options);
  most.nothing = frame.may_read_nothing;
  return most;
}

// What all ranks want, as it is stored; each rank's own part only if it may
// plan that by itself. Rank 0 only.
StatusOr<DividedWants> WantOnRoot(const RestoreFrame& frame,
                                  const SavedCheckpoint& saved,
                                  const ListedRanks& listed, Dividing dividing,
                                  std::vector<Conversion>& conversions) {
  DividedWants wants = DivideWants(saved, listed, dividing);
  BELAY_ASSIGN_OR_RETURN(conversions,
                         WantAsStored(saved, MostOf(frame), wants.central));
  return wants;
}

// Rank 0 only.
Status OfRestore(const OpenedStep& opened, const Status& status) {
  if (status.ok()) return status;
  return Status(status.code(),
                absl::StrFormat("restore \"%s\": %s", opened.source.path,
                                status.message()));
}

// Returns the arrays of which each rank plans its reads. Rank 0 only.
StatusOr<std::vector<StackedArray>> PlanOnRoot(
    const RestoreFrame& frame, const OpenedStep& opened,
    const ListedRanks& listed, const std::string& no_shared_memory,
    PlannedReads& planned) {
  const SavedCheckpoint& saved = opened.saved;
  ReadRules rules = ReadRulesOf(frame.options);
  if (!no_shared_memory.empty()) rules.sharing = ReadSharing::kEachRank;
  // Who reads for all is a decision.
  const Dividing dividing =
      rules.primary_replica ? Dividing::kNothing : Dividing::kWhatPays;
  StatusOr<DividedWants> wants =
      WantOnRoot(frame, saved, listed, dividing, planned.conversions);
  if (!wants.ok()) return OfRestore(opened, wants.status());
  BELAY_RETURN_IF_ERROR(OfRestore(opened, CheckKinds(saved, wants->central)));
  StatusOr<RestorePlan> plan = PlanRestore(saved, wants->central, rules);
  if (!plan.ok()) return OfRestore(opened, plan.status());
  AddLocalArrays(saved, *wants, *plan);
  if (!no_shared_memory.empty()) {
    plan->note = Cat("each rank reads: no memory can be shared (",
                     no_shared_memory, ")");
  }
  planned.plan = *std::move(plan);
  return std::move(wants->stacked);
}

// Tells all ranks what rank 0 makes of all that they want. Collective; agreed.
Agreed<RootMessage> AskForWanted(
    RestoreFrame& frame, const std::vector<Shard>& shards,
    absl::FunctionRef<StatusOr<RootMessages>(ListedRanks)> answer) {
  frame.stages.Enter("plan");
  RankShards wanted{.node = 0, .shards = DescribeShards(shards)};
  // How long a text has been says nothing, and differs between ranks.
  for (ShardInfo& shard : wanted.shards) shard.string_bytes = 0;
  SentLists sent_lists;
  return GatherDescriptions(frame.context, std::move(wanted), sent_lists,
                            answer);
}

}  // namespace

Agreed<PlannedReads> PlanReads(RestoreFrame& frame, const OpenedStep& opened,
                               const std::vector<Shard>& shards,
                               const std::vector<Tolerance>& tolerances,
                               const std::string& no_shared_memory) {
  PlannedReads planned;
  const auto plan = [&](const ListedRanks& listed) -> StatusOr<RootMessages> {
    BELAY_ASSIGN_OR_RETURN(
        const std::vector<StackedArray> stacked,
        PlanOnRoot(frame, opened, listed, no_shared_memory, planned));
    RootMessages messages{.common =
                              EncodeCommon(opened, planned.plan, stacked)};
    for (const RankReads& reads : planned.plan.ranks) {
      messages.parts.push_back(Encode(reads));
    }
    return messages;
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(const RootMessage message,
                                AskForWanted(frame, shards, plan));
  if (MayConvert(frame.options)) {
    BELAY_ASSIGN_OR_RETURN_AGREED(
        planned.forms,
        ShareForms(frame, shards, tolerances, planned.conversions));
  }
  const std::vector<StackedArray> stacked =
      DecodeCommon(message.common, frame.options, planned);
  WireReader part(message.part);
  part(planned.reads);
  std::vector<WantedBox> wanted;
  for (const Shard& shard : shards) {
    wanted.push_back({.key = shard.key, .box = &shard.box});
  }
  AddLocalReads(stacked, wanted, planned.reads);
  return planned;
}

Agreed<RestoreResult> ReadFlat(RestoreFrame& frame, const OpenedStep& opened,
                               const std::vector<Shard>& shards,
                               const std::vector<Tolerance>& tolerances,
                               const Status& mine) {
  const RestoreSource& source = opened.source;
  if (frame.options.read_sharing == ReadSharing::kOnce ||
      frame.options.primary_replica) {
    return Agree(frame.context,
                 absl::UnimplementedError(absl::StrFormat(
                     "restore \"%s\": for HDF5 files of other programs each "
                     "rank reads its own boxes; leave read_sharing and "
                     "primary_replica at their defaults",
                     source.path)))
        .error();
  }
  RestoreResult result{.path = source.path, .step = source.step};
  result.sharing_note = "each rank reads a file of another program";
  std::vector<StoredForm> forms;
  if (MayConvert(frame.options)) {
    const auto want = [&](const ListedRanks& listed) -> StatusOr<RootMessages> {
      BELAY_RETURN_IF_ERROR(
          OfRestore(opened, WantOnRoot(frame, opened.saved, listed,
                                       Dividing::kNothing, result.conversions)
                                .status()));
      return RootMessages();
    };
    BELAY_RETURN_IF_AGREED(AskForWanted(frame, shards, want));
    BELAY_ASSIGN_OR_RETURN_AGREED(
        forms, ShareForms(frame, shards, tolerances, result.conversions));
  }
  frame.stages.Enter("read");
  Status status = mine;
  std::vector<ConversionLosses> losses(forms.empty() ? 0 : shards.size());
  status.Update(ReadFlatFile(source.path, shards, forms,
                             &result.counters.staged_bytes,
                             frame.options.deadline_seconds, losses));
  BELAY_RETURN_IF_AGREED(Agree(frame.context, status));
  BELAY_RETURN_IF_AGREED(
      TellLostValues(frame, {shards, forms, losses}, result));
  return result;
}

// Stage read of a restore: bytes go from files to all who want them.

namespace {

// Collective; agreed.
Agreed<Nodes> FindNodes(CommContext& context) {
  BELAY_ASSIGN_OR_RETURN_AGREED(const int32_t node, NodeOfRank(context));
  std::string mine(sizeof(node), '\0');
  std::memcpy(mine.data(), &node, sizeof(node));
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> all,
                                AllGather(context, mine));
  std::vector<int32_t> numbers(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    std::memcpy(&numbers[rank], all[rank].data(), sizeof(int32_t));
  }
  return GroupByNode(numbers);
}

// What this rank sends to other nodes, and receives. Collective; agreed.
Agreed<RankTransits> FindTransits(CommContext& context, const RestorePlan& plan,
                                  const Nodes& nodes) {
  if (nodes.ranks.size() == 1) return RankTransits{};
  std::vector<std::string> parts;
  if (context.is_root()) {
    for (const RankTransits& transits : PlanTransits(plan, nodes)) {
      parts.push_back(Encode(transits));
    }
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string part,
                                Scatter(context, parts));
  WireReader in(part);
  RankTransits transits;
  in(transits);
  return transits;
}

// What delivering needs besides the plan.
struct Sharing {
  Nodes nodes;
  int64_t portion_bytes = 0;
  SharedMemory memory;
};

// Collective; agreed.
Agreed<Sharing> PrepareSharing(RestoreFrame& frame) {
  BELAY_ASSIGN_OR_RETURN_AGREED(Nodes nodes, FindNodes(frame.context));
  const int64_t portion_bytes =
      PortionBytes(MostSlots(nodes), frame.options.max_bytes_in_flight);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      SharedMemory memory,
      MakeDeliveryMemory(frame.context, nodes, portion_bytes));
  return Sharing{.nodes = std::move(nodes),
                 .portion_bytes = portion_bytes,
                 .memory = std::move(memory)};
}

// Whether sharing was not asked for, but chosen.
bool MayReadAlone(const RestoreOptions& options) {
  return options.read_sharing == ReadSharing::kAuto && !options.primary_replica;
}

// Reads what others want too, and hands it on. Collective; agreed.
Agreed<> Deliver(CommContext& context, const PlannedReads& planned,
                 const Sharing& sharing, const Status& mine, const ReadJob& job,
                 ReadCounts& counts) {
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const RankTransits transits,
      FindTransits(context, planned.plan, sharing.nodes));
  return DeliverAll(context, mine,
                    {.reading = job,
                     .transits = transits,
                     .nodes = sharing.nodes,
                     .memory = sharing.memory,
                     .portion_bytes = sharing.portion_bytes,
                     .stream_bytes = planned.stream_bytes},
                    counts);
}

// Reads what this rank alone wants, and with `sharing` what others want too;
// agrees on `mine`. Collective; agreed.
Agreed<ReadData> ReadWith(RestoreFrame& frame, const std::vector<Shard>& shards,
                          const PlannedReads& planned,
                          const std::optional<Sharing>& sharing, Status mine) {
  ReadData data;
  const Status has_room = CatchBadAlloc("texts and checksums", [&] {
    for (const TextLength& text : planned.reads.texts) {
      shards[text.shard].text->resize(text.bytes);
    }
    data.registers.assign(planned.checks ? planned.num_blocks : 0, 0);
    data.covered.assign(planned.checks ? planned.num_blocks : 0, 0);
    data.losses.resize(planned.forms.empty() ? 0 : shards.size());
    return absl::OkStatus();
  });
  mine.Update(has_room);
  const ReadJob job{.shards = shards,
                    .reads = planned.reads,
                    .directory = planned.path,
                    .file_names = planned.file_names,
                    .filtered = planned.filtered,
                    .registers = data.registers,
                    .covered = data.covered,
                    .forms = planned.forms,
                    .losses = data.losses,
                    .max_bytes_in_flight = frame.options.max_bytes_in_flight};
  if (has_room.ok()) mine.Update(ReadAll(job, data.counts));
  BELAY_RETURN_IF_AGREED(sharing ? Deliver(frame.context, planned, *sharing,
                                           mine, job, data.counts)
                                 : Agree(frame.context, mine));
  return data;
}

}  // namespace

Agreed<ReadData> ReadPlanned(RestoreFrame& frame, const OpenedStep& opened,
                             const std::vector<Shard>& shards,
                             const std::vector<Tolerance>& tolerances,
                             const Status& mine, PlannedReads& planned,
                             std::string& no_shared_memory) {
  frame.stages.Enter("read");
  std::optional<Sharing> sharing;
  if (planned.stream_bytes > 0) {
    Agreed<Sharing> prepared = PrepareSharing(frame);
    if (prepared.ok()) {
      sharing = *std::move(prepared);
    } else if (MayReadAlone(frame.options)) {
      no_shared_memory = std::string(prepared.status().message());
      BELAY_ASSIGN_OR_RETURN_AGREED(
          planned,
          PlanReads(frame, opened, shards, tolerances, no_shared_memory));
      frame.stages.Enter("read");
    } else {
      return prepared.error();
    }
  }
  return ReadWith(frame, shards, planned, sharing, mine);
}

// The part of a restore that tells the program what is stored.

namespace {

std::string EncodeStep(const OpenedStep& opened) {
  WireWriter out;
  out.PutText(opened.source.path);
  out.Put(opened.source.step);
  out.Put<uint64_t>(opened.saved.arrays.size());
  for (const StoredArray& array : opened.saved.arrays) {
    out.PutText(array.key);
    out.Put(array.dtype);
    out.PutShape(array.shape);
    out.PutText(array.fields);
  }
  return out.Take();
}

StoredStep DecodeStep(std::string_view bytes) {
  WireReader in(bytes);
  StoredStep stored;
  stored.path = in.GetText();
  stored.step = in.Get<int64_t>();
  stored.arrays = in.GetAll<StepArray>([&] {
    StepArray array{.key = std::string(in.GetText())};
    array.dtype = in.Get<DType>();
    array.shape = in.GetShape();
    array.fields = in.GetText();
    return array;
  });
  return stored;
}

}  // namespace

Agreed<> TellOfStep(RestoreFrame& frame, const OpenedStep& opened) {
  frame.stages.Enter("tell");
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes, FromRoot(frame.context, [&] {
        return CatchBadAlloc(
            "the keys of all arrays",
            [&]() -> StatusOr<std::string> { return EncodeStep(opened); });
      }));
  Status mine = CatchBadAlloc("the keys of all arrays", [&] {
    return CatchExceptions(
        [&] { return frame.options.on_open(DecodeStep(bytes)); });
  });
  // It says nothing of the files, which a manager would take for damaged.
  if (absl::IsDataLoss(mine) || absl::IsNotFound(mine) ||
      absl::IsUnimplemented(mine)) {
    mine = absl::FailedPreconditionError(mine.message());
  }
  if (!mine.ok()) {
    mine = Status(mine.code(),
                  absl::StrFormat("restore \"%s\": on_open: %s",
                                  opened.source.path, mine.message()));
  }
  return Agree(frame.context, mine);
}

}  // namespace belay
