// Lists, tuples and empty dicts of a state, for which a restore may return more
// elements than they have.

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/numbers.h"
#include "state.h"

namespace belay::python {

void BoundState::BindStored(py::handle state,
                            std::vector<std::string> stored_keys) {
  stored_keys_ = std::move(stored_keys);
  knows_stored_ = true;
  const bool grows = AnyGrows();
  if (!grows && !has_grown_ && !has_unbound_) return;
  has_grown_ = grows;
  has_unbound_ = false;
  state_ = {};  // before the objects it borrows from
  root_ = {};
  cells_.clear();
  keys_.clear();
  optional_.clear();
  open_ends_.clear();
  has_open_ = false;
  Bind(state);
}

bool BoundState::IsAgreedEnd(const std::string& key, Node::Kind kind,
                             size_t length) {
  if (purpose_ != Purpose::kRestore) return false;
  const std::string text = key + "\n" + std::to_string(static_cast<int>(kind)) +
                           " " + std::to_string(length);
  const uint64_t number = std::hash<std::string>()(text);
  open_ends_.push_back(
      {number, key, static_cast<int64_t>(length), kind == Node::Kind::kDict});
  return agreed_ends_.contains(number);
}

std::set<uint64_t> BoundState::open_ends() const {
  std::set<uint64_t> numbers;
  for (const OpenEnd& end : open_ends_) numbers.insert(end.number);
  return numbers;
}

bool BoundState::AnyGrows() const {
  return std::any_of(
      open_ends_.begin(), open_ends_.end(), [&](const OpenEnd& end) {
        if (!end.is_dict && IsStored(end.key)) return true;
        if (!agreed_ends_.contains(end.number)) return false;
        // A stored empty list may contain values without arrays, such as None.
        return end.length == 0 || StoredNumbers(end.key).first != end.length;
      });
}

void BoundState::BindRest(const std::string& key, Node& node) {
  const auto given = static_cast<int64_t>(node.items.size());
  const int64_t stored = StoredNumbers(key).first;
  if (stored <= given) return;
  if (node.kind != Node::Kind::kList || !IsPlain(node)) {
    Refuse(key, std::to_string(stored) +
                    " elements are stored; pass as many (found " +
                    std::to_string(given) + ")");
  }
  NumStored(key, given);
  for (int64_t i = given; i < stored; ++i) {
    const std::string element = Joined(key, std::to_string(i));
    const bool is_stored = IsStoredBelow(element) || IsStored(element);
    node.items.emplace_back(py::object(),
                            BindOpen(element, py::none(), is_stored));
  }
}

int64_t BoundState::NumStored(const std::string& key, int64_t given) const {
  const auto [stored, count] = StoredNumbers(key);
  if (!IsLengthOf(count, stored - given)) {
    Refuse(key, "the stored value is not a list (element " +
                    std::to_string(stored - 1) + " of " +
                    std::to_string(count) + ")");
  }
  return stored;
}

bool BoundState::IsPlain(const Node& node) {
  using Kind = Node::Kind;
  if (node.kind == Kind::kCell || node.kind == Kind::kOpen) return true;
  return (node.kind == Kind::kDict || node.kind == Kind::kList ||
          node.kind == Kind::kTuple) &&
         std::all_of(node.items.begin(), node.items.end(),
                     [](const auto& item) { return IsPlain(item.second); });
}

bool BoundState::IsStored(const std::string& key) const {
  return std::binary_search(stored_keys_.begin(), stored_keys_.end(), key);
}

bool BoundState::IsStoredBelow(const std::string& key) const {
  const std::string prefix = key + "/";
  const auto at =
      std::lower_bound(stored_keys_.begin(), stored_keys_.end(), prefix);
  return at != stored_keys_.end() && at->starts_with(prefix);
}

std::pair<int64_t, int64_t> BoundState::StoredNumbers(
    const std::string& key) const {
  const std::string prefix = key.empty() ? "" : key + "/";
  int64_t length = 0, count = 0;
  auto at = std::lower_bound(stored_keys_.begin(), stored_keys_.end(), prefix);
  while (at != stored_keys_.end() && at->starts_with(prefix)) {
    const std::string name =
        at->substr(prefix.size(), at->find('/', prefix.size()) - prefix.size());
    int64_t number = -1;
    if (absl::SimpleAtoi(name, &number) && number < INT64_MAX &&
        name == std::to_string(number)) {
      length = std::max(length, number + 1);
      ++count;
    }
    // Skip everything that is stored below this name: '0' follows '/'.
    at = std::lower_bound(at, stored_keys_.end(), prefix + name + "0");
  }
  return {length, count};
}

}  // namespace belay::python
