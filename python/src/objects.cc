// Converts a tree of stored values to Python objects.

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "names.h"
#include "state.h"

namespace belay::python {
namespace {

py::object ValueIn(ValueTree& tree, const StoredForms& forms,
                   const std::string& key, bool is_in_tensors);

std::string KindAt(const StoredForms& forms, const std::string& key) {
  const auto found = forms.kinds.find(key);
  return found == forms.kinds.end() ? "" : found->second;
}

std::string OuterOf(const std::string& key) {
  const size_t slash = key.rfind('/');
  return slash == key.npos ? "" : key.substr(0, slash);
}

// Returns a tensor if the program uses PyTorch, else the array.
py::object AsTensor(const py::object& array, DType dtype) {
  const py::dict modules = py::module_::import("sys").attr("modules");
  if (!modules.contains("torch")) return array;
  py::object tensor = TorchTensorOf(array);
  if (dtype != DType::kBF16) return tensor;
  return tensor.attr("to")(py::module_::import("torch").attr("bfloat16"));
}

py::object ArrayIn(ValueTree& tree, const StoredForms& forms,
                   const std::string& key, bool is_in_tensors) {
  const DType dtype = tree.tensor->dtype();
  const py::object array = ArrayOf(*std::move(tree.tensor));
  if (const auto of = forms.fields.find(key); of != forms.fields.end()) {
    return StructsOf(array, of->second);
  }
  const std::string kind = KindAt(forms, key);
  if (kind == "bytes" || kind == "bytearray") {
    return Made(kind, array.attr("tobytes")());
  }
  if (kind == "numpy") return array[py::tuple()];
  if (kind == "tensor") return AsTensor(array, dtype);
  if (!kind.empty() && kind != "ndarray") {  // a list of numbers
    return Made(kind, array.attr("tolist")());
  }
  if (kind == "ndarray") return array;
  if (array.attr("ndim").cast<int>() > 0) {
    return is_in_tensors ? AsTensor(array, dtype) : array;
  }
  return array.attr("item")();
}

py::object SingleIn(ValueTree& tree, const StoredForms& forms,
                    const std::string& key, bool is_in_tensors) {
  if (tree.text && tree.typestr == kBigIntTypestr && MayBeBigInt(*tree.text)) {
    return IntOf({.digits = tree.text});
  }
  if (tree.text) {
    PyObject* const text = PyUnicode_DecodeUTF8(
        tree.text->data(), static_cast<Py_ssize_t>(tree.text->size()), nullptr);
    if (text != nullptr) return py::reinterpret_steal<py::object>(text);
    PyErr_Clear();
    return py::bytes(*tree.text);
  }
  if (tree.tensor) return ArrayIn(tree, forms, key, is_in_tensors);
  return py::none();
}

// Removes the value at a path of names from a tree, and containers that become
// empty.
std::optional<ValueTree> Detached(ValueTree& tree, std::string_view path) {
  for (auto item = tree.items.begin(); item != tree.items.end(); ++item) {
    std::optional<ValueTree> found;
    if (item->name == path) {
      found = std::move(*item);
      tree.items.erase(item);
      return found;
    }
    if (!path.starts_with(item->name + "/")) continue;
    found = Detached(*item, path.substr(item->name.size() + 1));
    if (!found) continue;
    const bool is_empty = item->items.empty() && item->typestr == kGroupTypestr;
    if (is_empty) tree.items.erase(item);
    return found;
  }
  return std::nullopt;
}

using Named = std::vector<std::pair<std::string, py::object>>;

// Returns whether the names are "0", "1", ..., and sorts the values by number.
bool SortNumbered(Named& values) {
  std::map<int64_t, py::object> numbered;
  for (const auto& [name, value] : values) {
    constexpr size_t kMaxDigits = 18;
    if (!IsIntName(name) || name.size() > kMaxDigits) return false;
    numbered[std::stoll(name)] = value;
  }
  const auto count = static_cast<int64_t>(values.size());
  if (count > 0 &&
      (numbered.begin()->first != 0 || numbered.rbegin()->first != count - 1)) {
    return false;
  }
  values.clear();
  for (const auto& [number, value] : numbered) {
    values.emplace_back(std::to_string(number), value);
  }
  return true;
}

bool IsLessInt(const std::string& a, const std::string& b) {
  const bool is_negative = a.starts_with('-');
  if (is_negative != b.starts_with('-')) return is_negative;
  const auto by_length = [](const std::string& text) {
    return std::pair(text.size(), std::string_view(text));
  };
  return is_negative ? by_length(b) < by_length(a)
                     : by_length(a) < by_length(b);
}

// Sorts values in the stored order or, without one, ints by value.
void SortNames(const StoredForms& forms, const std::string& key,
               Named& values) {
  std::map<std::string, size_t> places;
  if (const auto orders = forms.orders.find(key);
      orders != forms.orders.end()) {
    const py::object loads = py::module_::import("json").attr("loads");
    for (const std::string& text : orders->second) {  // from several ranks
      for (const py::handle name : py::list(loads(NameOf(text)))) {
        places.emplace(BytesOf(name), places.size());
      }
    }
  }
  const auto is_before = [&](const auto& a, const auto& b) {
    const auto one = places.find(a.first), other = places.find(b.first);
    if (one != places.end() && other != places.end()) {
      return one->second < other->second;
    }
    return one != places.end() && other == places.end();
  };
  if (!places.empty()) {
    std::stable_sort(values.begin(), values.end(), is_before);
  } else if (forms.ints.contains(key)) {
    const auto others = std::stable_partition(
        values.begin(), values.end(),
        [](const auto& value) { return IsIntName(value.first); });
    std::sort(values.begin(), others, [](const auto& a, const auto& b) {
      return IsLessInt(a.first, b.first);
    });
  }
}

py::object NameObject(const StoredForms& forms, const std::string& key,
                      const std::string& name) {
  if (const auto names = forms.names.find(key); names != forms.names.end()) {
    if (const auto at = names->second.find(name); at != names->second.end()) {
      return FromStored("name_from", at->second);
    }
  }
  py::str text = NameOf(name);
  if (!forms.ints.contains(key) || !IsIntName(name)) return text;
  return py::int_(std::move(text));
}

// Returns the values directly inside a container, by their names.
Named ValuesIn(ValueTree& tree, const StoredForms& forms,
               const std::string& key) {
  Named values;
  std::set<std::string> taken;
  const bool are_tensors = forms.tensors.contains(key);
  const auto add = [&](const std::string& name, ValueTree& value) {
    taken.insert(name);
    values.emplace_back(name,
                        ValueIn(value, forms, Joined(key, name), are_tensors));
  };
  // A value may be stored under the key itself, besides values below it.
  const bool is_none = tree.is_none() || forms.nones.contains(key);
  if (tree.text || tree.tensor || is_none) {
    ValueTree own{.typestr = std::move(tree.typestr),
                  .tensor = std::move(tree.tensor),
                  .text = std::move(tree.text)};
    values.emplace_back("", SingleIn(own, forms, key, false));
  }
  // Keys that contain "/".
  if (const auto names = forms.names.find(key); names != forms.names.end()) {
    for (const auto& [name, form] : names->second) {
      if (name.find('/') == name.npos) continue;
      std::optional<ValueTree> found = Detached(tree, name);
      if (!found && !forms.Has(Joined(key, name))) continue;
      ValueTree nothing;
      add(name, found ? *found : nothing);
    }
  }
  for (ValueTree& item : tree.items) add(item.name, item);
  const auto inside = forms.inside.find(key);
  if (inside == forms.inside.end()) return values;
  for (const std::string& name : inside->second) {
    if (taken.contains(name) || (key.empty() && name.empty())) continue;
    ValueTree nothing;
    add(name, nothing);
  }
  return values;
}

py::object ContainerIn(ValueTree& tree, const StoredForms& forms,
                       const std::string& key) {
  std::string kind = KindAt(forms, key);
  if (kind.empty() && tree.is_list()) kind = "list";
  const RecursionGuard guard;
  Named values = ValuesIn(tree, forms, key);
  const bool is_sequence =
      !kind.empty() && FromStored("is_sequence", kind).cast<bool>();
  if (is_sequence && SortNumbered(values)) {
    py::list list;
    for (const auto& [name, value] : values) list.append(value);
    return Made(kind, std::move(list));
  }
  SortNames(forms, key, values);
  py::dict dict;
  for (const auto& [name, value] : values) {
    dict[NameObject(forms, key, name)] = value;
  }
  return is_sequence ? py::object(std::move(dict))
                     : Made(kind, std::move(dict));
}

bool IsContainer(const ValueTree& tree, const StoredForms& forms,
                 const std::string& key) {
  if (!tree.items.empty() || forms.inside.contains(key)) return true;
  if (tree.text || tree.tensor) return false;
  return tree.is_list() || tree.is_dict() || forms.empty.contains(key);
}

py::object ValueIn(ValueTree& tree, const StoredForms& forms,
                   const std::string& key, bool is_in_tensors) {
  return IsContainer(tree, forms, key)
             ? ContainerIn(tree, forms, key)
             : SingleIn(tree, forms, key, is_in_tensors);
}

}  // namespace

bool MayHaveForms(const ValueTree& tree) {
  return tree.tensor.has_value() || !tree.items.empty();
}

py::object ObjectOf(ValueTree& tree, const StoredForms& forms,
                    const std::string& key) {
  return ValueIn(tree, forms, key, forms.tensors.contains(OuterOf(key)));
}

}  // namespace belay::python
