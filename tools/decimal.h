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

// Return the shortest digits that distinguish a finite number from its
// neighbors.
Decimal ShortestDecimal(float value);
Decimal ShortestDecimal(double value);
// The same for a small float with these bits; an 8-bit float is not rounded.
Decimal ShortestDecimal(uint32_t bits, const FloatFormat& format);

// Return the number rounded to `digits` digits after the point, of the
// scientific form or of the number itself.
Decimal ScientificDecimal(double value, int digits);
Decimal FixedDecimal(double value, int digits);

// Returns text such as "12.5", "3." or "0.001".
std::string PositionalText(const Decimal& decimal, bool with_plus = false);

// Returns text such as "1.25e-07" with at least `digits` digits after the
// point, or "1.e-07" with none.
std::string ScientificText(const Decimal& decimal, int digits,
                           int exponent_digits, bool with_plus = false);

// Returns the number of digits of the exponent, at least 2.
int ExponentDigits(const Decimal& decimal);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_DECIMAL_H_
