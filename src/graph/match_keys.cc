#include "graph/match_keys.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "core/text.h"
#include "plan/stored_values.h"
#include "state/array_access.h"
#include "state/transform.h"

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

// --- Attribute fit ---

namespace {

// The form of which FormText made the text; nothing for a type of a handler.
std::optional<StoredForm> FormOfText(std::string_view text) {
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

std::string TypeText(const GraphAttribute& attribute) {
  if (attribute.has_handler()) return Cat(kTypeText, attribute.typestr);
  return FormText({attribute.dtype, attribute.shape});
}

std::optional<GraphAttribute> FittedTo(const GraphAttribute& stored,
                                       const std::vector<Shard>& shards,
                                       const GraphAttribute& needed) {
  if (shards.size() != 1 || stored.has_handler() ||
      !TakesLength(shards[0], stored.dtype, stored.shape)) {
    return std::nullopt;
  }
  GraphAttribute fitted = needed;
  fitted.shape = stored.shape;
  return fitted;
}

std::optional<GraphAttribute> ResultOf(
    const Transform& transform,
    absl::FunctionRef<const GraphAttribute*(const std::string& key)> find) {
  std::map<std::string, ArrayForm> forms;
  for (const std::string& key : transform.StoredKeys()) {
    const GraphAttribute* attribute = find(key);
    if (attribute == nullptr || attribute->has_handler()) return std::nullopt;
    forms[key] = {.dtype = attribute->dtype, .shape = attribute->shape};
  }
  const StatusOr<ArrayForm> form =
      FormOf(transform, [&](const std::string& key) { return &forms.at(key); });
  if (!form.ok()) return std::nullopt;
  GraphAttribute result;
  result.dtype = form->dtype;
  result.shape = form->shape;
  return result;
}

bool IsSameKind(const GraphAttribute& stored, const GraphAttribute& needed) {
  if (needed.has_handler()) return true;
  return !stored.has_handler() && stored.dtype == needed.dtype &&
         stored.shape == needed.shape;
}

bool Fits(const GraphAttribute& stored, const GraphAttribute& needed,
          Tolerance tolerance) {
  if (stored.has_handler()) return false;
  return Fits(StoredForm{stored.dtype, stored.shape},
              StoredForm{needed.dtype, needed.shape}, tolerance);
}

std::string MismatchAdvice(const std::vector<DifferentValue>& values) {
  bool casts = false, cuts = false;
  const DifferentValue* hopeless = nullptr;
  for (const DifferentValue& value : values) {
    const std::optional<StoredForm> stored = FormOfText(value.found);
    const std::optional<StoredForm> needed = FormOfText(value.needed);
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
    advice.push_back("RestoreOptions.allow_dtype_cast converts numbers");
  }
  if (cuts) {
    advice.push_back(
        "RestoreOptions.allow_shape_mismatch restores what both shapes have in "
        "common");
  }
  if (hopeless != nullptr) {
    advice.push_back(Cat("no option converts \"", hopeless->key,
                         "\": the program needs a value of the stored type"));
  }
  return absl::StrJoin(advice, "; ");
}

}  // namespace belay
