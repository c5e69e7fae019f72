#include "graph/graph_match.h"

#include <algorithm>
#include <map>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "belay/extend/transform_function.h"
#include "core/option_table.h"
#include "core/text.h"
#include "core/wire.h"
#include "state/array_access.h"
#include "state/transform.h"

namespace belay {
namespace {

// Calls `visit` with each element of `all` and the element of `others` with the
// same name, or null. Both usually have the same order, so the same position is
// tried first.
template <typename Named, typename Visit>
void ForEachNamed(const std::vector<Named>& all,
                  const std::vector<Named>& others, Visit visit) {
  absl::flat_hash_map<absl::string_view, const Named*> by_name;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i < others.size() && others[i].name == all[i].name) {
      visit(all[i], &others[i]);
      continue;
    }
    if (by_name.empty()) {
      for (const Named& one : others) by_name.emplace(AbslView(one.name), &one);
    }
    const auto found = by_name.find(AbslView(all[i].name));
    visit(all[i], found == by_name.end() ? nullptr : found->second);
  }
}

// The nodes of an optimizer's slots by variable and name.
using SlotNodes =
    absl::flat_hash_map<std::pair<int32_t, absl::string_view>, int32_t>;

SlotNodes IndexSlots(const GraphNode& optimizer) {
  SlotNodes slots;
  for (const GraphSlot& slot : optimizer.slots) {
    slots.emplace(std::pair(slot.variable, AbslView(slot.name)), slot.node);
  }
  return slots;
}

KnownObjects CopyObjects(const LiveGraph& live) {
  KnownObjects known{.graph = {}, .ids = live.ids};
  for (const GraphNode& node : live.graph.nodes) {
    known.graph.nodes.push_back({.parent = node.parent,
                                 .optimizer = node.optimizer,
                                 .name = node.name,
                                 .children = node.children,
                                 .attributes = {},
                                 .slots = node.slots});
  }
  return known;
}

// Returns, for each node of `live`, whether it is an object of `before`.
// Addresses are reused, so the address is not enough: a path that led to the
// object must still lead to it, through known objects. A new object that has
// both the address and a path of a destroyed object is mistaken for it.
std::vector<bool> FindKnown(const KnownObjects& before, const LiveGraph& live) {
  std::vector<int32_t> known(live.ids.size(),
                             -1);  // per live node: its node in `before`, or -1
  std::vector<int32_t> queue;      // live nodes in the order of pairing
  const auto pair = [&](int32_t old, int32_t now) {
    const ObjectId& a = before.ids[At(old)];
    const ObjectId& b = live.ids[At(now)];
    // An object without an address is identified only by its path.
    const bool is_same =
        a == b || (a.address == nullptr && b.address == nullptr);
    if (!is_same || known[At(now)] >= 0) return;
    known[At(now)] = old;
    queue.push_back(now);
  };
  const auto node_before = [&](int32_t now) -> const GraphNode& {
    return before.graph.nodes[At(known[At(now)])];
  };
  if (!before.ids.empty()) pair(0, 0);
  for (size_t i = 0; i < queue.size(); ++i) {
    ForEachNamed(live.graph.nodes[At(queue[i])].children,
                 node_before(queue[i]).children,
                 [&](const GraphChild& now, const GraphChild* old) {
                   if (old != nullptr) pair(old->node, now.node);
                 });
  }
  const std::vector<int32_t> holders = queue;
  for (const int32_t optimizer : holders) {
    const SlotNodes slots = IndexSlots(node_before(optimizer));
    for (const GraphSlot& slot : live.graph.nodes[At(optimizer)].slots) {
      const auto old =
          slots.find({known[At(slot.variable)], AbslView(slot.name)});
      if (old != slots.end()) pair(old->second, slot.node);
    }
  }
  std::vector<bool> is_known;
  for (const int32_t node : known) is_known.push_back(node >= 0);
  return is_known;
}

// Skips the save counter if it is not stored. SaveAs does not add a counter.
void SkipAbsentSaveCounter(const ObjectGraph& saved, const LiveGraph& live,
                           std::vector<RestoreChoice>& choices) {
  const auto& children = saved.nodes[0].children;
  if (std::any_of(children.begin(), children.end(), [](const auto& child) {
        return child.name == kSaveCounter;
      })) {
    return;
  }
  for (size_t i = 0; i < live.values.size(); ++i) {
    if (live.GetAttribute(live.values[i]).key == SaveCounterKey()) {
      choices[i].skip = true;
    }
  }
}

// Returns whether the arguments name the stored values to restore from.
bool HasSource(const RestoreChoice& choice) {
  return !choice.stored_key.empty() || !choice.transform.empty();
}

// Returns the path as other programs may have written it, "model/dense/kernel".
std::string PlainName(const LiveGraph& live, const LiveValue& value) {
  std::string text;
  for (const std::string& element : PathElements(live.graph, value.node)) {
    text += Cat(text.empty() ? "" : "/", element);
  }
  const std::string& name = live.GetAttribute(value).name;
  if (name == kVariableValue && !text.empty()) return text;
  return Cat(text, text.empty() ? "" : "/", name);
}

absl::string_view WithoutSlash(absl::string_view key) {
  if (!key.empty() && key[0] == '/') key.remove_prefix(1);
  return key;
}

// Returns, for each live node, whether the arguments settle all values of the
// node and of the objects below it.
std::vector<bool> AreSettled(const LiveGraph& live,
                             const std::vector<RestoreChoice>& choices,
                             const std::vector<bool>& is_matched) {
  std::vector<bool> settled(live.graph.nodes.size(), true);
  for (size_t i = 0; i < live.values.size(); ++i) {
    const RestoreChoice& choice = choices[i];
    const bool is_settled = choice.skip || choice.may_be_absent ||
                            (is_matched[i] && HasSource(choice));
    if (!is_settled) settled[At(live.values[i].node)] = false;
  }
  for (size_t i = settled.size(); i-- > 1;) {
    if (!settled[i]) settled[At(live.graph.nodes[i].parent)] = false;
  }
  return settled;
}

class Matcher {
 public:
  Matcher(const Restoration& restoration, const LiveGraph& live,
          const RestoredNumbers& restored, int rank,
          std::vector<RestoreChoice> choices)
      : restoration_(restoration),
        choices_(std::move(choices)),
        saved_(restoration.saved),
        live_(live),
        restored_(restored),
        is_known_(FindKnown(restored.objects, live)),
        is_matched_(live.values.size()),
        is_settled_(live.graph.nodes.size()),
        is_found_(live.values.size()) {
    result_.live_nodes.assign(saved_.nodes.size(), -1);
    out().rank = rank;
    out().nodes.assign(saved_.nodes.size(), NodeMatch::kAbsent);
    for (const GraphNode& node : saved_.nodes) {
      first_attribute_.push_back(attributes_.size());
      for (const GraphAttribute& one : node.attributes) {
        attributes_.push_back(&one);
      }
    }
    out().used.assign(attributes_.size(), AttributeUse::kUnused);
    choices_.resize(live.values.size());
  }

  MatchResult ByEdges() {
    SkipAbsentSaveCounter(saved_, live_, choices_);
    Bind(0, 0);
    MatchStoredKeys();
    BindRemembered();
    for (size_t i = 0; i < queue_.size(); ++i) BindChildren(queue_[i]);
    for (size_t i = 0; i < saved_.nodes.size(); ++i) BindSlots(i);
    for (const int32_t node : queue_) MatchValues(node);
    NoteDeferred();
    NoteUnmatchedObjects();
    NoteMissing();
    return std::move(result_);
  }

  MatchResult ByName() {
    Bind(0, 0);
    MatchStoredKeys();
    // Exact names come first, so that no other value gets their arrays.
    FindArrays([](absl::string_view name) { return name; });
    FindArrays(WithoutSlash);
    for (size_t i = 0; i < live_.values.size(); ++i) {
      if (is_found_[i]) continue;
      const LiveValue& value = live_.values[i];
      is_matched_[i] =
          PlainName(live_, value) == kSaveCounter || OthersHave(value);
    }
    NoteMissing();
    return std::move(result_);
  }

 private:
  RankMatch& out() { return result_.rank_match; }
  const GraphNode& LiveNode(int32_t node) const {
    return live_.graph.nodes[At(node)];
  }

  // Returns true if all elements of the value are on other ranks. Those ranks
  // know its other names, and report the value if it is missing.
  bool OthersHave(const LiveValue& value) const {
    return LiveNode(value.node).is_empty &&
           NumElements(live_.GetAttribute(value).shape) > 0;
  }

  // Records a difference between a stored value, which is attribute `place`,
  // and a value of the program. Returns true if the value can be restored.
  bool CheckKind(size_t place, const GraphAttribute& stored, size_t value) {
    const LiveValue& live = live_.values[value];
    const GraphAttribute& own = live_.GetAttribute(live);
    // A handler decides itself how to use a stored value.
    if (own.has_handler()) return true;
    const bool is_array = !stored.has_handler();
    const StoredForm found{stored.dtype, stored.shape};
    const bool takes_length =
        is_array && live.shards.size() == 1 &&
        TakesLength(live.shards[0], found.dtype, found.shape);
    const StoredForm needed{own.dtype, takes_length ? stored.shape : own.shape};
    if (is_array && found == needed) return true;
    const bool fits =
        is_array && Fits(found, needed, choices_[value].tolerance);
    auto& differences = fits ? out().conversions : out().mismatches;
    differences.push_back(
        {.attribute = static_cast<int64_t>(place),
         .key = own.key,
         .needed = FormText(needed),
         .found = is_array ? FormText(found) : Cat(kTypeText, stored.typestr)});
    return fits;
  }

  void Use(size_t place, AttributeUse use) {
    out().used[place] = std::max(out().used[place], use);
  }

  void Read(size_t value, const std::string& key) {
    if (LastNumber(value) >= restoration_.number) return;
    result_.reads.push_back({.value = value, .key = key});
  }

  // Maps keys to the numbers of stored attributes.
  using Places = absl::flat_hash_map<absl::string_view, size_t>;

  // Matches a value with the stored values that it is computed from.
  void MatchSources(const Places& places, size_t value) {
    const RestoreChoice& choice = choices_[value];
    const std::string& key = live_.GetAttribute(live_.values[value]).key;
    std::vector<size_t> sources;
    std::map<std::string, ArrayForm> forms;
    for (const std::string& stored_key : choice.transform.StoredKeys()) {
      const auto place = places.find(AbslView(stored_key));
      if (place == places.end()) return;
      sources.push_back(place->second);
      const GraphAttribute& stored = *attributes_[place->second];
      if (!stored.has_handler()) {
        forms[stored_key] = {.dtype = stored.dtype, .shape = stored.shape};
      }
    }
    if (sources.empty()) return;
    is_matched_[value] = true;
    claimed_.insert(sources.begin(), sources.end());
    if (choice.skip) {
      for (const size_t place : sources) Use(place, AttributeUse::kSkipped);
      return;
    }
    // If this fails, reading reports the error.
    const StatusOr<ArrayForm> form =
        ComputeForm(choice.transform, [&](const auto& name) {
          const auto found = forms.find(name);
          return found == forms.end() ? nullptr : &found->second;
        });
    GraphAttribute result;
    if (form.ok()) {
      result.dtype = form->dtype;
      result.shape = form->shape;
      if (!CheckKind(sources[0], result, value)) return;
    }
    for (const size_t place : sources) {
      Use(place, AttributeUse::kUsed);
      out().renamed.emplace_back(place, key);
    }
    Read(value, key);
  }

  // Matches the values that have another key in the checkpoint.
  void MatchStoredKeys() {
    if (std::none_of(choices_.begin(), choices_.end(), HasSource)) return;
    Places places;
    for (size_t i = 0; i < attributes_.size(); ++i) {
      places.emplace(AbslView(attributes_[i]->key), i);
    }
    for (size_t i = 0; i < live_.values.size(); ++i) {
      if (!HasSource(choices_[i])) continue;
      is_found_[i] = true;
      if (!choices_[i].transform.empty()) {
        MatchSources(places, i);
        continue;
      }
      const auto place = places.find(AbslView(choices_[i].stored_key));
      if (place == places.end()) continue;
      claimed_.insert(place->second);
      MatchValue(place->second, i);
    }
  }

  // Matches arrays to values that have no array yet. Compares the results of
  // `name` for the key of the array and for the key or the plain name of the
  // value.
  void FindArrays(absl::string_view (*name)(absl::string_view)) {
    Places places;
    for (size_t i = 0; i < attributes_.size(); ++i) {
      places.emplace(name(AbslView(attributes_[i]->key)), i);
    }
    for (size_t i = 0; i < live_.values.size(); ++i) {
      if (is_found_[i]) continue;
      const LiveValue& value = live_.values[i];
      const std::string plain = PlainName(live_, value);
      auto found = places.find(name(AbslView(live_.GetAttribute(value).key)));
      if (found == places.end()) found = places.find(name(AbslView(plain)));
      if (found == places.end()) continue;
      is_found_[i] = true;
      GiveArray(found->second, i);
    }
  }

  // The first value that asks for an array gets it.
  void GiveArray(size_t array, size_t value) {
    const auto [owner, is_new] = owners_.emplace(array, value);
    if (is_new) return MatchValue(array, value);
    if (OthersHave(live_.values[value])) {
      is_matched_[value] = true;
      return;
    }
    const auto key = [this](size_t v) {
      return live_.GetAttribute(live_.values[v]).key;
    };
    out().warnings.push_back(Cat("Ambiguous names: \"", attributes_[array]->key,
                                 "\" of the checkpoint is \"",
                                 key(owner->second), "\", so it cannot be \"",
                                 key(value), "\""));
  }

  // Objects stay matched as long as a path that they had in both graphs still
  // leads to them.
  void BindRemembered() {
    if (restoration_.bound.empty() || !IsRemembered(0, 0)) return;
    is_remembering_ = true;
    for (size_t i = 0; i < queue_.size(); ++i) BindChildren(queue_[i]);
    for (size_t i = 0; i < saved_.nodes.size(); ++i) BindSlots(i);
    is_remembering_ = false;
    waiting_.clear();
  }

  bool IsRemembered(int32_t saved, int32_t live) const {
    return restoration_.bound[At(saved)] == live_.ids[At(live)];
  }

  void Bind(int32_t saved, int32_t live) {
    if (is_remembering_ && !IsRemembered(saved, live)) return;
    int32_t& bound = result_.live_nodes[At(saved)];
    if (bound == live) return;
    if (bound >= 0 && LiveNode(live).is_empty) return NoteNothingToRead(live);
    if (bound >= 0) {
      out().warnings.push_back(
          Cat("Inconsistent references: ", PrettyName(saved_, saved),
              " of the checkpoint is ", PrettyName(live_.graph, bound),
              ", so it cannot be ", PrettyName(live_.graph, live)));
      return;
    }
    bound = live;
    out().nodes[At(saved)] = NodeMatch::kBound;
    queue_.push_back(saved);
  }

  // An empty object has a node for each of its paths. Ranks that have elements
  // of the object report whether it is the bound object.
  void NoteNothingToRead(int32_t live) {
    is_settled_[At(live)] = true;
    const auto first = static_cast<std::ptrdiff_t>(live_.first_value[At(live)]);
    std::fill_n(is_matched_.begin() + first,
                std::ssize(LiveNode(live).attributes), true);
  }

  void BindChildren(int32_t saved) {
    ForEachNamed(saved_.nodes[At(saved)].children,
                 LiveNode(result_.live_nodes[At(saved)]).children,
                 [&](const GraphChild& child, const GraphChild* live) {
                   if (live != nullptr) {
                     Bind(child.node, live->node);
                   } else {
                     waiting_.push_back(child.node);
                   }
                 });
  }

  void BindSlots(size_t optimizer) {
    const auto& slots = saved_.nodes[optimizer].slots;
    if (slots.empty()) return;
    const int32_t live_optimizer = result_.live_nodes[optimizer];
    const SlotNodes live =
        live_optimizer < 0 ? SlotNodes() : IndexSlots(LiveNode(live_optimizer));
    for (const GraphSlot& slot : slots) {
      const int32_t variable = result_.live_nodes[At(slot.variable)];
      const auto found = live.find(std::pair(variable, AbslView(slot.name)));
      if (variable >= 0 && found != live.end()) {
        Bind(slot.node, found->second);
      } else if (variable >= 0 && LiveNode(variable).is_empty) {
        continue;  // other ranks have all of the slot, or wait for it
      } else if (variable >= 0 || live_optimizer >= 0) {
        waiting_.push_back(slot.node);
      }
    }
  }

  void MatchValues(int32_t saved) {
    const int32_t node = result_.live_nodes[At(saved)];
    const auto& live_attributes = LiveNode(node).attributes;
    size_t place = first_attribute_[At(saved)];
    ForEachNamed(saved_.nodes[At(saved)].attributes, live_attributes,
                 [&](const GraphAttribute&, const GraphAttribute* live) {
                   const size_t stored = place++;
                   if (live == nullptr) return;
                   const auto at =
                       static_cast<size_t>(live - live_attributes.data());
                   const size_t value = live_.first_value[At(node)] + at;
                   if (!HasSource(choices_[value])) MatchValue(stored, value);
                 });
  }

  // Matches a value with the stored attribute `place`.
  void MatchValue(size_t place, size_t value) {
    const GraphAttribute& stored = *attributes_[place];
    const std::string& key = live_.GetAttribute(live_.values[value]).key;
    const bool is_first = !is_matched_[value];
    is_matched_[value] = true;
    if (choices_[value].skip) return Use(place, AttributeUse::kSkipped);
    if (!CheckKind(place, stored, value)) return;
    Use(place, AttributeUse::kUsed);
    if (stored.key != key) out().renamed.emplace_back(place, key);
    if (is_first) Read(value, stored.key);
  }

  // Returns the number of the restore that read the value last, or 0.
  int64_t LastNumber(size_t value) const {
    const int32_t node = live_.values[value].node;
    if (!is_known_[At(node)]) return 0;
    const auto last = restored_.numbers.find(
        {live_.ids[At(node)], live_.GetAttribute(live_.values[value]).name});
    return last == restored_.numbers.end() ? 0 : last->second;
  }

  void NoteDeferred() {
    const std::vector<bool> have_others =
        LeadToThem(saved_, HaveUnclaimedValues());
    for (const int32_t node : waiting_) {
      if (out().nodes[At(node)] == NodeMatch::kAbsent &&
          have_others[At(node)]) {
        out().nodes[At(node)] = NodeMatch::kDeferred;
      }
    }
  }

  // Returns, for each stored node, whether it has slots, or values that the
  // arguments do not assign to a value with another key.
  std::vector<bool> HaveUnclaimedValues() const {
    std::vector<bool> have;
    for (size_t i = 0; i < saved_.nodes.size(); ++i) {
      int64_t others = std::ssize(saved_.nodes[i].slots);
      for (size_t j = 0; j < saved_.nodes[i].attributes.size(); ++j) {
        others += claimed_.contains(first_attribute_[i] + j) ? 0 : 1;
      }
      have.push_back(others > 0);
    }
    return have;
  }

  void NoteUnmatchedObjects() {
    std::vector<bool> is_bound = is_settled_;
    for (const int32_t node : result_.live_nodes) {
      if (node >= 0) is_bound[At(node)] = true;
    }
    const std::vector<bool> have_values = HaveValues(live_.graph);
    const std::vector<bool> are_settled =
        AreSettled(live_, choices_, is_matched_);
    for (size_t i = 0; i < is_bound.size(); ++i) {
      if (is_bound[i] || !have_values[i] || are_settled[i]) continue;
      out().unmatched_objects.push_back(
          PrettyName(live_.graph, static_cast<int32_t>(i)));
    }
  }

  void NoteMissing() {
    for (size_t i = 0; i < live_.values.size(); ++i) {
      if (is_matched_[i] || choices_[i].skip) continue;
      auto& keys = choices_[i].may_be_absent ? out().defaulted : out().missing;
      keys.push_back(live_.GetAttribute(live_.values[i]).key);
    }
  }

  const Restoration& restoration_;
  std::vector<RestoreChoice> choices_;  // per live value
  const ObjectGraph& saved_;
  const LiveGraph& live_;
  const RestoredNumbers& restored_;
  const std::vector<bool> is_known_;     // per live node
  std::vector<bool> is_matched_;         // per live value
  std::vector<bool> is_settled_;         // per live node: nothing to read
  std::vector<size_t> first_attribute_;  // per stored node
  std::vector<const GraphAttribute*> attributes_;  // of all stored nodes
  absl::flat_hash_set<size_t> claimed_;  // attributes that arguments name
  bool is_remembering_ = false;   // bind only what an earlier match has bound
  std::vector<int32_t> queue_;    // stored nodes in the order of binding
  std::vector<int32_t> waiting_;  // stored nodes that the program lacks
  // For a match by name.
  std::vector<bool> is_found_;                  // per live value
  absl::flat_hash_map<size_t, size_t> owners_;  // the value of each array
  MatchResult result_;
};

// Parses the output of FormText. Returns nothing for the type of a handler.
std::optional<StoredForm> ParseForm(std::string_view text) {
  const size_t end = text.find(" [");
  if (end == text.npos || !text.ends_with("]")) return std::nullopt;
  const StatusOr<DType> dtype = ParseDType(text.substr(0, end));
  if (!dtype.ok()) return std::nullopt;
  StoredForm form{.dtype = *dtype};
  const std::string_view shape = text.substr(end + 2, text.size() - end - 3);
  if (shape.empty()) return form;
  for (std::string_view length : Split(shape, ',')) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(AbslView(length), &number)) return std::nullopt;
    form.shape.push_back(number);
  }
  return form;
}

}  // namespace

const std::string& SaveCounterKey() {
  static const auto* const key =
      new std::string(AttributeKey(kSaveCounter, kVariableValue));
  return *key;
}

MatchResult MatchObjects(const Restoration& restoration, const LiveGraph& live,
                         const RestoredNumbers& restored, int rank,
                         std::vector<RestoreChoice> choices) {
  Matcher matcher(restoration, live, restored, rank, std::move(choices));
  return restoration.by_name ? matcher.ByName() : matcher.ByEdges();
}

ObjectGraph GraphOfArrays(std::vector<GraphAttribute> arrays) {
  ObjectGraph graph;
  graph.nodes.resize(1);
  graph.nodes[0].attributes = std::move(arrays);
  return graph;
}

std::string MismatchAdvice(const std::vector<DifferentValue>& values) {
  bool casts = false, cuts = false;
  const DifferentValue* hopeless = nullptr;
  for (const DifferentValue& value : values) {
    const std::optional<StoredForm> stored = ParseForm(value.found);
    const std::optional<StoredForm> needed = ParseForm(value.needed);
    if (!stored || !needed ||
        !Fits(*stored, *needed, {.dtype = true, .lengths = true})) {
      if (hopeless == nullptr) hopeless = &value;
      continue;
    }
    casts = casts || stored->dtype != needed->dtype;
    cuts = cuts || stored->shape != needed->shape;
  }
  std::vector<std::string> advice;
  if (casts) {
    advice.push_back(Cat(OptionName(&RestoreOptions::allow_dtype_cast),
                         " converts numbers"));
  }
  if (cuts) {
    advice.push_back(Cat(OptionName(&RestoreOptions::allow_shape_mismatch),
                         " restores what both shapes have in common"));
  }
  if (hopeless != nullptr) {
    advice.push_back(Cat("no option converts \"", hopeless->key,
                         "\": the program needs a value of the stored type"));
  }
  return absl::StrJoin(advice, "; ");
}

void RememberMatch(const LiveGraph& live, const MatchResult& match,
                   Restoration& restoration, RestoredNumbers& restored) {
  restoration.bound.assign(match.live_nodes.size(), ObjectId());
  for (size_t i = 0; i < match.live_nodes.size(); ++i) {
    if (match.live_nodes[i] < 0) continue;
    restoration.bound[i] = live.ids[At(match.live_nodes[i])];
  }
  const std::vector<bool> is_known = FindKnown(restored.objects, live);
  absl::flat_hash_set<ObjectId> known;
  for (size_t i = 0; i < is_known.size(); ++i) {
    if (is_known[i]) known.insert(live.ids[i]);
  }
  absl::erase_if(restored.numbers, [&known](const auto& noted) {
    return !known.contains(noted.first.first);
  });
  for (const KeyedValue& read : match.reads) {
    const LiveValue& value = live.values[read.value];
    restored
        .numbers[{live.ids[At(value.node)], live.GetAttribute(value).name}] =
        restoration.number;
  }
  restored.objects = CopyObjects(live);
}

}  // namespace belay
