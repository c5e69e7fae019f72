#include "storage/conversion_buffer.h"

#include "core/catch_exceptions.h"
#include "core/checksum.h"
#include "core/flat_buffer.h"
#include "core/strided_copy.h"
#include "core/text.h"
#include "storage/file_system.h"

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

// Elements of one dtype, addressed through a store.
template <typename Byte>
struct Elements {
  DType dtype;
  Byte* data;
  StridedStore store;
};

void Convert(const Box& part, const Elements<const char>& from,
             const Elements<char>& to, ConversionLosses* losses) {
  ForEachRunSeries(part, from.store, to.store, [&](const RunSeries& series) {
    for (int64_t i = 0; i < series.count; ++i) {
      const int64_t a = series.a + i * series.a_step;
      const int64_t b = series.b + i * series.b_step;
      ConvertElements(from.dtype, from.data + a * DTypeSize(from.dtype),
                      to.dtype, to.data + b * DTypeSize(to.dtype),
                      series.length, losses);
    }
  });
}

ConversionLosses* FindLosses(const FormedShards& formed, int32_t shard) {
  return formed.losses.empty() ? nullptr : &formed.losses[shard];
}

}  // namespace

int64_t StoredElementSize(const FormedShards& formed, int32_t shard) {
  return IoElementSize(StoredDType(formed, shard));
}

ShardMemory OwnMemory(const FormedShards& formed, int32_t shard) {
  ShardMemory memory = GetMemory(formed.shards[shard]);
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

bool IsStaged(const FormedShards& formed, int32_t shard) {
  return IsStrided(formed.shards[shard]) || IsConverted(formed, shard);
}

int64_t StagedBytes(const FormedShards& formed, int32_t shard,
                    const Box& part) {
  return IsStaged(formed, shard) ? StoredBytes(formed, shard, part) : 0;
}

Status ConversionBuffer::Start(int64_t bytes, std::string_view key,
                               int64_t file_offset) {
  taken_ = file_offset % kPlaces;
  if (bytes == 0 || bytes <= size_) return absl::OkStatus();
  return CatchBadAlloc(Cat(bytes, " bytes to stage \"", key, "\""), [&] {
    size_ = 0;
    memory_ = nullptr;  // free first: never hold both
    memory_ = NewBytes(bytes + 2 * kPlaces);
    auto* const first = reinterpret_cast<char*>(memory_.get());
    page_ = first + kPlaces - reinterpret_cast<uintptr_t>(first) % kPlaces;
    size_ = bytes;
    most_bytes_ = std::max(most_bytes_, bytes);
    return absl::OkStatus();
  });
}

char* ConversionBuffer::Take(int64_t bytes) {
  char* const next = page_ + taken_;
  taken_ += bytes;
  return next;
}

Status StartRound(const FormedShards& formed,
                  std::span<const WriteOrder> orders, int64_t most_bytes,
                  ConversionBuffer& buffer) {
  int64_t bytes = 0;
  std::string_view key;
  for (const WriteOrder& order : orders) {
    if (order.round != orders[0].round || bytes >= most_bytes) break;
    if (!IsStaged(formed, order.shard)) continue;
    bytes += StagedBytes(formed, order.shard, order.box);
    if (key.empty()) key = formed.shards[order.shard].key;
  }
  return buffer.Start(std::min(bytes, most_bytes), key);
}

ShardMemory RoomFor(const FormedShards& formed, int32_t shard, const Box& part,
                    ConversionBuffer& buffer) {
  return {.data = buffer.Take(StoredBytes(formed, shard, part)),
          .element_size = StoredElementSize(formed, shard),
          .box = part,
          .array = StoredArrayShape(formed, shard)};
}

ShardMemory StageForSave(const FormedShards& formed, int32_t shard,
                         const Box& part, ConversionBuffer& buffer) {
  if (!IsStaged(formed, shard)) return OwnMemory(formed, shard);
  ShardMemory staged = RoomFor(formed, shard, part, buffer);
  const Shard& own = formed.shards[shard];
  const auto* source = static_cast<const char*>(own.data);
  const Shape dense;
  if (IsConverted(formed, shard)) {
    Convert(part, {own.dtype, source, MakeStore(own)},
            {StoredDType(formed, shard), staged.data, {part, dense}},
            FindLosses(formed, shard));
  } else {
    GatherElements(own, part, staged.data);
  }
  return staged;
}

void HandOver(const FormedShards& formed, int32_t shard, const Box& part,
              const ShardMemory& staged) {
  const Shard& own = formed.shards[shard];
  const ShardMemory memory = GetMemory(own);
  if (staged.data == memory.data) return;
  const Shape dense;
  if (IsConverted(formed, shard)) {
    Convert(
        part, {StoredDType(formed, shard), staged.data, {staged.box, dense}},
        {own.dtype, memory.data, MakeStore(own)}, FindLosses(formed, shard));
  } else if (IsStrided(own)) {
    ScatterElements(own, part, staged.data, staged.box);
  } else {
    ForEachRun(part, staged.box, memory.box, [&](const ElementRun& run) {
      StreamCopy(memory.data + run.b * memory.element_size,
                 staged.data + run.a * memory.element_size,
                 run.length * memory.element_size);
    });
  }
}

}  // namespace belay
