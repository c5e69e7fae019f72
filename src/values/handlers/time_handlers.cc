#include "belay/handlers/time_handlers.h"

#include <charconv>
#include <numeric>

#include "base/text.h"

namespace belay::standard {
namespace {

std::string UnitText(const TimeUnit& unit) {
  return Cat(unit.num, "/", unit.den, " s");
}

// Reads a number above 0 and what follows it, off the front of a text.
bool TakeNumber(std::string_view& text, std::string_view next,
                int64_t& number) {
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || number < 1) return false;
  text.remove_prefix(static_cast<size_t>(read.ptr - text.data()));
  if (!text.starts_with(next)) return false;
  text.remove_prefix(next.size());
  return true;
}

}  // namespace

std::string TimeTypestr(std::string_view kind, const TimeUnit& unit) {
  return Cat(kind, " ", UnitText(unit));
}

StatusOr<TimeUnit> StoredUnit(std::string_view kind, std::string_view typestr) {
  std::string_view text = typestr;
  TimeUnit unit;
  if (text.starts_with(kind)) {
    text.remove_prefix(kind.size());
    if (text.starts_with(' ')) {
      text.remove_prefix(1);
      if (TakeNumber(text, "/", unit.num) && TakeNumber(text, " s", unit.den) &&
          text.empty()) {
        return unit;
      }
    }
  }
  return absl::NotFoundError(
      Cat("no ", kind, " is stored (found typestr \"", typestr, "\")"));
}

StatusOr<int64_t> InUnit(int64_t count, const TimeUnit& from,
                         const TimeUnit& to) {
  if (from == to) return count;
  // As coprime numbers, of which the divisor must divide the count.
  const int64_t nums = std::gcd(from.num, to.num);
  const int64_t dens = std::gcd(from.den, to.den);
  int64_t factor = 0, divisor = 0, found = 0;
  if (!__builtin_mul_overflow(from.num / nums, to.den / dens, &factor) &&
      !__builtin_mul_overflow(to.num / nums, from.den / dens, &divisor) &&
      count % divisor == 0 &&
      !__builtin_mul_overflow(count / divisor, factor, &found)) {
    return found;
  }
  return absl::FailedPreconditionError(Cat(
      "the stored time is not a whole number of the program's units (need a "
      "multiple of ",
      UnitText(to), ", found ", count, " times ", UnitText(from),
      "): restore it into a duration with a smaller unit"));
}

StatusOr<double> InUnit(double count, const TimeUnit& from,
                        const TimeUnit& to) {
  if (from == to) return count;
  return count * (static_cast<double>(from.num) / static_cast<double>(to.num)) *
         (static_cast<double>(to.den) / static_cast<double>(from.den));
}

Status CountDtypeError(DType stored, DType wanted) {
  return absl::FailedPreconditionError(
      Cat("the stored time has another dtype than the program's (need ",
          DTypeName(wanted), ", found ", DTypeName(stored),
          "): restore it into a duration that counts in ", DTypeName(stored)));
}

Status CountError(int64_t count, const TimeUnit& unit, size_t bytes) {
  return absl::FailedPreconditionError(
      Cat("the stored time is too large for the program's type (need ",
          8 * bytes, " bits, found ", count, " times ", UnitText(unit), ")"));
}

}  // namespace belay::standard
