#include "core/element_conversion.h"
#include "core/text.h"

namespace belay {
namespace {

struct DTypeRow {
  DType dtype;
  DTypeKind kind;
  int64_t size;
  std::string_view name;
  std::string_view long_name;  // as in NumPy and PyTorch
};

constexpr DTypeRow kRows[] = {
    {DType::kF16, DTypeKind::kFloat, 2, "f16", "float16"},
    {DType::kBF16, DTypeKind::kFloat, 2, "bf16", "bfloat16"},
    {DType::kF32, DTypeKind::kFloat, 4, "f32", "float32"},
    {DType::kF64, DTypeKind::kFloat, 8, "f64", "float64"},
    {DType::kF8E4M3, DTypeKind::kFloat, 1, "f8e4m3", "float8_e4m3fn"},
    {DType::kF8E5M2, DTypeKind::kFloat, 1, "f8e5m2", "float8_e5m2"},
    {DType::kI8, DTypeKind::kInteger, 1, "i8", "int8"},
    {DType::kI16, DTypeKind::kInteger, 2, "i16", "int16"},
    {DType::kI32, DTypeKind::kInteger, 4, "i32", "int32"},
    {DType::kI64, DTypeKind::kInteger, 8, "i64", "int64"},
    {DType::kU8, DTypeKind::kInteger, 1, "u8", "uint8"},
    {DType::kU16, DTypeKind::kInteger, 2, "u16", "uint16"},
    {DType::kU32, DTypeKind::kInteger, 4, "u32", "uint32"},
    {DType::kU64, DTypeKind::kInteger, 8, "u64", "uint64"},
    {DType::kBool, DTypeKind::kBool, 1, "bool", "bool"},
    {DType::kC64, DTypeKind::kComplex, 8, "c64", "complex64"},
    {DType::kC128, DTypeKind::kComplex, 16, "c128", "complex128"},
    {DType::kString, DTypeKind::kString, 0, "string", "string"},
};

const DTypeRow* FindRow(DType dtype) {
  for (const DTypeRow& row : kRows) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

}  // namespace

DTypeKind FindKind(DType dtype) {
  const DTypeRow* row = FindRow(dtype);
  return row == nullptr ? DTypeKind::kInteger : row->kind;
}

int64_t DTypeSize(DType dtype) {
  const DTypeRow* row = FindRow(dtype);
  return row == nullptr ? 0 : row->size;
}

std::string_view DTypeName(DType dtype) {
  const DTypeRow* row = FindRow(dtype);
  return row == nullptr ? "unknown" : row->name;
}

StatusOr<DType> ParseDType(std::string_view name) {
  std::string known;
  for (const DTypeRow& row : kRows) {
    if (row.name == name || row.long_name == name) return row.dtype;
    known += Cat(known.empty() ? "" : ", ", row.name);
  }
  return absl::InvalidArgumentError(Cat(
      "parse dtype \"", name, "\": unknown name (need one of ", known, ")"));
}

bool IsKnownDType(uint8_t value) {
  return FindRow(static_cast<DType>(value)) != nullptr;
}

}  // namespace belay
