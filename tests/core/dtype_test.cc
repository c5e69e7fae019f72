#include "belay/arrays/dtype.h"

#include <cstdint>
#include <set>
#include <string>

#include "gtest/gtest.h"

namespace belay::dtype_test {
namespace {

struct Row {
  int number;  // on disk: must never change
  DType dtype;
  int64_t size;
  std::string_view name;
};

constexpr Row kRows[] = {
    {1, DType::kF16, 2, "f16"},       {2, DType::kBF16, 2, "bf16"},
    {3, DType::kF32, 4, "f32"},       {4, DType::kF64, 8, "f64"},
    {5, DType::kF8E4M3, 1, "f8e4m3"}, {6, DType::kF8E5M2, 1, "f8e5m2"},
    {7, DType::kI8, 1, "i8"},         {8, DType::kI16, 2, "i16"},
    {9, DType::kI32, 4, "i32"},       {10, DType::kI64, 8, "i64"},
    {11, DType::kU8, 1, "u8"},        {12, DType::kU16, 2, "u16"},
    {13, DType::kU32, 4, "u32"},      {14, DType::kU64, 8, "u64"},
    {15, DType::kBool, 1, "bool"},    {16, DType::kC64, 8, "c64"},
    {17, DType::kC128, 16, "c128"},   {18, DType::kString, 0, "string"},
};

TEST(DTypeTest, NumberSizeAndNameOfEveryType) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    EXPECT_EQ(static_cast<int>(row.dtype), row.number);
    EXPECT_EQ(DTypeSize(row.dtype), row.size);
    EXPECT_EQ(DTypeName(row.dtype), row.name);
    const StatusOr<DType> parsed = ParseDType(row.name);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, row.dtype);
  }
}

TEST(DTypeTest, OnlyTheseNumbersAreKnown) {
  std::set<int> known;
  for (int value = 0; value <= 255; ++value) {
    if (IsKnownDType(static_cast<uint8_t>(value))) known.insert(value);
  }
  std::set<int> expected;
  for (const Row& row : kRows) expected.insert(row.number);
  EXPECT_EQ(known, expected);
}

TEST(DTypeTest, AnUnknownNumberHasNoSizeAndSaysSo) {
  const auto damaged = static_cast<DType>(200);
  EXPECT_EQ(DTypeSize(damaged), 0);
  EXPECT_EQ(DTypeName(damaged), "unknown");
}

TEST(DTypeTest, UnknownNamesListTheKnownOnes) {
  for (const std::string name : {"float", "F32", "", " f32", "unknown"}) {
    EXPECT_EQ(ParseDType(name).status(),
              absl::InvalidArgumentError(
                  "parse dtype \"" + name +
                  "\": unknown name (need one of f16, bf16, f32, f64, f8e4m3, "
                  "f8e5m2, i8, i16, i32, i64, u8, u16, u32, u64, bool, c64, "
                  "c128, string)"));
  }
}

TEST(DTypeTest, NamesOfNumPyAndPyTorch) {
  EXPECT_EQ(ParseDType("float32").value(), DType::kF32);
  EXPECT_EQ(ParseDType("bfloat16").value(), DType::kBF16);
  EXPECT_EQ(ParseDType("uint8").value(), DType::kU8);
  EXPECT_EQ(ParseDType("complex128").value(), DType::kC128);
  EXPECT_EQ(ParseDType("float8_e4m3fn").value(), DType::kF8E4M3);
}

// The sizes of the C++ types are those of the stored ones.
template <typename T>
void ExpectStores(DType dtype) {
  EXPECT_EQ(DTypeOf<T>(), dtype) << DTypeName(dtype);
  EXPECT_EQ(DTypeSize(DTypeOf<T>()), static_cast<int64_t>(sizeof(T)))
      << DTypeName(dtype);
}

TEST(DTypeTest, OfCppTypes) {
  ExpectStores<Float16>(DType::kF16);
  ExpectStores<BFloat16>(DType::kBF16);
  ExpectStores<float>(DType::kF32);
  ExpectStores<double>(DType::kF64);
  ExpectStores<Float8E4M3>(DType::kF8E4M3);
  ExpectStores<Float8E5M2>(DType::kF8E5M2);
  ExpectStores<int8_t>(DType::kI8);
  ExpectStores<int16_t>(DType::kI16);
  ExpectStores<int32_t>(DType::kI32);
  ExpectStores<int64_t>(DType::kI64);
  ExpectStores<long long>(DType::kI64);
  ExpectStores<uint8_t>(DType::kU8);
  ExpectStores<uint16_t>(DType::kU16);
  ExpectStores<uint32_t>(DType::kU32);
  ExpectStores<uint64_t>(DType::kU64);
  ExpectStores<unsigned long long>(DType::kU64);
  ExpectStores<bool>(DType::kBool);
  ExpectStores<std::complex<float>>(DType::kC64);
  ExpectStores<std::complex<double>>(DType::kC128);
  EXPECT_EQ(DTypeOf<std::string>(), DType::kString);
}

}  // namespace
}  // namespace belay::dtype_test
