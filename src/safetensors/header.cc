#include "safetensors/header.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "nlohmann/json.hpp"

namespace belay::safetensors {
namespace {

constexpr int64_t kAlignment = 8;

}  // namespace

std::optional<std::string_view> FormatName(DType dtype) {
  for (const FormatDType& known : kFormatDTypes) {
    if (known.dtype == dtype) return known.name;
  }
  return std::nullopt;
}

int FileOrder(DType dtype) {
  int order = 0;
  while (kFormatDTypes[order].dtype != dtype) ++order;
  return order;
}

StatusOr<int64_t> HeaderLength(std::string_view first, int64_t file_bytes) {
  if (file_bytes < kLengthBytes || std::ssize(first) < kLengthBytes) {
    return absl::DataLossError(
        absl::StrFormat("the file is too short to be safetensors (need at "
                        "least %d bytes, found %d)",
                        kLengthBytes, file_bytes));
  }
  uint64_t length = 0;
  std::memcpy(&length, first.data(), sizeof(length));
  if (length > uint64_t{kMaxHeaderBytes}) {
    return absl::DataLossError(
        absl::StrFormat("the header is above the limit, or this is not a "
                        "safetensors file (need "
                        "at most %d bytes, found %d)",
                        kMaxHeaderBytes, length));
  }
  const auto bytes = static_cast<int64_t>(length);
  if (kLengthBytes + bytes > file_bytes) {
    return absl::DataLossError(absl::StrFormat(
        "the file is cut off in its header (need %d bytes, found %d)",
        kLengthBytes + bytes, file_bytes));
  }
  return bytes;
}

StatusOr<std::string> JsonText(std::string_view text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    return absl::InvalidArgumentError(
        Cat("\"", text, "\" is not UTF-8, which safetensors requires"));
  }
}

StatusOr<std::string> TensorText(const FileTensor& tensor) {
  if (tensor.name == kMetadataName) {
    return absl::InvalidArgumentError(
        Cat("no tensor may be called \"", kMetadataName, "\""));
  }
  if (tensor.name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        Cat("the name \"", std::string_view(tensor.name).substr(0, 64),
            "...\" is too long (need at most ", kMaxNameBytes, " bytes, found ",
            tensor.name.size(), ")"));
  }
  BELAY_ASSIGN_OR_RETURN(const std::string name, JsonText(tensor.name));
  return absl::StrFormat(
      "%s:{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%d,%d]}", name,
      AbslView(*FormatName(tensor.dtype)), absl::StrJoin(tensor.shape, ","),
      tensor.begin, tensor.end);
}

StatusOr<std::string> HeaderText(const FileHeader& header) {
  std::vector<std::string> members;
  if (!header.metadata.empty()) {
    std::vector<std::string> texts;
    for (const auto& [name, text] : header.metadata) {
      BELAY_ASSIGN_OR_RETURN(const std::string json_name, JsonText(name));
      BELAY_ASSIGN_OR_RETURN(const std::string json_text, JsonText(text));
      texts.push_back(absl::StrCat(json_name, ":", json_text));
    }
    members.push_back(absl::StrFormat("\"%s\":{%s}", AbslView(kMetadataName),
                                      absl::StrJoin(texts, ",")));
  }
  for (const FileTensor& tensor : header.tensors) {
    BELAY_ASSIGN_OR_RETURN(members.emplace_back(), TensorText(tensor));
  }
  std::string text(kLengthBytes, '\0');
  absl::StrAppend(&text, "{", absl::StrJoin(members, ","), "}");
  while (std::ssize(text) % kAlignment != 0) text += ' ';
  const uint64_t length = text.size() - kLengthBytes;
  if (length > uint64_t{kMaxHeaderBytes}) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "too many tensors for the header of one file; cut the export with "
        "max_file_bytes (need at most %d bytes, found %d)",
        kMaxHeaderBytes, length));
  }
  std::memcpy(text.data(), &length, sizeof(length));
  return text;
}

// JSON is parsed event by event, because a tree would take ten times the memory
// and would hide repeated names.

namespace {

using nlohmann::json;

constexpr size_t kMaxAxes = 32;  // as in HDF5

// The members of one tensor that were parsed so far.
struct Described {
  std::string name;
  std::optional<std::string> dtype;
  std::optional<Shape> shape;
  std::optional<Shape> offsets;
};

// Handles events of the JSON parser. Each event returns true to continue.
class HeaderEvents {
 public:
  bool start_object(size_t) {
    if (place_ == Place::kStart) return Enter(Place::kHeader);
    if (place_ != Place::kHeader) return Unexpected("an object");
    if (key_ == kMetadataName) return Enter(Place::kMetadata);
    tensors_.push_back({.name = key_});
    return Enter(Place::kTensor);
  }

  bool key(std::string& text) {
    if (text.size() > kMaxNameBytes) {
      return Fail(Cat("a name is too long (need at most ", kMaxNameBytes,
                      " bytes, found ", text.size(), "): \"",
                      std::string_view(text).substr(0, 64), "...\""));
    }
    key_ = text;
    if (place_ == Place::kTensor) return KeyOfTensor();
    std::set<std::string>& seen =
        place_ == Place::kMetadata ? metadata_names_ : names_;
    if (place_ == Place::kMetadata && seen.size() == kMaxMetadata) {
      return Fail(Cat("\"", kMetadataName, "\" has too many members (need at ",
                      "most ", kMaxMetadata, ")"));
    }
    if (seen.insert(key_).second) return true;
    return Fail(absl::StrFormat("the name %s appears twice", Where()));
  }

  bool end_object() {
    if (place_ == Place::kHeader) return Enter(Place::kEnd);
    const bool is_whole = place_ == Place::kMetadata || IsWhole();
    key_.clear();
    return is_whole && Enter(Place::kHeader);
  }

  bool start_array(size_t) {
    if (place_ != Place::kTensor || key_ == "dtype") {
      return Unexpected("an array");
    }
    Numbers() = Shape();
    return Enter(Place::kNumbers);
  }

  bool end_array() { return Enter(Place::kTensor); }

  bool number_unsigned(uint64_t value) {
    if (place_ != Place::kNumbers) return Unexpected("a number");
    if (value > uint64_t{INT64_MAX}) return BadNumber(absl::StrCat(value));
    if (Numbers()->size() == kMaxAxes) return TooManyNumbers();
    Numbers()->push_back(static_cast<int64_t>(value));
    return true;
  }

  bool number_integer(int64_t value) {
    if (place_ != Place::kNumbers) return Unexpected("a number");
    return BadNumber(absl::StrCat(value));
  }

  bool number_float(double, const std::string& text) {
    if (place_ != Place::kNumbers) return Unexpected("a number");
    return BadNumber(text);
  }

  bool string(std::string& text) {
    if (place_ == Place::kMetadata) {
      metadata_[key_] = text;
      return true;
    }
    if (place_ != Place::kTensor || key_ != "dtype") {
      return Unexpected("a string");
    }
    tensors_.back().dtype = text;
    return true;
  }

  bool null() { return Unexpected("null"); }
  bool boolean(bool) { return Unexpected("a boolean"); }
  bool binary(json::binary_t&) { return Unexpected("binary data"); }

  bool parse_error(size_t position, const std::string&,
                   const json::exception& error) {
    // "[json.exception.parse_error.101] parse error at ...: WHAT"
    const std::string_view text = error.what();
    const size_t colon = text.find(": ");
    return Fail(Cat("the header is not JSON, at byte ", position, ": ",
                    colon == text.npos ? text : text.substr(colon + 2)));
  }

  const Status& status() const { return status_; }
  std::vector<Described>& tensors() { return tensors_; }
  Metadata& metadata() { return metadata_; }

 private:
  enum class Place { kStart, kHeader, kTensor, kNumbers, kMetadata, kEnd };

  bool Enter(Place place) {
    place_ = place;
    return true;
  }

  bool Fail(const std::string& message) {
    status_ = absl::DataLossError(Shortened(message));
    return false;
  }

  // Returns the current position, for messages.
  std::string Where() const {
    switch (place_) {
      case Place::kTensor:
      case Place::kNumbers:
        return absl::StrFormat("\"%s\" of tensor \"%s\"", key_,
                               tensors_.back().name);
      case Place::kMetadata:
        return Cat("\"", key_, "\" of \"", kMetadataName, "\"");
      default:
        return absl::StrFormat("\"%s\"", key_);
    }
  }

  bool Unexpected(std::string_view found) {
    const char* need = "an object";
    if (place_ == Place::kTensor)
      need = key_ == "dtype" ? "a string" : "an array";
    if (place_ == Place::kNumbers) need = "numbers";
    if (place_ == Place::kMetadata) need = "a string";
    return Fail(Cat("the header has another form at ", Where(), " (need ", need,
                    ", found ", found, ")"));
  }

  bool BadNumber(const std::string& found) {
    return Fail(absl::StrFormat(
        "a number is out of range in %s (need an integer from 0 to %d, found "
        "%s)",
        Where(), INT64_MAX, found));
  }

  bool TooManyNumbers() {
    Fail(absl::StrFormat("too many numbers in %s (need at most %d, found more)",
                         Where(), kMaxAxes));
    if (key_ == "shape") status_ = absl::UnimplementedError(status_.message());
    return false;
  }

  bool KeyOfTensor() {
    const Described& tensor = tensors_.back();
    const bool is_known =
        key_ == "dtype" || key_ == "shape" || key_ == "data_offsets";
    if (!is_known) {
      return Fail(absl::StrFormat(
          "tensor \"%s\" has a member that is not known (need dtype, shape and "
          "data_offsets, found \"%s\")",
          tensor.name, key_));
    }
    const bool is_new = key_ == "dtype"   ? !tensor.dtype
                        : key_ == "shape" ? !tensor.shape
                                          : !tensor.offsets;
    return is_new || Fail(absl::StrFormat("%s appears twice", Where()));
  }

  bool IsWhole() {
    const Described& tensor = tensors_.back();
    const char* missing = !tensor.dtype     ? "dtype"
                          : !tensor.shape   ? "shape"
                          : !tensor.offsets ? "data_offsets"
                                            : nullptr;
    if (missing == nullptr) return true;
    return Fail(
        absl::StrFormat("tensor \"%s\" has no %s", tensor.name, missing));
  }

  std::optional<Shape>& Numbers() {
    return key_ == "shape" ? tensors_.back().shape : tensors_.back().offsets;
  }

  Place place_ = Place::kStart;
  std::string key_;
  std::set<std::string> names_;
  std::set<std::string> metadata_names_;
  std::vector<Described> tensors_;
  Metadata metadata_;
  Status status_;
};

Status DamagedTensor(const Described& tensor, const std::string& what) {
  return absl::DataLossError(
      absl::StrFormat("tensor \"%s\": %s", tensor.name, what));
}

StatusOr<int64_t> CountBytes(const Described& tensor, int64_t bits) {
  const StatusOr<int64_t> elements = CheckedNumElements(*tensor.shape);
  int64_t all_bits = 0;
  if (!elements.ok() || __builtin_mul_overflow(*elements, bits, &all_bits)) {
    return DamagedTensor(tensor, absl::StrFormat("the shape %s is too large",
                                                 ShapeText(*tensor.shape)));
  }
  if (all_bits % 8 == 0) return all_bits / 8;
  return DamagedTensor(
      tensor, absl::StrFormat("the elements do not end at a byte (need a "
                              "multiple of 8 bits, found %d)",
                              all_bits));
}

StatusOr<FileTensor> Check(Described& tensor) {
  const auto* known = std::find_if(
      std::begin(kFormatDTypes), std::end(kFormatDTypes),
      [&](const FormatDType& dtype) { return dtype.name == *tensor.dtype; });
  if (known == std::end(kFormatDTypes)) {
    return absl::UnimplementedError(
        absl::StrFormat("tensor \"%s\": the dtype \"%s\" is not known",
                        Shortened(tensor.name), Shortened(*tensor.dtype)));
  }
  const Shape& offsets = *tensor.offsets;
  if (offsets.size() != 2) {
    return DamagedTensor(
        tensor, absl::StrFormat("data_offsets has another length (need 2, "
                                "found %d)",
                                offsets.size()));
  }
  if (offsets[1] < offsets[0]) {
    return DamagedTensor(tensor, absl::StrFormat("data_offsets end before they "
                                                 "begin (found %d to %d)",
                                                 offsets[0], offsets[1]));
  }
  BELAY_ASSIGN_OR_RETURN(const int64_t bytes, CountBytes(tensor, known->bits));
  if (offsets[1] - offsets[0] != bytes) {
    return DamagedTensor(
        tensor, absl::StrFormat("data_offsets do not fit dtype %s and shape %s "
                                "(need %d bytes, found %d)",
                                *tensor.dtype, ShapeText(*tensor.shape), bytes,
                                offsets[1] - offsets[0]));
  }
  return FileTensor{
      .name = std::move(tensor.name),
      .dtype = known->dtype.value_or(DType::kU8),
      .foreign_dtype = known->dtype ? "" : std::string(known->name),
      .shape = *std::move(tensor.shape),
      .begin = offsets[0],
      .end = offsets[1]};
}

// Checks that the tensors fill the data. `tensors` must be in the order of
// their offsets.
Status CheckCover(const std::vector<FileTensor>& tensors, int64_t data_bytes) {
  int64_t covered = 0;
  std::string_view last;
  for (const FileTensor& tensor : tensors) {
    if (tensor.begin < covered) {
      return absl::DataLossError(Cat("tensors overlap: \"", tensor.name,
                                     "\" begins at ", tensor.begin, ", \"",
                                     last, "\" ends at ", covered));
    }
    if (tensor.begin > covered) {
      return absl::DataLossError(
          absl::StrFormat("no tensor has the bytes %d to %d of the data, "
                          "before tensor \"%s\"",
                          covered, tensor.begin, tensor.name));
    }
    covered = tensor.end;
    last = tensor.name;
  }
  if (covered == data_bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "%s (need %d bytes of data, found %d)",
      covered > data_bytes ? "the file is cut off"
                           : "no tensor has the last bytes of the file",
      covered, data_bytes));
}

}  // namespace

StatusOr<FileHeader> ParseHeader(std::string_view text, int64_t data_bytes) {
  if (!text.starts_with('{')) {
    return absl::DataLossError(
        "the header does not begin with \"{\"; this is not a safetensors file");
  }
  // The parser would stop at a NUL character.
  if (const size_t at = text.find('\0'); at != text.npos) {
    return absl::DataLossError(
        absl::StrFormat("the header is not JSON, at byte %d: a NUL", at));
  }
  HeaderEvents events;
  if (!json::sax_parse(text, &events)) return events.status();
  FileHeader header;
  header.metadata = std::move(events.metadata());
  header.tensors.reserve(events.tensors().size());
  for (Described& tensor : events.tensors()) {
    BELAY_ASSIGN_OR_RETURN(header.tensors.emplace_back(), Check(tensor));
  }
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const FileTensor& a, const FileTensor& b) {
              return std::tie(a.begin, a.end, a.name) <
                     std::tie(b.begin, b.end, b.name);
            });
  BELAY_RETURN_IF_ERROR(CheckCover(header.tensors, data_bytes));
  return header;
}

}  // namespace belay::safetensors
