#include "hdf5/types.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/status_macros.h"
#include "core/struct_text.h"
#include "core/text.h"
#include "hdf5/dataset.h"
#include "hdf5/file.h"
#include "hdf5/handle.h"
#include "hdf5/native_read.h"

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

// --- Native type ---

namespace {

using MaybeDType = std::optional<DType>;

std::string_view ClassName(H5T_class_t type_class) {
  switch (type_class) {
    case H5T_INTEGER:
      return "integer";
    case H5T_FLOAT:
      return "float";
    case H5T_TIME:
      return "time";
    case H5T_STRING:
      return "string";
    case H5T_BITFIELD:
      return "bit field";
    case H5T_OPAQUE:
      return "opaque";
    case H5T_COMPOUND:
      return "compound";
    case H5T_REFERENCE:
      return "reference";
    case H5T_ENUM:
      return "enum";
    case H5T_VLEN:
      return "variable-length list";
    case H5T_ARRAY:
      return "array";
    default:
      return "unknown";
  }
}

MaybeDType IntegerDType(size_t bytes, bool has_sign) {
  switch (bytes) {
    case 1:
      return has_sign ? DType::kI8 : DType::kU8;
    case 2:
      return has_sign ? DType::kI16 : DType::kU16;
    case 4:
      return has_sign ? DType::kI32 : DType::kU32;
    case 8:
      return has_sign ? DType::kI64 : DType::kU64;
    default:
      return {};
  }
}

MaybeDType FloatDType(size_t bytes, size_t exponent_bits) {
  if (bytes == 2 && exponent_bits == 5) return DType::kF16;
  if (bytes == 2 && exponent_bits == 8) return DType::kBF16;
  if (bytes == 4) return DType::kF32;
  if (bytes == 8) return DType::kF64;
  return {};
}

StatusOr<std::string> NameOfMember(const Handle& type, unsigned index) {
  char* name = H5Tget_member_name(type.get(), index);
  BELAY_RETURN_IF_ERROR(
      Judge(name != nullptr, "get member name of", type.name()));
  std::string text(name);
  H5free_memory(name);
  return text;
}

// Whether the members have these two names, in this order.
StatusOr<bool> HasMembers(const Handle& type, std::string_view first,
                          std::string_view second) {
  BELAY_ASSIGN_OR_RETURN(
      const int64_t count,
      Number(H5Tget_nmembers(type.get()), "count members of", type.name()));
  if (count != 2) return false;
  BELAY_ASSIGN_OR_RETURN(const std::string name_0, NameOfMember(type, 0));
  BELAY_ASSIGN_OR_RETURN(const std::string name_1, NameOfMember(type, 1));
  return name_0 == first && name_1 == second;
}

StatusOr<Handle> TypeOfMember(const Handle& type, unsigned index) {
  return Own(H5Tget_member_type(type.get(), index), "get member type of",
             type.name());
}

// The members of h5py and of belay.
StatusOr<MaybeDType> ComplexDType(const Handle& type) {
  BELAY_ASSIGN_OR_RETURN(const bool is_complex, HasMembers(type, "r", "i"));
  if (!is_complex) return MaybeDType();
  size_t bytes[2] = {};
  for (const unsigned index : {0u, 1u}) {
    BELAY_ASSIGN_OR_RETURN(const Handle part, TypeOfMember(type, index));
    if (H5Tget_class(part.get()) == H5T_FLOAT) {
      bytes[index] = H5Tget_size(part.get());
    }
  }
  if (bytes[0] == 4 && bytes[1] == 4) return DType::kC64;
  if (bytes[0] == 8 && bytes[1] == 8) return DType::kC128;
  return MaybeDType();
}

StatusOr<MaybeDType> BoolDType(const Handle& type) {
  BELAY_ASSIGN_OR_RETURN(const bool is_bool, HasMembers(type, "FALSE", "TRUE"));
  return is_bool ? DType::kBool : MaybeDType();
}

// Whether an attribute is one text of a fixed length: what H5Aread writes is as
// long as the file says.
StatusOr<bool> IsOneText(const Handle& attribute) {
  BELAY_ASSIGN_OR_RETURN(
      const Handle space,
      Own(H5Aget_space(attribute.get()), "get dataspace of", attribute.name()));
  BELAY_ASSIGN_OR_RETURN(
      const Handle type,
      Own(H5Aget_type(attribute.get()), "get type of", attribute.name()));
  return H5Sget_simple_extent_npoints(space.get()) == 1 &&
         H5Tget_class(type.get()) == H5T_STRING &&
         H5Tis_variable_str(type.get()) == 0 &&
         H5Tget_cset(type.get()) == H5T_CSET_UTF8;
}

// The name that belay gave a dataset whose type does not tell, else `dtype`.
StatusOr<MaybeDType> NamedDType(const Handle& dataset, DType dtype) {
  BELAY_ASSIGN_OR_RETURN(const int64_t has_name,
                         Number(H5Aexists(dataset.get(), kDTypeAttribute),
                                "look for attribute of", dataset.name()));
  if (has_name == 0) return dtype;
  BELAY_ASSIGN_OR_RETURN(
      const Handle attribute,
      Own(H5Aopen(dataset.get(), kDTypeAttribute, H5P_DEFAULT),
          "open attribute of", dataset.name()));
  // One of another program, or made up.
  BELAY_ASSIGN_OR_RETURN(const bool is_text, IsOneText(attribute));
  if (!is_text) return dtype;
  char name[16] = "";
  BELAY_ASSIGN_OR_RETURN(const Handle type,
                         FileType({DType::kString, sizeof(name) - 1}));
  BELAY_RETURN_IF_ERROR(Check(H5Aread(attribute.get(), type.get(), name),
                              "read attribute of", dataset.name()));
  for (const DType known : {DType::kF8E4M3, DType::kF8E5M2}) {
    if (DTypeName(known) == name) return known;
  }
  return dtype;
}

StatusOr<MaybeDType> DTypeOfType(const Handle& dataset, const Handle& type) {
  const hid_t id = type.get();
  const size_t bytes = H5Tget_size(id);
  switch (H5Tget_class(id)) {
    case H5T_INTEGER: {
      const MaybeDType dtype =
          IntegerDType(bytes, H5Tget_sign(id) == H5T_SGN_2);
      if (dtype != DType::kU8) return dtype;
      return NamedDType(dataset, *dtype);
    }
    case H5T_FLOAT: {
      size_t sign, exponent, exponent_bits, mantissa, mantissa_bits;
      BELAY_RETURN_IF_ERROR(
          Check(H5Tget_fields(id, &sign, &exponent, &exponent_bits, &mantissa,
                              &mantissa_bits),
                "get float fields of", dataset.name()));
      return FloatDType(bytes, exponent_bits);
    }
    case H5T_COMPOUND:
      return ComplexDType(type);
    case H5T_ENUM:
      return BoolDType(type);
    case H5T_STRING:
      return DType::kString;
    default:
      return MaybeDType();
  }
}

// What keeps an array of a known type from being one of belay's.
StatusOr<std::string> SpaceProblem(const Handle& dataset,
                                   const NativeArray& array) {
  const bool is_text = array.dtype == DType::kString;
  if (is_text && !array.shape.empty()) return "is an array of texts";
  BELAY_ASSIGN_OR_RETURN(
      const Handle space,
      Own(H5Dget_space(dataset.get()), "get dataspace of", dataset.name()));
  const bool is_null = H5Sget_simple_extent_type(space.get()) == H5S_NULL;
  return is_null && !is_text ? "has no values" : "";
}

// As many as can be counted.
StatusOr<int64_t> BytesOfElements(const Handle& dataset, const Handle& type) {
  BELAY_ASSIGN_OR_RETURN(
      const Handle space,
      Own(H5Dget_space(dataset.get()), "get dataspace of", dataset.name()));
  BELAY_ASSIGN_OR_RETURN(const int64_t elements,
                         Number(H5Sget_simple_extent_npoints(space.get()),
                                "count elements of", dataset.name()));
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto size =
      static_cast<int64_t>(std::max<size_t>(H5Tget_size(type.get()), 1));
  return elements > kMost / size ? kMost : elements * size;
}

}  // namespace

StatusOr<NativeArray> DescribeDataset(const Handle& dataset) {
  BELAY_ASSIGN_OR_RETURN(const Handle type, Own(H5Dget_type(dataset.get()),
                                                "get type of", dataset.name()));
  NativeArray array;
  BELAY_ASSIGN_OR_RETURN(array.shape, DatasetShape(dataset));
  BELAY_ASSIGN_OR_RETURN(const MaybeDType dtype, DTypeOfType(dataset, type));
  if (!dtype.has_value()) {
    array.problem = Cat("has elements that belay does not know (",
                        ClassName(H5Tget_class(type.get())), " of ",
                        H5Tget_size(type.get()), " bytes)");
    return array;
  }
  array.dtype = *dtype;
  BELAY_ASSIGN_OR_RETURN(array.problem, SpaceProblem(dataset, array));
  BELAY_ASSIGN_OR_RETURN(array.bytes, BytesOfElements(dataset, type));
  // To look costs time, if they are many chunks.
  constexpr int64_t kFewBytes = int64_t{1} << 20;
  array.stored_bytes = array.bytes;
  if (array.bytes > kFewBytes) {
    BELAY_ASSIGN_OR_RETURN(array.stored_bytes, StoredBytes(dataset));
  }
  return array;
}

}  // namespace belay::h5
