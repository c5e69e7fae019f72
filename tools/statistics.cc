#include "statistics.h"

#include <cmath>
#include <utility>

#include "commands.h"
#include "elements.h"

namespace belay::tools {
namespace {

template <typename T>
bool IsNan(T value) {
  if constexpr (kIsComplex<T>) {
    return std::isnan(value.real()) || std::isnan(value.imag());
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(value);
  } else {
    return false;
  }
}

template <typename T>
bool IsInfinite(T value) {
  if constexpr (kIsComplex<T>) {
    return std::isinf(value.real()) || std::isinf(value.imag());
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::isinf(value);
  } else {
    return false;
  }
}

// Returns the value by which numbers are ordered.
template <typename T>
auto SizeOf(T value) {
  if constexpr (kIsComplex<T>) {
    return std::abs(value);
  } else {
    return value;
  }
}

template <typename T>
Tensor Scalar(T value) {
  return Tensor::Of<T>({}, {value});
}

// Sums up elements of one type; small floats as double.
template <typename T>
class Summary {
 public:
  using Value = decltype(Number(T{}));
  using Size = decltype(SizeOf(Value{}));

  void Add(std::span<const T> values) {
    for (const T& element : values) Add(Number(element));
    statistics_.elements += static_cast<int64_t>(values.size());
  }

  Statistics Result() {
    if (statistics_.finite > 0) {
      statistics_.min = Scalar<Size>(min_);
      statistics_.max = Scalar<Size>(max_);
      const auto count = static_cast<long double>(statistics_.finite);
      const auto real = static_cast<double>(real_ / count);
      if constexpr (kIsComplex<T>) {
        statistics_.mean = Scalar<std::complex<double>>(
            {real, static_cast<double>(imaginary_ / count)});
      } else {
        statistics_.mean = Scalar(real);
      }
    }
    return std::move(statistics_);
  }

 private:
  void Add(Value value) {
    if (IsNan(value)) {
      ++statistics_.nans;
      return;
    }
    if (IsInfinite(value)) {
      ++statistics_.infinities;
      return;
    }
    if (value == Value{}) ++statistics_.zeros;
    const Size size = SizeOf(value);
    const bool is_first = statistics_.finite++ == 0;
    if (is_first || size < min_) min_ = size;
    if (is_first || max_ < size) max_ = size;
    if constexpr (kIsComplex<T>) {
      real_ += value.real();
      imaginary_ += value.imag();
    } else {
      real_ += static_cast<long double>(value);
    }
  }

  Statistics statistics_;
  Size min_ = {}, max_ = {};
  // Wider than every element type, so that single 64-bit integers are exact.
  long double real_ = 0, imaginary_ = 0;
};

}  // namespace

StatusOr<Statistics> ReadStatistics(const CheckpointReader& reader,
                                    std::string_view key, const Box& box) {
  const StatusOr<ArrayInfo> info = reader.Find(key);
  if (!info.ok()) return info.status();
  return VisitType(info->dtype, [&]<typename T>(T) -> StatusOr<Statistics> {
    Summary<T> summary;
    const Status status = reader.ReadPieces(
        key, box, kPieceBytes, [&](const Box&, const Tensor& piece) {
          summary.Add(piece.values<T>());
          return absl::OkStatus();
        });
    if (!status.ok()) return status;
    return summary.Result();
  });
}

}  // namespace belay::tools
