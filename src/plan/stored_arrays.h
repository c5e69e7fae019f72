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

  // Calls `visit` for the parts of `box` in all datasets.
  void ForEachPart(const Box& box, int64_t element_size,
                   absl::FunctionRef<void(ReadOrder&)> visit) const;

 private:
  const SavedCheckpoint& saved_;
  std::vector<int32_t> datasets_;
  std::vector<int32_t> filtered_;  // their indexes in `filtered`; -1: none
  BoxIndex index_;
};

// `arrays` are array numbers in the index.
std::vector<ArrayDatasets> ListDatasets(const SavedCheckpoint& saved,
                                        const std::vector<int32_t>& arrays,
                                        std::vector<FilteredDataset>& filtered);

// The part of an index for one array: the cost of planning with it does not
// depend on how many other arrays the checkpoint has.

struct ArrayEntry {
  std::span<const StoredDataset> datasets;
  int64_t first_block = 0;  // in the index's checksums
};

// Returns the entry of each array. Borrows `saved`.
std::vector<ArrayEntry> ArrayEntries(const SavedCheckpoint& saved);

// Checks that each element of every array is in exactly one dataset, and that
// the total number of bytes does not overflow. Describes the first damaged
// array, or returns "".
std::string FindTilingDamage(const SavedCheckpoint& saved);

// Returns an index of one array, with its checksums. Omits datasets that do not
// overlap the io box `box`, and files without a dataset.
SavedCheckpoint IndexOfArray(const SavedCheckpoint& saved, int32_t array,
                             const ArrayEntry& entry, const Box& box);

// An array whose datasets follow each other along one axis, such as rows that
// ranks have written. Its description is small enough to send to all ranks, so
// that each rank can plan its own reads.

class StackedArray {
 public:
  StackedArray() = default;
  explicit StackedArray(const StoredArray& array);

  // Adds the next dataset. Returns false if the array is not a stack: the
  // dataset does not follow the last one, does not span the array's other axes,
  // has different chunks, or has filters.
  bool Add(const StoredDataset& dataset);
  // Returns true if the added datasets cover the whole array.
  bool is_whole() const;

  const std::string& key() const { return key_; }
  int64_t num_datasets() const { return ends_.size(); }
  // Returns the approximate size of the description in a message, in bytes.
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
  uint8_t axis_ = 0;      // the axis along which the datasets follow each other
  Shape chunk_;           // of every dataset; empty: contiguous
  Progressions ends_;     // the end of each dataset along the axis
  Progressions files_;    // the file of each dataset
  Progressions offsets_;  // the offset of each dataset in its file, in bytes
};

// Arrays of structs: u8 arrays whose last axis holds the bytes of one struct.
// Datasets and chunks do not cut structs.

// Columns of an index (docs/format.md), one row per array of structs.
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

// Sets the fields of the arrays of `saved`, whose datasets must be complete.
// Returns a description of damage in the columns, or "".
std::string FromStructColumns(const StructColumns& columns,
                              SavedCheckpoint& saved);

// Errors: InvalidArgument - a dataset or a chunk has parts of structs; names
//   the key.
Status CheckWholeStructs(const SavePlan& plan);

}  // namespace belay

#endif  // BELAY_PLAN_STORED_ARRAYS_H_
