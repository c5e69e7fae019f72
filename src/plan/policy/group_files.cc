#include "plan/policy/group_files.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "plan/policy/apply_policy.h"
#include "plan/policy/group_by_task.h"
#include "plan/shard_device.h"

namespace belay {
namespace {

// The device of a shard, as it was completed on its rank.
StatusOr<DeviceSpec> DeviceOf(const RankShards& listed,
                              const WritePiece& piece) {
  const ShardInfo& info = listed.shards[piece.shard];
  DeviceSpec base =
      DefaultDevice(listed.job, piece.rank, info.layout, info.replica);
  if (info.device.empty()) return base;
  BELAY_ASSIGN_OR_RETURN(const DeviceSpec own, ParseDevice(info.device));
  return MergeDevice(base, own);
}

StatusOr<ShardableTensor> Describe(const StoredArray& array,
                                   const RankShards& listed,
                                   const WritePiece& piece) {
  BELAY_ASSIGN_OR_RETURN(DeviceSpec device, DeviceOf(listed, piece));
  const bool is_text = array.dtype == DType::kString;
  return ShardableTensor{
      .key = array.key,
      .dtype = array.dtype,
      .global_shape = array.shape,
      .box = is_text ? Box{} : piece.box,
      .device = std::move(device),
      .bytes = NumElements(piece.box.shape) * IoElementSize(array.dtype),
      .node = listed.node};
}

// The pieces as a policy sees them: by rank, and as the rank listed them.
StatusOr<std::vector<TaskPieces>> Listed(
    const ListedRanks& ranks, const SavePlan& plan,
    const std::vector<WritePiece>& pieces) {
  std::vector<const WritePiece*> sorted;
  for (const WritePiece& piece : pieces) sorted.push_back(&piece);
  std::sort(sorted.begin(), sorted.end(),
            [](const WritePiece* a, const WritePiece* b) {
              return std::tie(a->rank, a->shard, a->box.offset) <
                     std::tie(b->rank, b->shard, b->box.offset);
            });
  std::vector<TaskPieces> listed;
  RankShards shards;
  int32_t rank = -1;  // whose they are
  for (const WritePiece* piece : sorted) {
    if (piece->rank != rank) {
      rank = piece->rank;
      shards = ShardsOf(ranks, rank);
      listed.emplace_back();
    }
    BELAY_ASSIGN_OR_RETURN(listed.back().emplace_back(),
                           Describe(plan.arrays[piece->array], shards, *piece));
  }
  return listed;
}

// Finds the pieces that the tensors of a policy are parts of.
class PieceFinder {
 public:
  PieceFinder(const SavePlan& plan, const std::vector<WritePiece>& pieces)
      : plan_(plan) {
    for (const WritePiece& piece : pieces) {
      pieces_[{piece.rank, piece.array}].push_back(&piece);
    }
  }

  // Adds `tensor` as a part of the piece that it was cut from.
  void AddParts(const ShardableTensor& tensor, int32_t group,
                std::vector<WritePiece>& parts) const {
    const int32_t array = ArrayOf(tensor.key);
    const Box box = tensor.dtype == DType::kString
                        ? WholeBox(IoShape(plan_.arrays[array]))
                        : tensor.box;
    for (const WritePiece* piece :
         pieces_.at({tensor.device.task.value(), array})) {
      const std::optional<Box> part = Intersect(piece->box, box);
      if (!part) continue;
      parts.push_back(*piece);
      parts.back().box = *part;
      parts.back().group = group;
    }
  }

 private:
  int32_t ArrayOf(std::string_view key) const {
    const auto found =
        std::lower_bound(plan_.arrays.begin(), plan_.arrays.end(), key,
                         [](const StoredArray& array, std::string_view k) {
                           return array.key < k;
                         });
    return static_cast<int32_t>(found - plan_.arrays.begin());
  }

  const SavePlan& plan_;
  absl::flat_hash_map<std::pair<int32_t, int32_t>,
                      std::vector<const WritePiece*>>
      pieces_;  // by rank and array
};

// Ranks that write files together.
struct FileTeam {
  std::vector<int32_t> creators;
  std::vector<int32_t> writers;  // of each group, how many
};

// What the ranks of one team have in common.
int32_t TeamKey(const std::vector<int32_t>& nodes, FileLayout layout,
                int32_t rank) {
  switch (layout) {
    case FileLayout::kShared:
      return 0;
    case FileLayout::kPerNode:
      return nodes[rank];
    case FileLayout::kPerTask:
      return rank;
  }
  return 0;
}

// For each rank and each of its groups, whether there is anything in it.
std::vector<std::vector<bool>> GroupsOfRanks(
    size_t num_ranks, const std::vector<WritePiece>& pieces) {
  std::vector<std::vector<bool>> groups(num_ranks);
  for (const WritePiece& piece : pieces) {
    std::vector<bool>& mine = groups[piece.rank];
    const auto group = static_cast<size_t>(piece.group);
    if (group >= mine.size()) mine.resize(group + 1, false);
    mine[group] = true;
  }
  return groups;
}

// Gives every rank that writes its team.
std::vector<FileTeam> MakeTeams(const std::vector<int32_t>& nodes,
                                const std::vector<std::vector<bool>>& groups,
                                SavePlan& plan) {
  const bool shared = plan.file_layout == FileLayout::kShared;
  std::vector<FileTeam> teams;
  absl::flat_hash_map<int32_t, int32_t> numbers;
  plan.teams.assign(nodes.size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (groups[i].empty()) continue;
    const auto rank = static_cast<int32_t>(i);
    const auto [it, fresh] = numbers.try_emplace(
        TeamKey(nodes, plan.file_layout, rank), teams.size());
    if (fresh) teams.emplace_back();
    FileTeam& team = teams[it->second];
    plan.teams[i] = it->second;
    if (!shared) team.creators.push_back(rank);
    if (groups[i].size() > team.writers.size()) {
      team.writers.resize(groups[i].size(), 0);
    }
    for (size_t k = 0; k < groups[i].size(); ++k) {
      team.writers[k] += groups[i][k] ? 1 : 0;
    }
  }
  if (!shared || teams.empty()) return teams;
  // All take part, also those that write nothing. Rank 0 has the index to
  // make, so its turn comes last.
  plan.teams.assign(nodes.size(), 0);
  teams[0].creators.resize(nodes.size(), 0);
  std::iota(teams[0].creators.begin(), teams[0].creators.end() - 1, 1);
  return teams;
}

}  // namespace

bool MakesOneGroup(const ShardingPolicy& policy) {
  return policy.group.target<GroupByTask>() != nullptr;
}

Status GroupPieces(const ShardingPolicy& policy, const ListedRanks& ranks,
                   SavePlan& plan, std::vector<WritePiece>& pieces) {
  BELAY_ASSIGN_OR_RETURN(const std::vector<TaskPieces> listed,
                         Listed(ranks, plan, pieces));
  BELAY_ASSIGN_OR_RETURN(const std::vector<Grouping> made,
                         ApplyToTasks(policy, listed));
  const PieceFinder finder(plan, pieces);
  std::vector<WritePiece> parts;
  for (const Grouping& grouping : made) {
    for (size_t i = 0; i < grouping.groups.size(); ++i) {
      for (const ShardableTensor& tensor : grouping.groups[i]) {
        finder.AddParts(tensor, static_cast<int32_t>(i), parts);
      }
    }
    plan.warnings.insert(plan.warnings.end(), grouping.warnings.begin(),
                         grouping.warnings.end());
  }
  pieces = std::move(parts);
  return absl::OkStatus();
}

Status NumberFiles(const std::vector<int32_t>& nodes, SavePlan& plan,
                   std::vector<WritePiece>& pieces) {
  const std::vector<FileTeam> teams =
      MakeTeams(nodes, GroupsOfRanks(nodes.size(), pieces), plan);
  int64_t files = 0;
  for (const FileTeam& team : teams) {
    files += static_cast<int64_t>(team.writers.size());
  }
  if (files > kMaxFiles) {
    return absl::InvalidArgumentError(
        absl::StrFormat("plan: the groups of the sharding policy make too many "
                        "data files (need "
                        "at most %d, found %d)",
                        kMaxFiles, files));
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

}  // namespace belay
