// Finite numbers as decimal digits.

#ifndef BELAY_TOOLS_DECIMAL_H_
#define BELAY_TOOLS_DECIMAL_H_

#include <string>

#include "elements.h"

namespace belay::tools {

// The number 0.d1d2d3... * 10^point, without trailing zeros. Zero has no digits
// and a point of 1.
struct Decimal {
  bool is_negative = false;
  std::string digits;
  int point = 0;
};

// The shortest digits that tell a finite number from its neighbours.
Decimal ShortestDecimal(float value);
Decimal ShortestDecimal(double value);
// The same for a small float of these bits; one of 8 bits is not rounded.
Decimal ShortestDecimal(uint32_t bits, const FloatFormat& format);

// Rounded to that many digits behind the point of the scientific form, or of
// the number itself.
Decimal ScientificDecimal(double value, int digits);
Decimal FixedDecimal(double value, int digits);

// "12.5", "3.", "0.001".
std::string PositionalText(const Decimal& decimal, bool with_plus = false);

// "1.25e-07" with that many digits behind the point, at least, "1.e-07" with
// none.
std::string ScientificText(const Decimal& decimal, int digits,
                           int exponent_digits, bool with_plus = false);

// The digits of the exponent, at least 2.
int ExponentDigits(const Decimal& decimal);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_DECIMAL_H_
