#include "forms.h"

#include <algorithm>
#include <memory>

#include "belay/handlers/standard_handlers.h"
#include "belay/state.h"
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

void StoredForms::NoteInside(const std::string& key) {
  std::string inner = key;
  while (!inner.empty()) {
    size_t slash = inner.rfind('/');
    // The key of a dict may have a "/" itself.
    for (size_t at = slash; at != inner.npos && at > 0;
         at = inner.rfind('/', at - 1)) {
      const auto of = names.find(inner.substr(0, at));
      const bool is_name =
          of != names.end() && of->second.contains(inner.substr(at + 1));
      if (is_name) slash = at;
    }
    const auto top = names.find("");
    const bool is_top = slash == inner.npos ||
                        (top != names.end() && top->second.contains(inner));
    const std::string outer = is_top ? "" : inner.substr(0, slash);
    const std::string name = is_top ? inner : inner.substr(slash + 1);
    if (!inside[outer].insert(name).second) return;
    inner = outer;
  }
}

void StoredForms::Finish() {
  for (const std::string& key : empty) NoteInside(key);
  for (const std::string& key : nones) NoteInside(key);
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

std::pair<std::string, bool> KindOf(py::handle value) {
  return Kinds("kind_of")(value).cast<std::pair<std::string, bool>>();
}

py::object Made(const std::string& kind, py::object values) {
  if (kind == "list" || kind == "dict" || kind.empty()) return values;
  if (kind == "tuple") return py::tuple(std::move(values));
  return Kinds("made")(NameOf(kind), values);
}

py::object Like(py::handle given, py::object values) {
  const bool is_same =
      py::type::handle_of(given).is(py::type::of(values)) &&
      (PyDict_CheckExact(given.ptr()) || PyList_CheckExact(given.ptr()));
  return is_same ? values : Kinds("like")(given, values);
}

}  // namespace belay::python
