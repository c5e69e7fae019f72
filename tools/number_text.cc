#include "number_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "decimal.h"
#include "elements.h"

namespace belay::tools {
namespace {

// Digits after the point in an array.
constexpr int kPrecision = 8;

// A floating-point number to print.
struct Real {
  double value = 0;
  Decimal shortest;  // if it is finite
};

template <typename T>
Real RealOf(T element) {
  Real real{.value = static_cast<double>(Number(element)), .shortest = {}};
  if (!std::isfinite(real.value)) return real;
  if constexpr (kIsSmallFloat<T>) {
    real.shortest = ShortestDecimal(element.bits, FormatOf<T>());
  } else {
    real.shortest = ShortestDecimal(element);
  }
  return real;
}

std::string NonFiniteText(double value, bool with_plus = false) {
  if (std::isnan(value)) return with_plus ? "+nan" : "nan";
  return value < 0 ? "-inf" : with_plus ? "+inf" : "inf";
}

// Rounds to 8 digits after the point; those before it are exact.
Decimal CutPositional(const Real& real) {
  const int behind =
      static_cast<int>(real.shortest.digits.size()) - real.shortest.point;
  if (behind > kPrecision) return FixedDecimal(real.value, kPrecision);
  if (behind < 0) return FixedDecimal(real.value, 0);
  return real.shortest;
}

Decimal CutScientific(const Real& real) {
  const bool fits = real.shortest.digits.size() <= kPrecision + 1;
  return fits ? real.shortest : ScientificDecimal(real.value, kPrecision);
}

bool NeedsExponent(const std::vector<Real>& reals) {
  double largest = 0, smallest = INFINITY;
  for (const Real& real : reals) {
    const double size = std::abs(real.value);
    if (!std::isfinite(size) || size == 0) continue;
    largest = std::max(largest, size);
    smallest = std::min(smallest, size);
  }
  return largest > 0 &&
         (largest >= 1e8 || smallest < 1e-4 || largest / smallest > 1000);
}

std::vector<std::string> ScientificTexts(const std::vector<Real>& reals,
                                         bool with_plus) {
  size_t digits = 0;
  int exponent_digits = 2;
  for (const Real& real : reals) {
    if (!std::isfinite(real.value)) continue;
    const Decimal cut = CutScientific(real);
    digits = std::max(digits, cut.digits.empty() ? 0 : cut.digits.size() - 1);
    exponent_digits = std::max(exponent_digits, ExponentDigits(cut));
  }
  std::vector<std::string> texts;
  for (const Real& real : reals) {
    if (!std::isfinite(real.value)) {
      texts.push_back(NonFiniteText(real.value, with_plus));
      continue;
    }
    // If the shortest digits are too few, take more digits of the number, not
    // zeros.
    const auto count = static_cast<int>(digits);
    texts.push_back(ScientificText(ScientificDecimal(real.value, count), count,
                                   exponent_digits, with_plus));
  }
  return texts;
}

std::vector<std::string> PositionalTexts(const std::vector<Real>& reals,
                                         bool with_plus) {
  std::vector<std::string> texts;
  size_t behind = 0;
  for (const Real& real : reals) {
    const bool is_finite = std::isfinite(real.value);
    texts.push_back(is_finite ? PositionalText(CutPositional(real), with_plus)
                              : NonFiniteText(real.value, with_plus));
    if (!is_finite) continue;
    behind = std::max(behind, texts.back().size() - texts.back().find('.') - 1);
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t point = texts[i].find('.');
    if (point == std::string::npos) continue;
    texts[i].resize(point + 1 + behind, ' ');
  }
  return texts;
}

void PadLeft(std::vector<std::string>& texts) {
  size_t width = 0;
  for (const std::string& text : texts) width = std::max(width, text.size());
  for (std::string& text : texts) text.insert(0, width - text.size(), ' ');
}

std::vector<std::string> RealTexts(const std::vector<Real>& reals,
                                   bool with_plus = false) {
  std::vector<std::string> texts = NeedsExponent(reals)
                                       ? ScientificTexts(reals, with_plus)
                                       : PositionalTexts(reals, with_plus);
  PadLeft(texts);
  return texts;
}

// Real and imaginary parts as separate columns.
std::vector<std::string> ComplexTexts(const std::vector<Real>& reals,
                                      const std::vector<Real>& imaginaries) {
  std::vector<std::string> texts = RealTexts(reals);
  const std::vector<std::string> others = RealTexts(imaginaries, true);
  for (size_t i = 0; i < texts.size(); ++i) {
    const size_t end = others[i].find_last_not_of(' ') + 1;
    texts[i] += others[i].substr(0, end) + "j" + others[i].substr(end);
  }
  return texts;
}

// A single number, with any number of digits. `zero` is appended to a whole
// number.
std::string LoneText(const Real& real, std::string_view zero,
                     bool with_plus = false) {
  if (!std::isfinite(real.value)) return NonFiniteText(real.value, with_plus);
  const Decimal& decimal = real.shortest;
  const double size = std::abs(real.value);
  std::string text;
  if (size == 0 || (size >= 1e-4 && size < 1e16)) {
    text = PositionalText(decimal, with_plus);
    if (text.back() != '.') return text;
    text.pop_back();
    return text.append(zero);
  }
  text = ScientificText(decimal, static_cast<int>(decimal.digits.size()) - 1,
                        ExponentDigits(decimal), with_plus);
  const size_t point = text.find(".e");
  if (point != std::string::npos) text.erase(point, 1);
  return text;
}

template <typename T>
std::string LoneComplexText(T value) {
  const Real real = RealOf(value.real()), imaginary = RealOf(value.imag());
  if (real.value == 0 && !std::signbit(real.value)) {
    return LoneText(imaginary, "") + "j";
  }
  return "(" + LoneText(real, "") + LoneText(imaginary, "", true) + "j)";
}

template <typename T>
std::string LoneElementText(T value) {
  if constexpr (kIsComplex<T>) {
    return LoneComplexText(value);
  } else if constexpr (kIsFloat<T>) {
    return LoneText(RealOf(value), ".0");
  } else if constexpr (std::is_same_v<T, bool>) {
    return value ? "True" : "False";
  } else {
    return std::to_string(value);
  }
}

template <typename T>
std::vector<std::string> AlignedTextsOf(std::span<const T> values) {
  std::vector<Real> reals, imaginaries;
  std::vector<std::string> texts;
  for (const T& value : values) {
    if constexpr (kIsComplex<T>) {
      reals.push_back(RealOf(value.real()));
      imaginaries.push_back(RealOf(value.imag()));
    } else if constexpr (kIsFloat<T>) {
      reals.push_back(RealOf(value));
    } else if constexpr (std::is_same_v<T, bool>) {
      texts.push_back(value ? " True" : "False");
    } else {
      texts.push_back(std::to_string(value));
    }
  }
  if constexpr (kIsComplex<T>) return ComplexTexts(reals, imaginaries);
  if constexpr (kIsFloat<T>) return RealTexts(reals);
  PadLeft(texts);
  return texts;
}

}  // namespace

std::string ElementText(const Tensor& tensor, int64_t i) {
  return VisitType(tensor.dtype(), [&]<typename T>(T) {
    return LoneElementText(tensor.values<T>()[i]);
  });
}

std::vector<std::string> AlignedTexts(const Tensor& tensor) {
  return VisitType(tensor.dtype(), [&]<typename T>(T) {
    return AlignedTextsOf(tensor.values<T>());
  });
}

std::string TimeText(int64_t seconds) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%SZ", absl::FromUnixSeconds(seconds),
                          absl::UTCTimeZone());
}

std::string RealText(double value) { return LoneText(RealOf(value), ".0"); }

std::string IndentedText(std::string_view text) {
  return absl::StrReplaceAll(PrintableText(text), {{"\n", "\n  "}});
}

}  // namespace belay::tools
