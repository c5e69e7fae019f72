#include "graph/match/match_keys.h"

#include <algorithm>

#include "base/text.h"
#include "graph/match/attribute_fit.h"

namespace belay {

const std::string& SaveCounterKey() {
  static const auto* const key =
      new std::string(AttributeKey(kSaveCounter, kVariableValue));
  return *key;
}

void SkipAbsentSaveCounter(const ObjectGraph& saved, const LiveGraph& live,
                           std::vector<RestoreChoice>& choices) {
  const auto& children = saved.nodes[0].children;
  if (std::any_of(children.begin(), children.end(), [](const auto& child) {
        return child.name == kSaveCounter;
      })) {
    return;
  }
  for (size_t i = 0; i < live.values.size(); ++i) {
    if (live.AttributeOf(live.values[i]).key == SaveCounterKey()) {
      choices[i].skip = true;
    }
  }
}

bool SaysWhere(const RestoreChoice& choice) {
  return !choice.stored_key.empty() || !choice.transform.empty();
}

std::string PlainName(const LiveGraph& live, const LiveValue& value) {
  std::string text;
  for (const std::string& element : PathElements(live.graph, value.node)) {
    text += Cat(text.empty() ? "" : "/", element);
  }
  const std::string& name = live.AttributeOf(value).name;
  if (name == kVariableValue && !text.empty()) return text;
  return Cat(text, text.empty() ? "" : "/", name);
}

absl::string_view WithoutSlash(absl::string_view key) {
  if (!key.empty() && key[0] == '/') key.remove_prefix(1);
  return key;
}

std::vector<bool> AreSettled(const LiveGraph& live,
                             const std::vector<RestoreChoice>& choices,
                             const std::vector<bool>& is_matched) {
  std::vector<bool> settled(live.graph.nodes.size(), true);
  for (size_t i = 0; i < live.values.size(); ++i) {
    const RestoreChoice& choice = choices[i];
    const bool is_settled = choice.skip || choice.may_be_absent ||
                            (is_matched[i] && SaysWhere(choice));
    if (!is_settled) settled[At(live.values[i].node)] = false;
  }
  for (size_t i = settled.size(); i-- > 1;) {
    if (!settled[i]) settled[At(live.graph.nodes[i].parent)] = false;
  }
  return settled;
}

AttributePlaces PlacesByKey(const ObjectGraph& saved) {
  AttributePlaces places;
  for (size_t node = 0; node < saved.nodes.size(); ++node) {
    const auto& attributes = saved.nodes[node].attributes;
    for (size_t i = 0; i < attributes.size(); ++i) {
      places.emplace(AbslView(attributes[i].key),
                     std::pair(static_cast<int32_t>(node), i));
    }
  }
  return places;
}

SourceMatch FindSources(const ObjectGraph& saved, const AttributePlaces& places,
                        const LiveValue& value, const GraphAttribute& own,
                        const RestoreChoice& choice) {
  SourceMatch match;
  for (const std::string& key : choice.transform.StoredKeys()) {
    const auto place = places.find(AbslView(key));
    if (place == places.end()) return {};
    match.places.push_back(place->second);
  }
  if (choice.skip || own.has_handler()) return match;
  const auto result = ResultOf(choice.transform, [&](const std::string& key) {
    const auto [node, attribute] = places.at(AbslView(key));
    return &saved.nodes[At(node)].attributes[attribute];
  });
  if (!result) return match;  // reading says what is wrong
  const auto fitted = FittedTo(*result, value.shards, own);
  const GraphAttribute& needed = fitted ? *fitted : own;
  if (IsSameKind(*result, needed)) return match;
  match.fits = Fits(*result, needed, choice.tolerance);
  match.difference = Mismatch{
      .key = own.key, .needed = TypeText(needed), .found = TypeText(*result)};
  return match;
}

}  // namespace belay
