#include "plan/save_planner.h"

#include <exception>
#include <iterator>
#include <numeric>
#include <set>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "core/integers.h"
#include "core/status_macros.h"
#include "plan/chunks.h"
#include "plan/replica_check.h"
#include "plan/shards.h"
#include "plan/stored_arrays.h"

namespace belay {
namespace {

StoredDataset MakeDataset(const WritePiece& piece) {
  return {.array = piece.array,
          .file = piece.file,
          .box = piece.box,
          .group = piece.group,
          .task = piece.rank};
}

Box Around(const Box& a, const Box& b) {
  Box box = a;
  for (size_t i = 0; i < a.offset.size(); ++i) {
    box.offset[i] = std::min(a.offset[i], b.offset[i]);
    box.shape[i] =
        std::max(a.offset[i] + a.shape[i], b.offset[i] + b.shape[i]) -
        box.offset[i];
  }
  return box;
}

// Returns a dataset that encloses the pieces of one array in one file.
StoredDataset Joined(std::span<const WritePiece> pieces, bool& fills_box) {
  StoredDataset dataset = MakeDataset(pieces[0]);
  int64_t elements = 0;
  for (const WritePiece& piece : pieces) {
    dataset.box = Around(dataset.box, piece.box);
    elements += NumElements(piece.box.shape);
    if (piece.rank != dataset.task) dataset.task = -1;
  }
  fills_box = elements == NumElements(dataset.box.shape);
  return dataset;
}

Shape ChooseChunk(const StoredDataset& dataset, int64_t element_size,
                  std::span<const WritePiece> pieces) {
  std::vector<Box> boxes;  // relative to the dataset's corner
  for (const WritePiece& piece : pieces) {
    boxes.push_back(FromCorner(piece.box, dataset.box.offset));
  }
  std::vector<const Box*> pointers;
  for (const Box& box : boxes) pointers.push_back(&box);
  return ChooseChunkShape(dataset.box.shape, element_size, pointers);
}

// Records which datasets are written by a single rank. Skips arrays with a
// layout.
void NoteWriters(const std::vector<WritePiece>& pieces,
                 const std::vector<int32_t>& of_piece, SavePlan& plan) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!plan.arrays[pieces[i].array].layout.empty()) continue;
    plan.datasets[of_piece[i]].task = pieces[i].rank;  // the last rank remains
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    StoredDataset& dataset = plan.datasets[of_piece[i]];
    if (dataset.task != pieces[i].rank) dataset.task = -1;
  }
}

// The next two functions add the datasets of all files to the plan, ascending
// by file, array and box, and return the dataset number of each piece.

// Adds one dataset per array, all in one file. Records which rank writes a
// dataset alone, unless the layout is kCanonical, which must not depend on the
// ranks.
std::vector<int32_t> AddWholeDatasets(const std::vector<ArrayBoxes>& arrays,
                                      const std::vector<WritePiece>& pieces,
                                      ArrayLayout layout, SavePlan& plan) {
  std::vector<int32_t> of_array(arrays.size(), -1);
  for (const ArrayBoxes& array : arrays) {
    if (array.boxes.empty()) continue;
    const Shape shape = IoShape(plan.arrays[array.array]);
    StoredDataset dataset{.array = array.array, .box = WholeBox(shape)};
    if (layout == ArrayLayout::kAuto) {
      dataset.chunk =
          ChooseChunkShape(shape, array.element_size, GetBoxes(array.boxes));
    }
    of_array[array.array] = static_cast<int32_t>(plan.datasets.size());
    plan.datasets.push_back(std::move(dataset));
  }
  std::vector<int32_t> of_piece;
  for (const WritePiece& piece : pieces) {
    of_piece.push_back(of_array[piece.array]);
  }
  if (layout != ArrayLayout::kCanonical) NoteWriters(pieces, of_piece, plan);
  return of_piece;
}

// Adds one dataset per array and file if the files are shared and the pieces of
// that array in that file fill a box, else one per piece. Sorts `pieces`.
std::vector<int32_t> AddDatasetsOfFiles(std::vector<WritePiece>& pieces,
                                        ArrayLayout layout, SavePlan& plan) {
  const bool joins = plan.file_layout == FileLayout::kShared;
  std::sort(pieces.begin(), pieces.end(),
            [](const WritePiece& a, const WritePiece& b) {
              return std::tie(a.file, a.array, a.box.offset) <
                     std::tie(b.file, b.array, b.box.offset);
            });
  std::vector<int32_t> of_piece;
  for (size_t begin = 0, end = 0; begin < pieces.size(); begin = end) {
    while (end < pieces.size() && pieces[end].file == pieces[begin].file &&
           pieces[end].array == pieces[begin].array) {
      ++end;
    }
    const auto same = std::span(pieces).subspan(begin, end - begin);
    bool fills_box = false;
    StoredDataset dataset;
    if (joins) dataset = Joined(same, fills_box);
    if (fills_box && layout == ArrayLayout::kAuto) {
      const DType dtype = plan.arrays[dataset.array].dtype;
      dataset.chunk = ChooseChunk(dataset, IoElementSize(dtype), same);
    }
    if (fills_box) plan.datasets.push_back(std::move(dataset));
    for (const WritePiece& piece : same) {
      if (!fills_box) plan.datasets.push_back(MakeDataset(piece));
      of_piece.push_back(static_cast<int32_t>(plan.datasets.size()) - 1);
    }
  }
  return of_piece;
}

}  // namespace

Box FromCorner(Box box, const Shape& corner) {
  for (size_t i = 0; i < corner.size(); ++i) box.offset[i] -= corner[i];
  return box;
}

// --- Groups and files ---

namespace {

// Returns the pieces by rank, in the order in which the rank listed them.
StatusOr<std::vector<TaskPieces>> DescribePieces(
    const ListedRanks& ranks, const SavePlan& plan,
    const std::vector<WritePiece>& pieces) {
  std::vector<const WritePiece*> sorted;
  for (const WritePiece& piece : pieces) sorted.push_back(&piece);
  std::sort(sorted.begin(), sorted.end(),
            [](const WritePiece* a, const WritePiece* b) {
              return std::tie(a->rank, a->shard, a->box.offset) <
                     std::tie(b->rank, b->shard, b->box.offset);
            });
  std::vector<TaskPieces> described;
  RankShards listed;
  int32_t rank = -1;  // the rank of `listed`
  for (const WritePiece* piece : sorted) {
    if (piece->rank != rank) {
      rank = piece->rank;
      listed = GetRankShards(ranks, rank);
      described.emplace_back();
    }
    const StoredArray& array = plan.arrays[piece->array];
    const ShardInfo& info = listed.shards[piece->shard];
    DeviceSpec device =
        DefaultDevice(listed.job, rank, info.layout, info.replica);
    if (!info.device.empty()) {
      BELAY_ASSIGN_OR_RETURN(const DeviceSpec own, ParseDevice(info.device));
      device = MergeDevice(device, own);
    }
    described.back().push_back(
        {.key = array.key,
         .dtype = array.dtype,
         .global_shape = array.shape,
         .box = array.dtype == DType::kString ? Box{} : piece->box,
         .device = std::move(device),
         .bytes = NumElements(piece->box.shape) * IoElementSize(array.dtype),
         .node = listed.node});
  }
  return described;
}

// Asks the policy for the groups of each rank, cuts `pieces` accordingly and
// numbers their groups. The policy sees the pieces in the order in which the
// rank listed its shards, with their devices. Its warnings are added to the
// plan.
// Errors: those of ApplyPolicy.
Status GroupPieces(const ShardingPolicy& policy, const ListedRanks& ranks,
                   SavePlan& plan, std::vector<WritePiece>& pieces) {
  BELAY_ASSIGN_OR_RETURN(const std::vector<TaskPieces> listed,
                         DescribePieces(ranks, plan, pieces));
  BELAY_ASSIGN_OR_RETURN(const std::vector<Grouping> made,
                         ApplyToTasks(policy, listed));
  absl::flat_hash_map<std::pair<int32_t, size_t>, std::vector<WritePiece>>
      by_rank;  // by rank and array
  for (const WritePiece& piece : pieces) {
    by_rank[{piece.rank, piece.array}].push_back(piece);
  }
  std::vector<WritePiece> parts;
  const auto add = [&](const ShardableTensor& tensor, size_t group) {
    const size_t array = FirstFrom(plan.arrays, tensor.key);
    const Box box = tensor.dtype == DType::kString
                        ? WholeBox(IoShape(plan.arrays[array]))
                        : tensor.box;
    for (const WritePiece& piece :
         by_rank.at({tensor.device.task.value(), array})) {
      const std::optional<Box> part = Intersect(piece.box, box);
      if (!part) continue;
      parts.push_back(piece);
      parts.back().box = *part;
      parts.back().group = static_cast<int32_t>(group);
    }
  };
  for (const Grouping& grouping : made) {
    for (size_t i = 0; i < grouping.groups.size(); ++i) {
      for (const ShardableTensor& one : grouping.groups[i]) add(one, i);
    }
    plan.warnings.insert(plan.warnings.end(), grouping.warnings.begin(),
                         grouping.warnings.end());
  }
  pieces = std::move(parts);
  return absl::OkStatus();
}

// Ranks that write files together.
struct FileTeam {
  std::vector<int32_t> creators;
  std::vector<int32_t> writers;  // the number of writers of each group
};

// Assigns each writing rank to a team.
std::vector<FileTeam> MakeTeams(const std::vector<int32_t>& nodes,
                                const std::vector<WritePiece>& pieces,
                                SavePlan& plan) {
  std::vector<std::vector<bool>> groups(nodes.size());  // of each rank
  for (const WritePiece& piece : pieces) {
    std::vector<bool>& mine = groups[piece.rank];
    const auto group = static_cast<size_t>(piece.group);
    if (group >= mine.size()) mine.resize(group + 1, false);
    mine[group] = true;
  }
  const bool shared = plan.file_layout == FileLayout::kShared;
  std::vector<FileTeam> teams;
  absl::flat_hash_map<int32_t, int32_t> numbers;
  plan.teams.assign(nodes.size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (groups[i].empty()) continue;
    const auto rank = static_cast<int32_t>(i);
    const int32_t key = shared                                     ? 0
                        : plan.file_layout == FileLayout::kPerNode ? nodes[i]
                                                                   : rank;
    const auto [it, fresh] = numbers.try_emplace(key, teams.size());
    if (fresh) teams.emplace_back();
    FileTeam& team = teams[it->second];
    plan.teams[i] = it->second;
    if (!shared) team.creators.push_back(rank);
    const size_t num_groups = std::max(team.writers.size(), groups[i].size());
    team.writers.resize(num_groups, 0);
    for (size_t k = 0; k < groups[i].size(); ++k) {
      team.writers[k] += groups[i][k] ? 1 : 0;
    }
  }
  if (!shared || teams.empty()) return teams;
  // All ranks take part, even those that write nothing. Rank 0 also creates the
  // index, so its turn comes last.
  plan.teams.assign(nodes.size(), 0);
  teams[0].creators.resize(nodes.size(), 0);
  std::iota(teams[0].creators.begin(), teams[0].creators.end() - 1, 1);
  return teams;
}

}  // namespace

bool MakesOneGroup(const ShardingPolicy& policy) {
  return policy.group.target<GroupByTask>() != nullptr;
}

Status NumberFiles(const std::vector<int32_t>& nodes, SavePlan& plan,
                   std::vector<WritePiece>& pieces) {
  const std::vector<FileTeam> teams = MakeTeams(nodes, pieces, plan);
  constexpr int64_t kMaxFiles = int64_t{1} << 20;  // per directory
  int64_t files = 0;
  for (const FileTeam& team : teams) {
    files += static_cast<int64_t>(team.writers.size());
  }
  if (files > kMaxFiles) {
    return absl::InvalidArgumentError(
        Cat("plan: the groups of the sharding policy make too many data files ",
            "(need at most ", kMaxFiles, ", found ", files, ")"));
  }
  std::vector<int32_t> first_file;
  for (size_t team = 0; team < teams.size(); ++team) {
    first_file.push_back(static_cast<int32_t>(plan.files.size()));
    const std::vector<int32_t>& creators = teams[team].creators;
    for (size_t i = 0; i < teams[team].writers.size(); ++i) {
      plan.files.push_back({.creator = creators[i % creators.size()],
                            .num_writers = teams[team].writers[i],
                            .team = static_cast<int32_t>(team)});
    }
  }
  for (size_t i = 0; i < plan.files.size(); ++i) {
    plan.files[i].name =
        absl::StrFormat("data_%05d_of_%05d.h5", i, plan.files.size());
  }
  for (WritePiece& piece : pieces) {
    piece.file = first_file[plan.teams[piece.rank]] + piece.group;
  }
  return absl::OkStatus();
}

// --- Keys of some ranks ---

namespace {

using SortedKeys = std::vector<std::string_view>;

// Returns the keys that must be on all ranks, ascending.
SortedKeys SortKeys(const ShardList& list) {
  SortedKeys keys;
  for (const ListedShard& shard : list.shards) {
    if (shard.info.on_all_ranks) keys.push_back(shard.info.key);
  }
  // Other values consist of arrays, which are listed as shards.
  for (const ListedValue& value : list.values) {
    const bool is_plain = value.parts.empty() && !IsFormKey(value.key) &&
                          IsStandardTypestr(value.typestr);
    if (is_plain) keys.push_back(value.key);
  }
  std::ranges::sort(keys);
  return keys;
}

SortedKeys KeysNotIn(const SortedKeys& keys, const SortedKeys& others) {
  SortedKeys rest;
  std::ranges::set_difference(keys, others, std::back_inserter(rest));
  return rest;
}

// Returns how the keys of a rank differ from those of rank 0, or "".
std::string DescribeDifference(size_t rank, const SortedKeys& mine,
                               const SortedKeys& of_root) {
  const SortedKeys lacks = KeysNotIn(of_root, mine);
  const SortedKeys more = KeysNotIn(mine, of_root);
  if (lacks.empty() && more.empty()) return "";
  std::string text = lacks.empty() ? Cat("rank ", rank, " has \"", more.front(),
                                         "\", which rank 0 lacks")
                                   : Cat("rank ", rank, " lacks \"",
                                         lacks.front(), "\", which rank 0 has");
  const size_t others = lacks.size() + more.size() - 1;
  if (others > 0) text += Cat(", and so for ", others, " other keys");
  return text;
}

}  // namespace

std::string FindKeysOfSomeRanks(const ListedRanks& listed) {
  const int32_t first = listed.ranks.empty() ? 0 : listed.ranks[0].shared;
  SortedKeys of_root;
  std::vector<bool> is_known(listed.lists.size());
  for (size_t rank = 0; rank < listed.ranks.size(); ++rank) {
    // Shared lists do not depend on the rank: equal values make equal lists.
    const int32_t list = listed.ranks[rank].shared;
    if (list == first || is_known[list]) continue;
    is_known[list] = true;
    if (of_root.empty()) of_root = SortKeys(listed.lists[first]);
    std::string text =
        DescribeDifference(rank, SortKeys(listed.lists[list]), of_root);
    if (!text.empty()) return text;
  }
  return "";
}

// --- Save planner ---

namespace {

constexpr size_t kReplicasShown = 8;

Status CheckKey(const HeldShard& first) {
  // Each part is a group in the file.
  const std::string& key = first.info->key;
  const int64_t parts = CountKeyParts(key);
  if (parts > kMaxKeyParts) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "plan \"%s\": a key has too many parts between \"/\" (need at most %d, "
        "found %d; listed by rank %d)",
        absl::CEscape(Shortened(key, 100)), kMaxKeyParts, parts, first.rank));
  }
  if (!key.empty() && key.find('\0') == std::string::npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("plan \"%s\": a key must not be empty or hold a NUL "
                      "byte (listed by rank %d)",
                      absl::CEscape(key), first.rank));
}

// Returns the maximum number of elements of a part per round, limited by bytes
// and by runs.
int64_t MaxElements(const Box& part, const Extent& extent, int64_t element_size,
                    int64_t round_bytes) {
  const int64_t run = NumElements(part.shape) /
                      std::max<int64_t>(1, CountRuns(part, part, extent.box));
  const int64_t by_bytes = round_bytes / element_size;
  const int64_t by_runs =
      run > by_bytes / kMaxRunsPerRound + 1 ? by_bytes : run * kMaxRunsPerRound;
  return std::max<int64_t>(1, std::min(by_bytes, by_runs));
}

// Converts a box of chunks to a box of elements.
Box FindElements(const StoredDataset& dataset, const Box& chunks) {
  Box box = chunks;
  for (size_t i = 0; i < dataset.chunk.size(); ++i) {
    box.offset[i] = dataset.box.offset[i] + chunks.offset[i] * dataset.chunk[i];
    box.shape[i] = chunks.shape[i] * dataset.chunk[i];
  }
  return box;
}

// Turns a piece of a dataset with filters into orders of whole chunks: a chunk
// that is written in two parts is also read back, and filtered three times.
void AddFilteredOrders(const WritePiece& piece, int32_t index,
                       int64_t first_block, int64_t round_bytes,
                       SavePlan& plan) {
  const StoredDataset& dataset = plan.datasets[index];
  const int64_t chunk_bytes = NumElements(dataset.chunk) *
                              IoElementSize(plan.arrays[piece.array].dtype);
  // HDF5 holds a copy of a call's elements, and the filtered elements.
  const int64_t chunks = std::max<int64_t>(1, round_bytes / 3 / chunk_bytes);
  ForEachTile(FindChunks(dataset, piece.box), chunks, [&](const Box& tile) {
    plan.ranks[piece.rank].orders.push_back(
        {.shard = piece.shard,
         .dataset = index,
         .first_block = first_block,
         .box = *Intersect(FindElements(dataset, tile), piece.box),
         .extent = {.box = dataset.box}});
  });
}

// Turns a piece into orders, one per extent and tile.
void AddOrders(const WritePiece& piece, int32_t index, int64_t first_block,
               int64_t round_bytes, SavePlan& plan) {
  const StoredDataset& dataset = plan.datasets[index];
  if (!dataset.filters.empty()) {
    return AddFilteredOrders(piece, index, first_block, round_bytes, plan);
  }
  const StoredArray& array = plan.arrays[piece.array];
  const int64_t element_size = IoElementSize(array.dtype);
  // Structs are written whole.
  const int64_t least = array.fields.empty() ? 1 : array.shape.back();
  std::vector<WriteOrder>& orders = plan.ranks[piece.rank].orders;
  ForEachExtent(dataset, piece.box, element_size, [&](Extent& extent) {
    const Box part = *Intersect(extent.box, piece.box);
    const int64_t most = MaxElements(part, extent, element_size, round_bytes);
    ForEachTile(part, std::max(least, most), [&](const Box& tile) {
      orders.push_back({.shard = piece.shard,
                        .dataset = index,
                        .first_block = first_block,
                        .box = tile,
                        .extent = extent});
    });
  });
}

void SortOrders(RankWrites& writes) {
  const auto is_before = [](const WriteOrder& a, const WriteOrder& b) {
    return std::tie(a.dataset, a.extent.offset, a.box.offset) <
           std::tie(b.dataset, b.extent.offset, b.box.offset);
  };
  std::vector<WriteOrder>& orders = writes.orders;
  if (std::is_sorted(orders.begin(), orders.end(), is_before)) return;
  std::sort(orders.begin(), orders.end(), is_before);
}

// Counts the bytes that a rank writes and its calls per dataset, and numbers
// the rounds of its orders, file by file. Orders for datasets with filters have
// no rounds.
void CutIntoRounds(int64_t round_bytes, RankWrites& writes, SavePlan& plan) {
  int32_t calls = 0, dataset = -1, round = 0, file = -1;
  int64_t in_round = 0, runs_in_round = 0;
  for (WriteOrder& order : writes.orders) {
    const StoredDataset& stored = plan.datasets[order.dataset];
    const int64_t bytes = NumElements(order.box.shape) *
                          IoElementSize(plan.arrays[stored.array].dtype);
    writes.bytes += bytes;
    calls = order.dataset == dataset ? calls + 1 : 1;
    dataset = order.dataset;
    plan.calls[dataset] = std::max(plan.calls[dataset], calls);
    if (!stored.filters.empty()) continue;
    const int64_t runs = CountRuns(order.box, order.box, order.extent.box);
    const bool is_full =
        in_round > 0 && (bytes > round_bytes - in_round ||
                         runs > kMaxRunsPerRound - runs_in_round);
    if (is_full || stored.file != file) {
      round = stored.file == file ? round + 1 : 0;
      file = stored.file;
      in_round = 0;
      runs_in_round = 0;
    }
    in_round += bytes;
    runs_in_round += runs;
    order.round = round;
    plan.files[file].rounds = std::max(plan.files[file].rounds, round + 1);
  }
}

// Returns the number of rounds. A team writes its files one after another;
// teams write at the same time.
int64_t MostRounds(const std::vector<StoredFile>& files) {
  int64_t most = 0, sum = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    if (i > 0 && files[i].team != files[i - 1].team) sum = 0;
    sum += files[i].rounds;
    most = std::max(most, sum);
  }
  return most;
}

// Returns the shards with this replica number. Other replicas may differ.
StatusOr<std::vector<HeldShard>> SelectReplica(
    const std::vector<HeldShard>& shards, int64_t replica) {
  std::vector<HeldShard> kept;
  std::set<int64_t> found;
  for (const HeldShard& shard : shards) {
    found.insert(shard.info->replica);
    if (shard.info->replica == replica) kept.push_back(shard);
  }
  if (!kept.empty()) return kept;
  const std::vector<int64_t> numbers(found.begin(), found.end());
  return absl::InvalidArgumentError(absl::StrFormat(
      "plan \"%s\": the value has no such replica (need primary_replica %d, "
      "found %s)",
      shards[0].info->key, replica, JoinFirst(numbers, kReplicasShown, ", ")));
}

// Returns the only replica that is written; nothing if all share the work.
StatusOr<std::optional<int64_t>> PrimaryReplica(
    const ArgsByKey& args, const std::vector<HeldShard>& shards) {
  const std::string& key = shards[0].info->key;
  const std::optional<int64_t> named = FindArgs(args, key).primary_replica;
  if (named || !shards[0].info->from_rank0) return named;
  std::vector<int32_t> ranks;
  for (const HeldShard& shard : shards) {
    if (shard.rank == 0) return std::optional<int64_t>(0);
    ranks.push_back(shard.rank);
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "plan \"%s\": rank 0, whose value is saved, does not hold it (need rank "
      "0, found ranks %s)",
      key, JoinFirst(ranks, kReplicasShown, ", ")));
}

// Checks all keys and adds them as arrays. Returns their boxes.
StatusOr<std::vector<ArrayBoxes>> AddArrays(const ListedRanks& listed,
                                            const ArgsByKey& args,
                                            SavePlan& plan) {
  std::vector<ArrayBoxes> arrays;
  int64_t total = 0;
  const auto add = [&](const std::vector<HeldShard>& all) -> Status {
    BELAY_ASSIGN_OR_RETURN(const std::optional<int64_t> primary,
                           PrimaryReplica(args, all));
    std::vector<HeldShard> chosen;
    if (primary) {
      BELAY_ASSIGN_OR_RETURN(chosen, SelectReplica(all, *primary));
    }
    const std::vector<HeldShard>& shards = primary ? chosen : all;
    BELAY_RETURN_IF_ERROR(CheckKey(shards[0]));
    BELAY_ASSIGN_OR_RETURN(std::vector<HeldBox> boxes, CheckCoverage(shards));
    for (HeldBox& box : boxes) {
      for (HeldShard& holder : box.holders) holder.info = nullptr;
    }
    const ShardInfo& first = *shards[0].info;
    const auto laid_out = std::ranges::find_if(
        shards,
        [](const HeldShard& shard) { return !shard.info->layout.empty(); });
    arrays.push_back({static_cast<int32_t>(plan.arrays.size()),
                      IoElementSize(first.dtype), std::move(boxes),
                      first.dtype != DType::kString});
    plan.arrays.push_back(
        {.key = first.key,
         .dtype = first.dtype,
         .shape = first.global_shape,
         .string_bytes = first.string_bytes,
         .layout = laid_out == shards.end() ? "" : laid_out->info->layout,
         .fields = first.fields});
    const int64_t bytes = ArrayBytes(plan.arrays.back());
    if (bytes > INT64_MAX - total) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "plan \"%s\": all arrays together are too large (need at most "
          "%d bytes, found %d more than %d)",
          first.key, INT64_MAX, bytes, total));
    }
    total += bytes;
    return absl::OkStatus();
  };
  BELAY_RETURN_IF_ERROR(ForEachKey(listed, add));
  return arrays;
}

// Warns if the files depend on the ranks although the layout is kCanonical.
void WarnOfArrayLayout(const SavePlanOptions& options, bool one_group,
                       SavePlan& plan) {
  if (options.array_layout != ArrayLayout::kCanonical) return;
  if (options.file_layout == FileLayout::kShared && one_group) return;
  plan.warnings.push_back(
      "the canonical array layout makes the same file on any number of ranks "
      "only for one shared file of the default sharding policy: these files "
      "depend on what each rank holds");
}

// Rejects more chunks than a reader accepts.
Status CheckChunkCount(const SavePlan& plan) {
  ChunkCount count("plan");
  for (const StoredDataset& dataset : plan.datasets) {
    const StoredArray& array = plan.arrays[dataset.array];
    BELAY_RETURN_IF_ERROR(count.Add(array.key, dataset.box.shape, dataset.chunk,
                                    IoElementSize(array.dtype)));
  }
  return absl::OkStatus();
}

// Numbers the checksum blocks. Returns the first block of each array.
std::vector<int64_t> NumberBlocks(SavePlan& plan) {
  std::vector<int64_t> first_blocks;
  for (const StoredArray& array : plan.arrays) {
    first_blocks.push_back(plan.num_blocks);
    plan.num_blocks += NumBlocks(ArrayBytes(array));
  }
  return first_blocks;
}

}  // namespace

StatusOr<SavePlan> PlanSave(const ListedRanks& listed,
                            const SavePlanOptions& options) {
  SavePlan plan;
  plan.file_layout = options.file_layout;
  plan.ranks.resize(listed.ranks.size());
  BELAY_ASSIGN_OR_RETURN(const ArgsByKey args, CompileArgs(options.args));
  BELAY_ASSIGN_OR_RETURN(std::vector<ArrayBoxes> arrays,
                         AddArrays(listed, args, plan));
  plan.replicas = FindReplicas(arrays, static_cast<int>(listed.ranks.size()));
  const std::vector<int64_t> first_blocks = NumberBlocks(plan);
  std::vector<WritePiece> pieces =
      ChooseWriters(arrays, static_cast<int>(listed.ranks.size()));
  const bool one_group = MakesOneGroup(options.sharding_policy);
  if (!one_group) {
    BELAY_RETURN_IF_ERROR(
        GroupPieces(options.sharding_policy, listed, plan, pieces));
  }
  WarnOfArrayLayout(options, one_group, plan);
  BELAY_RETURN_IF_ERROR(NumberFiles(ListNodes(listed), plan, pieces));
  const std::vector<int32_t> datasets =
      options.file_layout == FileLayout::kShared && one_group
          ? AddWholeDatasets(arrays, pieces, options.array_layout, plan)
          : AddDatasetsOfFiles(pieces, options.array_layout, plan);
  BELAY_RETURN_IF_ERROR(
      ChunkAsAsked(options.args, options.array_layout, arrays, plan));
  BELAY_RETURN_IF_ERROR(CheckWholeStructs(plan));
  BELAY_RETURN_IF_ERROR(CheckChunkCount(plan));
  std::exchange(arrays, {});  // the orders need as much memory
  std::vector<size_t> num_orders(plan.ranks.size());
  for (const WritePiece& piece : pieces) ++num_orders[piece.rank];
  for (size_t rank = 0; rank < num_orders.size(); ++rank) {
    plan.ranks[rank].orders.reserve(num_orders[rank]);  // usually one per piece
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    AddOrders(pieces[i], datasets[i], first_blocks[pieces[i].array],
              options.round_bytes, plan);
  }
  plan.calls.assign(plan.datasets.size(), 0);
  for (RankWrites& writes : plan.ranks) {
    SortOrders(writes);
    CutIntoRounds(options.round_bytes, writes, plan);
  }
  plan.rounds = MostRounds(plan.files);
  return plan;
}

}  // namespace belay
