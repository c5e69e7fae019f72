#include "state/conversion_rules.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "belay/arrays/indexing.h"
#include "core/keys.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

// Its objects do not preserve the order of members. (ordered_json does, but
// each of its lookups is a linear search.)
using Json = nlohmann::json;

// The keys of each rule's "make", in the order of the text.
using KeysToMake = std::vector<std::vector<std::string>>;

// The maximum depth of nested functions, and the JSON levels that they need.
constexpr int kMaxNodeLevels = 64;
constexpr int kMaxJsonLevels = 2 * kMaxNodeLevels + 16;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

Status Refuse(const std::string& where, const std::string& cause) {
  return absl::InvalidArgumentError(Cat(where, ": ", cause));
}

class Parser {
 public:
  Parser(const std::vector<std::string>& keys, const KeysToMake& to_make)
      : keys_(keys), to_make_(to_make) {}

  StatusOr<std::vector<ConversionRule>> Rules(const Json& json) {
    BELAY_RETURN_IF_ERROR(CheckMembers(json, "the file", {"rules"}));
    const auto rules = json.find("rules");
    if (rules == json.end() || !rules->is_array()) {
      return Refuse("the file", "need a list \"rules\"");
    }
    std::vector<ConversionRule> all;
    for (size_t i = 0; i < rules->size(); ++i) {
      BELAY_RETURN_IF_ERROR(Rule((*rules)[i], i, all));
    }
    return all;
  }

 private:
  static constexpr size_t kShownBytes = 100;  // of a key in errors
  static constexpr int64_t kMaxRuleBytes = int64_t{64} << 20;

  static Status CheckMembers(const Json& json, const std::string& where,
                             const std::vector<std::string_view>& allowed) {
    if (!json.is_object()) return Refuse(where, "need an object {...}");
    for (const auto& [name, value] : json.items()) {
      if (std::find(allowed.begin(), allowed.end(), name) != allowed.end()) {
        continue;
      }
      std::string all;
      for (const std::string_view one : allowed) {
        all += Cat(all.empty() ? "" : ", ", "\"", one, "\"");
      }
      return Refuse(where,
                    Cat("unknown member \"", name, "\" (need ", all, ")"));
    }
    return absl::OkStatus();
  }

  Status Rule(const Json& json, size_t rule, std::vector<ConversionRule>& all) {
    const std::string where = Cat("rules[", rule, "]");
    BELAY_RETURN_IF_ERROR(CheckMembers(json, where, {"keys", "make"}));
    std::string keys;
    if (json.contains("keys")) {
      BELAY_ASSIGN_OR_RETURN(keys, Text(json["keys"], where + ".keys"));
      if (keys.empty()) return Refuse(where + ".keys", "is empty");
    }
    const auto make = json.find("make");
    if (make == json.end() || !make->is_object() || make->empty()) {
      return Refuse(
          where, "need an object \"make\" that says what each key is made of");
    }
    for (const std::string& key : to_make_[rule]) {
      const std::string place =
          Cat(where, ".make[\"", Shortened(key, kShownBytes), "\"]");
      rule_bytes_ += std::ssize(keys) + std::ssize(key);
      if (rule_bytes_ > kMaxRuleBytes) {
        return absl::ResourceExhaustedError(
            Cat(place,
                ": the expressions and keys of all rules are too long "
                "(need at most ",
                BytesText(kMaxRuleBytes), ")"));
      }
      BELAY_ASSIGN_OR_RETURN(Transform transform,
                             Value((*make)[key], place, 0));
      all.push_back({.keys = keys, .key = key, .value = std::move(transform)});
    }
    return absl::OkStatus();
  }

  static StatusOr<std::string> Text(const Json& json,
                                    const std::string& where) {
    if (!json.is_string()) return Refuse(where, "need a text");
    return json.get<std::string>();
  }

  static StatusOr<int64_t> Number(const Json& json, const std::string& name,
                                  const std::string& where,
                                  std::optional<int64_t> otherwise = {}) {
    const auto member = json.find(name);
    if (member == json.end() && otherwise) return *otherwise;
    if (member == json.end() || !member->is_number_integer() ||
        (member->is_number_unsigned() &&
         member->get<uint64_t>() > uint64_t{INT64_MAX})) {
      return Refuse(where, Cat("need an integer \"", name, "\""));
    }
    return member->get<int64_t>();
  }

  static StatusOr<int> Axis(const Json& json, const std::string& where,
                            std::optional<int64_t> otherwise = {}) {
    BELAY_ASSIGN_OR_RETURN(const int64_t axis,
                           Number(json, "axis", where, otherwise));
    // No array has this many axes. The conversion checks the exact number.
    if (axis < -1000 || axis > 1000) return Refuse(where, "no such axis");
    return static_cast<int>(axis);
  }

  // Returns all stored keys that an expression matches, in natural order.
  StatusOr<std::vector<Transform>> All(const Json& json,
                                       const std::string& where) {
    BELAY_RETURN_IF_ERROR(CheckMembers(json, where, {"all"}));
    BELAY_ASSIGN_OR_RETURN(const std::string text,
                           Text(json["all"], where + ".all"));
    const StatusOr<KeyPatterns> pattern = patterns_.Compile(text);
    if (!pattern.ok()) {
      return Refuse(where, std::string(pattern.status().message()));
    }
    const Status matches =
        pattern->CheckAllMatch({keys_.begin(), keys_.end()}, "all");
    if (!matches.ok()) return Refuse(where, std::string(matches.message()));
    std::vector<std::string> found;
    for (const std::string& key : keys_) {
      if (pattern->Find(key) >= 0) found.push_back(key);
    }
    num_found_ += std::ssize(found);
    const int64_t most = MostRuleNodes(keys_.size());
    if (num_found_ > most) {
      return absl::ResourceExhaustedError(
          Cat(where, ": the lists name too many keys (need at most ", most,
              " for ", keys_.size(), " stored ones)"));
    }
    std::stable_sort(found.begin(), found.end(), IsNaturallyBefore);
    return std::vector<Transform>(found.begin(), found.end());
  }

  StatusOr<std::vector<Transform>> List(const Json& json,
                                        const std::string& where, int level) {
    if (!json.is_array()) return Refuse(where, "need a list [...]");
    std::vector<Transform> parts;
    for (size_t i = 0; i < json.size(); ++i) {
      const std::string place = Cat(where, "[", i, "]");
      if (json[i].is_object() && json[i].contains("all")) {
        BELAY_ASSIGN_OR_RETURN(const std::vector<Transform> all,
                               All(json[i], place));
        parts.insert(parts.end(), all.begin(), all.end());
        continue;
      }
      BELAY_ASSIGN_OR_RETURN(parts.emplace_back(),
                             Value(json[i], place, level));
    }
    return parts;
  }

  StatusOr<Transform> Value(const Json& json, const std::string& where,
                            int level) {
    if (json.is_string()) return Transform(json.get<std::string>());
    if (level >= kMaxNodeLevels) {
      return Refuse(where, Cat("too many functions inside each other (need at "
                               "most ",
                               kMaxNodeLevels, ")"));
    }
    constexpr std::string_view kNames[] = {"stack",  "concat",    "split",
                                           "narrow", "transpose", "slice"};
    std::string_view function;
    for (const std::string_view name : kNames) {
      if (!json.is_object() || !json.contains(name)) continue;
      if (!function.empty())
        return Refuse(where, "two functions in one object");
      function = name;
    }
    if (function.empty()) {
      return Refuse(where,
                    "need a stored key, or an object with \"stack\", "
                    "\"concat\", \"split\", \"narrow\", \"transpose\" or "
                    "\"slice\"");
    }
    return Apply(json, function, where, level);
  }

  // Makes a transform from the member named `function`. Its parameters are the
  // only other members that `json` may have.
  StatusOr<Transform> Apply(const Json& json, std::string_view function,
                            const std::string& where, int level) {
    std::vector<std::string_view> members = {function, "axis"};
    if (function == "split") members = {function, "axis", "parts", "part"};
    if (function == "narrow") members = {function, "axis", "offset", "length"};
    if (function == "transpose") members = {function, "axes"};
    if (function == "slice") members = {function, "index"};
    BELAY_RETURN_IF_ERROR(CheckMembers(json, where, members));
    const std::string inside = Cat(where, ".", function);
    const Json& input = json[std::string(function)];
    if (function == "stack" || function == "concat") {
      BELAY_ASSIGN_OR_RETURN(const int axis, Axis(json, where, 0));
      BELAY_ASSIGN_OR_RETURN(std::vector<Transform> parts,
                             List(input, inside, level + 1));
      return function == "stack" ? Transform::Stack(std::move(parts), axis)
                                 : Transform::Concat(std::move(parts), axis);
    }
    BELAY_ASSIGN_OR_RETURN(Transform x, Value(input, inside, level + 1));
    if (function == "split" || function == "narrow") {
      BELAY_ASSIGN_OR_RETURN(const int axis, Axis(json, where));
      BELAY_ASSIGN_OR_RETURN(const int64_t first,
                             Number(json, std::string(members[2]), where));
      BELAY_ASSIGN_OR_RETURN(const int64_t second,
                             Number(json, std::string(members[3]), where));
      return function == "split"
                 ? Transform::Split(std::move(x), axis, first, second)
                 : Transform::Narrow(std::move(x), axis, first, second);
    }
    if (function == "slice") {
      if (!json.contains("index")) return Refuse(where, "need \"index\"");
      BELAY_ASSIGN_OR_RETURN(const std::string text,
                             Text(json["index"], where + ".index"));
      StatusOr<Index> index = ParseIndex(text);
      if (!index.ok()) {
        return Refuse(where + ".index", std::string(index.status().message()));
      }
      return Transform::Slice(std::move(x), *std::move(index));
    }
    std::vector<int> axes;
    if (json.contains("axes")) {
      const Json& list = json["axes"];
      if (!list.is_array()) return Refuse(where + ".axes", "need a list [...]");
      for (const Json& one : list) {
        BELAY_ASSIGN_OR_RETURN(axes.emplace_back(),
                               Axis({{"axis", one}}, where + ".axes"));
      }
    }
    return Transform::Transpose(std::move(x), std::move(axes));
  }

  const std::vector<std::string>& keys_;
  const KeysToMake& to_make_;
  PatternCache patterns_;
  int64_t num_found_ = 0;  // keys that "all" expanded to
  // Of the expressions, once for each key that they make, and of these keys.
  int64_t rule_bytes_ = 0;
};

// Removes the digits at the beginning of `text`, and returns them without
// leading zeros.
std::string_view TakeNumber(std::string_view& text) {
  size_t end = 0;
  while (end < text.size() && IsDigit(text[end])) ++end;
  std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  while (digits.size() > 1 && digits[0] == '0') digits.remove_prefix(1);
  return digits;
}

// Finds duplicate members, of which the parser would keep only the last, and
// collects the keys to make. The keys to make are the members of all objects at
// one depth: any other object at that depth is an error in its rule. This is a
// SAX handler and not a parser callback, because with a callback the parser
// visits all siblings after each object.
class JsonChecker {
 public:
  bool start_object(size_t) {
    names_.emplace_back();
    if (++depth_ == kDepthOfMake) to_make_.emplace_back();
    return true;
  }
  bool end_object() {
    names_.pop_back();
    return end_array();
  }
  bool start_array(size_t) {
    ++depth_;
    return true;
  }
  bool end_array() {
    --depth_;
    return true;
  }
  bool key(std::string& name) {
    if (!names_.back().insert(name).second && found_.empty()) found_ = name;
    if (depth_ == kDepthOfMake) to_make_.back().push_back(name);
    return true;
  }
  bool string(std::string&) { return true; }
  bool number_unsigned(uint64_t) { return true; }
  bool number_integer(int64_t) { return true; }
  bool number_float(double, const std::string&) { return true; }
  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool binary(Json::binary_t&) { return true; }
  bool parse_error(size_t, const std::string&, const Json::exception&) {
    return false;
  }

  Status Check() const {
    if (found_.empty()) return absl::OkStatus();
    return Refuse("the file",
                  Cat("an object has the member \"", found_, "\" twice"));
  }

  const KeysToMake& to_make() const { return to_make_; }

 private:
  static constexpr int kDepthOfMake = 4;

  int depth_ = 0;
  std::vector<std::set<std::string>> names_;  // of the objects that are open
  std::string found_;
  KeysToMake to_make_;
};

}  // namespace

StatusOr<std::vector<ConversionRule>> ParseRules(
    std::string_view text, const std::vector<std::string>& keys) {
  const std::string too_much = TooMuchJson(text, kMaxJsonLevels);
  if (!too_much.empty()) return Refuse("the file", too_much);
  JsonChecker checker;
  Json::sax_parse(text, &checker, Json::input_format_t::json,
                  /*strict=*/true, /*ignore_comments=*/true);
  Json json;
  try {
    json = Json::parse(text, nullptr, /*allow_exceptions=*/true,
                       /*ignore_comments=*/true);
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(Shortened(error.what()));
  }
  BELAY_RETURN_IF_ERROR(checker.Check());
  return Parser(keys, checker.to_make()).Rules(json);
}

bool IsNaturallyBefore(std::string_view a, std::string_view b) {
  while (!a.empty() && !b.empty()) {
    if (IsDigit(a[0]) && IsDigit(b[0])) {
      const std::string_view x = TakeNumber(a), y = TakeNumber(b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
      continue;
    }
    if (a[0] != b[0]) return a[0] < b[0];
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
  return a.size() < b.size();
}

}  // namespace belay
