#include "sharded_variable/update.h"

#include <cassert>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/status_macros.h"
#include "core/text.h"
#include "sharded_variable/eigen_types.h"

namespace belay {
namespace {

// NaN wins, whichever of the two it is.
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

// x = Function{}(x, d) for each element.
template <typename Function, typename T>
void ForEach(T* x, const T* d, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = Function{}(x[i], d[i]);
}

template <typename T>
void Apply(UpdateOp op, T* x, const T* d, int64_t count) {
  if (op == UpdateOp::kAdd) return ForEach<AddOf<T>>(x, d, count);
  if (op == UpdateOp::kSub) return ForEach<SubtractOf<T>>(x, d, count);
  if (op == UpdateOp::kMul) return ForEach<MultiplyOf<T>>(x, d, count);
  if (op == UpdateOp::kDiv) return ForEach<DivideOf<T>>(x, d, count);
  if constexpr (!kIsComplex<T>) {
    if (op == UpdateOp::kMin) return ForEach<Smaller>(x, d, count);
    if (op == UpdateOp::kMax) return ForEach<Larger>(x, d, count);
  }
  assert(false);
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
        if constexpr (!kIsBool<T>) {
          Apply(op, reinterpret_cast<T*>(target),
                reinterpret_cast<const T*>(delta), count);
        }
      },
      [] {});
}

Status UpdateElements(UpdateOp op, DType dtype, std::byte* target,
                      const std::byte* delta, int64_t count) {
  BELAY_RETURN_IF_ERROR(CheckUpdate(op, dtype, delta, count));
  UpdateCheckedElements(op, dtype, target, delta, count);
  return absl::OkStatus();
}

// --- Combine rows ---

namespace {

template <typename T>
inline constexpr bool kIsRealFloat =
    std::is_floating_point_v<T> || std::is_same_v<T, Eigen::half> ||
    std::is_same_v<T, Eigen::bfloat16>;

// What sums of T are made in.
template <typename T>
using RowSum = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Calls visit(ScalarType<T>{}) if the dtype is a real float.
template <typename Visit>
void VisitRealFloat(DType dtype, Visit&& visit) {
  VisitScalarType(
      dtype,
      [&](auto scalar) {
        if constexpr (kIsRealFloat<typename decltype(scalar)::type>) {
          visit(scalar);
        }
      },
      [] {});
}

template <typename T>
void CombineLists(int64_t row_elements, const RowLists& lists,
                  std::byte* result) {
  Eigen::Array<RowSum<T>, Eigen::Dynamic, 1> sum(row_elements);
  for (size_t list = 0; list + 1 < lists.splits.size(); ++list) {
    sum.setZero();
    double divisor = lists.divisors[list];
    if (divisor != 0) {
      double scale = 1;
      if (!std::isnormal(static_cast<RowSum<T>>(divisor))) {
        // The weights are f64; not all of them are numbers of RowSum<T>.
        scale = 1 / std::exchange(divisor, 1);
      }
      for (int64_t i = lists.splits[list]; i < lists.splits[list + 1]; ++i) {
        sum +=
            MapOf<T>(lists.rows[i], row_elements).template cast<RowSum<T>>() *
            static_cast<RowSum<T>>(lists.weights[i] * scale);
      }
      sum /= static_cast<RowSum<T>>(divisor);
    }
    MapOf<T>(result, row_elements) = sum.template cast<T>();
    result += row_elements * sizeof(T);
  }
}

}  // namespace

bool IsRealFloat(DType dtype) {
  bool is_real_float = false;
  VisitRealFloat(dtype, [&](auto) { is_real_float = true; });
  return is_real_float;
}

double ClipFactor(DType dtype, const std::byte* row, int64_t row_elements,
                  double max_norm) {
  double norm = 0;
  VisitRealFloat(dtype, [&](auto scalar) {
    using T = typename decltype(scalar)::type;
    const auto elements = MapOf<T>(row, row_elements).template cast<double>();
    const double squares = elements.square().sum();
    // Only f64 has numbers whose squares end up outside of this.
    constexpr double kLeast = 1e-280;
    const bool is_exact = squares > kLeast && squares < 1 / kLeast;
    norm = is_exact ? std::sqrt(squares) : elements.matrix().stableNorm();
  });
  return norm > max_norm ? max_norm / norm : 1;
}

void ScaleRow(DType dtype, std::byte* row, int64_t row_elements,
              double factor) {
  VisitRealFloat(dtype, [&](auto scalar) {
    using T = typename decltype(scalar)::type;
    auto map = MapOf<T>(row, row_elements);
    map = (map.template cast<double>() * factor).template cast<T>();
  });
}

void CombineRows(DType dtype, int64_t row_elements, const RowLists& lists,
                 std::byte* result) {
  VisitRealFloat(dtype, [&](auto scalar) {
    CombineLists<typename decltype(scalar)::type>(row_elements, lists, result);
  });
}

}  // namespace belay
