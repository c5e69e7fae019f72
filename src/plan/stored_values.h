// The values of an index: their forms, their columns, their damage.

#ifndef BELAY_PLAN_STORED_VALUES_H_
#define BELAY_PLAN_STORED_VALUES_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/handlers/type_handler.h"
#include "belay/status.h"
#include "belay/values/transform.h"
#include "core/text.h"
#include "core/wire.h"

namespace belay {

// What a restore does with one value of the program. Plain values.

// What may differ between a stored value and that of the program.
struct Tolerance {
  bool dtype = false;
  bool lengths = false;  // but not the number of axes
  bool nothing = false;  // with lengths: there may be no element in common

  friend auto operator<=>(const Tolerance&, const Tolerance&) = default;
};

struct RestoreChoice {
  bool skip = false;           // leave it as it is
  bool may_be_absent = false;  // leave it as it is if it is not stored
  std::string stored_key;      // empty: the program's
  Tolerance tolerance;
  Transform transform;  // not empty: what it is computed as
};

// Checking columns that came from a file.

// Collects what is wrong; only the first damage is kept.
class ColumnDamage {
 public:
  // `table` is what the names of the columns begin with.
  explicit ColumnDamage(std::string_view table) : table_(table) {}

  // Requires as many rows as the first column of the table has.
  template <typename T>
  void CheckLength(std::string_view name, const std::vector<T>& column,
                   size_t rows) {
    if (!text_.empty() || column.size() == rows) return;
    text_ = absl::StrFormat(
        "column \"%s/%s\" has the wrong length (need %d rows, found %d)",
        AbslView(table_), AbslView(name), rows, column.size());
  }

  // Requires numbers from `first` to before `end`.
  template <typename T>
  void CheckRange(std::string_view name, const std::vector<T>& column,
                  int64_t first, size_t end) {
    CheckRows(name, column, [&](size_t i) {
      const int64_t number = column[i];
      return number >= first && number < static_cast<int64_t>(end);
    });
  }

  void CheckAscending(std::string_view name,
                      const std::vector<int32_t>& column) {
    CheckRows(name, column,
              [&](size_t i) { return i == 0 || column[i - 1] <= column[i]; });
  }

  // Requires of each row what `is_good` says of its number.
  template <typename T, typename IsGood>
  void CheckRows(std::string_view name, const std::vector<T>& column,
                 const IsGood& is_good) {
    for (size_t i = 0; i < column.size() && text_.empty(); ++i) {
      if (is_good(i)) continue;
      text_ = absl::StrFormat("%s/%s of row %d is out of range",
                              AbslView(table_), AbslView(name), i);
    }
  }

  std::string Take() { return std::move(text_); }

 private:
  std::string_view table_;
  std::string text_;
};

// Values that only say which objects of Python other values were.

// The first part of the keys of such values.
inline constexpr std::string_view kFormsName = ".python";

// Whether this is the key of such a value. It has no arrays, no handler takes
// part in it, and no program asks for it by its key (docs/format.md).
inline bool IsFormKey(std::string_view key) {
  return key.starts_with(kFormsName) &&
         (key.size() == kFormsName.size() || key[kFormsName.size()] == '/');
}

// The form of an array where it is stored, which may be another one than the
// program's.

struct StoredForm {
  DType dtype = DType::kU8;
  Shape shape;

  friend bool operator==(const StoredForm&, const StoredForm&) = default;
};

// Whether there is an element that both have, or neither has any: a restore of
// nothing would say nothing of what it left out. Requires as many axes.
bool HaveSomeInCommon(const Shape& a, const Shape& b);

// Whether values that are stored so may be restored as they are wanted. Where
// lengths may differ they need some in common.
bool Fits(const StoredForm& stored, const StoredForm& wanted,
          Tolerance tolerance);

// "f32 [4, 3]".
std::string FormText(const StoredForm& form);

// The part of a wanted box that is stored: what lies within the stored shape.
// Requires as many axes.
Box StoredPart(const Box& wanted, const Shape& stored);

// Values of more than one array, as the index stores them: which they are, and
// of which arrays they consist.
//
// In:  what the handlers of all ranks have listed. Out: columns of plain
//      numbers and names, and what handlers are told of them when they restore.
//      docs/format.md describes the columns.

// Those of std::vector<std::string> and std::vector<bool>.
inline constexpr std::string_view kStringsTypestr = "strings";
inline constexpr std::string_view kBoolsTypestr = "bools";

struct RankShards;
struct SavedCheckpoint;
struct StoredArray;

// A value that was listed by a handler, without its bytes.
struct ListedValue {
  std::string key;
  std::string typestr;
  std::vector<std::string> parts;  // names, ascending
  // Of a container that ranks hold alike, the names of what each of them has to
  // have in it: values with handlers, and arrays that it holds whole;
  // ascending.
  std::vector<std::string> entries = {};

  friend bool operator==(const ListedValue&, const ListedValue&) = default;
};

struct StoredValues {
  // One row per value, ascending by key.
  std::vector<std::string> key;
  std::vector<std::string> typestr;
  // The object that has it, and as what; -1 and "" without a graph, and of
  // values inside others.
  std::vector<int32_t> node;
  std::vector<std::string> name;
  // One row per part, ascending by value and name.
  std::vector<uint32_t> part_value;
  std::vector<std::string> part_name;
  std::vector<uint32_t> part_array;  // a row of the array table

  friend bool operator==(const StoredValues&, const StoredValues&) = default;
};

// Calls fn(path inside the index, column) for every column; the one list of
// names. `Values` is StoredValues or const StoredValues.
template <typename Values, typename Fn>
void ForEachValueColumn(Values& values, Fn&& fn) {
  fn(".belay/values/key", values.key);
  fn(".belay/values/typestr", values.typestr);
  fn(".belay/values/node", values.node);
  fn(".belay/values/name", values.name);
  fn(".belay/values/parts/value", values.part_value);
  fn(".belay/values/parts/name", values.part_name);
  fn(".belay/values/parts/array", values.part_array);
}

// The whole key of a part of a value.
std::string PartKey(std::string_view key, std::string_view part);

// The first array whose key is not less than `key`.
size_t FirstFrom(const std::vector<StoredArray>& arrays,
                 const std::string& key);

// What is wrong with the columns of a checkpoint with so many arrays and nodes;
// names the column. "": nothing.
std::string DamageOf(const StoredValues& values, size_t num_arrays,
                     size_t num_nodes);

// Whether this is the typestr of arrays that need no handler.
bool IsPlainTypestr(std::string_view typestr);
bool IsPlain(const StoredValue& stored);
// Whether it is that of no registered handler: also those of empty values.
bool IsBuiltinTypestr(std::string_view typestr);
// Whether it is that of a handler that needs no entry in a registry.
bool IsStandardTypestr(std::string_view typestr);
// Such a value.
StoredValue PlainValue(std::string_view key, ValuePart part);

// Puts together what each rank has listed. `arrays` are those of the save.
// `compares` whether the containers of all ranks have the same entries;
// otherwise what is stored has those of any rank.
// Errors: InvalidArgument - a rank lists a key twice, or ranks list it with
//   different handlers, or one of them as an array, or with other entries;
//   Internal - a part is no array.
StatusOr<StoredValues> MergeValues(
    const std::vector<std::vector<ListedValue>>& ranks,
    const std::vector<StoredArray>& arrays, bool compares = true);

// Whether ranks that hold a value of this typestr have the same entries in it.
bool IsContainerTypestr(std::string_view typestr);

// All values, those inside others among them, ascending by key; arrays that
// are no part of a value are values themselves.
std::vector<StoredValue> AllValues(const SavedCheckpoint& saved);

// Those that are not inside others. An array below the key of a value that does
// not have it as a part stands alone.
std::vector<StoredValue> ValuesAlone(const SavedCheckpoint& saved);

// The values of these keys, and of those of the optional ones that are stored,
// ascending by key, as handlers are told of them. The keys are ascending.
// Errors: NotFound - nothing has this key; names close ones.
StatusOr<std::vector<StoredValue>> FindValues(
    const SavedCheckpoint& saved, const std::vector<std::string>& keys,
    const std::vector<std::string>& optional = {});

// Returns the array with exactly this key, or null.
const StoredArray* FindArray(const SavedCheckpoint& saved,
                             const std::string& key);

// Whether something is stored under exactly this key.
bool HasValue(const SavedCheckpoint& saved, const std::string& key);

// Checks that what is wanted as an array is none of the values without one.
// Errors: FailedPrecondition - it is.
Status CheckKinds(const SavedCheckpoint& saved,
                  const std::vector<RankShards>& wanted);

// Fields of messages between ranks and of fingerprints.
template <typename Archive>
void Fields(Archive& archive, ListedValue& value) {
  archive(value.key, value.typestr, value.parts, value.entries);
}
template <typename Archive>
void Fields(Archive& archive, ValuePart& part) {
  archive(part.name, part.dtype, part.shape, part.bytes);
}
template <typename Archive>
void Fields(Archive& archive, StoredValue& value) {
  archive(value.key, value.typestr, value.parts, value.values);
}

inline void PutListedValues(WireWriter& out,
                            const std::vector<ListedValue>& values) {
  out(values);
}
inline std::string EncodeValues(const std::vector<StoredValue>& values) {
  return Encode(values);
}
inline std::vector<StoredValue> DecodeValues(std::string_view bytes) {
  return Decode<std::vector<StoredValue>>(bytes).value_or(
      std::vector<StoredValue>());
}

}  // namespace belay

#endif  // BELAY_PLAN_STORED_VALUES_H_
