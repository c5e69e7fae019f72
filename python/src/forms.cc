#include "forms.h"

#include <algorithm>
#include <memory>

#include "absl/status/status.h"
#include "belay/handlers/standard_handlers.h"
#include "belay/state.h"
#include "core/text.h"
#include "errors.h"
#include "names.h"

namespace belay::python {
namespace {

class NoValueHandler : public Handler<NoValue> {
 public:
  explicit NoValueHandler(std::string typestr) : typestr_(std::move(typestr)) {}

  std::string typestr() const override { return typestr_; }
  bool HasFinalize() const override { return false; }
  Status ListForSave(NoValue&, State&) const override {
    return absl::OkStatus();
  }
  Status ListForRestore(NoValue&, const StoredValue&, State&) const override {
    return absl::OkStatus();
  }

 private:
  std::string typestr_;
};

void TakeTree(const std::string& key, const ValueTree& tree,
              StoredForms& forms) {
  if (tree.items.empty()) forms.Take(key, tree.typestr);
  for (const ValueTree& item : tree.items) {
    TakeTree(key + "/" + item.name, item, forms);
  }
}

// Calls a function with a form from a checkpoint, which may be malicious.
py::object CallWithForm(const std::string& form,
                        const std::function<py::object()>& function) {
  try {
    return function();
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_Exception) || error.matches(PyExc_MemoryError)) {
      throw;
    }
    throw StatusError(absl::DataLossError(Cat(
        "read a value of Python: its form ", QuotedText(Shortened(form, 100)),
        " is damaged (", StatusOf(error).message(), ")")));
  }
}

// Malicious keys may have so many parts that the paths to all parts take far
// more memory than the keys.
class PathBudget {
 public:
  PathBudget(const std::set<std::string>& keys,
             const std::set<std::string>& others) {
    for (const std::set<std::string>* some : {&keys, &others}) {
      for (const std::string& key : *some) {
        most_ += kBytesOfByte * static_cast<int64_t>(key.size());
      }
    }
  }

  // Accounts for part number `part` of a key, whose path has `bytes` bytes.
  void Take(size_t part, size_t bytes) {
    taken_ += static_cast<int64_t>(bytes);
    if (part <= kMaxParts && taken_ <= most_) return;
    throw StatusError(absl::DataLossError(
        Cat("read the forms of Python's containers: their keys have too many "
            "parts (need at most ",
            kMaxParts, " in each, and paths of ", most_, " bytes)")));
  }

 private:
  static constexpr size_t kMaxParts = 1000;  // as for any key
  static constexpr int64_t kBytesOfByte = 64;

  int64_t most_ = int64_t{16} << 20;
  int64_t taken_ = 0;
};

}  // namespace

std::string FormKey(std::string_view what, std::string_view container) {
  return std::string(kFormsName) + "/" + std::string(what) + "/" +
         standard::PartName(container);
}

std::string FormKey(std::string_view what, std::string_view container,
                    std::string_view name) {
  return FormKey(what, container) + "/" + standard::PartName(name);
}

TypeHandlerPtr FormHandler(std::string typestr) {
  return std::make_shared<const NoValueHandler>(std::move(typestr));
}

bool IsIntName(std::string_view name) {
  if (name == "0") return true;
  if (name.starts_with('-')) name.remove_prefix(1);
  return !name.empty() && name.front() != '0' &&
         std::all_of(name.begin(), name.end(),
                     [](char one) { return one >= '0' && one <= '9'; });
}

bool IsLengthOf(int64_t count, int64_t length) {
  constexpr int64_t kMaxNone = 1000;
  return length <= 2 * count + kMaxNone;
}

void StoredForms::Finish() {
  // Keys of dicts may contain "/". Maps each such key to its container.
  std::map<std::string, std::string_view, std::less<>> containers;
  for (const auto& [container, keys] : names) {
    for (const auto& [name, form] : keys) {
      if (name.find('/') == name.npos) continue;
      // The outermost container, which comes first.
      containers.try_emplace(container.empty() ? name : container + "/" + name,
                             container);
    }
  }
  PathBudget budget(empty, nones);
  for (const std::set<std::string>* keys : {&empty, &nones}) {
    for (const std::string& key : *keys) {
      std::string_view inner = key;
      for (size_t part = 1; !inner.empty(); ++part) {
        budget.Take(part, inner.size());
        const size_t slash = inner.rfind('/');
        std::string_view outer, name = inner;
        const auto of = containers.find(inner);
        if (of != containers.end() && !of->second.empty()) {
          outer = of->second;
          name = inner.substr(outer.size() + 1);
        } else if (of == containers.end() && slash != inner.npos) {
          outer = inner.substr(0, slash);
          name = inner.substr(slash + 1);
        }
        if (!inside[std::string(outer)].emplace(name).second) break;
        inner = outer;
      }
    }
  }
}

void StoredForms::Take(std::string_view key, const std::string& typestr) {
  if (!IsFormKey(key)) {
    if (typestr != kNoneTypestr) return;
    nones.emplace(key);
    return;
  }
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= key.size();) {
    const size_t end = std::min(key.find('/', begin), key.size());
    parts.push_back(key.substr(begin, end - begin));
    begin = end + 1;
  }
  if (parts.size() < 3) return;
  const std::string container = standard::KeyOfPart(parts[2]);
  if (parts[1] == "kind") {
    kinds[container] = typestr;
  } else if (parts[1] == "empty") {
    kinds.try_emplace(container, typestr);
    empty.insert(container);
  } else if (parts[1] == "ints") {
    ints.insert(container);
  } else if (parts[1] == "tensors") {
    tensors.insert(container);
  } else if (parts[1] == "name" && parts.size() == 4) {
    names[container][standard::KeyOfPart(parts[3])] = typestr;
  } else if (parts[1] == "order") {
    orders[container].push_back(typestr);
  }
}

void StoredForms::TakeFrom(ValueTree& tree) {
  for (auto item = tree.items.begin(); item != tree.items.end(); ++item) {
    if (item->name != kFormsName) continue;
    TakeTree(std::string(kFormsName), *item, *this);
    tree.items.erase(item);
    return Finish();
  }
}

py::object Kinds(const char* function) {
  return py::module_::import("belay._kinds").attr(function);
}

py::object FromStored(const char* function, const std::string& form) {
  return CallWithForm(form, [&] { return Kinds(function)(NameOf(form)); });
}

std::pair<std::string, bool> KindOf(py::handle value) {
  return Kinds("kind_of")(value).cast<std::pair<std::string, bool>>();
}

py::object Made(const std::string& kind, py::object values) {
  if (kind == "list" || kind == "dict" || kind.empty()) return values;
  if (kind == "tuple") return py::tuple(std::move(values));
  return CallWithForm(kind,
                      [&] { return Kinds("made")(NameOf(kind), values); });
}

py::object Like(py::handle given, py::object values) {
  const bool is_same =
      py::type::handle_of(given).is(py::type::of(values)) &&
      (PyDict_CheckExact(given.ptr()) || PyList_CheckExact(given.ptr()));
  return is_same ? values : Kinds("like")(given, values);
}

}  // namespace belay::python
