#include "store/staging.h"

#include "base/element_conversion.h"
#include "base/text.h"
#include "base/with_memory.h"
#include "geometry/runs.h"

namespace belay {
namespace {

DType StoredDType(const FormedShards& formed, int32_t shard) {
  return formed.forms.empty() ? formed.shards[shard].dtype
                              : formed.forms[shard].dtype;
}

const Shape& StoredShape(const FormedShards& formed, int32_t shard) {
  return formed.forms.empty() ? formed.shards[shard].global_shape
                              : formed.forms[shard].shape;
}

// The shard's memory; its box may reach past the array that is stored.
ShardMemory OwnMemory(const FormedShards& formed, int32_t shard) {
  ShardMemory memory = MemoryOf(formed.shards[shard]);
  if (!formed.forms.empty() && formed.shards[shard].dtype != DType::kString) {
    memory.array = StoredShape(formed, shard);
  }
  return memory;
}

}  // namespace

int64_t StoredElementSize(const FormedShards& formed, int32_t shard) {
  return IoElementSize(StoredDType(formed, shard));
}

Shape StoredArrayShape(const FormedShards& formed, int32_t shard) {
  return OwnMemory(formed, shard).array;
}

bool IsConverted(const FormedShards& formed, int32_t shard) {
  return StoredDType(formed, shard) != formed.shards[shard].dtype;
}

int64_t StagedBytes(const FormedShards& formed, int32_t shard,
                    const Box& part) {
  if (!IsConverted(formed, shard)) return 0;
  return NumElements(part.shape) * StoredElementSize(formed, shard);
}

Status Staging::Start(int64_t bytes, std::string_view key) {
  taken_ = 0;
  if (bytes == 0 || bytes <= memory_.size) return absl::OkStatus();
  most_bytes_ = std::max(most_bytes_, bytes);
  return WithMemory(Cat(bytes, " bytes to convert \"", key, "\""), [&] {
    memory_ = {};  // first: never both at once
    memory_.bytes = NewBytes(bytes);
    memory_.size = bytes;
    return absl::OkStatus();
  });
}

char* Staging::Take(int64_t bytes) {
  char* const next = reinterpret_cast<char*>(memory_.bytes.get()) + taken_;
  taken_ += bytes;
  return next;
}

Status StartRound(const FormedShards& formed,
                  std::span<const WriteOrder> orders, int64_t most_bytes,
                  Staging& staging) {
  int64_t bytes = 0;
  std::string_view key;
  for (const WriteOrder& order : orders) {
    if (order.round != orders[0].round || bytes >= most_bytes) break;
    if (!IsConverted(formed, order.shard)) continue;
    bytes += StagedBytes(formed, order.shard, order.box);
    if (key.empty()) key = formed.shards[order.shard].key;
  }
  return staging.Start(std::min(bytes, most_bytes), key);
}

ShardMemory StageForRestore(const FormedShards& formed, int32_t shard,
                            const Box& part, Staging& staging) {
  if (!IsConverted(formed, shard)) return OwnMemory(formed, shard);
  return {.data = staging.Take(StagedBytes(formed, shard, part)),
          .element_size = StoredElementSize(formed, shard),
          .box = part,
          .array = StoredShape(formed, shard)};
}

ShardMemory StageForSave(const FormedShards& formed, int32_t shard,
                         const Box& part, Staging& staging) {
  ShardMemory staged = StageForRestore(formed, shard, part, staging);
  if (!IsConverted(formed, shard)) return staged;
  const Shard& own = formed.shards[shard];
  const auto* source = static_cast<const char*>(own.data);
  const DType to = StoredDType(formed, shard);
  ForEachRun(part, own.box, part, [&](const Run& run) {
    ConvertElements(own.dtype, source + run.a * DTypeSize(own.dtype), to,
                    staged.data + run.b * staged.element_size, run.length);
  });
  return staged;
}

void HandOver(const FormedShards& formed, int32_t shard, const Box& part,
              const ShardMemory& staged) {
  const Shard& own = formed.shards[shard];
  auto* target = static_cast<char*>(own.data);
  if (own.dtype == DType::kString || staged.data == target) return;
  const DType from = StoredDType(formed, shard);
  ForEachRun(part, staged.box, own.box, [&](const Run& run) {
    ConvertElements(from, staged.data + run.a * staged.element_size, own.dtype,
                    target + run.b * DTypeSize(own.dtype), run.length);
  });
}

}  // namespace belay
