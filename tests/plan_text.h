// Plans as text, a line for each array, file, dataset and order; at most
// `max_orders` orders per rank.

#ifndef BELAY_TESTS_PLAN_TEXT_H_
#define BELAY_TESTS_PLAN_TEXT_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "plan/chunks.h"
#include "plan/plan.h"

namespace belay {

inline std::string CutText(const StoredDataset& dataset) {
  if (dataset.chunk.empty()) return "contiguous";
  const std::string chunk = absl::StrCat("chunk ", ShapeText(dataset.chunk));
  return dataset.filters.empty()
             ? chunk
             : absl::StrCat(chunk, " filters ",
                            DescribeFilters(dataset.filters));
}

inline std::string ToString(const SavePlan& plan, int64_t max_orders = 20) {
  std::string text = absl::StrFormat(
      "save plan: %d arrays, %d datasets, %d files, %d ranks, %d rounds, "
      "%d blocks\n",
      plan.arrays.size(), plan.datasets.size(), plan.files.size(),
      plan.ranks.size(), plan.rounds, plan.num_blocks);
  for (size_t i = 0; i < plan.files.size(); ++i) {
    absl::StrAppendFormat(
        &text, "file %d \"%s\": created by rank %d, %d writers\n", i,
        plan.files[i].name, plan.files[i].creator, plan.files[i].num_writers);
  }
  for (size_t i = 0; i < plan.datasets.size(); ++i) {
    const StoredDataset& dataset = plan.datasets[i];
    const StoredArray& array = plan.arrays[dataset.array];
    absl::StrAppendFormat(
        &text, "dataset %d: \"%s\" %s %s, box %s, file %d, %s\n", i, array.key,
        DTypeName(array.dtype), ShapeText(array.shape), BoxText(dataset.box),
        dataset.file, CutText(dataset));
  }
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const RankWrites& writes = plan.ranks[rank];
    absl::StrAppendFormat(&text, "rank %d: %d bytes in %d orders\n", rank,
                          writes.bytes, writes.orders.size());
    int64_t shown = 0;
    for (const WriteOrder& order : writes.orders) {
      if (shown++ == max_orders) {
        absl::StrAppend(&text, "  ...\n");
        break;
      }
      absl::StrAppendFormat(
          &text, "  round %d: shard %d box %s -> dataset %d\n", order.round,
          order.shard, BoxText(order.box), order.dataset);
    }
  }
  return text;
}

inline std::string ToString(const RestorePlan& plan, int64_t max_orders = 20) {
  std::string text = absl::StrFormat(
      "restore plan: %d arrays, %d ranks, %d bytes, %d blocks%s%s\n",
      plan.arrays.size(), plan.ranks.size(), plan.bytes, plan.num_blocks,
      plan.note.empty() ? "" : "; ", plan.note);
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const RankReads& reads = plan.ranks[rank];
    absl::StrAppendFormat(&text, "rank %d: %d orders", rank,
                          reads.orders.size());
    if (!reads.deliveries.empty()) {
      absl::StrAppendFormat(&text, ", %d deliveries", reads.deliveries.size());
    }
    absl::StrAppend(&text, "\n");
    int64_t shown = 0;
    for (const ReadOrder& order : reads.orders) {
      if (shown++ == max_orders) {
        absl::StrAppend(&text, "  ...\n");
        break;
      }
      const std::string target = order.position < 0
                                     ? absl::StrCat("shard ", order.shard)
                                     : absl::StrCat("stream ", order.position);
      absl::StrAppendFormat(
          &text, "  file %d: box %s of extent %s at byte %d -> %s%s\n",
          order.file, BoxText(order.box), BoxText(order.extent.box),
          order.extent.offset, target,
          order.first_block < 0 ? "" : ", checked");
    }
  }
  return text;
}

}  // namespace belay

#endif  // BELAY_TESTS_PLAN_TEXT_H_
