#include "sharded_variable/update.h"

#include <cassert>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include "core/status_macros.h"
#include "core/text.h"
#include "sharded_variable/eigen_types.h"

namespace belay {
namespace {

// The result is NaN if either element is.
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
  if constexpr (kIsInteger<T>) {
    if (op == UpdateOp::kDiv) return ForEach<WrappingDivide>(x, d, count);
  }
  if (op == UpdateOp::kDiv) return ForEach<std::divides<>>(x, d, count);
  if constexpr (!kIsComplex<T>) {
    if (op == UpdateOp::kMin) return ForEach<Smaller>(x, d, count);
    if (op == UpdateOp::kMax) return ForEach<Larger>(x, d, count);
  }
  assert(false);
}

// Only integers cannot be divided by zero.
std::optional<int64_t> FindBadDivisor(DType dtype, const std::byte* delta,
                                      int64_t count) {
  return VisitScalarType(
      dtype, [&]<typename T>(ScalarType<T>) -> std::optional<int64_t> {
        if constexpr (kIsInteger<T>) return FindZero<T>(delta, count);
        return std::nullopt;
      });
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
  return VisitScalarType(dtype, [&]<typename T>(ScalarType<T>) {
    return !kIsBool<T> && !(is_extreme && kIsComplex<T>);
  });
}

Status CheckUpdate(UpdateOp op, DType dtype, const std::byte* delta,
                   int64_t count) {
  if (!IsUpdateDefined(op, dtype)) {
    return absl::UnimplementedError(Cat("update by \"", UpdateOpName(op),
                                        "\": not defined for ",
                                        DTypeName(dtype)));
  }
  if (op != UpdateOp::kDiv) return absl::OkStatus();
  const std::optional<int64_t> bad = FindBadDivisor(dtype, delta, count);
  if (!bad.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("update by \"div\": delta ", *bad, " of ", count, " is zero (need a ",
          DTypeName(dtype), " other than 0, found 0)"));
}

void UpdateCheckedElements(UpdateOp op, DType dtype, std::byte* target,
                           const std::byte* delta, int64_t count) {
  if (count == 0) return;
  if (op == UpdateOp::kUpdate) {
    std::memcpy(target, delta, count * DTypeSize(dtype));
    return;
  }
  VisitScalarType(dtype, [&]<typename T>(ScalarType<T>) {
    if constexpr (!kIsBool<T>) {
      Apply(op, reinterpret_cast<T*>(target), reinterpret_cast<const T*>(delta),
            count);
    }
  });
}

// --- Combinations of rows ---

namespace {

template <typename T>
inline constexpr bool kIsRealFloat = std::is_floating_point_v<Real<T>>;

// Calls visit(ScalarType<T>{}) if the dtype is a real float.
template <typename Visit>
void VisitRealFloat(DType dtype, Visit&& visit) {
  VisitScalarType(dtype, [&]<typename T>(ScalarType<T> scalar) {
    if constexpr (kIsRealFloat<T>) visit(scalar);
  });
}

template <typename T>
void CombineLists(int64_t row_elements, const RowLists& lists,
                  std::byte* result) {
  Eigen::Array<Real<T>, Eigen::Dynamic, 1> sum(row_elements);
  for (size_t list = 0; list + 1 < lists.splits.size(); ++list) {
    sum.setZero();
    double divisor = lists.divisors[list];
    if (divisor != 0) {
      double scale = 1;
      if (!std::isnormal(static_cast<Real<T>>(divisor))) {
        // The f64 divisor may overflow or underflow as a Real<T>.
        scale = 1 / std::exchange(divisor, 1);
      }
      for (int64_t i = lists.splits[list]; i < lists.splits[list + 1]; ++i) {
        sum += MapOf<T>(lists.rows[i], row_elements).template cast<Real<T>>() *
               static_cast<Real<T>>(lists.weights[i] * scale);
      }
      sum /= static_cast<Real<T>>(divisor);
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
  VisitRealFloat(dtype, [&]<typename T>(ScalarType<T>) {
    const auto elements = MapOf<T>(row, row_elements).template cast<double>();
    const double squares = elements.square().sum();
    // Only squares of f64 can overflow or underflow.
    constexpr double kLeast = 1e-280;
    const bool is_exact = squares > kLeast && squares < 1 / kLeast;
    norm = is_exact ? std::sqrt(squares) : elements.matrix().stableNorm();
  });
  return norm > max_norm ? max_norm / norm : 1;
}

void ScaleRow(DType dtype, std::byte* row, int64_t row_elements,
              double factor) {
  VisitRealFloat(dtype, [&]<typename T>(ScalarType<T>) {
    auto map = MapOf<T>(row, row_elements);
    map = (map.template cast<double>() * factor).template cast<T>();
  });
}

void CombineRows(DType dtype, int64_t row_elements, const RowLists& lists,
                 std::byte* result) {
  VisitRealFloat(dtype, [&]<typename T>(ScalarType<T>) {
    CombineLists<T>(row_elements, lists, result);
  });
}

}  // namespace belay
