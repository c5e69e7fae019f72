
#include <algorithm>
#include <limits>

#include "core/status_macros.h"
#include "core/text.h"
#include "hdf5/file.h"
#include "hdf5/native_read.h"

namespace belay::h5 {
namespace {

// Prepends the bytes that H5Tencode writes before a datatype message.
std::string AsByH5Tencode(std::string_view message) {
  constexpr char kDatatypeMessage = 3;
  constexpr char kVersion = 0;
  return std::string{kDatatypeMessage, kVersion}.append(message);
}

}  // namespace

StatusOr<Handle> FileType(const ElementType& type) {
  InitLibrary();
  if (type.string_bytes > UINT32_MAX) {
    return absl::InvalidArgumentError(
        Cat("create type: a text is too long for HDF5 (need at most ",
            UINT32_MAX, " bytes, found ", type.string_bytes, ")"));
  }
  BELAY_ASSIGN_OR_RETURN(const std::string message, EncodedType(type));
  const bool is_struct = !type.fields.empty();
  return Own(H5Tdecode(AsByH5Tencode(message).data()), "create type",
             is_struct ? type.fields : DTypeName(type.dtype));
}

Status CheckStoredType(const Handle& dataset, const ElementType& type) {
  BELAY_ASSIGN_OR_RETURN(const Handle want, FileType(type));
  BELAY_ASSIGN_OR_RETURN(const Handle found, GetType(dataset));
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
  constexpr std::string_view kNames[] = {
      "integer", "float",    "time",      "string", "bit field",
      "opaque",  "compound", "reference", "enum",   "variable-length list",
      "array"};
  static_assert(H5T_INTEGER == 0 && H5T_ARRAY == 10);
  const bool is_known = type_class >= H5T_INTEGER && type_class <= H5T_ARRAY;
  return is_known ? kNames[type_class] : "unknown";
}

MaybeDType IntegerDType(size_t bytes, bool has_sign) {
  constexpr DType kSigned[] = {DType::kI8, DType::kI16, DType::kI32,
                               DType::kI64};
  constexpr DType kUnsigned[] = {DType::kU8, DType::kU16, DType::kU32,
                                 DType::kU64};
  for (const DType dtype : has_sign ? kSigned : kUnsigned) {
    if (static_cast<size_t>(DTypeSize(dtype)) == bytes) return dtype;
  }
  return {};
}

MaybeDType FloatDType(size_t bytes, size_t exponent_bits) {
  if (bytes == 2 && exponent_bits == 5) return DType::kF16;
  if (bytes == 2 && exponent_bits == 8) return DType::kBF16;
  if (bytes == 4) return DType::kF32;
  if (bytes == 8) return DType::kF64;
  return {};
}

StatusOr<std::string> MemberName(const Handle& type, unsigned index) {
  char* name = H5Tget_member_name(type.get(), index);
  BELAY_RETURN_IF_ERROR(
      Judge(name != nullptr, "get member name of", type.name()));
  std::string text(name);
  H5free_memory(name);
  return text;
}

// Returns true if there are exactly two members, with these names in this
// order.
StatusOr<bool> HasMembers(const Handle& type, std::string_view first,
                          std::string_view second) {
  BELAY_ASSIGN_OR_RETURN(
      const int64_t count,
      Number(H5Tget_nmembers(type.get()), "count members of", type.name()));
  if (count != 2) return false;
  BELAY_ASSIGN_OR_RETURN(const std::string name_0, MemberName(type, 0));
  BELAY_ASSIGN_OR_RETURN(const std::string name_1, MemberName(type, 1));
  return name_0 == first && name_1 == second;
}

StatusOr<Handle> MemberType(const Handle& type, unsigned index) {
  return Own(H5Tget_member_type(type.get(), index), "get member type of",
             type.name());
}

// Recognizes the members that h5py and belay use.
StatusOr<MaybeDType> ComplexDType(const Handle& type) {
  BELAY_ASSIGN_OR_RETURN(const bool is_complex, HasMembers(type, "r", "i"));
  if (!is_complex) return MaybeDType();
  size_t bytes[2] = {};
  for (const unsigned index : {0u, 1u}) {
    BELAY_ASSIGN_OR_RETURN(const Handle part, MemberType(type, index));
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

// Returns true if an attribute is a single string of fixed length. For others,
// H5Aread would write as many bytes as the file claims.
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

// Returns the dtype that belay's attribute names if the type is ambiguous, else
// `dtype`.
StatusOr<MaybeDType> NamedDType(const Handle& dataset, DType dtype) {
  BELAY_ASSIGN_OR_RETURN(const int64_t has_name,
                         Number(H5Aexists(dataset.get(), kDTypeAttribute),
                                "look for attribute of", dataset.name()));
  if (has_name == 0) return dtype;
  BELAY_ASSIGN_OR_RETURN(
      const Handle attribute,
      Own(H5Aopen(dataset.get(), kDTypeAttribute, H5P_DEFAULT),
          "open attribute of", dataset.name()));
  // The attribute may be from another program, or forged.
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

StatusOr<MaybeDType> FindDType(const Handle& dataset, const Handle& type) {
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

}  // namespace

StatusOr<NativeArray> DescribeDataset(const Handle& dataset) {
  BELAY_ASSIGN_OR_RETURN(const Handle type, GetType(dataset));
  NativeArray array;
  BELAY_ASSIGN_OR_RETURN(array.shape, DatasetShape(dataset));
  BELAY_ASSIGN_OR_RETURN(const MaybeDType dtype, FindDType(dataset, type));
  if (!dtype.has_value()) {
    array.problem = Cat("has elements that belay does not know (",
                        ClassName(H5Tget_class(type.get())), " of ",
                        H5Tget_size(type.get()), " bytes)");
    return array;
  }
  array.dtype = *dtype;
  BELAY_ASSIGN_OR_RETURN(const Handle space, GetSpace(dataset));
  const bool is_text = array.dtype == DType::kString;
  if (is_text && !array.shape.empty()) {
    array.problem = "is an array of texts";
  } else if (!is_text && H5Sget_simple_extent_type(space.get()) == H5S_NULL) {
    array.problem = "has no values";
  }
  BELAY_ASSIGN_OR_RETURN(const int64_t elements,
                         Number(H5Sget_simple_extent_npoints(space.get()),
                                "count elements of", dataset.name()));
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const auto size =
      static_cast<int64_t>(std::max<size_t>(H5Tget_size(type.get()), 1));
  array.bytes = elements > kMax / size ? kMax : elements * size;
  // StoredBytes is slow if there are many chunks.
  constexpr int64_t kFewBytes = int64_t{1} << 20;
  array.stored_bytes = array.bytes;
  if (array.bytes > kFewBytes) {
    BELAY_ASSIGN_OR_RETURN(array.stored_bytes, StoredBytes(dataset));
  }
  return array;
}

}  // namespace belay::h5
