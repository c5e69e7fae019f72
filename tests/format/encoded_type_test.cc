// Our datatype messages against those of H5Tencode.
#include <hdf5.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"
#include "core/struct_text.h"
#include "core/text.h"
#include "format/element_type.h"
#include "h5_testing.h"
#include "hdf5/file.h"

namespace belay::h5::encoded_type_test {
namespace {

// Each type as the functions of HDF5 make it.

struct FloatFields {
  size_t bytes, sign, exponent, exponent_bits, mantissa_bits, bias;
};

constexpr FloatFields kF16Fields = {2, 15, 10, 5, 10, 15};
constexpr FloatFields kBF16Fields = {2, 15, 7, 8, 7, 127};

StatusOr<Handle> Copy(hid_t type, DType dtype) {
  return Own(H5Tcopy(type), "copy type", DTypeName(dtype));
}

// The fields are set before the size, or they would not fit.
StatusOr<Handle> CustomFloat(DType dtype, const FloatFields& f) {
  BELAY_ASSIGN_OR_RETURN(Handle type, Copy(H5T_IEEE_F32LE, dtype));
  BELAY_RETURN_IF_ERROR(
      Check(H5Tset_fields(type.get(), f.sign, f.exponent, f.exponent_bits, 0,
                          f.mantissa_bits),
            "set float fields", type.name()));
  BELAY_RETURN_IF_ERROR(
      Check(H5Tset_size(type.get(), f.bytes), "set type size", type.name()));
  BELAY_RETURN_IF_ERROR(Check(H5Tset_ebias(type.get(), f.bias),
                              "set exponent bias", type.name()));
  return type;
}

StatusOr<Handle> BoolType() {
  BELAY_ASSIGN_OR_RETURN(Handle type, Own(H5Tenum_create(H5T_STD_I8LE),
                                          "create enum type", "bool"));
  constexpr int8_t kFalse = 0;
  constexpr int8_t kTrue = 1;
  BELAY_RETURN_IF_ERROR(Check(H5Tenum_insert(type.get(), "FALSE", &kFalse),
                              "insert enum value", "bool"));
  BELAY_RETURN_IF_ERROR(Check(H5Tenum_insert(type.get(), "TRUE", &kTrue),
                              "insert enum value", "bool"));
  return type;
}

StatusOr<Handle> ComplexType(DType dtype, hid_t part, size_t part_bytes) {
  const std::string_view name = DTypeName(dtype);
  BELAY_ASSIGN_OR_RETURN(Handle type,
                         Own(H5Tcreate(H5T_COMPOUND, 2 * part_bytes),
                             "create compound type", name));
  BELAY_RETURN_IF_ERROR(
      Check(H5Tinsert(type.get(), "r", 0, part), "insert member", name));
  BELAY_RETURN_IF_ERROR(Check(H5Tinsert(type.get(), "i", part_bytes, part),
                              "insert member", name));
  return type;
}

StatusOr<Handle> StringType(int64_t bytes) {
  BELAY_ASSIGN_OR_RETURN(Handle type, Copy(H5T_C_S1, DType::kString));
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  BELAY_RETURN_IF_ERROR(
      Check(H5Tset_size(type.get(), size), "set type size", type.name()));
  BELAY_RETURN_IF_ERROR(Check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD),
                              "set string padding", type.name()));
  BELAY_RETURN_IF_ERROR(Check(H5Tset_cset(type.get(), H5T_CSET_UTF8),
                              "set character set", type.name()));
  return type;
}

StatusOr<Handle> NumberType(const ElementType& type) {
  const DType dtype = type.dtype;
  switch (dtype) {
    case DType::kF16:
      return CustomFloat(dtype, kF16Fields);
    case DType::kBF16:
      return CustomFloat(dtype, kBF16Fields);
    case DType::kF32:
      return Copy(H5T_IEEE_F32LE, dtype);
    case DType::kF64:
      return Copy(H5T_IEEE_F64LE, dtype);
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kU8:
      return Copy(H5T_STD_U8LE, dtype);
    case DType::kI8:
      return Copy(H5T_STD_I8LE, dtype);
    case DType::kI16:
      return Copy(H5T_STD_I16LE, dtype);
    case DType::kI32:
      return Copy(H5T_STD_I32LE, dtype);
    case DType::kI64:
      return Copy(H5T_STD_I64LE, dtype);
    case DType::kU16:
      return Copy(H5T_STD_U16LE, dtype);
    case DType::kU32:
      return Copy(H5T_STD_U32LE, dtype);
    case DType::kU64:
      return Copy(H5T_STD_U64LE, dtype);
    case DType::kBool:
      return BoolType();
    case DType::kC64:
      return ComplexType(dtype, H5T_IEEE_F32LE, 4);
    case DType::kC128:
      return ComplexType(dtype, H5T_IEEE_F64LE, 8);
    case DType::kString:
      return StringType(type.string_bytes);
  }
  return absl::InvalidArgumentError(
      Cat("create type: unknown dtype number ", static_cast<int>(dtype)));
}

StatusOr<Handle> FieldType(const StructField& field) {
  BELAY_ASSIGN_OR_RETURN(Handle type, NumberType({field.dtype}));
  if (field.shape.empty()) return type;
  return Own(
      H5Tarray_create2(type.get(), static_cast<unsigned>(field.shape.size()),
                       ToDims(field.shape).data()),
      "create array type", field.name);
}

StatusOr<Handle> StructType(const std::string& text) {
  BELAY_ASSIGN_OR_RETURN(const std::vector<StructField> fields,
                         ParseFields(text));
  BELAY_ASSIGN_OR_RETURN(
      Handle type,
      Own(H5Tcreate(H5T_COMPOUND, static_cast<size_t>(CountStructBytes(text))),
          "create compound type", text));
  for (const StructField& field : fields) {
    BELAY_ASSIGN_OR_RETURN(const Handle member, FieldType(field));
    BELAY_RETURN_IF_ERROR(
        Check(H5Tinsert(type.get(), field.name.c_str(),
                        static_cast<size_t>(field.offset), member.get()),
              "insert member", field.name));
  }
  return type;
}

StatusOr<Handle> MakeType(const ElementType& type) {
  InitLibrary();
  return type.fields.empty() ? NumberType(type) : StructType(type.fields);
}

constexpr DType kNumbers[] = {
    DType::kF16,    DType::kBF16, DType::kF32, DType::kF64, DType::kF8E4M3,
    DType::kF8E5M2, DType::kI8,   DType::kI16, DType::kI32, DType::kI64,
    DType::kU8,     DType::kU16,  DType::kU32, DType::kU64, DType::kBool,
    DType::kC64,    DType::kC128};

// The bytes of H5Tencode but for its first two, which are not of the message.
std::string ByHdf5(const ElementType& element) {
  const Handle type = Value(MakeType(element));
  size_t size = 0;
  EXPECT_GE(H5Tencode(type.get(), nullptr, &size), 0);
  std::string bytes(size, '\0');
  EXPECT_GE(H5Tencode(type.get(), bytes.data(), &size), 0);
  return bytes.substr(2);
}

void ExpectSame(const ElementType& type) {
  EXPECT_EQ(Value(EncodedType(type)), ByHdf5(type)) << type.fields;
  EXPECT_GT(H5Tequal(Value(FileType(type)).get(), Value(MakeType(type)).get()),
            0);
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
