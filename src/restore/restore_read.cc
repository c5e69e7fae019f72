// Stage read of a restore: bytes go from files to all who want them.

#include <cstring>
#include <optional>
#include <utility>

#include "base/catch_bad_alloc.h"
#include "base/status_macros.h"
#include "io/transfer/deliver.h"
#include "io/transfer/reader.h"
#include "mpi/all_gather.h"
#include "mpi/node.h"
#include "plan/restore/streams.h"
#include "restore/restore_stages.h"

namespace belay {
namespace {

// Collective; agreed.
StatusOr<Nodes> FindNodes(CommContext& context) {
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
StatusOr<RankTransits> FindTransits(CommContext& context,
                                    const RestorePlan& plan,
                                    const Nodes& nodes) {
  if (nodes.ranks.size() == 1) return RankTransits{};
  std::vector<std::string> parts;
  if (context.is_root()) {
    for (const RankTransits& transits : PlanTransits(plan, nodes)) {
      parts.push_back(EncodeRankTransits(transits));
    }
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string part,
                                Scatter(context, parts));
  return DecodeRankTransits(part);
}

// What delivering needs besides the plan.
struct Sharing {
  Nodes nodes;
  int64_t portion_bytes = 0;
  SharedMemory memory;
};

// Collective; agreed.
StatusOr<Sharing> PrepareSharing(RestoreFrame& frame) {
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
Status Deliver(CommContext& context, const PlannedReads& planned,
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
StatusOr<ReadData> ReadWith(RestoreFrame& frame,
                            const std::vector<Shard>& shards,
                            const PlannedReads& planned,
                            const std::optional<Sharing>& sharing,
                            Status mine) {
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

StatusOr<ReadData> ReadPlanned(RestoreFrame& frame, const OpenedStep& opened,
                               const std::vector<Shard>& shards,
                               const std::vector<Tolerance>& tolerances,
                               const Status& mine, PlannedReads& planned,
                               std::string& no_shared_memory) {
  frame.stages.Enter("read");
  std::optional<Sharing> sharing;
  if (planned.stream_bytes > 0) {
    StatusOr<Sharing> prepared = PrepareSharing(frame);
    if (prepared.ok()) {
      sharing = *std::move(prepared);
    } else if (MayReadAlone(frame.options)) {
      no_shared_memory = std::string(prepared.status().message());
      BELAY_ASSIGN_OR_RETURN_AGREED(
          planned,
          PlanReads(frame, opened, shards, tolerances, no_shared_memory));
      frame.stages.Enter("read");
    } else {
      return prepared.status();
    }
  }
  return ReadWith(frame, shards, planned, sharing, mine);
}

}  // namespace belay
