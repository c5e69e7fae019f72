// Stacked arrays: arrays whose datasets follow each other along one axis, as
// rows do that ranks have written.
//
// In:  the datasets of an array, one after the other.
// Out: where each part of the array lies, in so few words that all ranks can be
//      told. A rank then finds out by itself what it reads.

#ifndef BELAY_PLAN_STORED_STACKED_ARRAY_H_
#define BELAY_PLAN_STORED_STACKED_ARRAY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "bytes/wire.h"
#include "plan/plan.h"
#include "plan/progressions.h"

namespace belay {

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

  // For messages between ranks.
  void Put(WireWriter& out) const;
  static StackedArray Get(WireReader& in);

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

}  // namespace belay

#endif  // BELAY_PLAN_STORED_STACKED_ARRAY_H_
