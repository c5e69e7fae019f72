// A shard: its memory, its elements, its device.

#ifndef BELAY_PLAN_SHARDS_H_
#define BELAY_PLAN_SHARDS_H_

#include <optional>
#include <span>

#include "absl/functional/function_ref.h"
#include "belay/arrays/device.h"
#include "belay/extend/shard.h"
#include "belay/status.h"
#include "core/checksum.h"
#include "core/strided_copy.h"
#include "plan/plan.h"

namespace belay {

// Borrows the shard.
inline StridedStore MakeStore(const Shard& shard) {
  return {shard.box, shard.strides};
}

// Returns true if the elements have strides, or are structs whose layout in
// memory differs from the stored layout.
bool IsStrided(const Shard& shard);

// Returns the bytes from the first element to the end of the last one. Requires
// that the box has elements.
int64_t SpanBytes(const Shard& shard);

// Copies a part of the shard to `to`, dense and row-major. Not for strings.
void GatherElements(const Shard& shard, const Box& box, char* to);

// Copies a part of the shard from `from`, which holds `from_box` dense and
// row-major. Not for strings.
void ScatterElements(const Shard& shard, const Box& box, const char* from,
                     const Box& from_box);

// The only code that converts orders to addresses, for transfers, reads and
// checksums.

// The memory of a shard as dense io elements.
struct ShardMemory {
  char* data = nullptr;
  int64_t element_size = 1;
  Box box;      // what `data` holds
  Shape array;  // shape of the whole array
};

// A string must have its final length.
ShardMemory GetMemory(const Shard& shard);

// Returns the offset of the first element of `box` in the file. Requires a box
// that is not empty.
int64_t FileOffset(const Box& box, const Extent& extent, int64_t element_size);

// Calls `visit(memory, file offset, bytes)` for every run of `box` in `extent`.
void ForEachSegment(const ShardMemory& memory, const Box& box,
                    const Extent& extent,
                    absl::FunctionRef<void(char*, int64_t, int64_t)> visit);

// A part of a shard that is one run of bytes in memory, array and file.
struct OneRun {
  char* data = nullptr;
  int64_t bytes = 0;
  int64_t array_offset = 0;
  int64_t file_offset = 0;
};

// Returns nothing if the part is empty or has several runs.
std::optional<OneRun> FindOneRun(const ShardMemory& memory, const Box& box,
                                 const Extent& extent);

// Sums parts of shards into the block registers of a checkpoint.
class Checksummer {
 public:
  // `registers` is borrowed; empty: sums nothing.
  explicit Checksummer(std::span<uint32_t> registers) : registers_(registers) {}

  // Adds the part `box` of a shard; `first_block` is block 0 of the array.
  void Add(const ShardMemory& memory, const Box& box, int64_t first_block);

  // Like Add, for one run, which is also copied to `copy`.
  void AddCopying(const ShardMemory& memory, const OneRun& run,
                  int64_t first_block, char* copy);

  // Completes the sums.
  void Flush() {
    sum_.Flush();
    first_block_ = -1;
  }

 private:
  BlockSum& FindSum(const ShardMemory& memory, int64_t first_block);

  std::span<uint32_t> registers_;
  int64_t first_block_ = -1;  // of the array that sum_ is for; -1: none
  BlockSum sum_{0, {}};
};

// Devices of shards. A rank is one task: all its shards have the rank as task
// number, and the same job. The default is
// /job:J/replica:R/task:T/device:CPU:0, where R is the replica number of a
// shard with a layout, and 0 otherwise.

// Returns the device of a shard that does not name one. `layout` is the layout
// of the shard, or "".
DeviceSpec DefaultDevice(std::string_view job, int rank,
                         std::string_view layout, int64_t replica);

// Completes the devices of a rank's shards. Their job is the one that any shard
// names, else `job`.
// Errors: InvalidArgument - a task that is not the rank, two jobs, a name that
//   is empty or has a "/" or a ":", or a negative number; names the key.
Status CompleteDevices(std::vector<Shard>& shards, const std::string& job,
                       int rank);

// Returns how a complete device differs from `base`, as text for MergeDevice.
std::string OwnDevice(const DeviceSpec& device, const DeviceSpec& base);

}  // namespace belay

#endif  // BELAY_PLAN_SHARDS_H_
