#include "tensor/update.h"

#include <cassert>
#include <cstring>

#include "base/status_macros.h"
#include "base/text.h"
#include "tensor/eigen_types.h"

namespace belay {
namespace {

template <typename T>
void Divide(ArrayMap<T>& x, const ConstArrayMap<T>& d) {
  if constexpr (kIsInteger<T>) {
    x = x.binaryExpr(d, WrappingDivide{});
  } else {
    x /= d;
  }
}

template <typename T>
void Arithmetic(UpdateOp op, ArrayMap<T>& x, const ConstArrayMap<T>& d) {
  switch (op) {
    case UpdateOp::kAdd:
      if constexpr (kIsInteger<T>) {
        x = x.binaryExpr(d, WrappingAdd{});
      } else {
        x += d;
      }
      return;
    case UpdateOp::kSub:
      if constexpr (kIsInteger<T>) {
        x = x.binaryExpr(d, WrappingSubtract{});
      } else {
        x -= d;
      }
      return;
    case UpdateOp::kMul:
      if constexpr (kIsInteger<T>) {
        x = x.binaryExpr(d, WrappingMultiply{});
      } else {
        x *= d;
      }
      return;
    case UpdateOp::kDiv:
      return Divide(x, d);
    default:
      assert(false);
  }
}

// Eigen's own min and max leave open what they make of a NaN.
struct Smaller {
  template <typename T>
  T operator()(T x, T d) const {
    return d < x || d != d ? d : x;
  }
};

struct Larger {
  template <typename T>
  T operator()(T x, T d) const {
    return d > x || d != d ? d : x;
  }
};

template <typename T>
void Apply(UpdateOp op, std::byte* target, const std::byte* delta,
           int64_t count) {
  if constexpr (!kIsBool<T>) {
    auto x = MapOf<T>(target, count);
    const auto d = MapOf<T>(delta, count);
    if (op != UpdateOp::kMin && op != UpdateOp::kMax) {
      Arithmetic<T>(op, x, d);
    } else if constexpr (!kIsComplex<T>) {
      if (op == UpdateOp::kMin) {
        x = x.binaryExpr(d, Smaller{});
      } else {
        x = x.binaryExpr(d, Larger{});
      }
    }
  }
}

Status Refuse(UpdateOp op, DType dtype) {
  return absl::UnimplementedError(Cat("update by \"", UpdateOpName(op),
                                      "\": not defined for ",
                                      DTypeName(dtype)));
}

// Returns the place of the first delta that must not divide, or -1.
int64_t FindBadDivisor(DType dtype, const std::byte* delta, int64_t count) {
  return VisitScalarType(
      dtype,
      [&](auto scalar) -> int64_t {
        using T = typename decltype(scalar)::type;
        if constexpr (kIsInteger<T>) return FindZero<T>(delta, count);
        return -1;
      },
      [] { return int64_t{-1}; });
}

}  // namespace

std::string_view UpdateOpName(UpdateOp op) {
  constexpr std::string_view kNames[] = {"update", "add", "sub", "mul",
                                         "div",    "min", "max"};
  const size_t number = static_cast<size_t>(op);
  return number < std::size(kNames) ? kNames[number] : "unknown";
}

bool IsUpdateDefined(UpdateOp op, DType dtype) {
  if (op > UpdateOp::kMax || DTypeSize(dtype) == 0) return false;
  if (op == UpdateOp::kUpdate) return true;
  const bool is_extreme = op == UpdateOp::kMin || op == UpdateOp::kMax;
  return VisitScalarType(
      dtype,
      [&](auto scalar) {
        using T = typename decltype(scalar)::type;
        return !kIsBool<T> && !(is_extreme && kIsComplex<T>);
      },
      [] { return false; });
}

Status CheckUpdate(UpdateOp op, DType dtype, const std::byte* delta,
                   int64_t count) {
  if (!IsUpdateDefined(op, dtype)) return Refuse(op, dtype);
  if (op != UpdateOp::kDiv) return absl::OkStatus();
  const int64_t place = FindBadDivisor(dtype, delta, count);
  if (place < 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("update by \"div\": delta ", place, " of ", count,
          " is zero (need a ", DTypeName(dtype), " other than 0, found 0)"));
}

void UpdateCheckedElements(UpdateOp op, DType dtype, std::byte* target,
                           const std::byte* delta, int64_t count) {
  if (count == 0) return;
  if (op == UpdateOp::kUpdate) {
    std::memcpy(target, delta, count * DTypeSize(dtype));
    return;
  }
  VisitScalarType(
      dtype,
      [&](auto scalar) {
        using T = typename decltype(scalar)::type;
        Apply<T>(op, target, delta, count);
      },
      [] {});
}

Status UpdateElements(UpdateOp op, DType dtype, std::byte* target,
                      const std::byte* delta, int64_t count) {
  BELAY_RETURN_IF_ERROR(CheckUpdate(op, dtype, delta, count));
  UpdateCheckedElements(op, dtype, target, delta, count);
  return absl::OkStatus();
}

}  // namespace belay
