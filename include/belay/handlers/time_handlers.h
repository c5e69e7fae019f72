// Handlers of std::chrono's durations and times; state.h includes this.
//
//   std::chrono::milliseconds elapsed;
//   state.Add("elapsed", elapsed);
//
// Stored as one number, and its unit in the typestr: "duration 1/1000 s". A
// restore into another unit converts the number. A time counts from the epoch
// of std::chrono::system_clock, 1970.

#ifndef BELAY_HANDLERS_TIME_HANDLERS_H_
#define BELAY_HANDLERS_TIME_HANDLERS_H_

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "belay/arrays/dtype.h"
#include "belay/extend/state.h"
#include "belay/extend/type_handler.h"
#include "belay/state.h"
#include "belay/status.h"

namespace belay {
namespace standard {

// num / den seconds.
struct TimeUnit {
  int64_t num = 1, den = 1;

  friend bool operator==(const TimeUnit&, const TimeUnit&) = default;
};

// Returns the typestr of a duration or a time. Local.
std::string TimeTypestr(std::string_view kind, const TimeUnit& unit);
// Returns the unit of a stored value; NotFound if the value is not of that
// kind. Local.
StatusOr<TimeUnit> StoredUnit(std::string_view kind, std::string_view typestr);
// Converts a number to another unit. Local.
// Errors: FailedPrecondition - the result is not a whole number or does not
//   fit.
StatusOr<int64_t> InUnit(int64_t count, const TimeUnit& from,
                         const TimeUnit& to);
StatusOr<double> InUnit(double count, const TimeUnit& from, const TimeUnit& to);
// The error if the stored count has another dtype. Local.
Status CountDtypeError(DType stored, DType wanted);
// The error if a count does not fit into a type of `bytes` bytes. Local.
Status CountError(int64_t count, const TimeUnit& unit, size_t bytes);

// std::chrono::duration.
template <typename T>
concept Duration = requires(const T& value) {
  typename T::period;
  requires Element<typename T::rep> && std::is_signed_v<typename T::rep>;
  { value.count() } -> std::same_as<typename T::rep>;
  T(value.count());
};

// std::chrono::time_point.
template <typename T>
concept TimePoint = requires(const T& value) {
  typename T::clock;
  requires Duration<typename T::duration>;
  { value.time_since_epoch() } -> std::same_as<typename T::duration>;
};

// Stores one number. Local.
template <typename T>
class TimeHandler final : public Handler<T> {
 public:
  std::string typestr() const override { return TimeTypestr(kKind, kUnit); }
  bool HasFinalize() const override { return false; }
  bool Accepts(const StoredValue& stored) const override {
    return StoredUnit(kKind, stored.typestr).ok();
  }
  Status ListForSave(T& value, State& parts) const override {
    parts.Add("", Own(parts, std::make_shared<Rep>(CountOf(value))));
    return absl::OkStatus();
  }
  // Another dtype is not converted: that would round before the unit is known.
  Status ListForRestore(T&, const StoredValue& stored,
                        State& parts) const override {
    const ValuePart* const count = stored.Find("");
    if (count != nullptr && count->dtype != DTypeOf<Rep>()) {
      return CountDtypeError(count->dtype, DTypeOf<Rep>());
    }
    parts.Add("", Own(parts, std::make_shared<Rep>()));
    return absl::OkStatus();
  }
  Status Received(T& value, const StoredValue& stored, int,
                  State& more) const override {
    using Wide = std::conditional_t<std::is_integral_v<Rep>, int64_t, double>;
    const StatusOr<TimeUnit> unit = StoredUnit(kKind, stored.typestr);
    if (!unit.ok()) return unit.status();
    StatusOr<Wide> count =
        InUnit(static_cast<Wide>(Owned<Rep>(more, 0)), *unit, kUnit);
    if (!count.ok()) return count.status();
    const auto narrow = static_cast<Rep>(*count);
    if constexpr (std::is_integral_v<Rep>) {
      if (narrow != *count) return CountError(*count, kUnit, sizeof(Rep));
    }
    value = T(typename DurationOf<T>::type(narrow));
    return absl::OkStatus();
  }

 private:
  template <typename U>
  struct DurationOf {
    using type = U;
  };
  template <TimePoint U>
  struct DurationOf<U> {
    using type = typename U::duration;
  };
  using D = typename DurationOf<T>::type;
  using Rep = typename D::rep;
  static constexpr std::string_view kKind =
      TimePoint<T> ? "time_point" : "duration";
  static constexpr TimeUnit kUnit = {D::period::num, D::period::den};

  static Rep CountOf(const T& value) {
    if constexpr (TimePoint<T>) {
      return value.time_since_epoch().count();
    } else {
      return value.count();
    }
  }
};

}  // namespace standard

// Local.
template <standard::Duration T>
struct StandardHandler<T> {
  static TypeHandlerPtr Get() {
    return standard::Shared<standard::TimeHandler<T>>();
  }
};

// Local.
template <standard::TimePoint T>
struct StandardHandler<T> {
  static TypeHandlerPtr Get() {
    static_assert(
        requires { &T::clock::to_time_t; },
        "belay stores times of std::chrono::system_clock: those of a "
        "steady clock mean nothing in another job; store a duration");
    return standard::Shared<standard::TimeHandler<T>>();
  }
};

}  // namespace belay

#endif  // BELAY_HANDLERS_TIME_HANDLERS_H_
