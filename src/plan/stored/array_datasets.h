// Array datasets: where the elements of one array of an index lie.
//
// In:  the datasets that hold the array.
// Out: for any box, the extents that hold some of it.

#ifndef BELAY_PLAN_STORED_ARRAY_DATASETS_H_
#define BELAY_PLAN_STORED_ARRAY_DATASETS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "geometry/box_index.h"
#include "plan/plan.h"

namespace belay {

// Calls `visit` for each part of `box`, which meets the dataset, that lies in
// one extent, with what an order says of it, which it may take. Extents may
// overhang the dataset. `filtered` is its number among those with filters; -1:
// none.
void ForEachPartOf(const StoredDataset& dataset, int32_t filtered,
                   const Box& box, int64_t element_size,
                   absl::FunctionRef<void(ReadOrder&)> visit);

class ArrayDatasets {
 public:
  // Adds the datasets with filters, by number, to `filtered`. Borrows `saved`.
  ArrayDatasets(const SavedCheckpoint& saved, std::vector<int32_t> datasets,
                std::vector<FilteredDataset>& filtered);

  // The same for all datasets that meet `box`.
  void ForEachPart(const Box& box, int64_t element_size,
                   absl::FunctionRef<void(ReadOrder&)> visit) const;

 private:
  const SavedCheckpoint& saved_;
  std::vector<int32_t> datasets_;
  std::vector<int32_t> filtered_;  // their numbers in the plan; -1: none
  BoxIndex index_;
};

// The datasets of each array of `arrays`, which are numbers in the index.
std::vector<ArrayDatasets> DatasetsOf(const SavedCheckpoint& saved,
                                      const std::vector<int32_t>& arrays,
                                      std::vector<FilteredDataset>& filtered);

}  // namespace belay

#endif  // BELAY_PLAN_STORED_ARRAY_DATASETS_H_
