// Indexing an array: what is in the brackets of `x[...]` in Python.
//
//   Index{row}                       x[row]
//   Index{Slice{2, 8, 3}}            x[2:8:3]
//   Index{-1, Ellipsis{}, NewAxis{}} x[-1, ..., newaxis]
//   Index{&mask}                     x[mask]
//
// ParseIndex reads the Python form.

#ifndef BELAY_ARRAYS_INDEXING_H_
#define BELAY_ARRAYS_INDEXING_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "belay/arrays/tensor.h"
#include "belay/status.h"

namespace belay {

// Any integral type but bool, which NumPy treats as a mask without axes.
template <typename T>
concept IndexInteger = std::integral<T> && !std::same_as<T, bool>;

// Returns the number as a signed 64-bit integer. Larger numbers become
// INT64_MAX, which is past the end of every axis. Local.
template <IndexInteger T>
constexpr int64_t ToIndexNumber(T number) {
  using Limits = std::numeric_limits<int64_t>;
  if constexpr (std::numeric_limits<T>::digits > Limits::digits) {
    if (number > static_cast<T>(Limits::max())) return Limits::max();
  }
  return static_cast<int64_t>(number);
}

// One of the numbers of a slice; unset means its default.
class SliceNumber : public std::optional<int64_t> {
 public:
  constexpr SliceNumber() = default;
  constexpr SliceNumber(std::nullopt_t) {}
  constexpr SliceNumber(std::optional<int64_t> number)
      : std::optional<int64_t>(number) {}
  template <IndexInteger T>
  constexpr SliceNumber(T number)
      : std::optional<int64_t>(ToIndexNumber(number)) {}

  friend constexpr bool operator==(const SliceNumber& a, const SliceNumber& b) {
    return static_cast<const std::optional<int64_t>&>(a) ==
           static_cast<const std::optional<int64_t>&>(b);
  }
  friend constexpr bool operator==(const SliceNumber& a,
                                   const std::optional<int64_t>& b) {
    return a == SliceNumber(b);
  }
  friend constexpr bool operator==(const SliceNumber& a, std::nullopt_t) {
    return !a.has_value();
  }
  template <IndexInteger T>
  friend constexpr bool operator==(const SliceNumber& a, T b) {
    return a == SliceNumber(b);
  }
};

// start:stop:step with all rules of Python: negative numbers count from the
// end, ranges are clipped, and a missing part has its default. A step of 0 is
// an error.
struct Slice {
  SliceNumber start = {};
  SliceNumber stop = {};
  SliceNumber step = {};
};

// All axes that no other item uses; allowed at most once.
struct Ellipsis {};

// An axis of length 1 in the result.
struct NewAxis {};

// One item in the brackets. An integer of any type but bool selects one
// position of an axis; no other type converts to an integer. A mask is a bool
// tensor whose shape is that of the first axes, at least one. It is borrowed
// and must be the only item. The selected elements become one axis.
class IndexItem
    : public std::variant<int64_t, Slice, Ellipsis, NewAxis, const Tensor*> {
 public:
  template <IndexInteger T>
  IndexItem(T position) : variant(ToIndexNumber(position)) {}
  IndexItem(Slice slice) : variant(slice) {}
  IndexItem(Ellipsis ellipsis) : variant(ellipsis) {}
  IndexItem(NewAxis axis) : variant(axis) {}
  IndexItem(const Tensor* mask) : variant(mask) {}
};

// The items from left to right. Braces always enclose items: Index{n} is x[n],
// whatever the type of n.
class Index {
 public:
  // Selects everything.
  Index() = default;
  Index(std::initializer_list<IndexItem> items) : items_(items) {}
  explicit Index(std::vector<IndexItem> items) : items_(std::move(items)) {}

  // Local.
  void push_back(const IndexItem& item) { items_.push_back(item); }

  // Local.
  bool empty() const { return items_.empty(); }
  size_t size() const { return items_.size(); }
  const IndexItem& operator[](size_t i) const { return items_[i]; }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

 private:
  std::vector<IndexItem> items_;
};

// Returns the Python form, such as "2:8:3, ..., newaxis"; "" for an empty
// index, which selects everything. A mask is "mask[4, 3]", with its shape.
// Local.
std::string IndexText(const Index& index);

// Parses the Python form, without masks. "None" also means newaxis, and one
// trailing comma is allowed. Local.
// Errors: InvalidArgument - not of that form, or a number beyond 64 bits.
StatusOr<Index> ParseIndex(std::string_view text);

// Returns x[index] of a dense tensor. Local.
// Errors: OutOfRange - an integer outside its axis, more items than axes;
//   InvalidArgument - a step of 0, two ellipses, a tensor that is not a mask, a
//   mask that is not the only item or has a wrong shape.
StatusOr<Tensor> GetItem(const Tensor& x, const Index& index);

// Assigns x[index] = value. The value is broadcast to the shape of x[index] as
// in NumPy; its leading axes of length 1 are ignored. Local.
// Errors: those of GetItem; InvalidArgument - a different dtype, or a shape
//   that does not broadcast. On an error `x` is unchanged.
Status SetItem(Tensor& x, const Index& index, const Tensor& value);

}  // namespace belay

#endif  // BELAY_ARRAYS_INDEXING_H_
