// The header of a safetensors file, and its dtypes.

#ifndef BELAY_SAFETENSORS_HEADER_H_
#define BELAY_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/status.h"

namespace belay::safetensors {

// The dtypes of the safetensors format.

struct FormatDType {
  std::string_view name;
  std::optional<DType> dtype;  // unset: belay has no such dtype
  int64_t bits = 0;            // per element
};

// In the order of tensors in a file.
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

// A safetensors file.
//
//   8 bytes  the length of the header, little-endian
//   header   JSON: {"__metadata__": {"NAME": "TEXT"}, "NAME": {"dtype": "F32",
//            "shape": [2, 3], "data_offsets": [0, 24]}}, padded with spaces
//   data     the tensors, dense and row-major, one after another
//
// Headers are not trusted. Error messages do not name the file.

// Maximum bytes of a header and of all headers of an import, and the bytes of
// the length field.
inline constexpr int64_t kMaxHeaderBytes = 100'000'000;
inline constexpr int64_t kMaxHeaderBytesOfAll = 2 * kMaxHeaderBytes;
inline constexpr int64_t kLengthBytes = 8;
// Maximum bytes of a name, and maximum number of metadata entries in a file.
inline constexpr size_t kMaxNameBytes = 65'536;
inline constexpr size_t kMaxMetadata = 100'000;
// No tensor may have this name.
inline constexpr std::string_view kMetadataName = "__metadata__";

// One tensor of a file.
struct FileTensor {
  std::string name;
  DType dtype = DType::kU8;
  // The name of the dtype if belay does not have it. If set, `dtype` is
  // meaningless.
  std::string foreign_dtype = {};
  Shape shape = {};
  // The tensor's bytes in the data, [begin, end).
  int64_t begin = 0;
  int64_t end = 0;

  friend bool operator==(const FileTensor&, const FileTensor&) = default;
};

using Metadata = std::map<std::string, std::string>;

struct FileHeader {
  std::vector<FileTensor> tensors;  // ascending by `begin`
  Metadata metadata;

  friend bool operator==(const FileHeader&, const FileHeader&) = default;
};

// Returns the format's name of a dtype, or nullopt if the format does not have
// it.
std::optional<std::string_view> FormatName(DType dtype);

// Returns the length of the header from the first bytes of a file.
// Errors: DataLoss - the file is too short, or the length is above the limit.
StatusOr<int64_t> HeaderLength(std::string_view first, int64_t file_bytes);

// Parses a header that is followed by `data_bytes` bytes.
// Errors: DataLoss - it is not a header in JSON, a name appears twice, a number
//   is negative or too large, dtype, shape and offsets do not match, tensors
//   overlap or do not fill the data, a name or the metadata are above the
//   limit; Unimplemented - an unknown dtype, or more than 32 axes.
StatusOr<FileHeader> ParseHeader(std::string_view text, int64_t data_bytes);

// Returns the member of the header that describes a tensor.
// Errors: InvalidArgument - its name is invalid or above the limit.
StatusOr<std::string> TensorText(const FileTensor& tensor);

// Returns the beginning of a file: the length and the header, padded to a
// multiple of 8 bytes. Requires dtypes that the format has.
// Errors: those of TensorText; InvalidArgument - metadata that is not UTF-8, or
//   the header is above the limit.
StatusOr<std::string> HeaderText(const FileHeader& header);

// Returns the dtype's position in the order of tensors in a file, which is the
// order of the reference implementation. Requires a dtype that the format has.
int FileOrder(DType dtype);

// Returns the text as a JSON string, in quotes.
// Errors: InvalidArgument - it is not UTF-8.
StatusOr<std::string> JsonText(std::string_view text);

}  // namespace belay::safetensors

#endif  // BELAY_SAFETENSORS_HEADER_H_
