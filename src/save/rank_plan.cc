#include "save/rank_plan.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/option_table.h"
#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/text.h"
#include "core/wire.h"
#include "format/paths.h"
#include "mpi/collective.h"
#include "plan/chunks.h"
#include "plan/replica_check.h"
#include "plan/save_planner.h"
#include "state/array_access.h"
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

// --- Listed shards ---

namespace {

size_t CountTextBytes(const Shard& shard) {
  return shard.text == nullptr ? 0 : shard.text->size();
}

}  // namespace

std::optional<std::vector<MovingShard>> FindMoving(
    const HandlerListing& listing, const std::vector<Shard>& shards) {
  if (!listing.is_fixed) return std::nullopt;
  std::vector<MovingShard> moving;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].access == nullptr && shards[i].text == nullptr) continue;
    moving.push_back({.shard = i, .text_bytes = CountTextBytes(shards[i])});
  }
  return moving;
}

bool FindMovedElements(ListedShards& listed) {
  for (const MovingShard& moving : *listed.moving) {
    Shard& shard = listed.shards[moving.shard];
    if (CountTextBytes(shard) != moving.text_bytes) return false;
    if (shard.access == nullptr) continue;
    const DType dtype = shard.dtype;
    const Shape shape = shard.global_shape;
    if (!FindElements(shard).ok()) return false;
    if (shard.dtype != dtype || shard.global_shape != shape) return false;
  }
  return true;
}

// --- Plan ---

namespace {

// The fields of a plan that every rank gets, except files and replicas.
template <typename Archive>
void Fields(Archive& archive, RankPlan& plan) {
  archive(plan.num_arrays, plan.num_files, plan.num_blocks, plan.rounds,
          plan.mean_run_bytes, plan.has_filters, plan.warnings, plan.team,
          plan.is_syncer, plan.node_ranks);
}

// A file without its datasets.
template <typename Archive>
void Fields(Archive& archive, PlannedFile& file) {
  archive(file.name, file.is_creator, file.space, file.rounds);
}

// Returns the datasets of a file. A plan lists datasets in ascending order of
// their files.
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

// Appends what the creator of a file and the hdf5 transfer need to know.
void PutDatasets(const SavePlan& plan, int32_t file,
                 const std::vector<std::string>& paths, WireWriter& out) {
  WireWriter specs;
  specs.Put<uint64_t>(DatasetsOfFile(plan, file).size());
  for (const StoredDataset& dataset : DatasetsOfFile(plan, file)) {
    const StoredArray& array = plan.arrays[dataset.array];
    specs(MakeSpec(DatasetPath(paths[dataset.array], array, dataset), array,
                   dataset));
  }
  out.PutText(specs.bytes());
  for (const StoredDataset& dataset : DatasetsOfFile(plan, file)) {
    out.Put(plan.calls[&dataset - plan.datasets.data()]);
    out.PutShape(dataset.box.offset);
  }
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

// The ranks of one team on one node, as seen by one of them.
struct Neighbours {
  bool is_first = false;
  int32_t ranks = 0;
};

std::vector<Neighbours> FindNeighbours(const std::vector<int32_t>& nodes,
                                       const SavePlan& plan) {
  const auto place = [&](size_t rank) {
    return std::pair(plan.teams[rank], nodes[rank]);
  };
  std::map<std::pair<int32_t, int32_t>, int32_t> ranks;  // per team and node
  std::vector<Neighbours> all(plan.ranks.size());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    all[rank].is_first = ++ranks[place(rank)] == 1;
  }
  for (size_t rank = 0; rank < all.size(); ++rank) {
    all[rank].ranks = ranks[place(rank)];
  }
  return all;
}

// An NFS client writes back whole pages that it has read, and may overwrite
// bytes of other nodes with old ones. belay does not read what it writes, but
// MPI-IO may.
void WarnOfNfs(const std::string& directory, const std::vector<int32_t>& nodes,
               SavePlan& plan) {
  const size_t num_nodes = std::set(nodes.begin(), nodes.end()).size();
  if (plan.file_layout != FileLayout::kShared || num_nodes == 1 ||
      FindFileSystem(directory) != FileSystem::kNfs) {
    return;
  }
  plan.warnings.push_back(
      Cat("\"", directory, "\" is on NFS, and ", num_nodes,
          " nodes write to one file: ",
          OptionSetting(&SaveOptions::file_layout, FileLayout::kPerNode),
          " is safer there, and mostly faster"));
}

// Chooses when space is allocated for a file. Files with several writers get it
// in advance, because HDF5 and MPI-IO may hang on some ranks if the file system
// is full.
Space ChooseSpace(const StoredFile& file, const SavePlan& plan,
                  const SaveOptions& options) {
  if (file.num_writers == 1) return Space::kAsWritten;
  const bool is_positional = options.transfer != Transfer::kHdf5 &&
                             options.transfer != Transfer::kCollective &&
                             !HasFilters(plan.datasets);
  return is_positional ? Space::kReservedOnDisk : Space::kReserved;
}

// Encodes each rank's part of the plan, without the orders.
std::vector<std::string> EncodeParts(const std::vector<int32_t>& nodes,
                                     const SavePlan& plan,
                                     const SaveOptions& options) {
  const std::vector<std::string> paths = ObjectPaths(plan.arrays);
  const std::vector<Neighbours> neighbours = FindNeighbours(nodes, plan);
  RankPlan part;
  part.num_arrays = std::ssize(plan.arrays);
  part.num_files = std::ssize(plan.files);
  part.num_blocks = plan.num_blocks;
  part.rounds = plan.rounds;
  part.mean_run_bytes = MeanRunBytes(plan);
  part.has_filters = HasFilters(plan.datasets);
  part.warnings = plan.warnings;
  std::vector<std::string> parts;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    part.team = plan.teams[rank];
    part.is_syncer = neighbours[rank].is_first;
    part.node_ranks = neighbours[rank].ranks;
    WireWriter out;
    Fields(out, part);
    out(plan.replicas[rank]);
    const auto [first, last] = FindTeamFiles(plan, part.team);
    out.Put(last - first);
    for (int32_t i = first; i < last; ++i) {
      const StoredFile& stored = plan.files[i];
      PlannedFile file{.name = stored.name,
                       .is_creator = stored.creator == static_cast<int>(rank),
                       .space = ChooseSpace(stored, plan, options),
                       .rounds = stored.rounds};
      Fields(out, file);
      const bool knows =
          file.is_creator || options.transfer == Transfer::kHdf5 ||
          (part.has_filters && HasFilters(DatasetsOfFile(plan, i)));
      out.Put(knows);
      if (knows) PutDatasets(plan, i, paths, out);
    }
    parts.push_back(out.Take());
  }
  return parts;
}

void DecodePart(std::string_view bytes, RankPlan& plan) {
  WireReader in(bytes);
  Fields(in, plan);
  in(plan.replicas);
  plan.files.resize(in.Get<int32_t>());
  for (PlannedFile& file : plan.files) {
    Fields(in, file);
    if (!in.Get<bool>()) continue;
    WireReader(in.GetText())(file.datasets);
    for (size_t i = 0; i < file.datasets.size(); ++i) {
      file.calls.push_back(in.Get<int32_t>());
      file.corners.push_back(in.GetShape());
    }
  }
}

// Returns the values of each rank. If ranks have sent equal lists, only the
// first of these ranks has values in the result, because the others add
// nothing.
std::vector<std::vector<ListedValue>> ListValuesByRank(
    const ListedRanks& listed) {
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
                  RankPlan& plan) {
  BELAY_ASSIGN_OR_RETURN(
      plan.global,
      PlanSave(listed, {.file_layout = options.file_layout,
                        .array_layout = options.array_layout,
                        .sharding_policy = options.sharding_policy,
                        .args = options.args,
                        .round_bytes = options.max_bytes_in_flight}));
  plan.saved.file_layout = plan.global.file_layout;
  BELAY_ASSIGN_OR_RETURN(
      plan.saved.values,
      MergeValues(ListValuesByRank(listed), plan.global.arrays,
                  options.check_replicas.value_or(true)));
  return absl::OkStatus();
}

// Moves arrays, datasets and files from the plan to the content of the index,
// or back. There may be very many, so only one of the two has them.
void SwapTables(RankPlan& plan) {
  std::swap(plan.global.arrays, plan.saved.arrays);
  std::swap(plan.global.datasets, plan.saved.datasets);
  std::swap(plan.global.files, plan.saved.files);
}

// Adds the offsets that the files' creators found to the plan and the index.
// Returns the striping of each file. Rank 0 only.
std::vector<Striping> TakeOffsets(const std::vector<std::string>& skeletons,
                                  RankPlan& plan) {
  std::vector<Striping> stripings;
  SavePlan& global = plan.global;
  size_t next = 0;
  // Each rank sends its files in the order of the plan.
  std::vector<WireReader> readers(skeletons.begin(), skeletons.end());
  for (size_t file = 0; file < global.files.size(); ++file) {
    WireReader& in = readers[global.files[file].creator];
    global.files[file].bytes = in.Get<int64_t>();
    in(stripings.emplace_back());
    for (; next < global.datasets.size() &&
           global.datasets[next].file == static_cast<int32_t>(file);
         ++next) {
      global.datasets[next].offset = in.Get<int64_t>();
    }
  }
  for (RankWrites& writes : global.ranks) {
    for (WriteOrder& order : writes.orders) {
      const StoredDataset& dataset = global.datasets[order.dataset];
      if (dataset.filters.empty()) order.extent.offset += dataset.offset;
    }
  }
  return stripings;
}

// Encodes each rank's orders and the stripes of its files. Rank 0 only.
std::vector<std::string> EncodeOrders(const std::vector<Striping>& stripings,
                                      RankPlan& plan) {
  SavePlan& global = plan.global;
  std::vector<std::string> parts;
  for (size_t i = 0; i < global.ranks.size(); ++i) {
    const auto rank = static_cast<int32_t>(i);
    WireWriter out;
    PutPlannedStripes(out, plan.stripes);
    const auto [first, last] = FindTeamFiles(global, global.teams[rank]);
    for (int32_t file = first; file < last; ++file) out(stripings[file]);
    out(TakeWritesByFile(global, rank));
    parts.push_back(out.Take());
  }
  return parts;
}

// Separates the orders for datasets with filters from the others.
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

void DecodeOrders(std::string_view bytes, RankPlan& plan) {
  WireReader in(bytes);
  plan.stripes = GetPlannedStripes(in);
  for (PlannedFile& file : plan.files) in(file.striping);
  std::vector<RankWrites> writes;
  in(writes);
  for (size_t i = 0; i < writes.size(); ++i) {
    plan.files[i].writes = std::move(writes[i]);
    SplitWrites(plan.files[i]);
  }
}

int64_t CountBytes(const std::vector<std::string>& parts) {
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
                         RankPlan& plan) {
  WireWriter out;
  for (const int64_t bytes : mine) out.Put(bytes);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> sizes,
                                Gather(context, out.bytes()));
  if (!context.is_root()) return {};
  std::vector<WireReader> readers(sizes.begin(), sizes.end());
  for (StoredFile& file : plan.saved.files) {
    file.bytes = readers[file.creator].Get<int64_t>();
  }
  return {};
}

Agreed<> PlanTogether(CommContext& context, const std::string& directory,
                      RankShards mine, const SaveOptions& options,
                      SentLists& sent_lists, RankPlan& plan) {
  BELAY_ASSIGN_OR_RETURN_AGREED(mine.node, NodeOfRank(context));
  const auto make_plan = [&](ListedRanks listed) -> StatusOr<RootMessages> {
    BELAY_RETURN_IF_ERROR(PlanOnRoot(listed, options, plan));
    plan.nodes = ListNodes(listed);
    plan.keys_of_some = FindKeysOfSomeRanks(listed);
    listed = {};
    WarnOfNfs(directory, plan.nodes, plan.global);
    RootMessages messages{.parts =
                              EncodeParts(plan.nodes, plan.global, options)};
    context.agreement_bytes += CountBytes(messages.parts);
    SwapTables(plan);
    return messages;
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const RootMessage message,
      GatherDescriptions(context, std::move(mine), sent_lists, make_plan));
  DecodePart(message.part, plan);
  return {};
}

Agreed<> Place(CommContext& context, const std::vector<Striping>& stripings,
               RankPlan& plan) {
  WireWriter out;
  for (size_t i = 0; i < plan.skeletons.size(); ++i) {
    const Skeleton& skeleton = *plan.skeletons[i];
    out.Put(skeleton.file_bytes);
    out(stripings[i]);
    for (int64_t offset : skeleton.offsets) out.Put(offset);
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> places,
                                Gather(context, out.bytes()));
  const auto place = [&]() -> StatusOr<RootMessages> {
    return CatchBadAlloc(
        "the orders of all ranks", [&]() -> StatusOr<RootMessages> {
          SwapTables(plan);
          const std::vector<Striping> found = TakeOffsets(places, plan);
          plan.stripes = CountStripesOfPlan(plan.global, plan.nodes, found);
          plan.work = DescribeWork(plan.global);
          RootMessages messages{.common = {},
                                .parts = EncodeOrders(found, plan)};
          context.agreement_bytes += CountBytes(messages.parts);
          SwapTables(plan);
          return messages;
        });
  };
  context.agreement_bytes += std::ssize(out.bytes());
  BELAY_ASSIGN_OR_RETURN_AGREED(const RootMessage message,
                                FromRootInParts(context, place));
  DecodeOrders(message.part, plan);
  plan.global = {};  // each rank has its orders now
  plan.nodes = {};
  return {};
}

}  // namespace belay
