#include "core/option_table.h"

#include <cmath>
#include <csignal>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace belay {

std::string ValueInProgram(std::string_view word) {
  if (LanguageOfProgram() == Language::kC) return std::string(word);
  if (LanguageOfProgram() == Language::kPython) return Cat("\"", word, "\"");
  std::string name = "k";
  for (size_t i = 0; i < word.size(); ++i) {
    if (word[i] == '_') continue;
    const bool begins = i == 0 || word[i - 1] == '_';
    name += begins ? absl::ascii_toupper(word[i]) : word[i];
  }
  return name;
}

std::string BoundsText(Bounds bounds) {
  const auto number = [](double value) {
    const bool is_whole = std::abs(value) < 1e15 && value == int64_t(value);
    return is_whole ? Cat(int64_t(value)) : Cat(value);
  };
  if (bounds.low == -DBL_MAX) return "a finite number";
  if (bounds.high >= DBL_MAX) {
    return Cat(bounds.is_open ? "more than " : "at least ", number(bounds.low));
  }
  return Cat(bounds.is_open ? "more than " : "", number(bounds.low),
             bounds.is_open ? " and less than " : " to ", number(bounds.high));
}

namespace {

template <typename T>
std::string RangeText(std::string_view name, T value, Bounds bounds) {
  const auto number = static_cast<double>(value);
  const bool is_in = bounds.is_open
                         ? bounds.low < number && number < bounds.high
                         : bounds.low <= number && number <= bounds.high;
  if (is_in) return "";
  return Cat(name, " is out of range (need ", BoundsText(bounds), ", found ",
             value, ")");
}

// Returns a signal's number; 0 if there is no such signal.
int ParseSignal(std::string_view text) {
  constexpr std::pair<std::string_view, int> kSignals[] = {
      {"SIGHUP", SIGHUP},   {"SIGINT", SIGINT},   {"SIGTERM", SIGTERM},
      {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"SIGXCPU", SIGXCPU},
      {"SIGALRM", SIGALRM}, {"SIGCONT", SIGCONT}};
  for (const auto& [name, number] : kSignals) {
    if (text == name) return number;
  }
  int number = 0;
  return absl::SimpleAtoi(AbslView(text), &number) && number > 0 ? number : 0;
}

std::vector<std::string> SplitWords(const std::string& text) {
  return absl::StrSplit(text, absl::ByAnyChar(" ,"), absl::SkipEmpty());
}

}  // namespace

std::string OutOfRange(std::string_view name, int64_t value, Bounds bounds) {
  return RangeText(name, value, bounds);
}

std::string OutOfRange(std::string_view name, double value, Bounds bounds) {
  return RangeText(name, value, bounds);
}

bool ReadText(const std::string& text, bool& value) {
  value = text == "true" || text == "1";
  return value || text == "false" || text == "0";
}

bool ReadText(const std::string& text, int64_t& value) {
  // Abseil's function also accepts blanks and a plus sign.
  return text.find_first_not_of("-0123456789") == text.npos &&
         absl::SimpleAtoi(text, &value);
}

bool ReadText(const std::string& text, double& value) {
  return absl::SimpleAtod(text, &value);
}

bool ReadText(const std::string& text, std::string& value) {
  value = text;
  return true;
}

bool ReadText(const std::string& text, std::vector<int64_t>& steps) {
  steps.clear();
  for (const std::string& word : SplitWords(text)) {
    if (!ReadText(word, steps.emplace_back())) return false;
  }
  return true;
}

bool ReadText(const std::string& text, std::vector<int>& signals) {
  signals.clear();
  for (const std::string& word : SplitWords(text)) {
    signals.push_back(ParseSignal(word));
    if (signals.back() == 0) return false;
  }
  return true;
}

}  // namespace belay
