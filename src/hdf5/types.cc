#include "hdf5/types.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "bytes/struct_text.h"
#include "hdf5/error.h"
#include "hdf5/property.h"

namespace belay::h5 {
namespace {

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
      Own(H5Tcreate(H5T_COMPOUND, static_cast<size_t>(BytesOfFields(text))),
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

}  // namespace

StatusOr<Handle> FileType(const ElementType& type) {
  InitLibrary();
  return type.fields.empty() ? NumberType(type) : StructType(type.fields);
}

Status CheckStoredType(const Handle& dataset, const ElementType& type) {
  BELAY_ASSIGN_OR_RETURN(const Handle want, FileType(type));
  BELAY_ASSIGN_OR_RETURN(const Handle found, Own(H5Dget_type(dataset.get()),
                                                 "get type", dataset.name()));
  BELAY_ASSIGN_OR_RETURN(const int64_t equal,
                         Number(H5Tequal(want.get(), found.get()),
                                "compare types", dataset.name()));
  if (equal != 0) return absl::OkStatus();
  std::string need(DTypeName(type.dtype));
  if (type.dtype == DType::kString) need += Cat(" of ", type.string_bytes);
  if (!type.fields.empty()) need = Cat("a struct of ", type.fields);
  return absl::DataLossError(
      Cat("read \"", dataset.name(), "\": the stored type is not ", need));
}

Status NameDType(const Handle& dataset, DType dtype) {
  if (!NeedsDTypeAttribute(dtype)) return absl::OkStatus();
  const std::string_view name = DTypeName(dtype);
  const auto bytes = static_cast<int64_t>(name.size());
  BELAY_ASSIGN_OR_RETURN(const Handle type, FileType({DType::kString, bytes}));
  BELAY_ASSIGN_OR_RETURN(const Handle space, NewSpace({}, dataset.name()));
  BELAY_ASSIGN_OR_RETURN(
      Handle attribute,
      Own(H5Acreate2(dataset.get(), kDTypeAttribute, type.get(), space.get(),
                     H5P_DEFAULT, H5P_DEFAULT),
          "create attribute of", dataset.name()));
  BELAY_RETURN_IF_ERROR(
      Check(H5Awrite(attribute.get(), type.get(), name.data()),
            "write attribute of", dataset.name()));
  return attribute.Close();
}

}  // namespace belay::h5
