#include "store/staging.h"

#include "base/element_conversion.h"
#include "base/huge_pages.h"
#include "base/stream_copy.h"
#include "base/text.h"
#include "base/with_memory.h"
#include "geometry/runs.h"
#include "store/slow_target.h"

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

}  // namespace

int64_t StoredElementSize(const FormedShards& formed, int32_t shard) {
  return IoElementSize(StoredDType(formed, shard));
}

ShardMemory OwnMemory(const FormedShards& formed, int32_t shard) {
  ShardMemory memory = MemoryOf(formed.shards[shard]);
  if (!formed.forms.empty() && formed.shards[shard].dtype != DType::kString) {
    memory.array = StoredShape(formed, shard);
  }
  return memory;
}

Shape StoredArrayShape(const FormedShards& formed, int32_t shard) {
  return OwnMemory(formed, shard).array;
}

bool IsConverted(const FormedShards& formed, int32_t shard) {
  return StoredDType(formed, shard) != formed.shards[shard].dtype;
}

int64_t StoredBytes(const FormedShards& formed, int32_t shard,
                    const Box& part) {
  return NumElements(part.shape) * StoredElementSize(formed, shard);
}

int64_t StagedBytes(const FormedShards& formed, int32_t shard,
                    const Box& part) {
  return IsConverted(formed, shard) ? StoredBytes(formed, shard, part) : 0;
}

Status Staging::Start(int64_t bytes, std::string_view key,
                      int64_t file_offset) {
  taken_ = file_offset % kPlaces;
  if (bytes == 0 || bytes <= size_) return absl::OkStatus();
  return WithMemory(Cat(bytes, " bytes to stage \"", key, "\""), [&] {
    size_ = 0;
    memory_ = nullptr;  // first: never both at once
    memory_ = NewBytes(bytes + 2 * kPlaces);
    auto* const first = reinterpret_cast<char*>(memory_.get());
    page_ = first + kPlaces - reinterpret_cast<uintptr_t>(first) % kPlaces;
    size_ = bytes;
    most_bytes_ = std::max(most_bytes_, bytes);
    return absl::OkStatus();
  });
}

char* Staging::Take(int64_t bytes) {
  char* const next = page_ + taken_;
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

ShardMemory RoomFor(const FormedShards& formed, int32_t shard, const Box& part,
                    Staging& staging) {
  return {.data = staging.Take(StoredBytes(formed, shard, part)),
          .element_size = StoredElementSize(formed, shard),
          .box = part,
          .array = StoredArrayShape(formed, shard)};
}

ShardMemory StageForSave(const FormedShards& formed, int32_t shard,
                         const Box& part, Staging& staging) {
  if (!IsConverted(formed, shard)) return OwnMemory(formed, shard);
  ShardMemory staged = RoomFor(formed, shard, part, staging);
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
  const ShardMemory own = MemoryOf(formed.shards[shard]);
  if (staged.data == own.data) return;
  const bool is_converted = IsConverted(formed, shard);
  ForEachRun(part, staged.box, own.box, [&](const Run& run) {
    const char* from = staged.data + run.a * staged.element_size;
    char* to = own.data + run.b * own.element_size;
    if (is_converted) {
      ConvertElements(StoredDType(formed, shard), from,
                      formed.shards[shard].dtype, to, run.length);
    } else {
      StreamCopy(to, from, run.length * own.element_size);
    }
  });
}

}  // namespace belay
