#include "core/option_text.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/keys.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

bool IsBlank(char c) { return absl::ascii_isspace(static_cast<uint8_t>(c)); }

std::string_view SkipBlanks(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  return text;
}

Status BadOption(std::string_view text, size_t at, std::string_view cause) {
  return absl::InvalidArgumentError(
      Cat("options ", QuotedText(text), ": ", cause, " at character ", at + 1,
          " (need texts such as max_to_keep=3 with blanks between them)"));
}

// Removes a value from the front of `rest`.
StatusOr<std::string> TakeValue(std::string_view text, std::string_view& rest) {
  const size_t at = text.size() - rest.size();
  const char quote = rest.empty() ? ' ' : rest.front();
  if (quote != '"' && quote != '\'') {
    size_t end = 0;
    while (end < rest.size() && !IsBlank(rest[end])) ++end;
    if (end == 0) return BadOption(text, at, "no value");
    std::string value(rest.substr(0, end));
    rest.remove_prefix(end);
    return value;
  }
  const size_t end = rest.find(quote, 1);
  if (end == rest.npos) return BadOption(text, at, "a quote without its end");
  std::string value(rest.substr(1, end - 1));
  rest.remove_prefix(end + 1);
  if (!rest.empty() && !IsBlank(rest.front())) {
    return BadOption(text, text.size() - rest.size(), "no blank after a quote");
  }
  return value;
}

}  // namespace

Status ParseOptionTexts(std::string_view text, OptionTexts& texts) {
  std::string_view rest = text;
  for (;;) {
    rest = SkipBlanks(rest);
    if (rest.empty()) return absl::OkStatus();
    size_t end = 0;
    while (end < rest.size() && rest[end] != '=' && !IsBlank(rest[end])) ++end;
    const std::string name(rest.substr(0, end));
    if (name.empty()) {
      return BadOption(text, text.size() - rest.size(), "no name");
    }
    rest = SkipBlanks(rest.substr(end));
    std::string value = "true";
    if (rest.starts_with('=')) {
      rest = SkipBlanks(rest.substr(1));
      BELAY_ASSIGN_OR_RETURN(value, TakeValue(text, rest));
    }
    texts[name] = std::move(value);
  }
}

Status SetManagerOptions(const OptionTexts& texts, ManagerOptions& options) {
  OptionReader reader(texts, nullptr);
  reader.ReadAll(options);
  return reader.Finish();
}

OptionReader::OptionReader(const OptionTexts& texts,
                           const ShardingPolicy* policy)
    : texts_(texts), policy_(policy) {}

const std::string* OptionReader::Find(const std::string& name) {
  known_.push_back(name);
  const auto found = texts_.find(name);
  return found == texts_.end() ? nullptr : &found->second;
}

void OptionReader::Refuse(const std::string& name, const std::string& text,
                          const std::string& needed) {
  status_.Update(absl::InvalidArgumentError(
      absl::StrFormat("option \"%s\": unusable value (need %s, found \"%s\")",
                      name, needed, text)));
}

void OptionReader::ReadShardingPolicy(ShardingPolicy& policy) {
  constexpr char kLimit[] = "max_shard_size";
  const std::string* const max_bytes = Find(kLimit);
  const std::string* const name = Find(kPolicyOption);
  // The last call counts: a text that came after the function has replaced it.
  if (name != nullptr &&
      (policy_ == nullptr || *name != policy_->description)) {
    return Refuse(kPolicyOption, *name,
                  "the function belay_options_set_sharding_policy");
  }
  if (policy_ != nullptr && max_bytes != nullptr) {
    return Refuse(kLimit, *max_bytes,
                  "nothing beside belay_options_set_sharding_policy");
  }
  if (policy_ != nullptr) policy = *policy_;
  if (max_bytes == nullptr) return;
  int64_t number = 0;
  Read(kLimit, number);
  policy = MaxShardSize(number);
}

Status OptionReader::Finish() const {
  for (const auto& [name, value] : texts_) {
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

}  // namespace belay
