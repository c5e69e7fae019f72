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

// A part of a shard that is one run of bytes in its memory, in its array and in
// its file.
struct OneRun {
  char* data = nullptr;
  int64_t bytes = 0;
  int64_t array_offset = 0;
  int64_t file_offset = 0;
};

// Returns the run that such a part is; nullopt if it is several, or empty.
// Local.
std::optional<OneRun> FindOneRun(const ShardMemory& memory, const Box& box,
                                 const Extent& extent);

// Sums parts of shards into the block registers of a whole checkpoint.
class Checksummer {
 public:
  // `registers` is borrowed; empty: sums nothing.
  explicit Checksummer(std::span<uint32_t> registers) : registers_(registers) {}

  // Adds the part `box` of a shard; the array's block 0 is `first_block`.
  // Local.
  void Add(const ShardMemory& memory, const Box& box, int64_t first_block);

  // The same of a part that is one run, which it copies to `copy`. Local.
  void AddCopying(const ShardMemory& memory, const OneRun& run,
                  int64_t first_block, char* copy);

  // Completes the sums. Local.
  void Flush() {
    sum_.Flush();
    first_block_ = -1;
  }

 private:
  // The sum of the array of `memory`.
  BlockSum& SumOf(const ShardMemory& memory, int64_t first_block);

  std::span<uint32_t> registers_;
  int64_t first_block_ = -1;  // of the array of sum_; -1: it has none
  BlockSum sum_{0, {}};
};

}  // namespace belay

#endif  // BELAY_PLAN_SHARD_MEMORY_H_
