#include "object_tree.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "belay/objects/trackable.h"
#include "number_text.h"

namespace belay::tools {
namespace {

struct ValueTexts {
  std::string dtype, shape, layout;
};

// A line of the tree. There may be very many.
struct Row {
  int64_t level = 0;   // 0: the root
  std::string branch;  // "│  ├─ "
  std::string name;
  std::string target;                 // of a reference: "-> (root).model"
  bool holds = false;                 // an object that is more than one value
  int64_t bytes = -1;                 // -1: of a reference
  std::unique_ptr<ValueTexts> value;  // if it is a value
  int64_t more = 0;                   // rows below it that are omitted
};

// An item directly below an object.
struct Entry {
  std::string name;
  const ObjectValue* value = nullptr;  // of the object, or
  int64_t object = -1;                 // an object that it holds
  bool is_reference = false;
};

class TreeMaker {
 public:
  TreeMaker(const std::vector<ObjectInfo>& objects,
            const std::vector<ArrayInfo>& arrays, bool values)
      : objects_(objects), arrays_(arrays), values_(values) {
    FindHomes();
    AddUpBytes();
  }

  std::vector<Row> Make() {
    rows_.push_back({.name = "(root)", .holds = true, .bytes = bytes_[0]});
    AddBelow(0, 1, "");
    return std::move(rows_);
  }

 private:
  const ObjectInfo& At(int64_t object) const {
    return objects_[static_cast<size_t>(object)];
  }

  // True if an edge is the last one on the path of the object it leads to.
  bool IsPathOf(const ObjectChild& child, int64_t holder) const {
    const ObjectInfo& object = At(child.object);
    const std::string_view path = object.path;
    const std::string_view above = At(holder).path;
    return object.parent == holder &&
           path.size() == above.size() + 1 + child.name.size() &&
           path.starts_with(above) && path[above.size()] == '.' &&
           path.ends_with(child.name);
  }

  void FindHomes() {
    homes_.resize(objects_.size());
    holders_.resize(objects_.size(), -1);
    const auto set = [&](int64_t object, const void* edge, size_t holder) {
      const auto i = static_cast<size_t>(object);
      if (homes_[i] != nullptr) return;
      homes_[i] = edge;
      holders_[i] = static_cast<int64_t>(holder);
    };
    for (size_t i = 0; i < objects_.size(); ++i) {
      for (const ObjectChild& child : objects_[i].children) {
        if (IsPathOf(child, static_cast<int64_t>(i))) {
          set(child.object, &child, i);
        }
      }
      for (const ObjectSlot& slot : objects_[i].slots) {
        set(slot.object, &slot, i);
      }
    }
  }

  // Adds up sizes from the last object on: holders come before what they hold.
  void AddUpBytes() {
    bytes_.resize(objects_.size());
    for (size_t i = objects_.size(); i-- > 0;) {
      for (const ObjectValue& value : objects_[i].values) {
        bytes_[i] += BytesOf(value);
      }
      if (holders_[i] >= 0) {
        bytes_[static_cast<size_t>(holders_[i])] += bytes_[i];
      }
    }
  }

  const ArrayInfo* Find(const std::string& key) const {
    const auto found = std::lower_bound(
        arrays_.begin(), arrays_.end(), key,
        [](const ArrayInfo& a, const std::string& k) { return a.key < k; });
    return found == arrays_.end() || found->key != key ? nullptr : &*found;
  }

  // Returns the bytes of one array, or of all arrays that a handler stored for
  // the value.
  int64_t BytesOf(const ObjectValue& value) const {
    const ArrayInfo* array = Find(value.key);
    int64_t bytes = array == nullptr ? 0 : array->bytes;
    if (value.typestr.empty()) return bytes;
    const std::string below = value.key + "/";
    for (auto part = std::lower_bound(
             arrays_.begin(), arrays_.end(), below,
             [](const ArrayInfo&a, const std::string&k) { return a.key < k; });
         part != arrays_.end() && part->key.starts_with(below); ++part) {
      bytes += part->bytes;
    }
    return bytes;
  }

  // Returns the value if the object consists of only one value, else null.
  const ObjectValue* OnlyValue(int64_t number) const {
    const ObjectInfo& object = At(number);
    return object.children.empty() && object.slots.empty() &&
                   object.values.size() == 1 &&
                   object.values[0].name == kVariableValue
               ? &object.values[0]
               : nullptr;
  }

  // Returns the path of an object for a reference, shortened because many
  // references may have a long path.
  std::string ShownPath(int64_t object) const {
    constexpr size_t kMaxBytes = 256;
    const std::string& path = At(object).path;
    if (path.size() <= kMaxBytes) return PrintableName(path);
    return absl::StrCat("...",
                        PrintableName(path.substr(path.size() - kMaxBytes)));
  }

  std::vector<Entry> EntriesOf(const ObjectInfo& object) const {
    std::vector<Entry> entries;
    const auto add = [&](std::string name, int64_t held, const void* edge) {
      if (!values_ && OnlyValue(held) != nullptr) return;
      entries.push_back(
          {.name = std::move(name),
           .object = held,
           .is_reference = homes_[static_cast<size_t>(held)] != edge});
    };
    for (const ObjectValue& value : object.values) {
      if (!values_) break;
      entries.push_back({.name = PrintableName(value.name), .value = &value});
    }
    for (const ObjectChild& child : object.children) {
      add(PrintableName(child.name), child.object, &child);
    }
    for (const ObjectSlot& slot : object.slots) {
      add(absl::StrCat(PrintableName(slot.name), " for ",
                       ShownPath(slot.variable)),
          slot.object, &slot);
    }
    return entries;
  }

  void SetValue(const ObjectValue& value, Row& row) const {
    const ArrayInfo* array = Find(value.key);
    row.bytes = BytesOf(value);
    ValueTexts& texts = *(row.value = std::make_unique<ValueTexts>());
    texts.layout = PrintableName(value.layout);
    if (value.opaque) {
      texts.dtype = "opaque";
    } else if (!value.typestr.empty()) {
      texts.dtype = PrintableName(value.typestr);
    } else if (array != nullptr) {
      texts.dtype = std::string(DTypeName(array->dtype));
      texts.shape = ShapeText(array->shape);
    }
  }

  Row RowOf(const Entry& entry) const {
    Row row{.name = entry.name};
    if (entry.is_reference) {
      row.target = absl::StrCat("-> ", ShownPath(entry.object));
    } else if (entry.value != nullptr) {
      SetValue(*entry.value, row);
    } else if (const ObjectValue* value = OnlyValue(entry.object)) {
      SetValue(*value, row);
    } else {
      row.holds = true;
      row.bytes = bytes_[static_cast<size_t>(entry.object)];
    }
    return row;
  }

  void AddBelow(int64_t object, int64_t level, const std::string& indent) {
    const std::vector<Entry> entries = EntriesOf(At(object));
    for (const Entry& entry : entries) {
      const bool is_last = &entry == &entries.back();
      Row row = RowOf(entry);
      const bool holds = row.holds;
      row.level = level;
      row.branch = absl::StrCat(indent, is_last ? "└─ " : "├─ ");
      rows_.push_back(std::move(row));
      if (!holds) continue;
      AddBelow(entry.object, level + 1,
               absl::StrCat(indent, is_last ? "   " : "│  "));
    }
  }

  const std::vector<ObjectInfo>& objects_;
  const std::vector<ArrayInfo>& arrays_;
  const bool values_;
  std::vector<const void*> homes_;  // per object, the last edge of its path
  std::vector<int64_t> holders_;    // per object, where that edge begins
  std::vector<int64_t> bytes_;      // per object, of everything below it
  std::vector<Row> rows_;
};

// Removes rows below `depth`; the row above them shows their number.
std::vector<Row> Shortened(std::vector<Row> rows, int64_t depth) {
  std::vector<Row> kept;
  for (Row& row : rows) {
    if (row.level <= depth) {
      kept.push_back(std::move(row));
    } else {
      ++kept.back().more;
    }
  }
  for (Row& row : kept) {
    if (row.more > 0) row.name += absl::StrFormat(" (%d more)", row.more);
  }
  return kept;
}

// Lays rows out in columns.
class Table {
 public:
  Table(const std::vector<Row>& rows, bool color) : color_(color) {
    for (const Row& row : rows) {
      if (row.bytes < 0) continue;
      name_width_ =
          std::max(name_width_, WidthOf(row.branch) + WidthOf(row.name));
      if (row.value == nullptr) continue;
      shape_width_ = std::max(shape_width_, row.value->shape.size());
      has_values_ = has_values_ || !row.value->dtype.empty();
      has_layouts_ = has_layouts_ || !row.value->layout.empty();
    }
  }

  std::string Head() const {
    std::string line = Padded("object", name_width_);
    absl::StrAppendFormat(&line, "  %10s", "bytes");
    if (has_values_) absl::StrAppend(&line, "  dtype   shape");
    if (has_layouts_) {
      absl::StrAppend(&line, std::string(shape_width_ - 5, ' '), "  layout");
    }
    return line + "\n";
  }

  std::string Line(const Row& row) const {
    std::string name =
        absl::StrCat(Faint(row.branch), row.holds ? Bold(row.name) : row.name);
    if (row.bytes < 0) {
      return absl::StrCat(name, " ", Faint(row.target), "\n");
    }
    std::string line = WithBlanks(
        std::move(name), WidthOf(row.branch) + WidthOf(row.name), name_width_);
    absl::StrAppendFormat(&line, "  %10s", BytesText(row.bytes));
    if (row.value == nullptr || row.value->dtype.empty()) return line + "\n";
    const auto& [dtype, shape, layout] = *row.value;
    absl::StrAppendFormat(&line, "  %-7s %-*s", dtype,
                          static_cast<int>(shape_width_), shape);
    if (layout.empty()) {
      line.erase(line.find_last_not_of(' ') + 1);
    } else {
      absl::StrAppend(&line, "  ", Faint(layout));
    }
    return line + "\n";
  }

 private:
  static std::string WithBlanks(std::string text, size_t width, size_t need) {
    if (width < need) text.append(need - width, ' ');
    return text;
  }
  std::string Bold(const std::string& text) const {
    return color_ ? absl::StrCat("\x1b[1m", text, "\x1b[0m") : text;
  }
  std::string Faint(const std::string& text) const {
    if (!color_ || text.empty()) return text;
    return absl::StrCat("\x1b[2m", text, "\x1b[0m");
  }

  bool color_;
  size_t name_width_ = 6;
  size_t shape_width_ = 5;
  bool has_values_ = false;
  bool has_layouts_ = false;
};

}  // namespace

std::string ObjectTreeText(const std::vector<ObjectInfo>& objects,
                           const std::vector<ArrayInfo>& arrays,
                           const TreeOptions& options) {
  std::vector<Row> rows = TreeMaker(objects, arrays, options.values).Make();
  if (options.depth) rows = Shortened(std::move(rows), *options.depth);
  const Table table(rows, options.color);
  std::string text = table.Head();
  for (const Row& row : rows) text += table.Line(row);
  return text;
}

}  // namespace belay::tools
