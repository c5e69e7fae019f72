// Rows: data of which each rank holds any number, such as particles, or values
// that each rank has of its own, such as the state of a random generator.
//
//   state.AddRows("particles/x", x);          // as many as each rank has
//   state.AddRowsById("cells/t", ids, t);     // the cells of a mesh
//   state.AddPerRank("random", random);       // of this rank's own
//
// The checkpoint stores one array, the rows of all ranks in rank order, and the
// number of rows of each rank. If the number of ranks is unchanged and every
// rank that saved rows restores them, each rank gets its own back; otherwise
// the options decide. Rows with ids are stored in id order, and each rank gets
// the rows that it asks for.

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
#include "belay/arrays/shard.h"

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
  // Overrides both, on any number of ranks. Returns the rank that gets a row;
  // the argument is the first element of the row. Called once for each row, on
  // one of the ranks. The rows of one rank stay in order. Struct members that
  // are not listed as fields have the values of a new struct.
  std::function<int(const T& row)> owner = nullptr;
};

// How rows with ids are stored.
struct IdOptions {
  Shape row = {};  // as in RowsOptions
  // Total number of rows of all ranks, if the program knows it: any other
  // number is an error, for saves and for restores. -1: any number, so the ids
  // of a smaller mesh select the first rows of a larger one.
  int64_t count = -1;
  OtherFields other_fields = OtherFields::kError;
};

// How values that each rank has of its own are restored.
struct PerRankOptions {
  // kEven is for lists of rows, such as the particles of a rank; it is an error
  // for a std::string.
  OtherRanks other_ranks = OtherRanks::kError;
  OtherFields other_fields = OtherFields::kError;
  // As in RowsOptions, except that -1 leaves the value unchanged.
  std::function<int(int rank, int num_ranks, int saved_ranks)> source = nullptr;
};

// RowsOptions without T, as a Shard holds them.
struct RankRows {
  bool is_per_rank = false;  // each rank has its own value
  bool is_text = false;      // the bytes of a std::string
  Shape row = {};
  OtherRanks other_ranks = OtherRanks::kEven;
  OtherFields other_fields = OtherFields::kError;
  std::function<int(int rank, int num_ranks, int saved_ranks)> source = nullptr;
  std::function<int(const void* row)> owner = nullptr;
  // If the restore reads another key: the key of the program.
  std::string key = {};
  // For rows with ids: the current number of ids, the id at an index (null: no
  // ids), and the number of rows of all ranks (-1: any number).
  std::function<size_t()> num_ids = nullptr;
  std::function<int64_t(size_t)> id = nullptr;
  int64_t count = -1;
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
concept NoRowRange = !RowRange<R>;

// A temporary that refers to rows, such as a std::span.
template <typename R>
concept RowView =
    !std::is_reference_v<R> && std::ranges::borrowed_range<R> && RowRange<R>;

// Implementation details: how a range of rows is accessed and resized.
namespace rows {

// How a row is stored: its element type and its shape.
struct RowForm {
  DType dtype = DType::kU8;
  Shape shape = {};
  std::shared_ptr<const StructLayout> structs = nullptr;
};

// Returns how a T is stored. Local.
template <typename T>
RowForm FormOf() {
  if constexpr (StructRow<T>) {
    RowForm form{.structs = RowType<T>::Fields().layout()};
    form.shape = {form.structs->stored_bytes};
    return form;
  } else {
    return {DTypeOf<typename RowType<T>::ElementType>(), RowType<T>::Row()};
  }
}

// Returns the number of stored elements of a T. Local.
template <typename T>
size_t Width() {
  static const auto kWidth =
      static_cast<size_t>(NumElements(FormOf<T>().shape));
  return kWidth;
}

// Returns the ArrayAccess of ranges whose address is that of an R. Local.
template <typename R>
constexpr ArrayAccess AccessOf() {
  using T = std::remove_cv_t<std::ranges::range_value_t<R>>;
  ArrayAccess access = {.view = [](void* object) -> ArrayAccess::View {
    static const DType kDType = FormOf<T>().dtype;
    auto& range = *static_cast<R*>(object);
    return {
        const_cast<void*>(static_cast<const void*>(std::ranges::data(range))),
        kDType,
        Shape{static_cast<int64_t>(std::ranges::size(range) * Width<T>())}};
  }};
  if constexpr (requires(R & some) { some.resize(size_t{}); }) {
    access.resize = [](void* object, size_t elements) {
      static_cast<R*>(object)->resize(elements / Width<T>());
    };
  }
  return access;
}
template <typename R>
inline constexpr ArrayAccess kAccess = AccessOf<R>();

// A std::string is stored as rows of one byte each.
inline constexpr ArrayAccess kTextAccess = {
    .view = [](void* object) -> ArrayAccess::View {
      auto& text = *static_cast<std::string*>(object);
      return {text.data(), DType::kU8,
              Shape{static_cast<int64_t>(text.size())}};
    },
    .resize =
        [](void* object, size_t elements) {
          static_cast<std::string*>(object)->resize(elements);
        }};

// Returns a shard without a key: `elements` numbers at `data`, in rows of that
// form unless `rank_rows` has another shape. Local.
Shard ShardOf(const RowForm& form, void* data, int64_t elements,
              RankRows rank_rows);

// Returns the shard of a range of rows. Local.
template <RowRange R>
Shard ShardOfRange(R& range, RankRows rank_rows) {
  using T = std::remove_cv_t<std::ranges::range_value_t<R>>;
  using U = std::remove_const_t<R>;
  const auto elements =
      static_cast<int64_t>(std::ranges::size(range) * Width<T>());
  void* const data =
      const_cast<void*>(static_cast<const void*>(std::ranges::data(range)));
  Shard shard = ShardOf(FormOf<T>(), data, elements, std::move(rank_rows));
  shard.is_const = std::is_const_v<R> || kHasConstElements<R>;
  if constexpr (!std::is_array_v<U> && !tracking::kIsView<U>) {
    shard.object = const_cast<U*>(std::addressof(range));
    shard.access = &kAccess<U>;
  }
  return shard;
}

}  // namespace rows

// Returns the shard of a range of rows, without a key. Local.
template <RowRange R>
Shard RowsOf(R& range,
             const RowsOptions<std::remove_cv_t<std::ranges::range_value_t<R>>>&
                 options = {}) {
  using T = std::remove_cv_t<std::ranges::range_value_t<R>>;
  RankRows rank_rows{.row = options.row,
                     .other_ranks = options.other_ranks,
                     .other_fields = options.other_fields,
                     .source = options.source};
  if (options.owner != nullptr) {
    rank_rows.owner = [owner = options.owner](const void* row) {
      return owner(*static_cast<const T*>(row));
    };
  }
  return rows::ShardOfRange(range, std::move(rank_rows));
}

// The ids of rows: a range of integers, such as std::vector<int64_t>.
template <typename R>
concept IdRange = ElementRange<R> &&
    std::is_integral_v<std::remove_cv_t<std::ranges::range_value_t<R>>> &&
    !std::is_same_v<std::remove_cv_t<std::ranges::range_value_t<R>>, bool>;

// Anything else; gives a clear error.
template <typename R>
concept NoIdRange = !IdRange<R>;

// Ids that must outlive their shard: all ranges but views.
template <typename R>
concept IdsThatLast = IdRange<R> && !std::ranges::view<R>;

// Returns the shard of rows with ids, without a key. Borrows both ranges; of a
// view such as a std::span, it borrows the elements. Local.
template <IdRange Ids, RowRange R>
Shard RowsByIdOf(const Ids& ids, R& rows, const IdOptions& options = {}) {
  RankRows rank_rows{.row = options.row,
                     .other_fields = options.other_fields,
                     .count = options.count};
  if constexpr (std::ranges::view<Ids>) {
    rank_rows.num_ids = [ids] { return std::ranges::size(ids); };
    rank_rows.id = [ids](size_t i) {
      return static_cast<int64_t>(std::ranges::data(ids)[i]);
    };
  } else {
    const Ids* const range = std::addressof(ids);
    rank_rows.num_ids = [range] { return std::ranges::size(*range); };
    rank_rows.id = [range](size_t i) {
      return static_cast<int64_t>(std::ranges::data(*range)[i]);
    };
  }
  return rows::ShardOfRange(rows, std::move(rank_rows));
}

// Returns the shard of a value that this rank has of its own, without a key: a
// number, a range of rows, or a std::string, whose bytes are stored. Local.
template <typename T>
Shard PerRankOf(T& value, const PerRankOptions& options = {}) {
  using U = std::remove_const_t<T>;
  RankRows rank_rows{.is_per_rank = true,
                     .other_ranks = options.other_ranks,
                     .other_fields = options.other_fields,
                     .source = options.source};
  if constexpr (std::is_same_v<U, std::string>) {
    rank_rows.is_text = true;
    Shard shard =
        rows::ShardOf({}, const_cast<char*>(value.data()),
                      static_cast<int64_t>(value.size()), std::move(rank_rows));
    shard.object = const_cast<U*>(&value);
    shard.access = &rows::kTextAccess;
    shard.is_const = std::is_const_v<T>;
    return shard;
  } else if constexpr (RowElement<U>) {
    std::span<T, 1> one(&value, 1);
    return rows::ShardOfRange(one, std::move(rank_rows));
  } else {
    return rows::ShardOfRange(value, std::move(rank_rows));
  }
}

// The types that PerRankOf accepts.
template <typename T>
concept PerRankValue = std::is_same_v<std::remove_cvref_t<T>, std::string> ||
    RowElement<std::remove_cvref_t<T>> || RowRange<std::remove_reference_t<T>>;

}  // namespace belay

#endif  // BELAY_ROWS_H_
