#include "save/planned_save.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/text.h"
#include "core/wire.h"
#include "format/paths.h"
#include "mpi/collective.h"
#include "plan/chunks.h"
#include "plan/replica_check.h"
#include "plan/save_planner.h"
#include "storage/file_system.h"

namespace belay {

PlanCache::PlanCache() : plan_(std::make_unique<CachedPlan>()) {}
PlanCache::~PlanCache() = default;
PlanCache::PlanCache(PlanCache&&) noexcept = default;
PlanCache& PlanCache::operator=(PlanCache&&) noexcept = default;

CachedPlan& PlanOf(PlanCache& cache) {
  if (cache.plan_ == nullptr) cache.plan_ = std::make_unique<CachedPlan>();
  return *cache.plan_;
}

// --- Planned save ---

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

// Adds what a creator and the hdf5 transfer need to know of a file.
void PutDatasets(const SavePlan& plan, int32_t file,
                 const std::vector<std::string>& paths, WireWriter& out) {
  WireWriter specs;
  specs.Put<uint64_t>(DatasetsOfFile(plan, file).size());
  for (const StoredDataset& dataset : DatasetsOfFile(plan, file)) {
    const StoredArray& array = plan.arrays[dataset.array];
    PutDatasetSpec(
        specs, SpecOf(DatasetPath(paths[dataset.array], array, dataset), array,
                      dataset));
  }
  out.PutText(specs.bytes());
  for (const StoredDataset& dataset : DatasetsOfFile(plan, file)) {
    out.Put(plan.calls[&dataset - plan.datasets.data()]);
    out.PutShape(dataset.box.offset);
  }
}

bool HasFilters(std::span<const StoredDataset> datasets) {
  return std::any_of(
      datasets.begin(), datasets.end(),
      [](const StoredDataset& dataset) { return !dataset.filters.empty(); });
}

int64_t MeanRunBytes(const SavePlan& plan) {
  int64_t bytes = 0, runs = 0;
  for (const RankWrites& writes : plan.ranks) {
    for (const WriteOrder& order : writes.orders) {
      const StoredDataset& dataset = plan.datasets[order.dataset];
      if (!dataset.filters.empty()) continue;
      bytes += NumElements(order.box.shape) *
               IoElementSize(plan.arrays[dataset.array].dtype);
      runs += CountRuns(order.box, order.box, order.extent.box);
    }
  }
  return runs == 0 ? 0 : bytes / runs;
}

// A rank among those of its team on its node.
struct Neighbours {
  bool is_first = false;
  int32_t ranks = 0;
};

std::vector<Neighbours> FindNeighbours(const std::vector<int32_t>& nodes,
                                       const SavePlan& plan) {
  const auto place = [&](size_t rank) {
    return std::pair(plan.teams[rank], nodes[rank]);
  };
  std::map<std::pair<int32_t, int32_t>, int32_t> ranks;  // of a team and a node
  std::vector<Neighbours> all(plan.ranks.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    all[rank].is_first = ++ranks[place(rank)] == 1;
  }
  for (size_t rank = 0; rank < all.size(); ++rank) {
    all[rank].ranks = ranks[place(rank)];
  }
  return all;
}

// Clients of NFS write whole pages if they have read them, bytes of other nodes
// with them. belay does not read what it writes; what MPI-IO does, and what a
// mount option makes of it, is not known.
void WarnOfNfs(const std::string& directory, const std::vector<int32_t>& nodes,
               SavePlan& plan) {
  const size_t num_nodes = std::set(nodes.begin(), nodes.end()).size();
  if (plan.file_layout != FileLayout::kShared || num_nodes == 1 ||
      !IsOnNfs(directory)) {
    return;
  }
  plan.warnings.push_back(
      Cat("\"", directory, "\" is on NFS, and ", num_nodes,
          " nodes write to one file: FileLayout::kPerNode is safer there, and "
          "mostly faster"));
}

// When a file gets its space. HDF5 and MPI-IO do not return on all ranks from a
// file that is full.
Space SpaceOf(const StoredFile& file, const SavePlan& plan,
              const SaveOptions& options) {
  if (file.num_writers == 1) return Space::kAsWritten;
  const bool is_positional = options.transfer != Transfer::kHdf5 &&
                             options.transfer != Transfer::kCollective &&
                             !HasFilters(plan.datasets);
  return is_positional ? Space::kReservedOnDisk : Space::kReserved;
}

// What rank 0 tells each rank about its part, but for the orders.
std::vector<std::string> EncodeParts(const SavePlan& plan,
                                     const std::vector<Neighbours>& neighbours,
                                     const SaveOptions& options) {
  const std::vector<std::string> paths = ObjectPaths(plan.arrays);
  const int64_t mean_run_bytes = MeanRunBytes(plan);
  const bool has_filters = HasFilters(plan.datasets);
  std::vector<std::string> parts;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    WireWriter out;
    out.Put<int64_t>(plan.arrays.size());
    out.Put<int64_t>(plan.files.size());
    out.Put(plan.num_blocks);
    out.Put(plan.rounds);
    out.Put(mean_run_bytes);
    out.Put(has_filters);
    out.Put<uint64_t>(plan.warnings.size());
    for (const std::string& warning : plan.warnings) out.PutText(warning);
    PutReplicaCheck(out, plan.replicas[rank]);
    out.Put(plan.teams[rank]);
    out.Put(neighbours[rank].is_first);
    out.Put(neighbours[rank].ranks);
    const auto [first, last] = FilesOfTeam(plan, plan.teams[rank]);
    out.Put(last - first);
    for (int32_t file = first; file < last; ++file) {
      const bool creator =
          plan.files[file].creator == static_cast<int32_t>(rank);
      const bool knows =
          creator || options.transfer == Transfer::kHdf5 ||
          (has_filters && HasFilters(DatasetsOfFile(plan, file)));
      out.PutText(plan.files[file].name);
      out.Put(creator);
      out.Put(SpaceOf(plan.files[file], plan, options));
      out.Put<int64_t>(plan.files[file].rounds);
      out.Put(knows);
      if (knows) PutDatasets(plan, file, paths, out);
    }
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
  planned.has_filters = in.Get<bool>();
  planned.warnings.resize(in.Get<uint64_t>());
  for (std::string& warning : planned.warnings) warning = in.GetText();
  planned.replicas = GetReplicaCheck(in);
  planned.team = in.Get<int32_t>();
  planned.is_syncer = in.Get<bool>();
  planned.node_ranks = in.Get<int32_t>();
  planned.files.resize(in.Get<int32_t>());
  for (PlannedFile& file : planned.files) {
    file.name = in.GetText();
    file.is_creator = in.Get<bool>();
    file.space = in.Get<Space>();
    file.rounds = in.Get<int64_t>();
    if (!in.Get<bool>()) continue;
    file.datasets = DecodeDatasetSpecs(in.GetText());
    for (size_t i = 0; i < file.datasets.size(); ++i) {
      file.calls.push_back(in.Get<int32_t>());
      file.corners.push_back(in.GetShape());
    }
  }
}

// The values of each rank; those that several have told alike only of the first
// of them, as the others add nothing.
std::vector<std::vector<ListedValue>> ValuesOf(const ListedRanks& listed) {
  std::vector<std::vector<ListedValue>> values;
  std::vector<bool> is_taken(listed.lists.size());
  for (const RankLists& rank : listed.ranks) {
    values.emplace_back();
    if (is_taken[rank.shared]) continue;
    is_taken[rank.shared] = true;
    values.back() = listed.lists[rank.shared].values;
  }
  return values;
}

Status PlanOnRoot(const ListedRanks& listed, const SaveOptions& options,
                  PlannedSave& planned) {
  BELAY_ASSIGN_OR_RETURN(
      planned.plan,
      PlanSave(listed, {.file_layout = options.file_layout,
                        .array_layout = options.array_layout,
                        .sharding_policy = options.sharding_policy,
                        .args = options.args,
                        .round_bytes = options.max_bytes_in_flight}));
  planned.saved.file_layout = planned.plan.file_layout;
  BELAY_ASSIGN_OR_RETURN(planned.saved.values,
                         MergeValues(ValuesOf(listed), planned.plan.arrays,
                                     options.check_replicas.value_or(true)));
  return absl::OkStatus();
}

// Moves arrays, datasets and files from the plan to what the index says, or
// back, whichever has them: there may be very many, so only one of them does.
void SwapTables(PlannedSave& planned) {
  std::swap(planned.plan.arrays, planned.saved.arrays);
  std::swap(planned.plan.datasets, planned.saved.datasets);
  std::swap(planned.plan.files, planned.saved.files);
}

// Rank 0: puts the places that the creators found into plan and index. Returns
// how the files are striped.
std::vector<Striping> TakePlaces(const std::vector<std::string>& skeletons,
                                 PlannedSave& planned) {
  std::vector<Striping> stripings;
  SavePlan& plan = planned.plan;
  size_t next = 0;
  // A rank tells of its files one after the other, in their order.
  std::vector<WireReader> readers(skeletons.begin(), skeletons.end());
  for (size_t file = 0; file < plan.files.size(); ++file) {
    WireReader& in = readers[plan.files[file].creator];
    plan.files[file].bytes = in.Get<int64_t>();
    stripings.push_back(GetStriping(in));
    for (; next < plan.datasets.size() &&
           plan.datasets[next].file == static_cast<int32_t>(file);
         ++next) {
      plan.datasets[next].offset = in.Get<int64_t>();
    }
  }
  for (RankWrites& writes : plan.ranks) {
    for (WriteOrder& order : writes.orders) {
      const StoredDataset& dataset = plan.datasets[order.dataset];
      if (dataset.filters.empty()) order.extent.offset += dataset.offset;
    }
  }
  return stripings;
}

// Rank 0: of each rank its orders, and the stripes into which they go.
std::vector<std::string> EncodeOrders(const std::vector<Striping>& stripings,
                                      PlannedSave& planned) {
  SavePlan& plan = planned.plan;
  std::vector<std::string> parts;
  for (size_t i = 0; i < plan.ranks.size(); ++i) {
    const auto rank = static_cast<int32_t>(i);
    WireWriter out;
    PutPlannedStripes(out, planned.stripes);
    const auto [first, last] = FilesOfTeam(plan, plan.teams[rank]);
    for (int32_t file = first; file < last; ++file) {
      PutStriping(out, stripings[file]);
    }
    parts.push_back(
        Cat(out.bytes(), EncodeRankWrites(TakeWritesByFile(plan, rank))));
  }
  return parts;
}

// Takes the orders for datasets with filters out of those of a file.
void SplitWrites(PlannedFile& file) {
  if (!file.HasFilters()) return;
  RankWrites all = std::move(file.writes);
  file.writes = {};
  for (WriteOrder& order : all.orders) {
    const h5::DatasetSpec& spec = file.datasets[order.dataset];
    RankWrites& writes = spec.filters.empty() ? file.writes : file.filtered;
    writes.bytes += NumElements(order.box.shape) * IoElementSize(spec.dtype);
    writes.orders.push_back(std::move(order));
  }
}

void DecodeOrders(std::string_view bytes, PlannedSave& planned) {
  WireReader in(bytes);
  planned.stripes = GetPlannedStripes(in);
  for (PlannedFile& file : planned.files) file.striping = GetStriping(in);
  std::vector<RankWrites> writes = DecodeRankWrites(in.Rest());
  for (size_t i = 0; i < writes.size(); ++i) {
    planned.files[i].writes = std::move(writes[i]);
    SplitWrites(planned.files[i]);
  }
}

int64_t SizeOf(const std::vector<std::string>& parts) {
  int64_t size = 0;
  for (const std::string& part : parts) size += std::ssize(part);
  return size;
}

}  // namespace

bool PlannedFile::HasFilters() const {
  return std::any_of(
      datasets.begin(), datasets.end(),
      [](const h5::DatasetSpec& spec) { return !spec.filters.empty(); });
}

bool PlannedFile::IsLossless() const {
  return std::all_of(
      datasets.begin(), datasets.end(),
      [](const h5::DatasetSpec& spec) { return AreLossless(spec.filters); });
}

Agreed<> GatherFileSizes(CommContext& context, const std::vector<int64_t>& mine,
                         PlannedSave& planned) {
  WireWriter out;
  for (const int64_t bytes : mine) out.Put(bytes);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> sizes,
                                Gather(context, out.bytes()));
  if (!context.is_root()) return {};
  std::vector<WireReader> readers(sizes.begin(), sizes.end());
  for (StoredFile& file : planned.saved.files) {
    file.bytes = readers[file.creator].Get<int64_t>();
  }
  return {};
}

Agreed<PlannedSave> PlanTogether(CommContext& context,
                                 const std::string& directory, RankShards mine,
                                 const SaveOptions& options,
                                 SentLists& sent_lists) {
  BELAY_ASSIGN_OR_RETURN_AGREED(mine.node, NodeOfRank(context));
  PlannedSave planned;
  const auto plan = [&](ListedRanks listed) -> StatusOr<RootMessages> {
    BELAY_RETURN_IF_ERROR(PlanOnRoot(listed, options, planned));
    planned.nodes = NodesOf(listed);
    planned.keys_of_some = FindKeysOfSomeRanks(listed);
    listed = {};
    WarnOfNfs(directory, planned.nodes, planned.plan);
    RootMessages messages{
        .parts =
            EncodeParts(planned.plan,
                        FindNeighbours(planned.nodes, planned.plan), options)};
    context.agreement_bytes += SizeOf(messages.parts);
    SwapTables(planned);
    return messages;
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const RootMessage message,
      GatherDescriptions(context, std::move(mine), sent_lists, plan));
  DecodePart(message.part, planned);
  return planned;
}

Agreed<> Place(
    CommContext& context,
    const std::vector<std::shared_ptr<const SkeletonImage>>& skeletons,
    const std::vector<Striping>& stripings, PlannedSave& planned) {
  WireWriter out;
  for (size_t i = 0; i < skeletons.size(); ++i) {
    const Skeleton& skeleton = skeletons[i]->skeleton;
    out.Put(skeleton.file_bytes);
    PutStriping(out, stripings[i]);
    for (int64_t offset : skeleton.offsets) out.Put(offset);
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> places,
                                Gather(context, out.bytes()));
  const auto place = [&]() -> StatusOr<RootMessages> {
    return CatchBadAlloc(
        "the orders of all ranks", [&]() -> StatusOr<RootMessages> {
          SwapTables(planned);
          const std::vector<Striping> found = TakePlaces(places, planned);
          planned.stripes =
              CountStripesOfPlan(planned.plan, planned.nodes, found);
          planned.work = WorkOfRanks(planned.plan);
          RootMessages messages{.common = {},
                                .parts = EncodeOrders(found, planned)};
          context.agreement_bytes += SizeOf(messages.parts);
          SwapTables(planned);
          return messages;
        });
  };
  context.agreement_bytes += std::ssize(out.bytes());
  BELAY_ASSIGN_OR_RETURN_AGREED(const RootMessage message,
                                FromRootInParts(context, place));
  DecodeOrders(message.part, planned);
  planned.plan = {};  // of all ranks, and now with them
  planned.nodes = {};
  return {};
}

}  // namespace belay
