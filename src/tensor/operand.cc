#include "tensor/operand.h"

#include <cstring>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "tensor/eigen_types.h"

namespace belay {
namespace {

std::string NumberText(const Operand::Number& number) {
  return std::visit(
      [](auto value) -> std::string {
        using T = decltype(value);
        if constexpr (kIsComplex<T>) {
          return Cat("(", value.real(), ", ", value.imag(), ")");
        } else if constexpr (kIsBool<T>) {
          return value ? "true" : "false";
        } else {
          return Cat(value);
        }
      },
      number);
}

// A number of type From as a T, if that keeps what it is.
template <typename T, typename From>
std::optional<T> Fit(From from) {
  if constexpr (kIsBool<T> || kIsBool<From>) {
    if constexpr (std::is_same_v<T, From>) return from;
    return std::nullopt;
  } else if constexpr (kIsInteger<T>) {
    if constexpr (kIsInteger<From>) {
      if (std::in_range<T>(from)) return static_cast<T>(from);
    }
    return std::nullopt;
  } else if constexpr (kIsComplex<T>) {
    using Real = typename T::value_type;
    if constexpr (kIsComplex<From>) {
      return T(static_cast<Real>(from.real()), static_cast<Real>(from.imag()));
    } else {
      return T(static_cast<Real>(from));
    }
  } else {
    if constexpr (kIsComplex<From>)
      return std::nullopt;
    else
      return static_cast<T>(from);
  }
}

Status DoesNotFit(const Operand::Number& number, DType dtype) {
  return absl::InvalidArgumentError(Cat("the number does not fit (need one of ",
                                        DTypeName(dtype), ", found ",
                                        NumberText(number), ")"));
}

template <typename T>
StatusOr<Tensor> TensorOf(const Operand::Number& number, DType dtype) {
  const std::optional<T> value =
      std::visit([](auto from) { return Fit<T>(from); }, number);
  if (!value.has_value()) return DoesNotFit(number, dtype);
  return Tensor::CopyOf(dtype, {}, &*value);
}

}  // namespace

StatusOr<Tensor> TensorOfNumber(const Operand::Number& number, DType dtype) {
  return VisitScalarType(
      dtype,
      [&](auto scalar) {
        return TensorOf<typename decltype(scalar)::type>(number, dtype);
      },
      [&]() -> StatusOr<Tensor> {
        return absl::UnimplementedError(
            Cat("not defined for ", DTypeName(dtype)));
      });
}

std::string OperandText(const Operand& operand) {
  if (operand.tensor() == nullptr) return NumberText(operand.number());
  return Cat(DTypeName(operand.tensor()->dtype()), " ",
             ShapeText(operand.tensor()->shape()));
}

}  // namespace belay
