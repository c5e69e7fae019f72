// The dtypes that safetensors has.

#ifndef BELAY_SAFETENSORS_PLAN_DTYPES_H_
#define BELAY_SAFETENSORS_PLAN_DTYPES_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "belay/arrays/dtype.h"

namespace belay::safetensors {

struct FormatDType {
  std::string_view name;
  std::optional<DType> dtype;  // unset: belay has no such dtype
  int64_t bits = 0;            // of one element
};

// In the order in which tensors lie in a file.
inline constexpr FormatDType kFormatDTypes[] = {
    {"U64", DType::kU64, 64},       {"I64", DType::kI64, 64},
    {"F64", DType::kF64, 64},       {"C64", DType::kC64, 64},
    {"F32", DType::kF32, 32},       {"U32", DType::kU32, 32},
    {"I32", DType::kI32, 32},       {"BF16", DType::kBF16, 16},
    {"F16", DType::kF16, 16},       {"U16", DType::kU16, 16},
    {"I16", DType::kI16, 16},       {"F8_E8M0", std::nullopt, 8},
    {"F8_E4M3", DType::kF8E4M3, 8}, {"F8_E5M2", DType::kF8E5M2, 8},
    {"I8", DType::kI8, 8},          {"U8", DType::kU8, 8},
    {"F6_E3M2", std::nullopt, 6},   {"F6_E2M3", std::nullopt, 6},
    {"F4", std::nullopt, 4},        {"BOOL", DType::kBool, 8},
};

}  // namespace belay::safetensors

#endif  // BELAY_SAFETENSORS_PLAN_DTYPES_H_
