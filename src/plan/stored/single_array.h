// The part of an index that speaks of one array.
//
// Pure. Planning with it costs what the array costs, however many others the
// checkpoint has.

#ifndef BELAY_PLAN_STORED_SINGLE_ARRAY_H_
#define BELAY_PLAN_STORED_SINGLE_ARRAY_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "plan/plan.h"

namespace belay {

// Where one array stands in an index.
struct ArrayEntry {
  std::span<const StoredDataset> datasets;
  int64_t first_block = 0;  // in the index's checksums
};

// The entry of each array, borrowed from `saved`.
std::vector<ArrayEntry> ArrayEntries(const SavedCheckpoint& saved);

// What is wrong with the boxes of the datasets, which lie in their arrays: each
// element of an array must be in exactly one. Also whether the bytes of all
// arrays can be counted. Names the first array. "": nothing.
std::string DamageOfTilings(const SavedCheckpoint& saved);

// An index of the array number `array` alone, with its checksums. Datasets that
// hold nothing of the io box `box`, and files without a dataset, are left out.
SavedCheckpoint IndexOfArray(const SavedCheckpoint& saved, int32_t array,
                             const ArrayEntry& entry, const Box& box);

}  // namespace belay

#endif  // BELAY_PLAN_STORED_SINGLE_ARRAY_H_
