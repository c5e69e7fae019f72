// Rows: data of which each rank holds any number, such as particles, or values
// that are separate on each rank, such as the state of a random generator.
//
//   state.AddRows("particles/x", x);          // as many as each rank has
//   state.AddRowsById("cells/t", ids, t);     // the cells of a mesh
//   state.AddPerRank("random", random);       // of this rank's own
//
// The checkpoint stores one array, the rows of all ranks in rank order, and the
// number of rows of each rank. If the number of ranks is unchanged and every
// rank that saved rows restores them, each rank gets its own rows back;
// otherwise the options decide. Rows with ids are stored in id order, and each
// rank gets the rows that it asks for.

#ifndef BELAY_ROWS_H_
#define BELAY_ROWS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/fields.h"
#include "belay/arrays/memory.h"

namespace belay {

// What each rank gets if the number of ranks differs from that of the save.
enum class OtherRanks : uint8_t {
  kError,  // an error
  kEven,   // all rows in order, split evenly: counts differ by at most 1
  kFirst,  // each rank gets the rows of rank 0
};

// What a restore does if the fields of the program's structs differ from the
// stored ones. Fields are matched by name; their offsets do not matter.
enum class OtherFields : uint8_t {
  kError,   // an error that names them
  kByName,  // restores common fields; the program's others are kept
};

// How rows of T are restored.
template <typename T>
struct RowsOptions {
  // Shape of a row whose numbers are consecutive in the range: {100} for rows
  // of 100 numbers. Empty: each element of the range is a row. Must be empty
  // for structs.
  Shape row = {};
  OtherRanks other_ranks = OtherRanks::kEven;
  OtherFields other_fields = OtherFields::kError;
  // Overrides `other_ranks`. Returns the rank whose rows this rank gets,
  // 0 <= result < saved_ranks, or -1 for no rows. Must return the same on all
  // ranks for equal arguments. Like every rule but kEven, it is an error if the
  // stored array was not saved as rows of ranks.
  std::function<int(int rank, int num_ranks, int saved_ranks)> source = nullptr;
  // Overrides `source` and `other_ranks`, for any number of ranks. Returns the
  // rank that gets a row; the argument is the first element of the row. Called
  // once for each row, on one of the ranks. The rows of one rank stay in order.
  // Struct members that are not listed as fields get the values of a new
  // struct.
  std::function<int(const T& row)> owner = nullptr;
};

// How rows with ids are stored.
struct IdOptions {
  Shape row = {};  // as in RowsOptions
  // Total number of rows of all ranks, if the program knows it; a different
  // number is an error of saves and restores. -1: any number, so a restore of a
  // smaller mesh gets the first rows of a larger one.
  int64_t count = -1;
  OtherFields other_fields = OtherFields::kError;
};

// How values that are separate on each rank are restored.
struct PerRankOptions {
  // kEven is for lists of rows, such as the particles of a rank; it is an error
  // for a std::string.
  OtherRanks other_ranks = OtherRanks::kError;
  OtherFields other_fields = OtherFields::kError;
  // As in RowsOptions, except that -1 leaves the value unchanged.
  std::function<int(int rank, int num_ranks, int saved_ranks)> source = nullptr;
};

template <Element T>
struct RowType<T> {
  using ElementType = T;
  // Returns the shape of a row; empty for a single number. Local.
  static Shape Row() { return {}; }
};
template <Element T, size_t kLength>
struct RowType<std::array<T, kLength>> {
  using ElementType = T;
  // Local.
  static Shape Row() { return {static_cast<int64_t>(kLength)}; }
};

template <typename T>
concept RowElement = StructRow<T> || requires {
  typename RowType<T>::ElementType;
};

// A range whose elements are rows, such as a std::vector<double>, a
// std::vector<std::array<double, 3>> or a std::vector of structs with listed
// fields.
template <typename R>
concept RowRange =
    std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    RowElement<std::remove_cv_t<std::ranges::range_value_t<R>>>;

// Anything else; gives a clear error.
template <typename R>
concept NotRowRange = !RowRange<R>;

// A temporary that refers to rows, such as a std::span.
template <typename R>
concept RowView =
    !std::is_reference_v<R> && std::ranges::borrowed_range<R> && RowRange<R>;

// The ids of rows: a range of integers, such as std::vector<int64_t>.
template <typename R>
concept IdRange = ElementRange<R> &&
    std::is_integral_v<std::remove_cv_t<std::ranges::range_value_t<R>>> &&
    !std::is_same_v<std::remove_cv_t<std::ranges::range_value_t<R>>, bool>;

// Anything else; gives a clear error.
template <typename R>
concept NotIdRange = !IdRange<R>;

// Ids that must outlive their shard: all ranges but views.
template <typename R>
concept LastingIds = IdRange<R> && !std::ranges::view<R>;

// A value that AddPerRank accepts.
template <typename T>
concept PerRankValue = std::is_same_v<std::remove_cvref_t<T>, std::string> ||
    RowElement<std::remove_cvref_t<T>> || RowRange<std::remove_reference_t<T>>;

}  // namespace belay

#endif  // BELAY_ROWS_H_
