// Arithmetic and parsing of whole numbers.

#ifndef BELAY_CORE_INTEGERS_H_
#define BELAY_CORE_INTEGERS_H_

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace belay {

// a / b, rounded up. `a` is not negative; `b` is positive.
constexpr int64_t CeilDivide(int64_t a, int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

// Returns the number that the whole text represents, or nothing. Stored numbers
// have exactly one spelling: "+1" or " 1", which absl::SimpleAtoi accepts,
// means damage.
template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  const char* const last = text.data() + text.size();
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return std::nullopt;
  return value;
}

// Like ParseNumber, but accepts only digits, and values up to `max`.
inline std::optional<int64_t> ParseDigits(std::string_view text, int64_t max) {
  if (text.starts_with('-')) return std::nullopt;  // "-0" is not only digits
  const auto value = ParseNumber<int64_t>(text);
  return value && *value <= max ? value : std::nullopt;
}

}  // namespace belay

#endif  // BELAY_CORE_INTEGERS_H_
