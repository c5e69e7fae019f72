// The shards of rows (rows.h), for code that lists shards itself.

#ifndef BELAY_EXTEND_ROW_SHARDS_H_
#define BELAY_EXTEND_ROW_SHARDS_H_

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
#include "belay/extend/shard.h"
#include "belay/rows.h"

namespace belay {

// RowsOptions without the type T, as stored in a Shard.
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

// Returns a shard without a key: `elements` numbers at `data`, in rows of this
// form unless `rank_rows` has another row shape. Local.
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

// Returns the shard of rows with ids, without a key. Borrows both ranges; for a
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

// Returns the shard of a value that is separate on each rank, without a key: a
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

}  // namespace belay

#endif  // BELAY_EXTEND_ROW_SHARDS_H_
