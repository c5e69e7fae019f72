#include "checkpoint/planned_save.h"

#include <algorithm>
#include <span>

#include "base/status_macros.h"
#include "base/wire.h"
#include "geometry/runs.h"
#include "model/save_planner.h"
#include "parallel/node.h"
#include "store/paths.h"

namespace belay {
namespace {

// The datasets of a file; a plan lists them ascending by file.
std::span<const StoredDataset> DatasetsOfFile(const SavePlan& plan,
                                              int32_t file) {
  const auto begin = std::lower_bound(
      plan.datasets.begin(), plan.datasets.end(), file,
      [](const StoredDataset& dataset, int32_t f) { return dataset.file < f; });
  const auto end = std::upper_bound(
      begin, plan.datasets.end(), file,
      [](int32_t f, const StoredDataset& dataset) { return f < dataset.file; });
  return {begin, end};
}

std::vector<h5::DatasetSpec> SpecsOfFile(const SavePlan& plan, int32_t file,
                                         const std::vector<std::string>& paths,
                                         std::vector<int32_t>& calls) {
  std::vector<h5::DatasetSpec> specs;
  for (const StoredDataset& dataset : DatasetsOfFile(plan, file)) {
    const StoredArray& array = plan.arrays[dataset.array];
    const bool is_text = array.dtype == DType::kString;
    specs.push_back({.path = DatasetPath(paths[dataset.array], array, dataset),
                     .dtype = array.dtype,
                     .string_bytes = array.string_bytes,
                     .shape = is_text ? Shape{} : dataset.box.shape,
                     .chunk = dataset.chunk});
    calls.push_back(plan.calls[&dataset - plan.datasets.data()]);
  }
  return specs;
}

int64_t MeanRunBytes(const SavePlan& plan) {
  int64_t bytes = 0, runs = 0;
  for (const RankWrites& writes : plan.ranks) {
    bytes += writes.bytes;
    for (const WriteOrder& order : writes.orders) {
      runs += CountRuns(order.box, order.box, order.extent.box);
    }
  }
  return runs == 0 ? 0 : bytes / runs;
}

// What rank 0 tells each rank about its part, but for the orders.
std::vector<std::string> EncodeParts(const SavePlan& plan,
                                     const SaveOptions& options) {
  const std::vector<std::string> paths = ObjectPaths(plan.arrays);
  const bool shared = plan.file_layout == FileLayout::kShared;
  const int64_t mean_run_bytes = MeanRunBytes(plan);
  std::vector<std::string> parts;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    int32_t file = plan.ranks[rank].file;
    if (shared && !plan.files.empty()) file = 0;
    const bool creator =
        file >= 0 && plan.files[file].creator == static_cast<int32_t>(rank);
    WireWriter out;
    out.Put<int64_t>(plan.arrays.size());
    out.Put<int64_t>(plan.files.size());
    out.Put(plan.num_blocks);
    out.Put(plan.rounds);
    out.Put(mean_run_bytes);
    out.PutText(file < 0 ? "" : plan.files[file].name);
    out.Put(creator);
    std::vector<int32_t> calls;
    std::vector<h5::DatasetSpec> specs;
    if (file >= 0 && (creator || options.transfer == Transfer::kHdf5)) {
      specs = SpecsOfFile(plan, file, paths, calls);
    }
    out.PutText(EncodeDatasetSpecs(specs));
    for (int32_t count : calls) out.Put(count);
    parts.push_back(out.Take());
  }
  return parts;
}

void DecodePart(std::string_view bytes, PlannedSave& planned) {
  WireReader in(bytes);
  planned.num_arrays = in.Get<int64_t>();
  planned.num_files = in.Get<int64_t>();
  planned.num_blocks = in.Get<int64_t>();
  planned.rounds = in.Get<int64_t>();
  planned.mean_run_bytes = in.Get<int64_t>();
  planned.file_name = in.GetText();
  planned.is_creator = in.Get<bool>();
  planned.datasets = DecodeDatasetSpecs(in.GetText());
  planned.calls.resize(planned.datasets.size());
  for (int32_t& count : planned.calls) count = in.Get<int32_t>();
}

Status PlanOnRoot(const std::vector<std::string>& gathered,
                  const SaveOptions& options, PlannedSave& planned) {
  std::vector<RankShards> ranks;
  for (const std::string& bytes : gathered) {
    ranks.push_back(DecodeRankShards(bytes));
  }
  BELAY_ASSIGN_OR_RETURN(
      planned.plan,
      PlanSave(ranks, {.file_layout = options.file_layout,
                       .array_layout = options.array_layout,
                       .round_bytes = options.max_bytes_in_flight}));
  planned.saved.file_layout = planned.plan.file_layout;
  planned.saved.arrays = planned.plan.arrays;
  planned.saved.datasets = planned.plan.datasets;
  planned.saved.files = planned.plan.files;
  return absl::OkStatus();
}

// Rank 0: puts the places that the creators found into plan and index.
void TakePlaces(const std::vector<std::string>& skeletons,
                PlannedSave& planned) {
  SavePlan& plan = planned.plan;
  size_t next = 0;
  for (size_t file = 0; file < plan.files.size(); ++file) {
    WireReader in(skeletons[plan.files[file].creator]);
    plan.files[file].bytes = in.Get<int64_t>();
    for (; next < plan.datasets.size() &&
           plan.datasets[next].file == static_cast<int32_t>(file);
         ++next) {
      plan.datasets[next].offset = in.Get<int64_t>();
    }
  }
  for (RankWrites& writes : plan.ranks) {
    for (WriteOrder& order : writes.orders) {
      order.extent.offset += plan.datasets[order.dataset].offset;
    }
  }
  planned.saved.datasets = plan.datasets;
  planned.saved.files = plan.files;
}

// Orders count datasets in the whole plan; a rank counts those of its file.
std::vector<std::string> EncodeOrders(SavePlan& plan) {
  std::vector<int32_t> first(plan.files.size(), -1);
  for (size_t i = plan.datasets.size(); i-- > 0;) {
    first[plan.datasets[i].file] = static_cast<int32_t>(i);
  }
  std::vector<std::string> parts;
  for (RankWrites& writes : plan.ranks) {
    for (WriteOrder& order : writes.orders) {
      order.dataset -= first[writes.file];
    }
    parts.push_back(EncodeRankWrites(writes));
  }
  return parts;
}

}  // namespace

StatusOr<PlannedSave> PlanTogether(Team& team,
                                   const std::vector<ShardInfo>& shards,
                                   const SaveOptions& options) {
  RankShards mine{.node = 0, .shards = shards};
  if (options.file_layout == FileLayout::kPerNode) {
    BELAY_ASSIGN_OR_RETURN_AGREED(mine.node, NodeOfRank(team));
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> gathered,
                                Gather(team, EncodeRankShards(mine)));
  PlannedSave planned;
  BELAY_RETURN_IF_AGREED(
      OnRoot(team, [&] { return PlanOnRoot(gathered, options, planned); }));
  std::vector<std::string> parts;
  if (team.is_root()) parts = EncodeParts(planned.plan, options);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string part, Scatter(team, parts));
  DecodePart(part, planned);
  return planned;
}

Status Place(Team& team, const Skeleton& skeleton, PlannedSave& planned) {
  WireWriter out;
  out.Put(skeleton.file_bytes);
  for (int64_t offset : skeleton.offsets) out.Put(offset);
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<std::string> skeletons,
      Gather(team, planned.is_creator ? out.bytes() : std::string()));
  std::vector<std::string> parts;
  if (team.is_root()) {
    TakePlaces(skeletons, planned);
    parts = EncodeOrders(planned.plan);
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string part, Scatter(team, parts));
  planned.writes = DecodeRankWrites(part);
  planned.plan = {};  // of all ranks, and now with them
  return absl::OkStatus();
}

}  // namespace belay
