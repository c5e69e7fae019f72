#include "state/value_tree.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "belay/extend/state.h"
#include "belay/handlers/standard_handlers.h"
#include "belay/handlers/value_tree.h"
#include "belay/state.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "plan/stored_values.h"

namespace belay {
namespace {

bool IsPlainTree(const ValueTree& tree) {
  return tree.typestr == kScalarTypestr || tree.typestr == kArrayTypestr ||
         tree.typestr == kStringTypestr || tree.typestr == kGroupTypestr;
}

// Adds the tree's own value and its items.
void AddContent(ValueTree& tree, State& parts) {
  if (tree.tensor) parts.Add("", *tree.tensor);
  if (tree.text) parts.Add("", *tree.text);
  for (ValueTree& item : tree.items) {
    parts.Add(tree.is_dict() ? standard::PartName(item.name) : item.name,
              &item);
  }
}

// Lists a tree under the typestr of its root.
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

// Lists any tree.
class TreeHandler : public Handler<ValueTree> {
 public:
  // Empty, because the values in the tree are stored instead.
  std::string typestr() const override { return ""; }
  bool HasFinalize() const override { return false; }
  bool Accepts(const StoredValue&) const override { return true; }
  Status ListForSave(ValueTree& tree, State& parts) const override {
    if (IsPlainTree(tree)) {
      AddContent(tree, parts);
    } else if (tree.is_none()) {
      parts.Add("", Own(parts, std::make_shared<std::monostate>()));
    } else {
      AddValue(parts, "", RefTo(tree),
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
  // Chooses the longest name, because keys of maps may contain "/".
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

// --- Tree building ---

namespace {

// The maximum depth of nested values and groups.
constexpr int kMaxLevels = 1000;

// A node of a tree that can be built in any order.
struct Branch {
  std::string typestr;
  const ValuePart* part = nullptr;
  std::map<std::string, std::unique_ptr<Branch>, std::less<>> inner;
};

// Returns the branch at a path below `root`, or null if that is too deep.
Branch* Grow(std::string_view path, Branch& root) {
  Branch* at = &root;
  if (path.empty()) return at;
  int level = 0;
  for (const std::string_view name : Split(path, '/')) {
    if (++level > kMaxLevels) return nullptr;
    std::unique_ptr<Branch>& next = at->inner[std::string(name)];
    if (next == nullptr) next = std::make_unique<Branch>();
    at = next.get();
  }
  return at;
}

std::string_view FindTypestr(const ValuePart& part) {
  return part.dtype == DType::kString ? kStringTypestr
         : part.shape.empty()         ? kScalarTypestr
                                      : kArrayTypestr;
}

// Returns the number of a list item. Names that are no numbers sort last.
int64_t ParseNumber(const std::string& name) {
  int64_t number = 0;
  return standard::ReadNumber(name, number) ? number : INT64_MAX;
}

void Fill(const Branch& branch, ValueTree& tree) {
  tree.items.clear();
  tree.tensor.reset();
  tree.text.reset();
  if (branch.part != nullptr) {
    tree.typestr = FindTypestr(*branch.part);
    if (branch.part->dtype == DType::kString) {
      tree.text.emplace();
    } else {
      tree.tensor.emplace(branch.part->dtype, branch.part->shape);
    }
  } else {
    tree.typestr = kGroupTypestr;
  }
  if (!branch.typestr.empty()) tree.typestr = branch.typestr;
  for (const auto& [name, inner] : branch.inner) {
    ValueTree& item = tree.items.emplace_back();
    item.name = tree.is_dict() ? standard::KeyOfPart(name) : name;
    Fill(*inner, item);
  }
  if (!tree.is_list()) return;
  std::stable_sort(tree.items.begin(), tree.items.end(),
                   [](const ValueTree& a, const ValueTree& b) {
                     return ParseNumber(a.name) < ParseNumber(b.name);
                   });
}

// Names may be empty, because the values of a root object are below "/".
void AddLeaves(const std::string& path, bool is_root, ValueTree& tree,
               std::vector<TreeLeaf>& leaves) {
  if (tree.tensor || tree.text) leaves.push_back({path, &tree});
  for (ValueTree& item : tree.items) {
    const std::string name =
        tree.is_dict() ? standard::PartName(item.name) : item.name;
    AddLeaves(is_root ? name : Cat(path, "/", name), false, item, leaves);
  }
}

}  // namespace

Status BuildTree(const StoredValue& stored, ValueTree& tree) {
  Branch root{.typestr = stored.typestr};
  const auto too_deep = [&] {
    return absl::InvalidArgumentError(
        Cat("list \"", stored.key, "\": too many groups inside each other ",
            "(need at most ", kMaxLevels, ")"));
  };
  for (const ValuePart& part : stored.parts) {
    Branch* const branch = Grow(part.name, root);
    if (branch == nullptr) return too_deep();
    branch->part = &part;
  }
  const size_t prefix = stored.key.empty() ? 0 : stored.key.size() + 1;
  for (const StoredValue& inner : stored.values) {
    Branch* const branch =
        Grow(std::string_view(inner.key).substr(prefix), root);
    if (branch == nullptr) return too_deep();
    branch->typestr = inner.typestr;
  }
  Fill(root, tree);
  return absl::OkStatus();
}

std::vector<TreeLeaf> ListLeaves(ValueTree& tree) {
  std::vector<TreeLeaf> leaves;
  AddLeaves("", true, tree, leaves);
  return leaves;
}

Status AddTree(const StoredValue& stored, ValueTree& tree, State& state) {
  BELAY_RETURN_IF_ERROR(BuildTree(stored, tree));
  for (const TreeLeaf& leaf : ListLeaves(tree)) {
    if (leaf.node->text) {
      state.Add(leaf.path, *leaf.node->text);
    } else {
      state.Add(leaf.path, *leaf.node->tensor);
    }
  }
  return state.status();
}

StoredValue WholeCheckpoint(const std::vector<StoredValue>& all) {
  StoredValue whole{.key = "",
                    .typestr = std::string(kGroupTypestr),
                    .parts = {},
                    .values = {}};
  std::map<std::string, ValuePart> parts;  // by full key
  for (const StoredValue& value : all) {
    for (const ValuePart& part : value.parts) {
      ValuePart one = part;
      one.name = PartKey(value.key, part.name);
      parts.emplace(one.name, one);
    }
    if (IsPlain(value)) continue;
    whole.values.push_back({.key = value.key,
                            .typestr = value.typestr,
                            .parts = {},
                            .values = {}});
  }
  for (auto& [key, part] : parts) whole.parts.push_back(std::move(part));
  return whole;
}

}  // namespace belay
