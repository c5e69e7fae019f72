// Copying rows one by one, as fast as their length allows.

#ifndef BELAY_VALUES_ROWS_ROW_COPIER_H_
#define BELAY_VALUES_ROWS_ROW_COPIER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "belay/arrays/box.h"
#include "belay/arrays/fields.h"
#include "belay/arrays/shard.h"
#include "geometry/struct_copy.h"
#include "plan/shard_store.h"
#include "values/rows/rank_rows.h"

namespace belay {

// Calls `visit` with a copier of rows that knows their length when this is
// compiled, where it is a usual one: copy(from, to).
template <typename Visit>
void WithCopier(int64_t bytes, Visit visit) {
  const auto fixed = [&]<size_t kBytes>(
                         std::integral_constant<size_t, kBytes>) {
    visit([](const void* from, void* to) { std::memcpy(to, from, kBytes); });
  };
  switch (bytes) {
    case 4:
      return fixed(std::integral_constant<size_t, 4>());
    case 8:
      return fixed(std::integral_constant<size_t, 8>());
    case 16:
      return fixed(std::integral_constant<size_t, 16>());
    case 24:
      return fixed(std::integral_constant<size_t, 24>());
    case 32:
      return fixed(std::integral_constant<size_t, 32>());
    case 48:
      return fixed(std::integral_constant<size_t, 48>());
    default:
      return visit([bytes](const void* from, void* to) {
        std::memcpy(to, from, static_cast<size_t>(bytes));
      });
  }
}

// The same for rows as the program has them: pack(row, stored), or with `packs`
// false the other way round.
template <typename Visit>
void WithProgramCopier(const Shard& shard, bool packs, Visit visit) {
  if (!IsStrided(shard)) return WithCopier(RowBytes(shard), visit);
  const StructLayout& layout = *shard.structs;
  const Box one = WholeBox({1, layout.stored_bytes});
  visit([&layout, &one, packs](const void* from, void* to) {
    const auto copy = packs ? &PackStructs : &UnpackStructs;
    copy(layout, one, static_cast<const char*>(from), one,
         static_cast<char*>(to), one);
  });
}

}  // namespace belay

#endif  // BELAY_VALUES_ROWS_ROW_COPIER_H_
