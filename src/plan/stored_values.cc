#include "plan/stored_values.h"

#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "core/element_conversion.h"
#include "core/keys.h"
#include "core/status_macros.h"
#include "plan/plan.h"

namespace belay {

bool HaveSomeInCommon(const Shape& a, const Shape& b) {
  return (NumElements(a) > 0) == (NumElements(b) > 0);
}

bool Fits(const StoredForm& stored, const StoredForm& wanted,
          Tolerance tolerance) {
  const bool fits_dtype =
      stored.dtype == wanted.dtype ||
      (tolerance.dtype && IsConvertible(stored.dtype, wanted.dtype));
  const bool fits_shape =
      stored.shape == wanted.shape ||
      (tolerance.lengths && stored.shape.size() == wanted.shape.size() &&
       (tolerance.nothing || HaveSomeInCommon(stored.shape, wanted.shape)));
  return fits_dtype && fits_shape;
}

std::string FormText(const StoredForm& form) {
  return Cat(DTypeName(form.dtype), " ", ShapeText(form.shape));
}

Box StoredPart(const Box& wanted, const Shape& stored) {
  const Shape nothing(stored.size(), 0);
  return Intersect(wanted, WholeBox(stored))
      .value_or(Box{.offset = nothing, .shape = nothing});
}

// --- Stored values ---

namespace {

ValuePart MakePart(std::string_view name, const StoredArray& array) {
  return {.name = std::string(name),
          .dtype = array.dtype,
          .shape = array.shape,
          .bytes = ArrayBytes(array)};
}

bool IsPlainTypestr(std::string_view typestr) {
  return typestr == kScalarTypestr || typestr == kArrayTypestr ||
         typestr == kStringTypestr || typestr == kGroupTypestr;
}

// Reads the columns of a checkpoint.
class ValueTable {
 public:
  explicit ValueTable(const SavedCheckpoint& saved)
      : saved_(saved), is_inside_(saved.values.key.size()) {
    const StoredValues& columns = saved.values;
    size_t part = 0;
    for (size_t i = 0; i < columns.key.size(); ++i) {
      first_part_.push_back(part);
      while (part < columns.part_value.size() &&
             columns.part_value[part] == i) {
        ++part;
      }
    }
    first_part_.push_back(part);
  }

  // Returns the value without the values inside it.
  StoredValue At(size_t row) const {
    const StoredValues& columns = saved_.values;
    StoredValue value{.key = columns.key[row],
                      .typestr = columns.typestr[row],
                      .parts = {},
                      .values = {}};
    for (size_t i = first_part_[row]; i < first_part_[row + 1]; ++i) {
      value.parts.push_back(
          MakePart(columns.part_name[i], saved_.arrays[columns.part_array[i]]));
    }
    return value;
  }

  std::optional<StoredValue> Find(const std::string& key) const {
    const std::vector<std::string>& keys = saved_.values.key;
    const std::string below = key + "/";
    const auto row = std::lower_bound(keys.begin(), keys.end(), key);
    if (row == keys.end() || *row != key) return FindArrays(key, below);
    StoredValue value = At(static_cast<size_t>(row - keys.begin()));
    AddInside(below, /*all=*/false, value);
    return value;
  }

  // Returns true if a value with a handler is inside another value, which then
  // has its arrays as well. For a value without arrays, the key decides.
  bool IsInside(const StoredValue& value) const {
    const std::vector<std::string>& keys = saved_.values.key;
    const std::string first = value.parts.empty()
                                  ? value.key
                                  : PartKey(value.key, value.parts[0].name);
    for (size_t end = value.key.find('/'); end != value.key.npos;
         end = value.key.find('/', end + 1)) {
      const auto outer = std::lower_bound(
          keys.begin(), keys.end(), std::string_view(value.key).substr(0, end));
      if (outer == keys.end() || outer->size() != end ||
          !value.key.starts_with(*outer)) {
        continue;
      }
      const auto row = static_cast<size_t>(outer - keys.begin());
      if (value.parts.empty() ||
          HasPart(row, std::string_view(first).substr(end + 1))) {
        return true;
      }
    }
    return false;
  }

  Status NotFound(const std::string& key) const {
    CloseKeys close(key);
    for (const StoredArray& array : saved_.arrays) close.Offer(array.key);
    for (const std::string& other : saved_.values.key) close.Offer(other);
    return absl::NotFoundError(Cat("plan \"", key, "\": ", close.AbsentText()));
  }

 private:
  // The same for a row; looked for once.
  bool IsInside(size_t row) const {
    std::optional<bool>& known = is_inside_[row];
    if (!known) known = IsInside(At(row));
    return *known;
  }

  bool HasPart(size_t row, std::string_view name) const {
    const auto begin = saved_.values.part_name.begin();
    return std::binary_search(
        begin + static_cast<std::ptrdiff_t>(first_part_[row]),
        begin + static_cast<std::ptrdiff_t>(first_part_[row + 1]), name);
  }

  // Adds the values with handlers below a key: all of them, or only those that
  // are inside another value.
  void AddInside(const std::string& below, bool all, StoredValue& value) const {
    const std::vector<std::string>& keys = saved_.values.key;
    for (auto inner = std::lower_bound(keys.begin(), keys.end(), below);
         inner != keys.end() && inner->starts_with(below); ++inner) {
      const auto row = static_cast<size_t>(inner - keys.begin());
      if (all || IsInside(row)) value.values.push_back(At(row));
    }
  }

  std::optional<StoredValue> FindArrays(const std::string& key,
                                        const std::string& below) const {
    if (const StoredArray* const array = FindArray(saved_, key)) {
      return PlainValue(key, MakePart("", *array));
    }
    StoredValue value{.key = key,
                      .typestr = std::string(kGroupTypestr),
                      .parts = {},
                      .values = {}};
    const std::vector<StoredArray>& arrays = saved_.arrays;
    for (size_t i = FirstFrom(arrays, below);
         i < arrays.size() && arrays[i].key.starts_with(below); ++i) {
      value.parts.push_back(MakePart(
          std::string_view(arrays[i].key).substr(below.size()), arrays[i]));
    }
    AddInside(below, /*all=*/true, value);
    if (value.parts.empty() && value.values.empty()) return std::nullopt;
    return value;
  }

  const SavedCheckpoint& saved_;
  mutable std::vector<std::optional<bool>> is_inside_;  // per row
  std::vector<size_t> first_part_;
};

}  // namespace

std::string PartKey(std::string_view key, std::string_view part) {
  return part.empty() ? std::string(key) : Cat(key, "/", part);
}

size_t FirstFrom(const std::vector<StoredArray>& arrays, std::string_view key) {
  const auto found =
      std::lower_bound(arrays.begin(), arrays.end(), key,
                       [](const StoredArray& array, std::string_view k) {
                         return array.key < k;
                       });
  return static_cast<size_t>(found - arrays.begin());
}

std::string FindDamage(const StoredValues& values, size_t num_arrays,
                       size_t num_nodes) {
  ColumnDamage damage("values");
  const size_t rows = values.key.size(), parts = values.part_value.size();
  damage.CheckLength("typestr", values.typestr, rows);
  damage.CheckLength("node", values.node, rows);
  damage.CheckLength("name", values.name, rows);
  damage.CheckRows("key", values.key, [&](size_t i) {
    return !values.key[i].empty() &&
           CountKeyParts(values.key[i]) <= kMaxKeyParts &&
           (i == 0 || values.key[i - 1] < values.key[i]);
  });
  damage.CheckRows("typestr", values.typestr,
                   [&](size_t i) { return !values.typestr[i].empty(); });
  damage.CheckRange("node", values.node, -1, num_nodes);
  damage.CheckLength("parts/name", values.part_name, parts);
  damage.CheckLength("parts/array", values.part_array, parts);
  damage.CheckRange("parts/value", values.part_value, 0, rows);
  damage.CheckRows("parts/value", values.part_value, [&](size_t i) {
    return i == 0 || values.part_value[i - 1] <= values.part_value[i];
  });
  damage.CheckRows("parts/name", values.part_name, [&](size_t i) {
    return i == 0 || values.part_value[i - 1] != values.part_value[i] ||
           values.part_name[i - 1] < values.part_name[i];
  });
  damage.CheckRange("parts/array", values.part_array, 0, num_arrays);
  return damage.Take();
}

bool IsBuiltinTypestr(std::string_view typestr) {
  return IsPlainTypestr(typestr) || typestr == kNoneTypestr ||
         typestr == kDictTypestr || typestr == kListTypestr ||
         typestr == kRowsTypestr;
}

bool IsContainerTypestr(std::string_view typestr) {
  return typestr == kDictTypestr || typestr == kListTypestr;
}

bool IsStandardTypestr(std::string_view typestr) {
  // The last two are std::vector<std::string> and std::vector<bool>.
  return IsBuiltinTypestr(typestr) || typestr == "strings" ||
         typestr == "bools";
}

bool IsPlain(const StoredValue& stored) {
  return IsPlainTypestr(stored.typestr);
}

StoredValue PlainValue(std::string_view key, ValuePart part) {
  part.name.clear();
  const std::string_view typestr = part.dtype == DType::kString ? kStringTypestr
                                   : part.shape.empty()         ? kScalarTypestr
                                                                : kArrayTypestr;
  return {.key = std::string(key),
          .typestr = std::string(typestr),
          .parts = {std::move(part)},
          .values = {}};
}

std::vector<StoredValue> AllValues(const SavedCheckpoint& saved) {
  const ValueTable table(saved);
  std::vector<StoredValue> values;
  for (size_t i = 0; i < saved.values.key.size(); ++i) {
    values.push_back(table.At(i));
  }
  std::vector<bool> is_part(saved.arrays.size());
  for (const uint32_t array : saved.values.part_array) is_part[array] = true;
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    if (is_part[i]) continue;
    values.push_back(
        PlainValue(saved.arrays[i].key, MakePart("", saved.arrays[i])));
  }
  std::sort(values.begin(), values.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  return values;
}

std::vector<StoredValue> ValuesAlone(const SavedCheckpoint& saved) {
  const ValueTable table(saved);
  std::vector<StoredValue> values = AllValues(saved);
  std::erase_if(values, [&](const StoredValue& value) {
    return !IsPlain(value) && table.IsInside(value);
  });
  return values;
}

StatusOr<std::vector<StoredValue>> FindValues(
    const SavedCheckpoint& saved, const std::vector<std::string>& keys,
    const std::vector<std::string>& optional) {
  const ValueTable table(saved);
  std::vector<StoredValue> values;
  for (const std::string& key : keys) {
    std::optional<StoredValue> value = table.Find(key);
    if (!value) return table.NotFound(key);
    values.push_back(*std::move(value));
  }
  for (const std::string& key : optional) {
    if (std::binary_search(keys.begin(), keys.end(), key)) continue;
    std::optional<StoredValue> value = table.Find(key);
    if (value) values.push_back(*std::move(value));
  }
  std::sort(values.begin(), values.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  return values;
}

const StoredArray* FindArray(const std::vector<StoredArray>& arrays,
                             std::string_view key) {
  const size_t row = FirstFrom(arrays, key);
  return row < arrays.size() && arrays[row].key == key ? &arrays[row] : nullptr;
}

const StoredArray* FindArray(const SavedCheckpoint& saved,
                             std::string_view key) {
  return FindArray(saved.arrays, key);
}

bool HasValue(const SavedCheckpoint& saved, const std::string& key) {
  if (FindArray(saved, key) != nullptr) return true;
  const std::vector<std::string>& keys = saved.values.key;
  return std::binary_search(keys.begin(), keys.end(), key);
}

Status CheckKinds(const SavedCheckpoint& saved,
                  const std::vector<RankShards>& wanted) {
  const StoredValues& values = saved.values;
  if (values.key.empty()) return absl::OkStatus();
  for (const RankShards& rank : wanted) {
    for (const ShardInfo& shard : rank.shards) {
      const auto found =
          std::lower_bound(values.key.begin(), values.key.end(), shard.key);
      if (found == values.key.end() || *found != shard.key) continue;
      if (FindArray(saved, shard.key) != nullptr) continue;
      const auto row = static_cast<size_t>(found - values.key.begin());
      return absl::FailedPreconditionError(Cat(
          "plan \"", shard.key, "\": no array is stored under this key, but ",
          "a value of another type (need ", DTypeName(shard.dtype), " ",
          ShapeText(shard.global_shape), ", found typestr \"",
          values.typestr[row], "\")"));
    }
  }
  return absl::OkStatus();
}

// --- Merge values ---

namespace {

// A merged value, and the first rank that has it.
struct Merged {
  std::string typestr;
  size_t rank = 0;
  const std::vector<std::string>* entries = nullptr;  // on that rank
  std::set<std::string> parts;
};

// All ranks that hold a container must have the same entries in it.
Status CheckEntries(const ListedValue& value, size_t rank,
                    const Merged& merged) {
  if (value.entries == *merged.entries) return absl::OkStatus();
  std::vector<std::string> others;
  std::set_symmetric_difference(value.entries.begin(), value.entries.end(),
                                merged.entries->begin(), merged.entries->end(),
                                std::back_inserter(others));
  const bool is_here =
      std::binary_search(value.entries.begin(), value.entries.end(), others[0]);
  return absl::InvalidArgumentError(Cat(
      "replicas of \"", value.key, "\": ranks hold different entries (need ",
      merged.entries->size(), " as on rank ", merged.rank, ", found ",
      value.entries.size(), " on rank ", rank, "): \"", others[0],
      "\" is on rank ", is_here ? rank : merged.rank,
      " only; a container is stored once for all ranks"));
}

Status MergeValue(const ListedValue& value, size_t rank, bool compares,
                  std::map<std::string, Merged>& all) {
  const auto [found, is_new] =
      all.emplace(value.key, Merged{value.typestr, rank, &value.entries, {}});
  if (!is_new && found->second.typestr != value.typestr) {
    return absl::InvalidArgumentError(Cat(
        "plan \"", value.key, "\": ranks store it with different handlers (",
        "need \"", found->second.typestr, "\" as on rank ", found->second.rank,
        ", found \"", value.typestr, "\" on rank ", rank, ")"));
  }
  if (compares) {
    BELAY_RETURN_IF_ERROR(CheckEntries(value, rank, found->second));
  }
  found->second.parts.insert(value.parts.begin(), value.parts.end());
  return absl::OkStatus();
}

// Rejects an array with the key of a value, unless it is the value's part "".
Status CheckNoOtherArray(const std::string& key, const Merged& value,
                         const std::vector<StoredArray>& arrays) {
  if (FindArray(arrays, key) == nullptr || value.parts.contains("")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(Cat(
      "plan \"", key, "\": rank ", value.rank, " stores it with the handler ",
      "\"", value.typestr, "\", another rank as an array"));
}

}  // namespace

StatusOr<StoredValues> MergeValues(
    const std::vector<std::vector<ListedValue>>& ranks,
    const std::vector<StoredArray>& arrays, bool compares) {
  std::map<std::string, Merged> all;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    std::set<std::string_view> keys;
    for (const ListedValue& value : ranks[rank]) {
      if (!keys.insert(value.key).second) {
        return absl::InvalidArgumentError(Cat("plan \"", value.key, "\": rank ",
                                              rank,
                                              " has two values with this key"));
      }
      BELAY_RETURN_IF_ERROR(MergeValue(value, rank, compares, all));
    }
  }
  StoredValues out;
  for (const auto& [key, value] : all) {
    BELAY_RETURN_IF_ERROR(CheckNoOtherArray(key, value, arrays));
    for (const std::string& part : value.parts) {
      const StoredArray* const array = FindArray(arrays, PartKey(key, part));
      if (array == nullptr) {
        return absl::InternalError(Cat("plan \"", PartKey(key, part),
                                       "\": the save has no such array"));
      }
      out.part_value.push_back(static_cast<uint32_t>(out.key.size()));
      out.part_name.push_back(part);
      out.part_array.push_back(static_cast<uint32_t>(array - arrays.data()));
    }
    out.key.push_back(key);
    out.typestr.push_back(value.typestr);
    out.node.push_back(-1);
    out.name.emplace_back();
  }
  return out;
}

}  // namespace belay
