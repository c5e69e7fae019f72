// Stage read of a restore: bytes go from files to all who want them.

#include <cstring>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "io/transfer/deliver.h"
#include "io/transfer/reader.h"
#include "mpi/all_gather.h"
#include "mpi/node.h"
#include "plan/restore/streams.h"
#include "restore/restore_run.h"

namespace belay {
namespace {

// Collective; agreed.
StatusOr<Nodes> FindNodes(Team& team) {
  BELAY_ASSIGN_OR_RETURN_AGREED(const int32_t node, NodeOfRank(team));
  std::string mine(sizeof(node), '\0');
  std::memcpy(mine.data(), &node, sizeof(node));
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> all,
                                AllGather(team, mine));
  std::vector<int32_t> numbers(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    std::memcpy(&numbers[rank], all[rank].data(), sizeof(int32_t));
  }
  return GroupByNode(numbers);
}

// What this rank sends to other nodes, and receives. Collective; agreed.
StatusOr<RankTransits> FindTransits(RestoreRun& run, const Nodes& nodes) {
  if (nodes.ranks.size() == 1) return RankTransits{};
  std::vector<std::string> parts;
  if (run.team.is_root()) {
    for (const RankTransits& transits : PlanTransits(run.plan, nodes)) {
      parts.push_back(EncodeRankTransits(transits));
    }
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string part,
                                Scatter(run.team, parts));
  return DecodeRankTransits(part);
}

// What delivering needs besides the plan.
struct Sharing {
  Nodes nodes;
  int64_t portion_bytes = 0;
  SharedMemory memory;
};

// Collective; agreed.
StatusOr<Sharing> PrepareSharing(RestoreRun& run) {
  BELAY_ASSIGN_OR_RETURN_AGREED(Nodes nodes, FindNodes(run.team));
  const int64_t portion_bytes =
      PortionBytes(MostSlots(nodes), run.options.max_bytes_in_flight);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      SharedMemory memory, MakeDeliveryMemory(run.team, nodes, portion_bytes));
  return Sharing{.nodes = std::move(nodes),
                 .portion_bytes = portion_bytes,
                 .memory = std::move(memory)};
}

// Whether sharing was not asked for, but chosen.
bool MayReadAlone(const RestoreOptions& options) {
  return options.read_sharing == ReadSharing::kAuto && !options.primary_replica;
}

// Plans that each rank reads what it wants. Collective; agreed.
Status PlanAlone(RestoreRun& run, const Status& cause) {
  run.no_shared_memory = std::string(cause.message());
  BELAY_RETURN_IF_AGREED(PlanStage(run));
  run.stages.Enter("read");
  return absl::OkStatus();
}

// Reads what others want too, and hands it on. Collective; agreed.
Status Deliver(RestoreRun& run, const Sharing& sharing, const Status& mine,
               const ReadJob& job, ReadCounts& counts) {
  BELAY_ASSIGN_OR_RETURN_AGREED(const RankTransits transits,
                                FindTransits(run, sharing.nodes));
  return DeliverAll(run.team, mine,
                    {.reading = job,
                     .transits = transits,
                     .nodes = sharing.nodes,
                     .memory = sharing.memory,
                     .portion_bytes = sharing.portion_bytes,
                     .stream_bytes = run.stream_bytes},
                    counts);
}

// Reads what this rank alone wants, and with `sharing` what others want too.
// Collective; agreed.
Status ReadPlanned(RestoreRun& run, const std::optional<Sharing>& sharing) {
  for (const TextLength& text : run.reads.texts) {
    run.shards[text.shard].text->resize(text.bytes);
  }
  ReadCounts counts;
  const ReadJob job{.shards = run.shards,
                    .reads = run.reads,
                    .directory = run.source.path,
                    .file_names = run.file_names,
                    .filtered = run.filtered,
                    .registers = run.registers,
                    .covered = run.covered,
                    .forms = run.forms,
                    .max_bytes_in_flight = run.options.max_bytes_in_flight};
  const Status mine = ReadAll(job, counts);
  BELAY_RETURN_IF_AGREED(sharing ? Deliver(run, *sharing, mine, job, counts)
                                 : Agree(run.team, mine));
  run.result.counters.bytes = counts.bytes;
  run.result.counters.delivered_bytes = counts.delivered_bytes;
  run.result.counters.io_calls = counts.io_calls;
  run.result.counters.staged_bytes = counts.staged_bytes;
  return absl::OkStatus();
}

}  // namespace

Status ReadStage(RestoreRun& run) {
  run.stages.Enter("read");
  std::optional<Sharing> sharing;
  if (run.stream_bytes > 0) {
    StatusOr<Sharing> prepared = PrepareSharing(run);
    if (prepared.ok()) {
      sharing = *std::move(prepared);
    } else if (MayReadAlone(run.options)) {
      BELAY_RETURN_IF_AGREED(PlanAlone(run, prepared.status()));
    } else {
      return prepared.status();
    }
  }
  return ReadPlanned(run, sharing);
}

}  // namespace belay
