#include "pipeline/operator_options.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/keys.h"
#include "core/option_table.h"
#include "core/option_text.h"
#include "core/text.h"

namespace belay {
namespace {

// Calls `visit` with each row that has an environment variable.
template <typename Options, typename Visit>
void ForEachVariable(Visit visit) {
  ForEachOption<Options>([&](const auto& row) {
    if constexpr (HasText<std::decay_t<decltype(Options().*row.field)>>) {
      if (row.traits.variable != nullptr) visit(row);
    }
  });
}

template <typename T>
std::string ValueText(const T& value) {
  if constexpr (HasWords<T>) {
    return std::string(FindWord(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_arithmetic_v<T>) {
    return Cat(value);
  } else if constexpr (requires { value.has_value(); }) {
    return value ? ValueText(*value) : "all";
  } else {
    return "another one";
  }
}

// Appends the mistakes in the variables of one struct.
template <typename Options>
void CheckVariables(const OperatorOptions& wanted,
                    std::vector<std::string>& mistakes) {
  ForEachVariable<Options>([&](const auto& row) {
    const auto text = wanted.find(row.traits.variable);
    if (text == wanted.end()) return;
    auto value = Options().*row.field;
    std::vector<std::string> ranges;
    bool is_sound = ReadText(text->second, value);
    if (is_sound) CheckRange(row.name, value, row.traits.bounds, ranges);
    if (is_sound && ranges.empty()) return;
    mistakes.push_back(Cat(text->first, " is invalid (need ",
                           NeededText<decltype(value)>(row.traits.bounds),
                           ", found \"", text->second, "\")"));
  });
}

// Sets the options of a struct, whose names begin with `prefix` in the notes.
template <typename Options>
void SetOptions(const OperatorOptions& wanted, const char* prefix,
                Options& options, std::vector<std::string>& notes) {
  ForEachVariable<Options>([&](const auto& row) {
    const auto text = wanted.find(row.traits.variable);
    if (text == wanted.end()) return;
    auto& field = options.*row.field;
    const std::string before = ValueText(field);
    ReadText(text->second, field);
    notes.push_back(Cat(text->first, ": ", prefix, row.name, " is ",
                        ValueText(field), " in place of ", before));
  });
}

constexpr char kOptions[] = "BELAY_OPTIONS";

// Options that only the program can set: it must know of them, or the ranks
// need them before they know of BELAY_OPTIONS.
constexpr const char* kOfProgram[] = {"snapshot", "deadline_seconds",
                                      "read_only", "prefix"};

// Appends the mistakes in BELAY_OPTIONS.
void CheckOptions(const OperatorOptions& wanted,
                  std::vector<std::string>& mistakes) {
  const auto text = wanted.find(kOptions);
  if (text == wanted.end()) return;
  OptionTexts texts;
  ManagerOptions options;
  // In range, if only one of its options is named.
  options.save_policy.auto_interval = AutoInterval{.mtbf_seconds = 1};
  Status read = ParseOptionTexts(text->second, texts);
  read.Update(SetManagerOptions(texts, options));
  if (!read.ok()) {
    mistakes.push_back(Cat(kOptions, ": ", read.message()));
    return;
  }
  for (const char* const name : kOfProgram) {
    if (!texts.contains(name)) continue;
    mistakes.push_back(Cat(kOptions, ": only the program can set ", name));
  }
  for (const std::string& mistake : FindOutOfRange(options)) {
    mistakes.push_back(Cat(kOptions, ": ", mistake));
  }
}

// Returns true if `texts` sets an option of this struct.
template <typename Options>
bool HasOption(const OptionTexts& texts) {
  bool has = false;
  ForEachOption<Options>(
      [&](const auto& row) { has |= texts.contains(row.other_name()); });
  return has;
}

// Removes a rule if it is set, and adds this to the note.
template <typename T>
void Drop(const char* name, T& rule, std::string& note) {
  if (!rule) return;
  rule = T();
  absl::StrAppend(&note, " and of ", name);
}

// Drops the rules about when to save that those of `texts` replace.
void DropSaveRules(const OptionTexts& texts, SavePolicy& policy,
                   std::string& note) {
  const bool is_auto = texts.contains("mtbf_seconds");
  if (!is_auto && !texts.contains("save_interval_steps")) return;
  Drop("should_save", policy.should_save, note);
  Drop("checkpoint_interval", policy.checkpoint_interval, note);
  if (is_auto) {
    policy = {.step_counter = policy.step_counter,
              .auto_interval = policy.auto_interval};
    absl::StrAppend(&note, " and of all rules about steps");
  } else {
    Drop("auto_interval", policy.auto_interval, note);
  }
}

// Sets the options that BELAY_OPTIONS names.
void SetNamedOptions(const OperatorOptions& wanted, ManagerOptions& options,
                     std::vector<std::string>& notes) {
  const auto text = wanted.find(kOptions);
  if (text == wanted.end()) return;
  OptionTexts texts;
  ParseOptionTexts(text->second, texts).IgnoreError();  // it is sound
  std::string note =
      Cat(kOptions, ": ", text->second, " in place of what the program sets");
  DropSaveRules(texts, options.save_policy, note);
  if (HasOption<RetentionPolicy>(texts)) {
    Drop("preservation", options.retention.preservation, note);
  }
  SetManagerOptions(texts, options).IgnoreError();
  notes.push_back(std::move(note));
}

// All variables that belay reads, except OperatorVariables().
constexpr const char* kOtherVariables[] = {"BELAY_ABORT_ON_EXCEPTION",
                                           "BELAY_FOLLOW_LINKS",
                                           "BELAY_JOB_END_TIME",
                                           "BELAY_JOB_NAME",
                                           "BELAY_LOG",
                                           "BELAY_MAX_METADATA_BYTES",
                                           "BELAY_TRUST_HDF5"};

}  // namespace

const std::vector<const char*>& OperatorVariables() {
  static const auto* const all = [] {
    auto* const names = new std::vector<const char*>{"BELAY_DIR", kOptions};
    const auto add = [&](const auto& row) {
      names->push_back(row.traits.variable);
    };
    ForEachVariable<SavePolicy>(add);
    ForEachVariable<RetentionPolicy>(add);
    ForEachVariable<SaveOptions>(add);
    return names;
  }();
  return *all;
}

std::vector<std::string> MisspeltVariables(
    const std::vector<std::string>& names) {
  constexpr std::string_view kPrefix = "BELAY_";
  std::vector<std::string_view> known(std::begin(kOtherVariables),
                                      std::end(kOtherVariables));
  known.insert(known.end(), OperatorVariables().begin(),
               OperatorVariables().end());
  std::vector<std::string> lines;
  for (const std::string& name : names) {
    if (!name.starts_with(kPrefix)) continue;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    // The common prefix must not make two names similar.
    CloseKeys close(std::string_view(name).substr(kPrefix.size()), 1);
    for (const std::string_view one : known) {
      close.Offer(one.substr(kPrefix.size()));
    }
    if (close.keys().empty()) continue;
    lines.push_back(Cat("belay has no variable ", name,
                        "; close to it: ", kPrefix, close.keys().front()));
  }
  return lines;
}

StatusOr<OperatorOptions> ParseOperatorOptions(const VariableLookup& lookup) {
  OperatorOptions wanted;
  for (const char* const name : OperatorVariables()) {
    const char* const text = lookup(name);
    if (text != nullptr && *text != '\0') wanted[name] = text;
  }
  std::vector<std::string> mistakes;
  CheckOptions(wanted, mistakes);
  CheckVariables<SavePolicy>(wanted, mistakes);
  CheckVariables<RetentionPolicy>(wanted, mistakes);
  CheckVariables<SaveOptions>(wanted, mistakes);
  if (mistakes.empty()) return wanted;
  return absl::InvalidArgumentError(absl::StrJoin(mistakes, "; "));
}

std::vector<std::string> ApplyOperatorOptions(const OperatorOptions& wanted,
                                              std::string& dir,
                                              ManagerOptions& options) {
  std::vector<std::string> notes;
  if (const auto found = wanted.find("BELAY_DIR"); found != wanted.end()) {
    notes.push_back(Cat("BELAY_DIR: the directory is \"", found->second,
                        "\" in place of \"", dir, "\""));
    dir = found->second;
  }
  if (options.read_only) return notes;
  SetNamedOptions(wanted, options, notes);
  const size_t before = notes.size();
  SetOptions(wanted, "", options.save_policy, notes);
  SetOptions(wanted, "", options.retention, notes);
  for (size_t i = before; i < notes.size(); ++i) {
    if (notes[i].starts_with("BELAY_INTERVAL")) {
      Drop("should_save", options.save_policy.should_save, notes[i]);
      Drop("checkpoint_interval", options.save_policy.checkpoint_interval,
           notes[i]);
      Drop("auto_interval", options.save_policy.auto_interval, notes[i]);
    } else if (notes[i].starts_with("BELAY_KEEP")) {
      Drop("preservation", options.retention.preservation, notes[i]);
    }
  }
  SetOptions(wanted, "save.", options.save, notes);
  return notes;
}

void ApplyToSave(const OperatorOptions& wanted, SaveOptions& save) {
  if (const auto text = wanted.find(kOptions); text != wanted.end()) {
    OptionTexts texts;
    ParseOptionTexts(text->second, texts).IgnoreError();  // it is sound
    OptionReader(texts, nullptr).ReadAll(save);
  }
  std::vector<std::string> notes;
  SetOptions(wanted, "", save, notes);
}

}  // namespace belay
