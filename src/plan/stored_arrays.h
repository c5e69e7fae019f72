// Arrays of an index: their datasets, their stacks, their structs.

#ifndef BELAY_PLAN_STORED_ARRAYS_H_
#define BELAY_PLAN_STORED_ARRAYS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/arrays/box.h"
#include "belay/status.h"
#include "core/box_tiling.h"
#include "core/wire.h"
#include "plan/listed_ranks.h"
#include "plan/plan.h"

namespace belay {

// Array datasets: where the elements of one array of an index lie.
//
// In:  the datasets that hold the array.
// Out: for any box, the extents that hold some of it.

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

// The part of an index that speaks of one array.
//
// Planning with it costs what the array costs, however many others the
// checkpoint has.

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

// Stacked arrays: arrays whose datasets follow each other along one axis, as
// rows do that ranks have written.
//
// In:  the datasets of an array, one after the other.
// Out: where each part of the array lies, in so few words that all ranks can be
//      told. A rank then finds out by itself what it reads.

class StackedArray {
 public:
  StackedArray() = default;
  explicit StackedArray(const StoredArray& array);

  // Takes the next dataset in. Returns whether it lies behind the last one, is
  // no wider than the array, and passes no filters; if not, the array is no
  // stack.
  bool Add(const StoredDataset& dataset);
  // Whether the datasets that were added hold all of the array.
  bool is_whole() const;

  const std::string& key() const { return key_; }
  int64_t num_datasets() const { return ends_.size(); }
  // About how many bytes Put takes.
  int64_t told_bytes() const;
  // Block 0 of the array in a restore's numbering.
  void set_first_block(int64_t block) { first_block_ = block; }

  // Adds what a rank reads into its `shard`-th shard, which wants `box`, a part
  // of the array. Each element is read once. Requires is_whole().
  void AddReads(int32_t shard, const Box& box,
                std::vector<ReadOrder>& orders) const;

  template <typename Archive>
  friend void Fields(Archive& archive, StackedArray& array) {
    archive(array.key_, array.shape_, array.element_size_, array.first_block_,
            array.axis_, array.chunk_, array.ends_, array.files_,
            array.offsets_);
  }
  void Put(WireWriter& out) const { out(*this); }
  static StackedArray Get(WireReader& in) {
    StackedArray array;
    in(array);
    return array;
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

// Arrays of structs: u8 arrays whose last axis has the bytes of one struct,
// which no part of a file cuts.

// Columns of an index; see docs/format.md.
struct StructColumns {
  // One row per array of structs.
  std::vector<uint32_t> array;
  std::vector<std::string> fields;
};

// Calls fn(path inside the index, column) for every column; the one list of
// names.
template <typename Columns, typename Fn>
void ForEachStructColumn(Columns& columns, Fn&& fn) {
  fn(".belay/structs/array", columns.array);
  fn(".belay/structs/fields", columns.fields);
}

StructColumns ToStructColumns(const std::vector<StoredArray>& arrays);

// Gives the arrays of `saved`, whose datasets are known, their fields. Returns
// what is wrong with the columns, "" if nothing.
std::string FromStructColumns(const StructColumns& columns,
                              SavedCheckpoint& saved);

// Checks that no dataset and no chunk of a plan has parts of structs.
// Errors: InvalidArgument - one has; names the key.
Status CheckWholeStructs(const SavePlan& plan);

}  // namespace belay

#endif  // BELAY_PLAN_STORED_ARRAYS_H_
