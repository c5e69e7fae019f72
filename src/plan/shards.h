// A shard: its memory, its elements, its device.

#ifndef BELAY_PLAN_SHARDS_H_
#define BELAY_PLAN_SHARDS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/arrays/device.h"
#include "belay/arrays/shard.h"
#include "belay/status.h"
#include "core/checksum.h"
#include "core/strided_copy.h"
#include "plan/plan.h"

namespace belay {

// A shard's memory as a store of elements.

// Returns where the elements lie. Borrows the shard.
inline StridedStore StoreOf(const Shard& shard) {
  return {shard.box, shard.strides};
}

// Whether they do not lie one behind the other, or are structs that lie in
// memory in another way than they are stored.
bool IsStrided(const Shard& shard);

// The bytes from the first element to the end of the last one. Requires that
// the box has elements.
int64_t SpanBytes(const Shard& shard);

// Copies a part of the shard to `to`, dense and row-major. No text.
void GatherElements(const Shard& shard, const Box& box, char* to);

// Copies a part of the shard from the store at `from`, which has `from_box`
// dense and row-major, to where the program has it. No text.
void ScatterElements(const Shard& shard, const Box& box, const char* from,
                     const Box& from_box);

// How the elements of a shard lie in memory, in the array, and in a file.
//
// The one place that turns orders into addresses: transfers, reading and
// checksums use it.

// A shard's memory as dense io elements.
struct ShardMemory {
  char* data = nullptr;
  int64_t element_size = 1;
  Box box;      // what `data` holds
  Shape array;  // shape of the whole array
};

// A text must have its final length.
ShardMemory MemoryOf(const Shard& shard);

// Where the first element of `box` lies in the file. Requires a box that
// is not empty.
int64_t FileOffset(const Box& box, const Extent& extent, int64_t element_size);

// Calls `visit(memory, file offset, bytes)` for every run of `box`, whose
// elements lie in the file as `extent` says.
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
std::optional<OneRun> FindOneRun(const ShardMemory& memory, const Box& box,
                                 const Extent& extent);

// Sums parts of shards into the block registers of a whole checkpoint.
class Checksummer {
 public:
  // `registers` is borrowed; empty: sums nothing.
  explicit Checksummer(std::span<uint32_t> registers) : registers_(registers) {}

  // Adds the part `box` of a shard; the array's block 0 is `first_block`.
  void Add(const ShardMemory& memory, const Box& box, int64_t first_block);

  // The same of a part that is one run, which it copies to `copy`.
  void AddCopying(const ShardMemory& memory, const OneRun& run,
                  int64_t first_block, char* copy);

  // Completes the sums.
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

// Devices of shards: what a shard names of its own, and what is filled in.
//
// A rank is one task: all its shards have its number and one job. What is left
// open is /job:J/replica:R/task:T/device:CPU:0, where R is the replica number
// of a shard with a layout, its place along the mesh axes that cut nothing, and
// 0 of any other one.

// The device of a shard that names none. `layout` is that of the shard, or "".
DeviceSpec DefaultDevice(std::string_view job, int rank,
                         std::string_view layout, int64_t replica);

// Completes the devices of the shards of a rank. Their job is the one that any
// of them names, else `job`.
// Errors: InvalidArgument - a task that is not the rank, two jobs, a name that
//   is empty or has a '/' or a ':', or a negative number; names the key.
Status CompleteDevices(std::vector<Shard>& shards, const std::string& job,
                       int rank);

// What a complete device of this rank does not have from DefaultDevice, as text
// for MergeDevice; "" for nothing.
std::string OwnDevice(const DeviceSpec& device, const DeviceSpec& base);

}  // namespace belay

#endif  // BELAY_PLAN_SHARDS_H_
