#include "belay/handlers/value_tree.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "base/printable.h"
#include "base/text.h"
#include "belay/handlers/standard_handlers.h"
#include "belay/state.h"
#include "values/tree_building.h"

namespace belay {
namespace {

bool IsPlainTree(const ValueTree& tree) {
  return tree.typestr == kScalarTypestr || tree.typestr == kArrayTypestr ||
         tree.typestr == kStringTypestr || tree.typestr == kGroupTypestr;
}

// Adds what a tree holds itself, and its items.
void AddContent(ValueTree& tree, State& parts) {
  if (tree.tensor) parts.Add("", *tree.tensor);
  if (tree.text) parts.Add("", *tree.text);
  for (ValueTree& item : tree.items) {
    parts.Add(tree.is_dict() ? standard::PartName(item.name) : item.name,
              &item);
  }
}

// A tree under its own typestr. Local.
class NodeHandler : public Handler<ValueTree> {
 public:
  explicit NodeHandler(std::string typestr) : typestr_(std::move(typestr)) {}

  std::string typestr() const override { return typestr_; }
  bool HasFinalize() const override { return false; }
  Status ListForSave(ValueTree& tree, State& parts) const override {
    AddContent(tree, parts);
    return absl::OkStatus();
  }
  Status ListForRestore(ValueTree& tree, const StoredValue& stored,
                        State& parts) const override {
    return AddTree(stored, tree, parts);
  }

 private:
  std::string typestr_;
};

// Any tree. Local.
class TreeHandler : public Handler<ValueTree> {
 public:
  // Stands for what it holds.
  std::string typestr() const override { return ""; }
  bool HasFinalize() const override { return false; }
  bool Accepts(const StoredValue&) const override { return true; }
  Status ListForSave(ValueTree& tree, State& parts) const override {
    if (IsPlainTree(tree)) {
      AddContent(tree, parts);
    } else if (tree.is_none()) {
      parts.Add("", parts.Own(std::make_shared<std::monostate>()));
    } else {
      parts.AddValue("", RefTo(tree),
                     std::make_shared<const NodeHandler>(tree.typestr));
    }
    return absl::OkStatus();
  }
  Status ListForRestore(ValueTree& tree, const StoredValue& stored,
                        State& parts) const override {
    return AddTree(stored, tree, parts);
  }
};

void AddLines(const ValueTree& tree, int level, std::string& text) {
  text += Cat(std::string(static_cast<size_t>(2 * level), ' '),
              QuotedText(tree.name), "  ", PrintableText(tree.typestr));
  if (tree.tensor) {
    text += Cat("  ", DTypeName(tree.tensor->dtype()), " ",
                ShapeText(tree.tensor->shape()));
  }
  if (tree.text) text += Cat("  ", QuotedText(*tree.text));
  text += '\n';
  for (const ValueTree& item : tree.items) AddLines(item, level + 1, text);
}

}  // namespace

const ValueTree* ValueTree::Find(std::string_view path) const {
  if (path.empty()) return this;
  // A name of a map may have "/" in it: the longest that fits.
  const ValueTree* found = nullptr;
  size_t longest = 0;
  for (const ValueTree& item : items) {
    const bool fits =
        path.starts_with(item.name) &&
        (path.size() == item.name.size() || path[item.name.size()] == '/');
    if (!fits || (found != nullptr && item.name.size() <= longest)) continue;
    const bool is_last = path.size() == item.name.size();
    const ValueTree* const inner =
        is_last ? &item : item.Find(path.substr(item.name.size() + 1));
    if (inner == nullptr) continue;
    found = inner;
    longest = item.name.size();
  }
  return found;
}

ValueTree* ValueTree::Find(std::string_view path) {
  return const_cast<ValueTree*>(std::as_const(*this).Find(path));
}

std::string ValueTree::ToString() const {
  std::string lines;
  AddLines(*this, 0, lines);
  return lines;
}

TypeHandlerPtr StandardHandler<ValueTree>::Get() {
  return standard::Shared<TreeHandler>();
}

}  // namespace belay
