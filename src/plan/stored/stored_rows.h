// How many rows of an array each rank had that saved it.

#ifndef BELAY_PLAN_STORED_STORED_ROWS_H_
#define BELAY_PLAN_STORED_STORED_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"

namespace belay {

// The typestr of values that are rows.
inline constexpr std::string_view kRowsTypestr = "rows";

// As the index says it: what may be long is not spelled out.
struct RowRanks {
  int64_t ranks = 0;           // that saved
  int64_t count = -1;          // the rows of each, or -1: see `first`
  std::vector<int64_t> first;  // the first row of each, and the number of all

  // The first row of a rank, or of the one behind the last: all.
  int64_t FirstOf(int64_t rank) const {
    return count >= 0 ? rank * count : first[static_cast<size_t>(rank)];
  }

  friend bool operator==(const RowRanks&, const RowRanks&) = default;
};

// Those of ranks with so many rows each.
RowRanks RowRanksOf(const std::vector<int64_t>& counts);

struct StoredRows {
  uint32_t array = 0;  // a row of the array table
  RowRanks ranks;

  friend bool operator==(const StoredRows&, const StoredRows&) = default;
};

// The rows of a rank among `count` if each of so many has the same number, or
// one more: those from FirstOfEven(rank) to FirstOfEven(rank + 1).
inline int64_t FirstOfEven(int64_t count, int64_t rank, int64_t num_ranks) {
  const int64_t each = count / num_ranks, more = count % num_ranks;
  return rank * each + std::min(rank, more);
}

// Columns of an index; see docs/format.md.
struct RowColumns {
  // One row per array with rows.
  std::vector<uint32_t> array;
  std::vector<int64_t> ranks;
  std::vector<int64_t> count;  // of each rank, or -1: not all the same
  std::vector<int64_t> first;  // ranks + 1 rows where the count is -1
};

// Calls fn(path inside the index, column) for every column; the one list of
// names.
template <typename Columns, typename Fn>
void ForEachRowColumn(Columns& columns, Fn&& fn) {
  fn(".belay/rows/array", columns.array);
  fn(".belay/rows/ranks", columns.ranks);
  fn(".belay/rows/count", columns.count);
  fn(".belay/rows/first", columns.first);
}

RowColumns ToRowColumns(const std::vector<StoredRows>& rows);

// Takes columns apart, for arrays of these shapes. Returns what is wrong with
// them, "" if nothing.
std::string FromRowColumns(const RowColumns& columns,
                           const std::vector<Shape>& shapes,
                           std::vector<StoredRows>& rows);

}  // namespace belay

#endif  // BELAY_PLAN_STORED_STORED_ROWS_H_
