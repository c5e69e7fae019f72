#include "sharded_variable/combine_rows.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "sharded_variable/eigen_types.h"

namespace belay {
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
