// Our datatype messages against those of H5Tencode.
#include <hdf5.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/struct_text.h"
#include "format/element_type.h"
#include "h5_testing.h"
#include "hdf5/types.h"

namespace belay::h5::encoded_type_test {
namespace {

constexpr DType kNumbers[] = {
    DType::kF16,    DType::kBF16, DType::kF32, DType::kF64, DType::kF8E4M3,
    DType::kF8E5M2, DType::kI8,   DType::kI16, DType::kI32, DType::kI64,
    DType::kU8,     DType::kU16,  DType::kU32, DType::kU64, DType::kBool,
    DType::kC64,    DType::kC128};

// The bytes of H5Tencode but for its first two, which are not of the message.
std::string ByHdf5(const ElementType& element) {
  const Handle type = Value(FileType(element));
  size_t size = 0;
  EXPECT_GE(H5Tencode(type.get(), nullptr, &size), 0);
  std::string bytes(size, '\0');
  EXPECT_GE(H5Tencode(type.get(), bytes.data(), &size), 0);
  return bytes.substr(2);
}

void ExpectSame(const ElementType& type) {
  EXPECT_EQ(Value(EncodedType(type)), ByHdf5(type)) << type.fields;
}

TEST(EncodedTypeTest, NumbersAndTexts) {
  for (const DType dtype : kNumbers) ExpectSame({dtype});
  for (const int64_t bytes : {0, 1, 7, 8, 255, 70000}) {
    ExpectSame({DType::kString, bytes});
  }
}

TEST(EncodedTypeTest, EachNumberAsAFieldAndInAnArray) {
  for (const DType dtype : kNumbers) {
    for (const Shape& shape :
         {Shape{}, Shape{1}, Shape{3, 2}, Shape{5, 1, 70000, 2}}) {
      const StructField field{.name = "x", .dtype = dtype, .shape = shape};
      ExpectSame({.fields = FieldsText({field})});
      ExpectSame(
          {.fields = FieldsText({{.name = "c", .dtype = DType::kC64}, field})});
    }
  }
}

TEST(EncodedTypeTest, RandomStructs) {
  std::mt19937 random(20);
  const auto below = [&](size_t end) { return random() % end; };
  for (int i = 0; i < 300; ++i) {
    std::vector<StructField> fields(1 + below(12));
    for (StructField& field : fields) {
      // Each length a name may have, at the end of which is a number.
      field.name = std::string(below(60), 'n');
      absl::StrAppend(&field.name, &field - fields.data());
      field.dtype = kNumbers[below(std::size(kNumbers))];
      if (below(3) == 0) field.shape.resize(1 + below(4), 1 + below(4));
    }
    ExpectSame({.fields = FieldsText(fields)});
  }
}

TEST(EncodedTypeTest, NoFieldsAndNoNumber) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      EncodedType({.fields = "not a list of fields"}).status()));
  EXPECT_TRUE(
      absl::IsInvalidArgument(EncodedType({static_cast<DType>(99)}).status()));
}

}  // namespace
}  // namespace belay::h5::encoded_type_test
