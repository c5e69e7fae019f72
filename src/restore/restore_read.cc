// Stages plan and read of a restore: decides who reads what, reads, and
// delivers to all ranks that want it.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/program_words.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "mpi/collective.h"
#include "pipeline/listing.h"
#include "plan/local_reads.h"
#include "plan/restore_planner.h"
#include "plan/shared_targets.h"
#include "restore/flat_file.h"
#include "restore/restore_stages.h"
#include "state/stored_answer.h"
#include "storage/reader.h"

namespace belay {
namespace {

// The part of PlannedReads that is equal on all ranks.
template <typename Archive>
void Fields(Archive& archive, PlannedReads& planned) {
  archive(planned.path, planned.step, planned.checks, planned.num_blocks,
          planned.stream_bytes, planned.sharing, planned.note,
          planned.num_arrays, planned.file_names);
}

// Encodes what rank 0 sends to all ranks.
std::string EncodeCommon(const OpenedStep& opened, const RestorePlan& plan,
                         const std::vector<StackedArray>& stacked) {
  PlannedReads planned{.path = opened.source.path,
                       .step = opened.source.step,
                       .checks = opened.saved.has_checksums,
                       .num_blocks = plan.num_blocks,
                       .num_arrays = std::ssize(plan.arrays),
                       .stream_bytes = plan.stream_bytes,
                       .sharing = plan.sharing,
                       .note = plan.note};
  for (const StoredFile& file : opened.saved.files) {
    planned.file_names.push_back(file.name);
  }
  WireWriter common;
  Fields(common, planned);
  common(plan.filtered, stacked);
  return common.Take();
}

// Returns the arrays of which this rank plans its reads.
std::vector<StackedArray> DecodeCommon(std::string_view bytes,
                                       const RestoreOptions& options,
                                       PlannedReads& planned) {
  WireReader in(bytes);
  Fields(in, planned);
  planned.checks = planned.checks && options.checksums;
  std::vector<StackedArray> stacked;
  in(planned.filtered, stacked);
  return stacked;
}

Tolerance MostOf(const RestoreFrame& frame) {
  Tolerance most = MostTolerance(frame.options);
  most.nothing = frame.may_read_nothing;
  return most;
}

// Returns what all ranks want in its stored form, without the parts that ranks
// plan by themselves. Rank 0 only.
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
  // With a primary replica, ranks cannot plan by themselves.
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

// Sends wanted shards to rank 0 and its answer to all ranks. Collective;
// agreed.
Agreed<RootMessage> AskForWanted(
    RestoreFrame& frame, const std::vector<Shard>& shards,
    absl::FunctionRef<StatusOr<RootMessages>(ListedRanks)> answer) {
  frame.stages.Enter("plan");
  RankShards wanted{.node = 0, .shards = DescribeShards(shards)};
  // Present lengths of strings do not matter, and differ between ranks.
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

// Stage read of a restore.

namespace {

// Collective; agreed.
Agreed<Nodes> FindNodes(CommContext& context) {
  BELAY_ASSIGN_OR_RETURN_AGREED(const int32_t node, NodeOfRank(context));
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> all,
                                AllGather(context, Encode(node)));
  std::vector<int32_t> numbers;
  for (const std::string& bytes : all) {
    numbers.push_back(WireReader(bytes).Get<int32_t>());
  }
  return GroupByNode(numbers);
}

// Finds what this rank sends to and receives from other nodes. Collective;
// agreed.
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

// Resources for delivery.
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

// Returns true if the options do not require sharing.
bool MayReadAlone(const RestoreOptions& options) {
  return options.read_sharing == ReadSharing::kAuto && !options.primary_replica;
}

// Reads and delivers what other ranks want too. Collective; agreed.
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

// Reads what only this rank wants, and with `sharing` what others want too.
// Agrees on `mine`. Collective; agreed.
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

// The part of a restore that calls on_open.

template <typename Archive>
void Fields(Archive& archive, StepArray& array) {
  archive(array.key, array.dtype, array.shape, array.fields);
}
template <typename Archive>
void Fields(Archive& archive, StoredStep& step) {
  archive(step.path, step.step, step.arrays);
}

namespace {

StoredStep DescribeStep(const OpenedStep& opened) {
  StoredStep step{.path = opened.source.path, .step = opened.source.step};
  for (const StoredArray& array : opened.saved.arrays) {
    step.arrays.push_back({.key = array.key,
                           .dtype = array.dtype,
                           .shape = array.shape,
                           .fields = array.fields});
  }
  return step;
}

}  // namespace

Agreed<> TellOfStep(RestoreFrame& frame, const OpenedStep& opened) {
  frame.stages.Enter("tell");
  constexpr char kKeys[] = "the keys of all arrays";
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes, FromRoot(frame.context, [&] {
        return CatchBadAlloc(kKeys, [&]() -> StatusOr<std::string> {
          return Encode(DescribeStep(opened));
        });
      }));
  Status mine = CatchBadAlloc(kKeys, [&]() -> Status {
    const std::optional<StoredStep> stored = Decode<StoredStep>(bytes);
    if (!stored) return DifferentCalls();
    return CatchExceptions([&] { return frame.options.on_open(*stored); });
  });
  // A manager must not take the files for damaged because of an error of
  // on_open.
  if (absl::IsDataLoss(mine) || absl::IsNotFound(mine) ||
      absl::IsUnimplemented(mine)) {
    mine = absl::FailedPreconditionError(mine.message());
  }
  if (!mine.ok()) {
    mine = Status(mine.code(),
                  absl::StrFormat("restore \"%s\"%s: %s", opened.source.path,
                                  kOnOpenWord.InProgram(), mine.message()));
  }
  return Agree(frame.context, mine);
}

}  // namespace belay
