// The values of an index: which they are, and the arrays that they consist of.

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

// The differences between a stored value and that of the program that a restore
// accepts.
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

// Checks columns that came from a file. Keeps the first damage only.
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

// Values that only record which objects of Python other values were.

inline constexpr std::string_view kFormsName = ".python";

// Returns whether this is the key of such a value. It has no arrays and no
// handler, and no program requests it (docs/format.md).
inline bool IsFormKey(std::string_view key) {
  return key.starts_with(kFormsName) &&
         (key.size() == kFormsName.size() || key[kFormsName.size()] == '/');
}

struct StoredForm {
  DType dtype = DType::kU8;
  Shape shape;

  friend bool operator==(const StoredForm&, const StoredForm&) = default;
};

// Returns whether both have an element in common, or neither has any. Requires
// as many axes.
bool HaveSomeInCommon(const Shape& a, const Shape& b);

// Returns whether values may be restored in another form. Where lengths may
// differ they need elements in common.
bool Fits(const StoredForm& stored, const StoredForm& wanted,
          Tolerance tolerance);

// Returns "f32 [4, 3]".
std::string FormText(const StoredForm& form);

// Returns the part of a wanted box that lies within the stored shape. Requires
// as many axes.
Box StoredPart(const Box& wanted, const Shape& stored);

struct RankShards;
struct SavedCheckpoint;
struct StoredArray;

// A value of a handler, without its bytes.
struct ListedValue {
  std::string key;
  std::string typestr;
  std::vector<std::string> parts;  // names, ascending
  // The entries of a container that all ranks must have: values with handlers,
  // and arrays held whole; ascending.
  std::vector<std::string> entries = {};

  friend bool operator==(const ListedValue&, const ListedValue&) = default;
};

struct StoredValues {
  // One row per value, ascending by key.
  std::vector<std::string> key;
  std::vector<std::string> typestr;
  // Its object, and its name there; -1 and "" without a graph, and for values
  // inside others.
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

// Returns the damage of the columns, naming the column, or "".
std::string FindDamage(const StoredValues& values, size_t num_arrays,
                       size_t num_nodes);

// Returns whether this is an array that needs no handler.
bool IsPlain(const StoredValue& stored);
// Returns whether no registered handler has it: that of arrays and empty
// values.
bool IsBuiltinTypestr(std::string_view typestr);
// Returns whether it is built in, or that of a standard handler.
bool IsStandardTypestr(std::string_view typestr);
StoredValue PlainValue(std::string_view key, ValuePart part);

// Merges what ranks have listed. `arrays` are those of the save. With
// `compares`, the containers of all ranks must have the same entries; otherwise
// a stored one has those of any rank.
// Errors: InvalidArgument - a rank lists a key twice, or ranks list it with
//   different handlers, or one of them as an array, or with other entries;
//   Internal - a part is no array.
StatusOr<StoredValues> MergeValues(
    const std::vector<std::vector<ListedValue>>& ranks,
    const std::vector<StoredArray>& arrays, bool compares = true);

// Returns whether ranks with such a value have the same entries in it.
bool IsContainerTypestr(std::string_view typestr);

// Returns all values, also those inside others, ascending by key. An array that
// is no part of a value is a value itself.
std::vector<StoredValue> AllValues(const SavedCheckpoint& saved);

// Returns the values that are not inside others. An array below the key of a
// value that does not have it as a part stands alone.
std::vector<StoredValue> ValuesAlone(const SavedCheckpoint& saved);

// Returns the values of these keys, and of the optional ones that are stored,
// ascending by key. The keys are ascending.
// Errors: NotFound - nothing has this key; names close ones.
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

// Errors: FailedPrecondition - a key that is wanted as an array has a value
//   without one.
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
