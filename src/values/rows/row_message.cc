#include "values/rows/row_message.h"

#include "bytes/wire.h"
#include "values/rows/rank_rows.h"
#include "values/struct_layout.h"

namespace belay {
namespace {

constexpr int64_t kIdBytes = 8;

RowGroupRoom AppendRowGroup(const Shard& shard, int64_t count, RowParts parts,
                            Message& message) {
  const int64_t row_bytes = RowBytes(shard);
  WireWriter head;
  head.PutText(RowsId(shard));
  head.Put(shard.dtype);
  head.Put(row_bytes);
  head.PutText(FieldsTextOf(shard));
  head.Put(count);
  head.Put(parts);
  message.Append(head.bytes());
  const int64_t ids = parts == RowParts::kRows ? 0 : count * kIdBytes;
  const int64_t rows = parts == RowParts::kIds ? 0 : count * row_bytes;
  std::byte* const room = message.Extend(static_cast<size_t>(ids + rows));
  return {.ids = room, .rows = room + ids};
}

}  // namespace

std::vector<RowGroupRoom> AppendRowGroups(const Shard& shard,
                                          const std::vector<int32_t>& ranks,
                                          RowParts parts, Messages& to) {
  std::vector<int64_t> counts(to.size());
  for (const int32_t rank : ranks) ++counts[static_cast<size_t>(rank)];
  std::vector<RowGroupRoom> rooms(to.size());
  for (size_t rank = 0; rank < to.size(); ++rank) {
    if (counts[rank] == 0) continue;
    rooms[rank] = AppendRowGroup(shard, counts[rank], parts, to[rank]);
  }
  return rooms;
}

RowGroup TakeRowGroup(std::span<std::byte>& message) {
  const std::string_view bytes(reinterpret_cast<const char*>(message.data()),
                               message.size());
  WireReader in(bytes);
  RowGroup group;
  group.key = in.GetText();
  group.dtype = in.Get<DType>();
  group.row_bytes = in.Get<int64_t>();
  group.fields = in.GetText();
  group.count = in.Get<int64_t>();
  const auto parts = in.Get<RowParts>();
  const size_t head = bytes.size() - in.Rest().size();
  const int64_t ids = parts == RowParts::kRows ? 0 : group.count * kIdBytes;
  const int64_t rows =
      parts == RowParts::kIds ? 0 : group.count * group.row_bytes;
  group.ids = message.data() + head;
  group.rows = group.ids + ids;
  message = message.subspan(head + static_cast<size_t>(ids + rows));
  return group;
}

bool HasFormOf(const RowGroup& group, const Shard& shard) {
  return group.dtype == shard.dtype && group.row_bytes == RowBytes(shard) &&
         group.fields == FieldsTextOf(shard);
}

}  // namespace belay
