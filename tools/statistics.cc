#include "statistics.h"

#include <cmath>
#include <optional>

#include "commands.h"
#include "elements.h"
#include "number_text.h"

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

// What numbers are ordered by.
template <typename T>
auto SizeOf(T value) {
  if constexpr (kIsComplex<T>) {
    return std::abs(value);
  } else {
    return value;
  }
}

template <typename T>
std::string Text(T value) {
  return ElementText(Tensor::Of<T>({}, {value}), 0);
}

// Sums elements of a type, small floats as double.
template <typename T>
class Summary {
 public:
  using Value = decltype(Number(T{}));
  using Size = decltype(SizeOf(Value{}));

  void Add(std::span<const T> values) {
    for (const T& element : values) Add(Number(element));
    statistics_.elements += static_cast<int64_t>(values.size());
  }

  Statistics Result() const {
    Statistics result = statistics_;
    if (finite_ == 0) return result;
    result.min = Text<Size>(min_);
    result.max = Text<Size>(max_);
    const auto count = static_cast<long double>(finite_);
    const auto real = static_cast<double>(real_ / count);
    result.mean = RealText(real);
    if constexpr (kIsComplex<T>) {
      result.mean = Text<std::complex<double>>(
          {real, static_cast<double>(imaginary_ / count)});
    }
    return result;
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
    if (finite_ == 0 || size < min_) min_ = size;
    if (finite_ == 0 || max_ < size) max_ = size;
    ++finite_;
    if constexpr (kIsComplex<T>) {
      real_ += value.real();
      imaginary_ += value.imag();
    } else {
      real_ += static_cast<long double>(value);
    }
  }

  Statistics statistics_;
  int64_t finite_ = 0;
  Size min_ = {}, max_ = {};
  // Wider than every type, so that integers of 64 bits lose nothing at first.
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
