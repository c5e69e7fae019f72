// Arrays of an index: their datasets and extents, stacks of datasets, structs.

#ifndef BELAY_PLAN_STORED_ARRAYS_H_
#define BELAY_PLAN_STORED_ARRAYS_H_

#include <span>

#include "core/box_tiling.h"
#include "plan/listed_ranks.h"

namespace belay {

class ArrayDatasets {
 public:
  // Adds the datasets with filters to `filtered`. Borrows `saved`.
  ArrayDatasets(const SavedCheckpoint& saved, std::vector<int32_t> datasets,
                std::vector<FilteredDataset>& filtered);

  // Calls `visit` for the parts in all datasets.
  void ForEachPart(const Box& box, int64_t element_size,
                   absl::FunctionRef<void(ReadOrder&)> visit) const;

 private:
  const SavedCheckpoint& saved_;
  std::vector<int32_t> datasets_;
  std::vector<int32_t> filtered_;  // their numbers in the plan; -1: none
  BoxIndex index_;
};

// `arrays` are numbers in the index.
std::vector<ArrayDatasets> ListDatasets(const SavedCheckpoint& saved,
                                        const std::vector<int32_t>& arrays,
                                        std::vector<FilteredDataset>& filtered);

// Planning with the part of an index for one array costs what the array costs,
// however many others the checkpoint has.

struct ArrayEntry {
  std::span<const StoredDataset> datasets;
  int64_t first_block = 0;  // in the index's checksums
};

// Returns the entry of each array. Borrows `saved`.
std::vector<ArrayEntry> ArrayEntries(const SavedCheckpoint& saved);

// Checks that each element of an array is in exactly one dataset, and that the
// bytes of all arrays can be counted. Returns the damage of the first array, or
// "".
std::string FindTilingDamage(const SavedCheckpoint& saved);

// Returns an index of one array, with its checksums. Leaves out datasets that
// hold nothing of the io box `box`, and files without a dataset.
SavedCheckpoint IndexOfArray(const SavedCheckpoint& saved, int32_t array,
                             const ArrayEntry& entry, const Box& box);

// An array whose datasets follow each other along one axis, as rows that ranks
// have written. It is so small that all ranks can be told, and each plans its
// reads itself.

class StackedArray {
 public:
  StackedArray() = default;
  explicit StackedArray(const StoredArray& array);

  // Adds the next dataset. Returns false if the array is no stack: the dataset
  // does not follow the last one, is not as wide as the array, or has filters.
  bool Add(const StoredDataset& dataset);
  // Returns whether the added datasets hold all of the array.
  bool is_whole() const;

  const std::string& key() const { return key_; }
  int64_t num_datasets() const { return ends_.size(); }
  // About the bytes of its message.
  int64_t told_bytes() const;
  // Sets the first block of the array in a restore.
  void set_first_block(int64_t block) { first_block_ = block; }

  // Adds the reads of a rank for shard `shard`, which wants `box`. Reads each
  // element once. Requires is_whole().
  void AddReads(int32_t shard, const Box& box,
                std::vector<ReadOrder>& orders) const;

  template <typename Archive>
  friend void Fields(Archive& archive, StackedArray& array) {
    archive(array.key_, array.shape_, array.element_size_, array.first_block_,
            array.axis_, array.chunk_, array.ends_, array.files_,
            array.offsets_);
  }

 private:
  std::string key_;
  Shape shape_;
  int64_t element_size_ = 0;
  int64_t first_block_ = -1;
  uint8_t axis_ = 0;      // along which the datasets follow each other
  Shape chunk_;           // of all of them; empty: contiguous
  Progressions ends_;     // of each dataset, along the axis
  Progressions files_;    // each one's file
  Progressions offsets_;  // and where it begins there, in bytes
};

// Arrays of structs: u8 arrays whose last axis has the bytes of a struct, which
// no part of a file cuts.

// Columns of an index (docs/format.md), a row per array of structs.
struct StructColumns {
  std::vector<uint32_t> array;
  std::vector<std::string> fields;
};

// Calls fn(path inside the index, column) for every column.
template <typename Columns, typename Fn>
void ForEachStructColumn(Columns& columns, Fn&& fn) {
  fn(".belay/structs/array", columns.array);
  fn(".belay/structs/fields", columns.fields);
}

StructColumns ToStructColumns(const std::vector<StoredArray>& arrays);

// Sets the fields of the arrays of `saved`, whose datasets are known. Returns
// the damage of the columns, or "".
std::string FromStructColumns(const StructColumns& columns,
                              SavedCheckpoint& saved);

// Errors: InvalidArgument - a dataset or a chunk has parts of structs; names
//   the key.
Status CheckWholeStructs(const SavePlan& plan);

}  // namespace belay

#endif  // BELAY_PLAN_STORED_ARRAYS_H_
