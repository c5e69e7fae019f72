#include "format/element_type.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/status_macros.h"
#include "core/struct_text.h"
#include "core/text.h"
#include "format/file_metadata.h"

namespace belay::h5 {

int64_t ElementBytes(const ElementType& type) {
  if (!type.fields.empty()) return CountStructBytes(type.fields);
  return type.dtype == DType::kString ? type.string_bytes
                                      : DTypeSize(type.dtype);
}

Shape DatasetAxes(const ElementType& type, Shape lengths) {
  if (!type.fields.empty() && !lengths.empty()) lengths.pop_back();
  return lengths;
}

StatusOr<Box> DatasetBox(const ElementType& type, Box box) {
  if (type.fields.empty()) return box;
  // A box without axes would select the one element of a scalar.
  if (IsEmpty(box) && box.shape.size() < 2) return Box{{0}, {0}};
  if (IsEmpty(box)) {
    return Box{DatasetAxes(type, std::move(box.offset)),
               DatasetAxes(type, std::move(box.shape))};
  }
  if (box.shape.empty() || box.offset.back() != 0 ||
      box.shape.back() != ElementBytes(type)) {
    return absl::InternalError(Cat("box \"", BoxText(box),
                                   "\" has parts of structs of ",
                                   ElementBytes(type), " bytes"));
  }
  box.offset.pop_back();
  box.shape.pop_back();
  return box;
}

bool NeedsDTypeAttribute(DType dtype) {
  return dtype == DType::kF8E4M3 || dtype == DType::kF8E5M2;
}

// --- Dataset spec ---

ElementType GetElementType(const DatasetSpec& spec) {
  return {spec.dtype, spec.string_bytes, spec.fields};
}

bool HasBytes(const DatasetSpec& spec) {
  return NumElements(spec.shape) > 0 && ElementBytes(GetElementType(spec)) > 0;
}

int64_t StoredBytes(const DatasetSpec& spec) {
  int64_t bytes = ElementBytes({spec.dtype, spec.string_bytes});
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    int64_t length = spec.shape[i];
    if (!spec.chunk.empty()) {
      length = (length + spec.chunk[i] - 1) / spec.chunk[i] * spec.chunk[i];
    }
    bytes *= length;
  }
  return bytes;
}

// --- Encoded type ---

namespace {

enum class TypeClass {
  kInteger = 0,
  kFloat = 1,
  kText = 3,
  kCompound = 6,
  kEnum = 8,
  kArray = 10,
};

// Returns the beginning that all types share. The meaning of `bits` depends on
// the class.
std::string TypeHeader(TypeClass type_class, int version, int64_t bits,
                       int64_t bytes) {
  std::string out;
  PutNumber(out, version << 4 | static_cast<int>(type_class), 1);
  PutNumber(out, bits, 3);
  PutNumber(out, bytes, 4);
  return out;
}

std::string EncodedInteger(int64_t bytes, bool is_signed) {
  constexpr int kSigned = 0x08;
  std::string out =
      TypeHeader(TypeClass::kInteger, 1, is_signed ? kSigned : 0, bytes);
  PutNumber(out, 0, 2);          // offset of the first bit
  PutNumber(out, 8 * bytes, 2);  // number of bits
  return out;
}

// The sign is the highest bit, followed by the exponent and the mantissa.
std::string EncodedFloat(int64_t bytes, int exponent_bits) {
  constexpr int kLeadingOneNotStored = 0x20;
  const int64_t bits = 8 * bytes;
  const int64_t mantissa_bits = bits - 1 - exponent_bits;
  std::string out = TypeHeader(TypeClass::kFloat, 1,
                               kLeadingOneNotStored | (bits - 1) << 8, bytes);
  PutNumber(out, 0, 2);
  PutNumber(out, bits, 2);
  PutNumber(out, mantissa_bits, 1);  // where the exponent begins
  PutNumber(out, exponent_bits, 1);
  PutNumber(out, 0, 1);  // where the mantissa begins
  PutNumber(out, mantissa_bits, 1);
  PutNumber(out, (int64_t{1} << (exponent_bits - 1)) - 1, 4);  // bias
  return out;
}

std::string EncodedText(int64_t bytes) {
  constexpr int kPaddedWithNul = 0x01;
  constexpr int kUtf8 = 0x10;
  return TypeHeader(TypeClass::kText, 1, kPaddedWithNul | kUtf8,
                    std::max<int64_t>(bytes, 1));
}

// The version of compound, enum and array types that HDF5 writes to files.
constexpr int kInFile = 3;

// Appends a name and a NUL. Before version 3, pads to a multiple of 8 bytes.
void PutName(std::string& out, std::string_view name, int version) {
  out += name;
  out.append(version == kInFile ? 1 : 8 - name.size() % 8, '\0');
}

std::string EncodedBool(int version) {
  std::string out = TypeHeader(TypeClass::kEnum, version, 2, 1);
  out += EncodedInteger(1, true);
  PutName(out, "FALSE", version);
  PutName(out, "TRUE", version);
  PutNumber(out, 0, 1);
  PutNumber(out, 1, 1);
  return out;
}

// `struct_bytes` is the size of the whole struct.
void PutMember(std::string& out, std::string_view name, int64_t offset,
               std::string_view type, int64_t struct_bytes, int version) {
  // In version 1, zeros here mean that the member is not an array.
  constexpr int kOldArrayBytes = 28;
  PutName(out, name, version);
  const int width =
      (std::bit_width(static_cast<uint64_t>(struct_bytes)) + 7) / 8;
  PutNumber(out, offset, version == kInFile ? width : 4);
  if (version == 1) out.append(kOldArrayBytes, '\0');
  out += type;
}

std::string EncodedComplex(int64_t bytes, int version) {
  const std::string part =
      bytes == 8 ? EncodedFloat(4, 8) : EncodedFloat(8, 11);
  std::string out = TypeHeader(TypeClass::kCompound, version, 2, bytes);
  PutMember(out, "r", 0, part, bytes, version);
  PutMember(out, "i", bytes / 2, part, bytes, version);
  return out;
}

// `version` applies to compound and enum types.
StatusOr<std::string> EncodedNumber(DType dtype, int version) {
  switch (dtype) {
    case DType::kF16:
      return EncodedFloat(2, 5);
    case DType::kBF16:
      return EncodedFloat(2, 8);
    case DType::kF32:
      return EncodedFloat(4, 8);
    case DType::kF64:
      return EncodedFloat(8, 11);
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
      return EncodedInteger(DTypeSize(dtype), true);
    case DType::kF8E4M3:
    case DType::kF8E5M2:
    case DType::kU8:
    case DType::kU16:
    case DType::kU32:
    case DType::kU64:
      return EncodedInteger(DTypeSize(dtype), false);
    case DType::kBool:
      return EncodedBool(version);
    case DType::kC64:
    case DType::kC128:
      return EncodedComplex(DTypeSize(dtype), version);
    case DType::kString:
      break;
  }
  return absl::InvalidArgumentError(
      Cat("encode type: no number has dtype ", static_cast<int>(dtype)));
}

// `version` is 2 or 3.
std::string EncodedArray(const StructField& field, std::string_view element,
                         int version) {
  std::string out =
      TypeHeader(TypeClass::kArray, version, 0, FieldBytes(field));
  PutNumber(out, std::ssize(field.shape), 1);
  if (version != kInFile) PutNumber(out, 0, 3);
  for (const int64_t length : field.shape) PutNumber(out, length, 4);
  if (version == kInFile) return out.append(element);
  for (size_t axis = 0; axis < field.shape.size(); ++axis) {
    PutNumber(out, static_cast<int64_t>(axis), 4);
  }
  out += element;
  return out;
}

StatusOr<std::string> EncodedStruct(const std::string& text, bool in_file) {
  BELAY_ASSIGN_OR_RETURN(const std::vector<StructField> fields,
                         ParseFields(text));
  const auto first_array = std::find_if(
      fields.begin(), fields.end(),
      [](const StructField& field) { return !field.shape.empty(); });
  const int64_t bytes = CountStructBytes(text);
  const int without_arrays = in_file ? kInFile : 1;
  const int with_arrays = in_file ? kInFile : 2;
  const int version =
      first_array == fields.end() ? without_arrays : with_arrays;
  std::string out =
      TypeHeader(TypeClass::kCompound, version, std::ssize(fields), bytes);
  for (auto field = fields.begin(); field != fields.end(); ++field) {
    // When HDF5 adds the first array, it re-encodes the existing members.
    BELAY_ASSIGN_OR_RETURN(
        std::string type,
        EncodedNumber(field->dtype,
                      field <= first_array ? version : without_arrays));
    if (!field->shape.empty()) {
      type = EncodedArray(*field, type, with_arrays);
    }
    PutMember(out, field->name, field->offset, type, bytes, version);
  }
  return out;
}

}  // namespace

StatusOr<std::string> EncodedType(const ElementType& type, bool in_file) {
  if (!type.fields.empty()) return EncodedStruct(type.fields, in_file);
  if (type.dtype == DType::kString) return EncodedText(type.string_bytes);
  return EncodedNumber(type.dtype, in_file ? kInFile : 1);
}

}  // namespace belay::h5
