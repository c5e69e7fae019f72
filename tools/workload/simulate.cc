#include "workload/simulate.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/box_tiling.h"
#include "core/list_exchange.h"
#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "plan/choose_ranks.h"
#include "plan/listed_ranks.h"
#include "plan/restore_planner.h"
#include "plan/save_planner.h"
#include "plan/shared_targets.h"
#include "workload/rank_state.h"

namespace belay {
namespace {

// Returns the names of all existing models, for messages.
std::string KnownModels(const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const std::string& folder : folders) {
    for (const auto& entry :
         std::filesystem::directory_iterator(folder, ignored)) {
      names.push_back(entry.path().stem().string());
    }
    if (!names.empty()) break;
  }
  std::sort(names.begin(), names.end());
  return absl::StrJoin(names, ", ");
}

StatusOr<ModelSpec> FindModel(const SimulationOptions& options) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(options.model, ignored)) {
    return ReadModel(options.model);
  }
  for (const std::string& folder : options.model_folders) {
    for (const char* ending : {".tsv", ".hf.tsv"}) {
      const std::string path = absl::StrCat(folder, "/", options.model, ending);
      if (std::filesystem::is_regular_file(path, ignored)) {
        return ReadModel(path);
      }
    }
  }
  return absl::NotFoundError(absl::StrFormat(
      "simulate: no such model (need a file or one of %s, found \"%s\")",
      KnownModels(options.model_folders), options.model));
}

Status CheckNumbers(const SimulationOptions& options) {
  if (options.divide >= 1 && options.ranks_per_node >= 1 &&
      options.pad_vocabulary >= 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "simulate: need at least 1 to divide by, 1 rank per node and 0 for the "
      "vocabulary, found %d, %d and %d",
      options.divide, options.ranks_per_node, options.pad_vocabulary));
}

Status AddRestore(const SimulationOptions& options, const StateOptions& states,
                  const std::vector<RankShards>& saved,
                  Simulation& simulation) {
  StatusOr<Parallelism> to = ParseParallelism(options.to);
  if (!to.ok()) return to.status();
  StateOptions wanted_states = states;
  wanted_states.all_copies = true;
  StatusOr<std::vector<RankShards>> wanted =
      RankStates(simulation.model, *to, wanted_states);
  if (!wanted.ok()) return wanted.status();
  StatusOr<SimulatedRestore> restore = SimulateRestore(
      simulation.save.saved, *wanted, {.sharing = options.read_sharing});
  if (!restore.ok()) return restore.status();
  simulation.to = *to;
  simulation.restore = *std::move(restore);
  simulation.pieces = CountPieces(saved, *wanted);
  return absl::OkStatus();
}

}  // namespace

StatusOr<Simulation> RunSimulation(const SimulationOptions& options) {
  Status checked = CheckNumbers(options);
  if (!checked.ok()) return checked;
  StatusOr<ModelSpec> model = FindModel(options);
  if (!model.ok()) return model.status();
  StatusOr<Parallelism> from = ParseParallelism(options.from);
  if (!from.ok()) return from.status();
  Simulation simulation{.model = Divided(*std::move(model), options.divide),
                        .from = *from};
  const StateOptions states = {.adamw = options.adamw,
                               .ranks_per_node = options.ranks_per_node,
                               .pad_vocabulary = options.pad_vocabulary};
  StatusOr<std::vector<RankShards>> saved =
      RankStates(simulation.model, *from, states);
  if (!saved.ok()) return saved.status();
  StatusOr<SimulatedSave> save = SimulateSave(*saved, options.file_layout);
  if (!save.ok()) return save.status();
  simulation.save = *std::move(save);
  if (options.to.empty()) return simulation;
  Status status = AddRestore(options, states, *saved, simulation);
  if (!status.ok()) return status;
  return simulation;
}

// --- Simulate ---

namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

int64_t BytesOf(const Box& box, DType dtype) {
  return NumElements(box.shape) * IoElementSize(dtype);
}

// Returns the number of runs in a file that hold a part of one of its extents.
int64_t RunsOf(const Box& box, const Extent& extent) {
  return CountRuns(box, box, extent.box);
}

void CountWrites(const SavePlan& plan, SimulatedSave& result) {
  for (const RankWrites& writes : plan.ranks) {
    result.written_bytes.push_back(writes.bytes);
    int64_t requests = 0;
    for (const WriteOrder& order : writes.orders) {
      requests += RunsOf(order.box, order.extent);
    }
    result.requests.push_back(requests);
  }
}

void CountMessages(const std::vector<std::string>& messages,
                   SimulatedSave& result) {
  // Rank 0 sends no message to itself.
  for (size_t rank = 1; rank < messages.size(); ++rank) {
    ++result.planning_messages;
    result.planning_bytes += std::ssize(messages[rank]);
  }
}

void CountOrders(const SavePlan& plan, SimulatedSave& result) {
  std::vector<std::string> orders;
  for (const RankWrites& writes : plan.ranks) {
    orders.push_back(Encode(std::vector<RankWrites>{writes}));
  }
  CountMessages(orders, result);
}

// Removes padding from the wanted boxes: only elements that exist in both
// shapes are read.
void WantAsStored(const SavedCheckpoint& saved,
                  std::vector<RankShards>& wanted) {
  absl::flat_hash_map<std::string_view, const Shape*> shapes;
  for (const StoredArray& array : saved.arrays) {
    shapes.emplace(array.key, &array.shape);
  }
  for (RankShards& rank : wanted) {
    for (ShardInfo& shard : rank.shards) {
      const auto it = shapes.find(shard.key);
      if (it == shapes.end() || *it->second == shard.global_shape ||
          it->second->size() != shard.global_shape.size()) {
        continue;
      }
      shard.global_shape = *it->second;
      for (size_t axis = 0; axis < shard.global_shape.size(); ++axis) {
        const int64_t length = shard.global_shape[axis];
        int64_t& offset = shard.box.offset[axis];
        offset = std::min(offset, length);
        shard.box.shape[axis] =
            std::min(shard.box.shape[axis], length - offset);
      }
    }
  }
}

void CountReads(const std::vector<RankShards>& wanted, const RestorePlan& plan,
                SimulatedRestore& result) {
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    const std::vector<ShardInfo>& shards = wanted[rank].shards;
    int64_t wants = 0, reads = 0, requests = 0, delivered = 0;
    for (const ShardInfo& shard : shards) {
      wants += BytesOf(IoBox(shard), shard.dtype);
    }
    for (const ReadOrder& order : plan.ranks[rank].orders) {
      reads += BytesOf(order.box, shards[order.shard].dtype);
      requests += RunsOf(order.box, order.extent);
    }
    for (const Delivery& delivery : plan.ranks[rank].deliveries) {
      if (delivery.reader == static_cast<int32_t>(rank)) continue;
      const ShardInfo& shard = shards[delivery.shard];
      delivered += BytesOf(*Intersect(delivery.box, IoBox(shard)), shard.dtype);
    }
    result.wanted_bytes.push_back(wants);
    result.read_bytes.push_back(reads);
    result.requests.push_back(requests);
    result.delivered_bytes.push_back(delivered);
  }
}

void CountMessages(const std::vector<RankShards>& wanted,
                   const RestorePlan& plan, const ReadRules& rules,
                   SimulatedRestore& result) {
  std::vector<int32_t> numbers;
  for (const RankShards& rank : wanted) numbers.push_back(rank.node);
  const Nodes nodes = GroupByNode(numbers);
  for (const RankTransits& transits : PlanTransits(plan, nodes)) {
    for (const Transit& send : transits.sends) {
      ++result.messages;
      result.message_bytes += send.bytes;
    }
  }
  if (plan.stream_bytes == 0) return;
  const int64_t portion =
      PortionBytes(MostSlots(nodes), rules.max_bytes_in_flight);
  result.rounds = (plan.stream_bytes + portion - 1) / portion;
}

// The boxes of one array, by key.
using BoxesByKey = absl::flat_hash_map<std::string_view, std::vector<Want>>;

BoxesByKey GroupByKey(const std::vector<RankShards>& ranks) {
  BoxesByKey groups;
  for (const RankShards& rank : ranks) {
    for (const ShardInfo& shard : rank.shards) {
      Box box = IoBox(shard);
      if (!IsEmpty(box)) groups[shard.key].push_back({.box = std::move(box)});
    }
  }
  return groups;
}

int64_t NeededBytes(const SavedCheckpoint& saved,
                    const std::vector<RankShards>& wanted) {
  const BoxesByKey groups = GroupByKey(wanted);
  int64_t bytes = 0;
  for (const StoredArray& array : saved.arrays) {
    const auto it = groups.find(array.key);
    if (it == groups.end()) continue;
    for (const Reading& reading : ReadByEachRank(it->second)) {
      if (reading.counts) bytes += BytesOf(reading.box, array.dtype);
    }
  }
  return bytes;
}

}  // namespace

int64_t Sum(const PerRank& values) {
  return std::accumulate(values.begin(), values.end(), int64_t{0});
}

int64_t Most(const PerRank& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

double Balance(const PerRank& values) {
  const int64_t sum = Sum(values);
  if (sum == 0) return 1;
  return static_cast<double>(Most(values)) *
         static_cast<double>(values.size()) / static_cast<double>(sum);
}

SavedCheckpoint IndexOf(const SavePlan& plan) {
  SavedCheckpoint saved{.file_layout = plan.file_layout,
                        .arrays = plan.arrays,
                        .datasets = plan.datasets,
                        .files = plan.files};
  std::vector<int64_t> ends(plan.files.size(), 0);
  for (StoredDataset& dataset : saved.datasets) {
    int64_t& end = ends[dataset.file];
    dataset.offset = end;
    int64_t elements = NumElements(dataset.box.shape);
    if (!dataset.chunk.empty()) {
      elements = NumElements(ChunkGrid(dataset)) * NumElements(dataset.chunk);
    }
    end += elements * IoElementSize(plan.arrays[dataset.array].dtype);
  }
  std::stable_sort(saved.datasets.begin(), saved.datasets.end(),
                   [](const StoredDataset& a, const StoredDataset& b) {
                     return a.array < b.array;
                   });
  return saved;
}

StatusOr<ListedRanks> TellRoot(const std::vector<RankShards>& ranks,
                               SimulatedSave& counts) {
  const SentLists before;
  std::vector<ListsToSend> to_send;
  std::vector<std::string> announcements, answers;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    Description own = Describe(ranks[rank], static_cast<int>(rank),
                               static_cast<int>(ranks.size()));
    to_send.push_back(
        PrepareLists({std::move(own.shared), std::move(own.own)}));
    announcements.push_back(Announce(to_send.back(), before));
  }
  const std::vector<std::string> asks = AskFor(announcements, before);
  std::string reference;
  if (NeedsReference(asks[0])) {
    reference = MakeReference(to_send[0]);
    CountMessages(std::vector<std::string>(ranks.size(), reference), counts);
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    answers.push_back(Answer(asks[rank], reference, to_send[rank], before));
  }
  CountMessages(announcements, counts);
  CountMessages(asks, counts);
  CountMessages(answers, counts);
  BELAY_ASSIGN_OR_RETURN(const Heard heard, Hear(announcements, asks, answers,
                                                 to_send[0], before));
  return ListRanks(heard);
}

StatusOr<SimulatedSave> SimulateSave(const std::vector<RankShards>& ranks,
                                     FileLayout file_layout) {
  SimulatedSave result;
  BELAY_ASSIGN_OR_RETURN(const ListedRanks listed, TellRoot(ranks, result));
  const Stopwatch watch;
  BELAY_ASSIGN_OR_RETURN(const SavePlan plan,
                         PlanSave(listed, {.file_layout = file_layout}));
  result.plan_seconds = watch.seconds();
  result.num_arrays = static_cast<int64_t>(plan.arrays.size());
  for (const RankShards& rank : ranks) {
    result.num_listed += static_cast<int64_t>(rank.shards.size());
  }
  for (const StoredArray& array : plan.arrays) {
    result.bytes += ArrayBytes(array);
  }
  result.num_files = static_cast<int64_t>(plan.files.size());
  result.num_datasets = static_cast<int64_t>(plan.datasets.size());
  result.num_chunked = std::count_if(
      plan.datasets.begin(), plan.datasets.end(),
      [](const StoredDataset& dataset) { return !dataset.chunk.empty(); });
  result.rounds = plan.rounds;
  CountWrites(plan, result);
  CountOrders(plan, result);
  result.saved = IndexOf(plan);
  return result;
}

StatusOr<SimulatedRestore> SimulateRestore(const SavedCheckpoint& saved,
                                           std::vector<RankShards> wanted,
                                           const ReadRules& rules) {
  WantAsStored(saved, wanted);
  const Stopwatch watch;
  BELAY_ASSIGN_OR_RETURN(const RestorePlan plan,
                         PlanRestore(saved, wanted, rules));
  SimulatedRestore result{.plan_seconds = watch.seconds()};
  result.num_arrays = static_cast<int64_t>(plan.arrays.size());
  result.needed_bytes = NeededBytes(saved, wanted);
  result.sharing = plan.sharing;
  result.note = plan.note;
  CountReads(wanted, plan, result);
  CountMessages(wanted, plan, rules, result);
  return result;
}

int64_t CountPieces(const std::vector<RankShards>& saved,
                    const std::vector<RankShards>& wanted) {
  const BoxesByKey stored = GroupByKey(saved);
  int64_t pieces = 0;
  for (const auto& [key, wants] : GroupByKey(wanted)) {
    const auto it = stored.find(key);
    if (it == stored.end()) continue;
    std::vector<HeldBox> boxes = DistinctBoxes(it->second);
    std::vector<const Box*> pointers;
    for (const HeldBox& held : boxes) pointers.push_back(&held.box);
    const BoxIndex index(pointers);
    for (const Want& want : wants) {
      pieces += static_cast<int64_t>(index.Find(want.box).size());
    }
  }
  return pieces;
}

}  // namespace belay
