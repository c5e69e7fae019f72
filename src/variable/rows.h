// Rows of a variable: which ones are meant, and where they are.

#ifndef BELAY_VARIABLE_ROWS_H_
#define BELAY_VARIABLE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "belay/arrays/tensor.h"
#include "belay/sharded_variable.h"
#include "belay/status.h"

namespace belay {

// Of a row's number, on its way to another rank.
inline constexpr int64_t kRowIndexBytes = sizeof(int64_t);

// The row shape: that of the variable without its first axis. Local.
Shape RowShape(const ShardedVariable& variable);

// Returns i32 or i64 values as i64. Local.
// Errors: InvalidArgument - another dtype; names it as `what`.
StatusOr<std::vector<int64_t>> IntegersOf(const Tensor& tensor,
                                          std::string_view what);

// Checks that every row exists. Local.
// Errors: OutOfRange - names the first index that is not a row.
Status CheckRows(const ShardedVariable& variable,
                 const std::vector<int64_t>& rows);

// Checks that indices are 1-D and rows of the variable, and returns them.
// Local.
StatusOr<std::vector<int64_t>> RowsOf(const ShardedVariable& variable,
                                      const Tensor& indices);

// The bytes of a tensor. Local.
inline std::span<std::byte> BytesOf(Tensor& tensor) {
  return {tensor.data(), static_cast<size_t>(tensor.num_bytes())};
}

// Finds the components of many rows. A variable can be cut in many ways, so
// this does not compute: it looks up a range of rows, of which most lie in one
// component, and searches the few components of that range. Borrows the
// variable.
class RowFinder {
 public:
  explicit RowFinder(const ShardedVariable& variable);

  // The component with that row. Local. Requires 0 <= row < shape()[0].
  const Component& Find(int64_t row) const {
    const int64_t range = row >> shift_;
    const Component* first = components_ + first_[range];
    const Component* last = components_ + first_[range + 1];
    while (first < last) {  // the last that begins at or before the row
      const Component* middle = last - (last - first) / 2;
      if (middle->first_row <= row) {
        first = middle;
      } else {
        last = middle - 1;
      }
    }
    return *first;
  }

  // Where the row lies in the memory of its owner, this rank. Local.
  std::byte* Address(const Component& component, int64_t row) const {
    return component.data + (row - component.first_row) * row_bytes_;
  }
  std::byte* Address(int64_t row) const { return Address(Find(row), row); }

 private:
  const Component* components_;
  int64_t row_bytes_;
  int shift_ = 0;
  std::vector<int32_t> first_;  // component of each range's first row, and end
};

// Asks for the bytes of a row that is going to be used soon. Local.
inline void Prefetch(const std::byte* row, int64_t row_bytes) {
  constexpr int64_t kLine = 64;
  constexpr int64_t kMost = 8 * kLine;  // the processor goes on by itself
  for (int64_t at = 0; at < row_bytes && at < kMost; at += kLine) {
    __builtin_prefetch(row + at);
  }
}

}  // namespace belay

#endif  // BELAY_VARIABLE_ROWS_H_
