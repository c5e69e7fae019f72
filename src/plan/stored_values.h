// The values of an index, and the arrays that they consist of.

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
#include "belay/extend/type_handler.h"
#include "belay/status.h"
#include "belay/values/transform.h"
#include "core/text.h"
#include "core/wire.h"

namespace belay {

// The differences between a stored value and the program's value that a restore
// accepts.
struct Tolerance {
  bool dtype = false;
  bool lengths = false;  // but not the number of axes
  bool nothing = false;  // with lengths: there may be no element in common

  friend auto operator<=>(const Tolerance&, const Tolerance&) = default;
};

struct RestoreChoice {
  bool skip = false;           // leave the value as it is
  bool may_be_absent = false;  // leave the value as it is if it is not stored
  std::string stored_key;      // empty: the program's key
  Tolerance tolerance;
  Transform transform;  // if not empty, computes the value
};

// Checks columns that were read from a file. Keeps only the first damage.
class ColumnDamage {
 public:
  // `table` is the prefix of the column names.
  explicit ColumnDamage(std::string_view table) : table_(table) {}

  // Requires `rows` rows, the number in the first column of the table.
  template <typename T>
  void CheckLength(std::string_view name, const std::vector<T>& column,
                   size_t rows) {
    if (!text_.empty() || column.size() == rows) return;
    text_ = absl::StrFormat(
        "column \"%s/%s\" has the wrong length (need %d rows, found %d)",
        AbslView(table_), AbslView(name), rows, column.size());
  }

  // Requires numbers in [first, end).
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

  // Requires is_good(row) of each row.
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

// Values that only record which Python objects other values were.

inline constexpr std::string_view kFormsName = ".python";

// Returns true if this is the key of such a value. The value has no arrays and
// no handler, and no program requests it (docs/format.md).
inline bool IsFormKey(std::string_view key) {
  return key.starts_with(kFormsName) &&
         (key.size() == kFormsName.size() || key[kFormsName.size()] == '/');
}

struct StoredForm {
  DType dtype = DType::kU8;
  Shape shape;

  friend bool operator==(const StoredForm&, const StoredForm&) = default;
};

// Returns true if both shapes have an element in common, or neither has any
// elements. Requires equal numbers of axes.
bool HaveSomeInCommon(const Shape& a, const Shape& b);

// Returns true if a stored value may be restored to the wanted form. If lengths
// differ, the shapes need elements in common unless tolerance.nothing is set.
bool Fits(const StoredForm& stored, const StoredForm& wanted,
          Tolerance tolerance);

// Returns "f32 [4, 3]".
std::string FormText(const StoredForm& form);

// Returns the part of a wanted box that is inside the stored shape. Requires
// equal numbers of axes.
Box StoredPart(const Box& wanted, const Shape& stored);

struct RankShards;
struct SavedCheckpoint;
struct StoredArray;

// A value with a handler, without its bytes.
struct ListedValue {
  std::string key;
  std::string typestr;
  std::vector<std::string> parts;  // names, ascending
  // The entries of a container that all ranks must have, ascending: values with
  // handlers, and arrays that each rank holds whole.
  std::vector<std::string> entries = {};

  friend bool operator==(const ListedValue&, const ListedValue&) = default;
};

struct StoredValues {
  // One row per value, ascending by key.
  std::vector<std::string> key;
  std::vector<std::string> typestr;
  // Its object, and its name there; -1 and "" without a graph, and for values
  // inside other values.
  std::vector<int32_t> node;
  std::vector<std::string> name;
  // One row per part, ascending by value and name.
  std::vector<uint32_t> part_value;
  std::vector<std::string> part_name;
  std::vector<uint32_t> part_array;  // a row of the array table

  friend bool operator==(const StoredValues&, const StoredValues&) = default;
};

// Calls fn(path inside the index, column) for every column.
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

std::string PartKey(std::string_view key, std::string_view part);

// Returns the first array whose key is not less than `key`.
size_t FirstFrom(const std::vector<StoredArray>& arrays, std::string_view key);

// Returns a description of damage in the columns, with the column's name, or
// "".
std::string FindDamage(const StoredValues& values, size_t num_arrays,
                       size_t num_nodes);

// Returns true if the value needs no handler: an array, or a group of arrays.
bool IsPlain(const StoredValue& stored);
// Returns true if the typestr belongs to no registered handler, but to arrays,
// groups, rows, containers or None.
bool IsBuiltinTypestr(std::string_view typestr);
// Returns true if the typestr is built in or belongs to a standard handler.
bool IsStandardTypestr(std::string_view typestr);
StoredValue PlainValue(std::string_view key, ValuePart part);

// Merges the values that ranks have listed. `arrays` are the arrays of the
// save. With `compares`, the containers of all ranks must have the same
// entries; otherwise a stored container has the entries of all ranks.
// Errors: InvalidArgument - a rank lists a key twice, or ranks list it with
//   different handlers, or one of them as an array, or with different entries;
//   Internal - a part is not an array.
StatusOr<StoredValues> MergeValues(
    const std::vector<std::vector<ListedValue>>& ranks,
    const std::vector<StoredArray>& arrays, bool compares = true);

// Returns true for containers, which have the same entries on all ranks.
bool IsContainerTypestr(std::string_view typestr);

// Returns all values, including those inside other values, ascending by key. An
// array that is not part of a value is a value itself.
std::vector<StoredValue> AllValues(const SavedCheckpoint& saved);

// Returns the values that are not inside other values. An array whose key is
// below the key of a value is inside that value only if it is one of its parts.
std::vector<StoredValue> ValuesAlone(const SavedCheckpoint& saved);

// Returns the values of these keys, and of the optional keys that are stored,
// ascending by key. `keys` must be ascending.
// Errors: NotFound - nothing has this key; names similar keys.
StatusOr<std::vector<StoredValue>> FindValues(
    const SavedCheckpoint& saved, const std::vector<std::string>& keys,
    const std::vector<std::string>& optional = {});

// Return the array with exactly this key, or null.
const StoredArray* FindArray(const std::vector<StoredArray>& arrays,
                             std::string_view key);
const StoredArray* FindArray(const SavedCheckpoint& saved,
                             std::string_view key);

// Returns whether an array or a value has exactly this key.
bool HasValue(const SavedCheckpoint& saved, const std::string& key);

// Errors: FailedPrecondition - a key that is wanted as an array has a value of
//   another kind.
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

}  // namespace belay

#endif  // BELAY_PLAN_STORED_VALUES_H_
