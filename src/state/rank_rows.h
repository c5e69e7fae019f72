// Rows that ranks hold: those of a rank's own, and those that have owners.

#ifndef BELAY_STATE_RANK_ROWS_H_
#define BELAY_STATE_RANK_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/fields.h"
#include "belay/arrays/shard.h"
#include "belay/rows.h"
#include "belay/status.h"
#include "core/strided_copy.h"
#include "core/wire.h"
#include "plan/shards.h"
#include "plan/stored_objects.h"
#include "state/array_access.h"
#include "state/id_rows.h"

namespace belay {

// Rows in random order: the memory of the next ones is asked for while the
// first one is copied, as each alone costs more to wait for than to copy.

inline constexpr int64_t kRowsAhead = 16;

// Asks for the first and the last line of a row; those between follow.
inline void PrefetchRow(const void* row, int64_t bytes) {
  const auto* first = static_cast<const char*>(row);
  __builtin_prefetch(first);
  __builtin_prefetch(first + bytes - 1);
}

// Rows that ranks hold any number of: which of those that are stored a rank
// gets.
//
// In:  what the index says of the ranks that saved, and the shards of this
// rank. Out: the shards as parts of the arrays, with the lengths of what they
// get.

// The shape of so many numbers as rows of a shard.
// Errors: InvalidArgument - they are no whole rows, or something is wrong with
//   the fields of structs; names the key.
StatusOr<Shape> RowsShape(const Shard& shard, int64_t elements);

// Whether rows that are restored are new ones, so that members that are not
// stored are nobody else's.
bool HasNewRows(const Shard& shard);

// Gives a shard that has its own memory this number of rows.
Status ResizeRows(int64_t count, Shard& shard);

// The bytes of one row as it is stored, and where the program has it.
int64_t RowBytes(const Shard& shard);
int64_t RowBytesInMemory(const Shard& shard);

// Lets a shard be restored from another key. What ranks send each other of rows
// still goes by the program's.
void TakeKey(const std::string& stored_key, Shard& shard);

// What rows are known by in a restore: their stored key, and that of the
// program if it is another one.
std::string RowsId(const Shard& shard);
std::string StoredKeyOfId(std::string_view id);

// Whether any shard is rows.
bool HasRows(const std::vector<Shard>& shards);

// What is stored of rows, and what is said of its ranks, if anything.
struct FoundRows {
  std::string id;
  DType dtype = DType::kU8;
  Shape shape;
  std::string fields = {};  // of its structs
  RowRanks ranks;           // of no ranks: nothing is said
  // The ranks that restore it, ascending; empty: all.
  std::vector<int32_t> restorers = {};
};
template <typename Archive>
void Fields(Archive& archive, FoundRows& found) {
  archive(found.id, found.dtype, found.shape, found.fields, found.ranks.ranks,
          found.ranks.count, found.ranks.first, found.restorers);
}

// Lets shards that are rows be the parts of `found`, ascending by id, that
// this rank gets, and gives them their lengths; adds the memory that they gave
// up. Those with an owner get an even part. Those with ids become what is read
// for all ranks, a block of `blocks`.
// Errors: FailedPrecondition - another number of ranks has saved, and the rule
//   is that this is an error, or a shard has another length and keeps it;
//   InvalidArgument - a function of the program names no rank; what it threw;
//   ResourceExhausted. All name the key.
Status PlaceRows(const std::vector<FoundRows>& found, int rank, int num_ranks,
                 std::vector<Shard>& shards,
                 std::vector<FormerElements>& former,
                 std::vector<IdBlock>& blocks);

// Copying rows one by one, as fast as their length allows.

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

// Rows that go to the ranks which a function of the program names.
//
//   each rank has an even part -> PackByOwner -> exchange -> TakeOwned

// Whether any shard is rows with an owner.
bool HasOwners(const std::vector<Shard>& shards);

// Asks for the owner of each row, and puts the rows of all keys into what their
// owners get.
// Errors: InvalidArgument - the function names no rank, or a key is there
//   twice; what the function threw; all name the key.
Status PackByOwner(const std::vector<Shard>& shards, Messages& to);

// Gives the shards the rows that all ranks have packed for this one, in the
// order of the ranks.
// Errors: FailedPrecondition - there are rows of a key that this rank does not
//   have, or has no room for, or has as another type; ResourceExhausted. All
//   name the key.
Status TakeOwned(const std::vector<std::span<std::byte>>& from,
                 std::vector<Shard>& shards);

}  // namespace belay

#endif  // BELAY_STATE_RANK_ROWS_H_
