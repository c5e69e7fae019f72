// Checks, agreements and lookups shared by operations on sharded variables.

#ifndef BELAY_SHARDED_VARIABLE_OPERATION_H_
#define BELAY_SHARDED_VARIABLE_OPERATION_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/indexing.h"
#include "belay/arrays/tensor.h"
#include "belay/comm.h"
#include "belay/sharded_variable.h"
#include "belay/status.h"
#include "belay/variable/sharded_variable_ops.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/flat_buffer.h"
#include "core/selection.h"
#include "core/text.h"
#include "mpi/collective.h"

namespace belay {

// The send and receive buffers of row updates. A variable keeps them from one
// update to the next: filling fresh memory costs about as much as the exchange.
struct Scratch {
  // Returns the variable's buffers; null if there are none.
  static std::unique_ptr<Scratch>& Of(ShardedVariable& variable) {
    return variable.scratch_;
  }

  ReusableBytes sent;
  ReusableBytes received;
};

// The size of a row index in messages.
inline constexpr int64_t kRowIndexBytes = sizeof(int64_t);

// Returns the variable's shape without the first axis.
Shape RowShape(const ShardedVariable& variable);

// Returns the elements of a Narrow or Wide tensor as Wide values.
// Errors: InvalidArgument - another dtype; calls the tensor `what`.
template <typename Narrow, typename Wide>
StatusOr<std::vector<Wide>> ReadValues(const Tensor& tensor,
                                       std::string_view what) {
  const auto widen = [](const auto& values) {
    return std::vector<Wide>(values.begin(), values.end());
  };
  constexpr DType kNarrow = DTypeOf<Narrow>(), kWide = DTypeOf<Wide>();
  if (tensor.dtype() == kNarrow) return widen(tensor.values<Narrow>());
  if (tensor.dtype() == kWide) return widen(tensor.values<Wide>());
  return absl::InvalidArgumentError(
      Cat(what, " of another dtype (need ", DTypeName(kNarrow), " or ",
          DTypeName(kWide), ", found ", DTypeName(tensor.dtype()), ")"));
}

// Returns i32 or i64 values as i64.
inline StatusOr<std::vector<int64_t>> ReadIntegers(const Tensor& tensor,
                                                   std::string_view what) {
  return ReadValues<int32_t, int64_t>(tensor, what);
}

// Checks that every row exists.
// Errors: OutOfRange - names the first index that is not a row.
Status CheckRows(const ShardedVariable& variable,
                 const std::vector<int64_t>& rows);

// Returns the indices. Checks that they are 1-D and rows of the variable.
StatusOr<std::vector<int64_t>> ReadRows(const ShardedVariable& variable,
                                        const Tensor& indices);

// Finds the components of many rows, for any partition. Divides the rows into
// ranges, most of which are inside one component, and searches only the few
// components of a row's range. Borrows the variable.
class RowFinder {
 public:
  explicit RowFinder(const ShardedVariable& variable);

  // Requires 0 <= row < shape()[0].
  const Component& Find(int64_t row) const {
    const int64_t range = row >> shift_;
    const Component* first = components_ + first_[range];
    const Component* last = components_ + first_[range + 1];
    while (first < last) {  // find the last one starting at or before the row
      const Component* middle = last - (last - first) / 2;
      if (middle->first_row <= row) {
        first = middle;
      } else {
        last = middle - 1;
      }
    }
    return *first;
  }

  // Return the address of a row that this rank owns.
  std::byte* Address(const Component& component, int64_t row) const {
    return component.data + (row - component.first_row) * row_bytes_;
  }
  std::byte* Address(int64_t row) const { return Address(Find(row), row); }

 private:
  const Component* components_;
  int64_t row_bytes_;
  int shift_ = 0;
  // Component of each range's first row; then the last component.
  std::vector<int32_t> first_;
};

inline void Prefetch(const std::byte* row, int64_t row_bytes) {
  constexpr int64_t kLine = 64;
  constexpr int64_t kMax = 8 * kLine;  // the hardware prefetches the rest
  for (int64_t at = 0; at < row_bytes && at < kMax; at += kLine) {
    __builtin_prefetch(row + at);
  }
}

// One operation on sharded variables: its name, which is the prefix of its
// errors, and the context of its agreements, whose deadline has no watchdog.
struct Operation {
  std::string name;
  CommContext context;

  // `variable` is the name of the variable. Local, and equal on all ranks of a
  // correct program.
  // Errors: FailedPrecondition - the communicator is closed or was moved from.
  static Agreed<Operation> Begin(const Comm& comm, std::string_view verb,
                                 std::string_view variable,
                                 double deadline_seconds);

  // Returns the status with the name before its message.
  Status Name(const Status& status) const;

  // Agrees on the result of this rank. Collective; agreed.
  Agreed<> Agree(const Status& mine);

  // Does the same, and also agrees that the fingerprints are equal on all
  // ranks; `what` describes the fingerprinted values. Collective; agreed.
  Agreed<> AgreeOnCall(std::string_view what, const Status& mine,
                       uint64_t fingerprint);

  // Adds the number of bytes sent to options.bytes_sent.
  template <typename Options>
  void CountBytes(const Options& options) const {
    if (options.bytes_sent != nullptr)
      *options.bytes_sent += context.bytes_sent;
  }
};

// Returns the status with `name: ` before its message.
Status NameStatus(std::string_view name, const Status& status);

// Returns the name, or "ShardedVariable" if it is empty.
std::string NameOrDefault(const std::string& name);

// Checks the dtype and the shape of a variable.
// Errors: InvalidArgument - strings, no axis or too many, a negative length,
//   too many elements.
Status CheckElements(DType dtype, const Shape& shape);

// Checks that the variable was created on these ranks.
// Errors: FailedPrecondition - it has no components, or was created on other
//   ranks.
Status CheckVariable(const Comm& comm, const ShardedVariable& variable);

Status CheckValue(const Tensor& value, DType dtype, const Shape& shape);

// Fingerprints of values that must be equal on all ranks.
uint64_t VariableFingerprint(const ShardedVariable& variable);
uint64_t SelectionFingerprint(const Selection& selection);
uint64_t TensorFingerprint(const Tensor& tensor);
uint64_t CombineFingerprints(std::initializer_list<uint64_t> fingerprints);

}  // namespace belay

#endif  // BELAY_SHARDED_VARIABLE_OPERATION_H_
