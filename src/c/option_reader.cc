#include "c/option_reader.h"

#include <csignal>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/close_keys.h"
#include "c/error.h"
#include "c/handles.h"

namespace belay::c {
namespace {

// Those of null are all unset.
const belay_options& OptionsOf(const belay_options* options) {
  static const auto* const kNone = new belay_options();
  return options == nullptr ? *kNone : *options;
}

// Returns the number of a signal; 0 if there is no such signal.
int SignalOf(const std::string& text) {
  constexpr std::pair<std::string_view, int> kSignals[] = {
      {"SIGHUP", SIGHUP},   {"SIGINT", SIGINT},   {"SIGTERM", SIGTERM},
      {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"SIGXCPU", SIGXCPU},
      {"SIGALRM", SIGALRM}, {"SIGCONT", SIGCONT}};
  for (const auto& [name, number] : kSignals) {
    if (text == name) return number;
  }
  int number = 0;
  return absl::SimpleAtoi(text, &number) && number > 0 ? number : 0;
}

}  // namespace

OptionReader::OptionReader(const belay_options* options)
    : values_(OptionsOf(options).values),
      sharding_policy_(OptionsOf(options).sharding_policy) {}

bool OptionReader::IsSet(const std::string& name) const {
  return values_.contains(name);
}

const std::string* OptionReader::Find(const std::string& name) {
  known_.push_back(name);
  const auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

void OptionReader::Refuse(const std::string& name, const std::string& text,
                          const std::string& needed) {
  status_.Update(absl::InvalidArgumentError(
      absl::StrFormat("option \"%s\": unusable value (need %s, found \"%s\")",
                      name, needed, text)));
}

void OptionReader::Read(const std::string& name, bool& value) {
  const std::string* const text = Find(name);
  if (text == nullptr) return;
  if (*text == "true" || *text == "1") {
    value = true;
  } else if (*text == "false" || *text == "0") {
    value = false;
  } else {
    Refuse(name, *text, "true or false");
  }
}

void OptionReader::Read(const std::string& name, int64_t& value) {
  const std::string* const text = Find(name);
  if (text != nullptr && !absl::SimpleAtoi(*text, &value)) {
    Refuse(name, *text, "a whole number");
  }
}

void OptionReader::Read(const std::string& name, double& value) {
  const std::string* const text = Find(name);
  if (text != nullptr && !absl::SimpleAtod(*text, &value)) {
    Refuse(name, *text, "a number");
  }
}

void OptionReader::Read(const std::string& name, std::string& value) {
  const std::string* const text = Find(name);
  if (text != nullptr) value = *text;
}

void OptionReader::ReadSignals(const std::string& name,
                               std::vector<int>& signals) {
  const std::string* const text = Find(name);
  if (text == nullptr) return;
  signals.clear();
  const std::vector<std::string> words =
      absl::StrSplit(*text, absl::ByAnyChar(" ,"), absl::SkipEmpty());
  for (const std::string& word : words) {
    const int number = SignalOf(word);
    if (number == 0) return Refuse(name, *text, "signals such as SIGTERM");
    signals.push_back(number);
  }
}

void OptionReader::ReadShardingPolicy(const std::string& limit,
                                      ShardingPolicy& policy) {
  const std::string* const max_bytes = Find(limit);
  const std::string* const name = Find(kPolicyOption);
  // The last call counts: a text that came after the function has replaced it.
  if (name != nullptr &&
      (!sharding_policy_ || *name != sharding_policy_->description)) {
    return Refuse(kPolicyOption, *name,
                  "the function belay_options_set_sharding_policy");
  }
  if (sharding_policy_ && max_bytes != nullptr) {
    return Refuse(limit, *max_bytes,
                  "nothing beside belay_options_set_sharding_policy");
  }
  if (sharding_policy_) policy = *sharding_policy_;
  if (max_bytes == nullptr) return;
  int64_t number = 0;
  Read(limit, number);
  policy = MaxShardSize(number);
}

Status OptionReader::Finish() const {
  for (const auto& [name, value] : values_) {
    bool is_known = false;
    for (const std::string& known : known_) is_known |= known == name;
    if (is_known) continue;
    CloseKeys close(name);
    for (const std::string& known : known_) close.Offer(known);
    return absl::InvalidArgumentError(
        absl::StrFormat("option \"%s\": no such option here (need one of %s)%s",
                        name, absl::StrJoin(known_, ", "), close.Hint()));
  }
  return status_;
}

}  // namespace belay::c

int belay_options_create(belay_options** result) {
  return belay::c::Call([&]() -> belay::Status {
    if (result == nullptr) return belay::c::NullArgument("result");
    *result = nullptr;
    *result = new belay_options();
    return absl::OkStatus();
  });
}

int belay_options_set(belay_options* options, const char* name,
                      const char* value) {
  return belay::c::Call([&]() -> belay::Status {
    if (options == nullptr) return belay::c::NullArgument("options");
    if (name == nullptr) return belay::c::NullArgument("name");
    if (value == nullptr) return belay::c::NullArgument("value");
    options->values[name] = value;
    return absl::OkStatus();
  });
}

void belay_options_free(belay_options** options) {
  if (options != nullptr) delete std::exchange(*options, nullptr);
}
