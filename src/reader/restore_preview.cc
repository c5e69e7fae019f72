#include "belay/values/restore_preview.h"

#include "core/layout.h"
#include "reader/checkpoint_reader.h"
#include "restore/restore_stages.h"
#include "storage/index_file.h"

namespace belay {
namespace {

// Adds the pieces of one array to what each rank wants.
Status AddWants(const StoredArray& array, const Layout& layout,
                std::vector<RankShards>& wanted) {
  const auto num_ranks = static_cast<int>(wanted.size());
  BELAY_RETURN_IF_ERROR(
      CheckMeshSize(Cat("plan \"", array.key, "\""), layout, num_ranks));
  for (int rank = 0; rank < num_ranks; ++rank) {
    StatusOr<Box> box = layout.LocalBox(array.shape, rank);
    if (!box.ok()) {
      return Status(box.status().code(),
                    absl::StrFormat("plan \"%s\": %s", array.key,
                                    box.status().message()));
    }
    wanted[rank].shards.push_back({.key = array.key,
                                   .dtype = array.dtype,
                                   .global_shape = array.shape,
                                   .box = *std::move(box),
                                   .replica = layout.Replica(rank),
                                   .string_bytes = array.string_bytes});
  }
  return absl::OkStatus();
}

StatusOr<std::vector<RankShards>> WantAll(
    const SavedCheckpoint& saved, int num_ranks,
    const std::function<Layout(const ArrayInfo&)>& layout_of) {
  const std::vector<ArrayInfo> infos = ArraysOf(saved, ArrayEntries(saved));
  std::vector<RankShards> wanted(num_ranks);
  for (RankShards& rank : wanted) rank.shards.reserve(infos.size());
  for (size_t i = 0; i < infos.size(); ++i) {
    const StoredArray& array = saved.arrays[i];
    if (array.dtype != DType::kString) {
      BELAY_RETURN_IF_ERROR(AddWants(array, layout_of(infos[i]), wanted));
      continue;
    }
    for (int rank = 0; rank < num_ranks; ++rank) {
      wanted[rank].shards.push_back({.key = array.key,
                                     .dtype = array.dtype,
                                     .replica = rank,
                                     .string_bytes = array.string_bytes});
    }
  }
  return wanted;
}

// Sums what the plan says of one rank.
RankPreview Preview(const std::vector<ShardInfo>& shards,
                    const RankReads& reads, int32_t rank) {
  RankPreview preview;
  for (const ShardInfo& shard : shards) {
    preview.wanted_bytes +=
        NumElements(IoBox(shard).shape) * IoElementSize(shard.dtype);
  }
  for (const ReadOrder& order : reads.orders) {
    preview.read_bytes +=
        NumElements(order.box.shape) * IoElementSize(shards[order.shard].dtype);
    ++preview.num_reads;
  }
  for (const Delivery& delivery : reads.deliveries) {
    if (delivery.reader == rank) continue;
    const ShardInfo& shard = shards[delivery.shard];
    const auto part = Intersect(delivery.box, IoBox(shard));
    preview.delivered_bytes +=
        NumElements(part->shape) * IoElementSize(shard.dtype);
  }
  return preview;
}

// Takes as much memory as the pieces need, of which a small index may say many.
StatusOr<RestorePreview> Plan(
    const std::string& path, int num_ranks,
    const std::function<Layout(const ArrayInfo&)>& layout_of,
    const RestoreOptions& options) {
  BELAY_ASSIGN_OR_RETURN(const std::string step, ResolveStep(path));
  BELAY_ASSIGN_OR_RETURN(const SavedCheckpoint saved, ReadIndex(step));
  BELAY_RETURN_IF_ERROR(CheckChunksFit("plan", step, saved));
  BELAY_ASSIGN_OR_RETURN(const std::vector<RankShards> wanted,
                         WantAll(saved, num_ranks, layout_of));
  BELAY_ASSIGN_OR_RETURN(const RestorePlan plan,
                         PlanRestore(saved, wanted, MakeReadRules(options)));
  RestorePreview preview{.path = step,
                         .step = saved.step,
                         .num_arrays = std::ssize(saved.arrays),
                         .read_sharing = plan.sharing,
                         .sharing_note = plan.note};
  for (int rank = 0; rank < num_ranks; ++rank) {
    preview.ranks.push_back(
        Preview(wanted[rank].shards, plan.ranks[rank], rank));
  }
  return preview;
}

}  // namespace

StatusOr<RestorePreview> PreviewRestore(
    const std::string& path, int num_ranks,
    const std::function<Layout(const ArrayInfo&)>& layout_of,
    const RestoreOptions& options) {
  if (num_ranks < 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "plan \"%s\": too few ranks (need at least 1, found %d)", path,
        num_ranks));
  }
  BELAY_RETURN_IF_ERROR(CheckReading("plan", path, options));
  return CatchBadAlloc(Cat("the plan of \"", path, "\""), [&] {
    return Plan(path, num_ranks, layout_of, options);
  });
}

}  // namespace belay
