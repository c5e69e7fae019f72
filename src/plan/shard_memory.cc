#include "plan/shard_memory.h"

#include "bytes/stream_copy.h"
#include "geometry/runs.h"

namespace belay {

ShardMemory MemoryOf(const Shard& shard) {
  if (shard.dtype == DType::kString) {
    const auto length = static_cast<int64_t>(shard.text->size());
    return {.data = shard.text->data(),
            .element_size = 1,
            .box = WholeBox({length}),
            .array = {length}};
  }
  return {.data = static_cast<char*>(shard.data),
          .element_size = IoElementSize(shard.dtype),
          .box = shard.box,
          .array = shard.global_shape};
}

int64_t FileOffset(const Box& box, const Extent& extent, int64_t element_size) {
  return extent.offset + FirstRun(box, box, extent.box).b * element_size;
}

void ForEachSegment(const ShardMemory& memory, const Box& box,
                    const Extent& extent,
                    absl::FunctionRef<void(char*, int64_t, int64_t)> visit) {
  const int64_t size = memory.element_size;
  ForEachRun(box, memory.box, extent.box, [&](const Run& run) {
    visit(memory.data + run.a * size, extent.offset + run.b * size,
          run.length * size);
  });
}

namespace {

// Of one axis, along which all is one run.
OneRun RunOfVector(const ShardMemory& memory, const Box& box,
                   const Extent& extent) {
  const int64_t size = memory.element_size;
  const int64_t first = box.offset[0];
  return {.data = memory.data + (first - memory.box.offset[0]) * size,
          .bytes = box.shape[0] * size,
          .array_offset = first * size,
          .file_offset = extent.offset + (first - extent.box.offset[0]) * size};
}

}  // namespace

std::optional<OneRun> FindOneRun(const ShardMemory& memory, const Box& box,
                                 const Extent& extent) {
  const int64_t elements = NumElements(box.shape);
  if (elements == 0) return std::nullopt;
  if (box.shape.size() == 1) return RunOfVector(memory, box, extent);
  const Run in_file = FirstRun(box, memory.box, extent.box);
  if (in_file.length != elements) return std::nullopt;
  const Run in_array = FirstRun(box, memory.box, WholeBox(memory.array));
  if (in_array.length != elements) return std::nullopt;
  const int64_t size = memory.element_size;
  return OneRun{.data = memory.data + in_file.a * size,
                .bytes = elements * size,
                .array_offset = in_array.b * size,
                .file_offset = extent.offset + in_file.b * size};
}

BlockSum& Checksummer::SumOf(const ShardMemory& memory, int64_t first_block) {
  if (first_block != first_block_) {
    const int64_t bytes = NumElements(memory.array) * memory.element_size;
    sum_.Restart(bytes, registers_.subspan(first_block, NumBlocks(bytes)));
    first_block_ = first_block;
  }
  return sum_;
}

void Checksummer::Add(const ShardMemory& memory, const Box& box,
                      int64_t first_block) {
  // An empty array has no block: its number is that of the next one.
  if (registers_.empty() || IsEmpty(box)) return;
  const int64_t size = memory.element_size;
  BlockSum& sum = SumOf(memory, first_block);
  ForEachRun(box, memory.box, WholeBox(memory.array), [&](const Run& run) {
    sum.Add(run.b * size, memory.data + run.a * size, run.length * size);
  });
}

void Checksummer::AddCopying(const ShardMemory& memory, const OneRun& run,
                             int64_t first_block, char* copy) {
  if (registers_.empty()) return StreamCopy(copy, run.data, run.bytes);
  SumOf(memory, first_block).Add(run.array_offset, run.data, run.bytes, copy);
}

}  // namespace belay
