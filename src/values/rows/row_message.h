// What ranks send each other of rows: groups of one key each, with the rows,
// their ids, or both. Pure.

#ifndef BELAY_VALUES_ROWS_ROW_MESSAGE_H_
#define BELAY_VALUES_ROWS_ROW_MESSAGE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "belay/arrays/dtype.h"
#include "belay/arrays/shard.h"
#include "belay/status.h"
#include "bytes/message.h"

namespace belay {

enum class RowParts : uint8_t { kRows, kIds, kIdsAndRows };

// Where those of a new group are to be put.
struct RowGroupRoom {
  std::byte* ids = nullptr;
  std::byte* rows = nullptr;
};

// Appends to the message of each rank a group of those rows of a shard that go
// to it. `ranks` says where each row goes. What is returned, one per rank, is
// valid until the next call.
std::vector<RowGroupRoom> AppendRowGroups(const Shard& shard,
                                          const std::vector<int32_t>& ranks,
                                          RowParts parts, Messages& to);

// One group of a message, which it borrows from.
struct RowGroup {
  std::string_view key;  // as of RowsId
  DType dtype = DType::kU8;
  int64_t row_bytes = 0;
  std::string_view fields;  // of its structs
  int64_t count = 0;
  const std::byte* ids = nullptr;
  const std::byte* rows = nullptr;

  // The id of the i-th row.
  int64_t id(int64_t i) const {
    int64_t value = 0;
    std::memcpy(&value, ids + i * 8, sizeof(value));
    return value;
  }
};

// Takes the first group off a message that is not empty.
RowGroup TakeRowGroup(std::span<std::byte>& message);

// Whether the rows of a group are of the same form as those of a shard.
bool HasFormOf(const RowGroup& group, const Shard& shard);

}  // namespace belay

#endif  // BELAY_VALUES_ROWS_ROW_MESSAGE_H_
