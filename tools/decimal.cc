#include "decimal.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "absl/strings/str_format.h"

namespace belay::tools {
namespace {

// Room for every double with all its digits.
constexpr int kTextBytes = 512;
// With fewer mantissa bits, one or two digits would distinguish neighbors, but
// round 448 to 450.
constexpr int kFewBits = 4;

// Parses digits with or without a point; `exponent` is that of the first digit.
Decimal FromDigits(std::string_view text, int exponent) {
  Decimal decimal{.is_negative = text.starts_with('-')};
  for (char c : text) {
    if (c < '0' || c > '9') continue;
    if (c == '0' && decimal.digits.empty()) {
      --exponent;  // a leading zero
    } else {
      decimal.digits += c;
    }
  }
  while (decimal.digits.ends_with('0')) decimal.digits.pop_back();
  decimal.point = decimal.digits.empty() ? 1 : exponent + 1;
  return decimal;
}

// Parses text such as "-1.25e-07".
Decimal FromScientific(std::string_view text) {
  const size_t e = text.find('e');
  std::string_view rest = text.substr(e + 1);
  if (rest.starts_with('+')) rest.remove_prefix(1);
  int exponent = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), exponent);
  return FromDigits(text.substr(0, e), exponent);
}

template <typename T>
Decimal Shortest(T value) {
  char text[kTextBytes];
  const char* end = std::to_chars(text, text + kTextBytes, value,
                                  std::chars_format::scientific)
                        .ptr;
  return FromScientific({text, static_cast<size_t>(end - text)});
}

double ReadBack(const Decimal& decimal) {
  const std::string text =
      absl::StrFormat("0.%se%d", decimal.digits, decimal.point);
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string SignText(const Decimal& decimal, bool with_plus) {
  return decimal.is_negative ? "-" : with_plus ? "+" : "";
}

}  // namespace

Decimal ShortestDecimal(float value) { return Shortest(value); }

Decimal ShortestDecimal(double value) { return Shortest(value); }

Decimal ShortestDecimal(uint32_t bits, const FloatFormat& format) {
  const double value = Decode(bits, format);
  const int value_bits = format.exponent_bits + format.mantissa_bits;
  const uint32_t magnitude = bits & ((1U << value_bits) - 1);
  if (magnitude == 0 || format.mantissa_bits < kFewBits) return Shortest(value);
  const double size = std::abs(value);
  const double below = Decode(magnitude - 1, format);
  double above = Decode(magnitude + 1, format);
  if (!std::isfinite(above)) above = size + (size - below);
  for (int digits = 0; digits < 17; ++digits) {
    // If two decimals are equally near, only the upper one may read back as the
    // number, because just below a power of 2 the neighbor is nearer.
    for (const double near : {size, std::nextafter(size, 2 * size)}) {
      const double read = ReadBack(ScientificDecimal(near, digits));
      const double low = (size + below) / 2, high = (size + above) / 2;
      // A decimal halfway between two numbers is read as the even one.
      const bool is_even = (bits & 1U) == 0;
      if ((low < read && read < high) ||
          (is_even && (read == low || read == high))) {
        return ScientificDecimal(std::copysign(near, value), digits);
      }
    }
  }
  return Shortest(value);
}

Decimal ScientificDecimal(double value, int digits) {
  char text[kTextBytes];
  const char* end = std::to_chars(text, text + kTextBytes, value,
                                  std::chars_format::scientific, digits)
                        .ptr;
  return FromScientific({text, static_cast<size_t>(end - text)});
}

Decimal FixedDecimal(double value, int digits) {
  char text[kTextBytes];
  const char* end = std::to_chars(text, text + kTextBytes, value,
                                  std::chars_format::fixed, digits)
                        .ptr;
  const std::string_view all(text, end - text);
  const size_t sign = all.starts_with('-') ? 1 : 0;
  const size_t whole = std::min(all.find('.'), all.size()) - sign;
  return FromDigits(all, static_cast<int>(whole) - 1);
}

std::string PositionalText(const Decimal& decimal, bool with_plus) {
  const std::string& digits = decimal.digits;
  const auto count = static_cast<int>(digits.size());
  std::string text = SignText(decimal, with_plus);
  for (int i = 0; i < std::max(decimal.point, 1); ++i) {
    text += i < decimal.point && i < count ? digits[i] : '0';
  }
  text += '.';
  for (int i = decimal.point; i < count; ++i) text += i < 0 ? '0' : digits[i];
  return text;
}

std::string ScientificText(const Decimal& decimal, int digits,
                           int exponent_digits, bool with_plus) {
  std::string mantissa = decimal.digits;
  mantissa.resize(std::max<size_t>(mantissa.size(), digits + 1), '0');
  return absl::StrFormat("%s%c.%se%c%0*d", SignText(decimal, with_plus),
                         mantissa[0], mantissa.substr(1),
                         decimal.point < 1 ? '-' : '+', exponent_digits,
                         std::abs(decimal.point - 1));
}

int ExponentDigits(const Decimal& decimal) {
  return std::abs(decimal.point - 1) >= 100 ? 3 : 2;
}

}  // namespace belay::tools
