// How the elements of a shard lie in memory, in the array, and in a file.
//
// The one place that turns orders into addresses: transfers, reading and
// checksums use it.

#ifndef BELAY_PLAN_SHARD_MEMORY_H_
#define BELAY_PLAN_SHARD_MEMORY_H_

#include <cstdint>
#include <optional>
#include <span>

#include "absl/functional/function_ref.h"
#include "belay/arrays/shard.h"
#include "bytes/checksum.h"
#include "plan/plan.h"

namespace belay {

// A shard's memory as dense io elements.
struct ShardMemory {
  char* data = nullptr;
  int64_t element_size = 1;
  Box box;      // what `data` holds
  Shape array;  // shape of the whole array
};

// Local. A text must have its final length.
ShardMemory MemoryOf(const Shard& shard);

// Where the first element of `box` lies in the file. Local. Requires a box that
// is not empty.
int64_t FileOffset(const Box& box, const Extent& extent, int64_t element_size);

// Calls `visit(memory, file offset, bytes)` for every run of `box`, whose
// elements lie in the file as `extent` says. Local.
void ForEachSegment(const ShardMemory& memory, const Box& box,
                    const Extent& extent,
                    absl::FunctionRef<void(char*, int64_t, int64_t)> visit);

// Sums parts of shards into the block registers of a whole checkpoint.
class Checksummer {
 public:
  // `registers` is borrowed; empty: sums nothing.
  explicit Checksummer(std::span<uint32_t> registers) : registers_(registers) {}

  // Adds the part `box` of a shard; the array's block 0 is `first_block`.
  // Local.
  void Add(const ShardMemory& memory, const Box& box, int64_t first_block);

  // Completes the sums. Local.
  void Flush() { sum_.reset(); }

 private:
  std::span<uint32_t> registers_;
  int64_t first_block_ = -1;
  std::optional<BlockSum> sum_;
};

}  // namespace belay

#endif  // BELAY_PLAN_SHARD_MEMORY_H_
