#include "belay/arrays/tensor.h"

#include <cstring>
#include <new>
#include <stdexcept>

#include "absl/strings/str_format.h"
#include "core/flat_buffer.h"
#include "core/integers.h"
#include "core/selection.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

// Throws bad_alloc if the product would overflow.
int64_t CheckedBytes(int64_t elements, DType dtype) {
  const int64_t size = DTypeSize(dtype);
  if (size > 0 && elements > INT64_MAX / size) throw std::bad_alloc();
  return elements * size;
}

}  // namespace

Tensor::Tensor(DType dtype, const Shape& shape)
    : dtype_(dtype),
      shape_(shape),
      num_elements_(NumElements(shape)),
      data_(NewBytes(CheckedBytes(num_elements_, dtype))) {}

Tensor Tensor::CopyOf(DType dtype, const Shape& shape, const void* data) {
  Tensor tensor(dtype, shape);
  if (tensor.num_bytes() > 0) {
    std::memcpy(tensor.data(), data, tensor.num_bytes());
  }
  return tensor;
}

void Tensor::CheckCount(size_t values) const {
  if (static_cast<int64_t>(values) == num_elements_) return;
  throw std::invalid_argument(
      absl::StrFormat("make a tensor of shape %s: wrong number of values (need "
                      "%d, found %d)",
                      ShapeText(shape_), num_elements_, values));
}

void Tensor::ThrowOtherDType(DType wanted) const {
  throw std::invalid_argument(
      absl::StrFormat("values of a tensor: another dtype (need %s, found %s)",
                      DTypeName(wanted), DTypeName(dtype_)));
}

// --- Indexing ---

StatusOr<Tensor> GetItem(const Tensor& x, const Index& index) {
  BELAY_ASSIGN_OR_RETURN(const Selection selection, Select(x.shape(), index));
  Tensor result(x.dtype(), selection.result_shape);
  CopySelected(selection, DTypeSize(x.dtype()), 0, {0, NumRows(selection)},
               x.data(), result.data());
  return result;
}

Status SetItem(Tensor& x, const Index& index, const Tensor& value) {
  if (x.dtype() != value.dtype()) {
    return absl::InvalidArgumentError(
        Cat("assign to \"", IndexText(index), "\": another dtype (need ",
            DTypeName(x.dtype()), ", found ", DTypeName(value.dtype()), ")"));
  }
  BELAY_ASSIGN_OR_RETURN(const Selection selection, Select(x.shape(), index));
  const RowPart all{0, NumRows(selection)};
  BELAY_ASSIGN_OR_RETURN(const Tensor rows,
                         BroadcastToRows(selection, value, all));
  ScatterSelected(selection, DTypeSize(x.dtype()), 0, all, rows.data(),
                  x.data());
  return absl::OkStatus();
}

// --- Index text ---

namespace {

struct ItemText {
  std::string operator()(int64_t position) const { return Cat(position); }

  std::string operator()(const Slice& slice) const {
    const auto text = [](const std::optional<int64_t>& end) {
      return end.has_value() ? Cat(*end) : "";
    };
    return Cat(text(slice.start), ":", text(slice.stop),
               slice.step.has_value() ? ":" : "", text(slice.step));
  }

  std::string operator()(const Ellipsis&) const { return "..."; }

  std::string operator()(const NewAxis&) const { return "newaxis"; }

  std::string operator()(const Tensor* mask) const {
    if (mask == nullptr) return "mask";
    return Cat(mask->dtype() == DType::kBool ? "mask" : "tensor",
               ShapeText(mask->shape()));
  }
};

StatusOr<int64_t> ParseInteger(std::string_view text) {
  if (const auto value = ParseNumber<int64_t>(text)) return *value;
  return absl::InvalidArgumentError(
      Cat("\"", text, "\" is not an integer of 64 bits"));
}

StatusOr<std::optional<int64_t>> ParseEnd(std::string_view text) {
  text = StripBlanks(text);
  if (text.empty() || text == "None") return std::nullopt;
  BELAY_ASSIGN_OR_RETURN(const int64_t value, ParseInteger(text));
  return value;
}

StatusOr<IndexItem> ParseSlice(std::string_view text) {
  const std::vector<std::string_view> parts = Split(text, ':');
  if (parts.size() > 3) {
    return absl::InvalidArgumentError(
        Cat("\"", text, "\" is not a slice (need at most 3 parts, found ",
            parts.size(), ")"));
  }
  std::optional<int64_t> ends[3];
  for (size_t i = 0; i < parts.size(); ++i) {
    BELAY_ASSIGN_OR_RETURN(ends[i], ParseEnd(parts[i]));
  }
  return Slice{ends[0], ends[1], ends[2]};
}

StatusOr<IndexItem> ParseItem(std::string_view text) {
  text = StripBlanks(text);
  if (text == "...") return Ellipsis{};
  if (text == "newaxis" || text == "None") return NewAxis{};
  if (text.empty()) {
    return absl::InvalidArgumentError("nothing between two commas");
  }
  if (text.find(':') != text.npos) return ParseSlice(text);
  BELAY_ASSIGN_OR_RETURN(const int64_t position, ParseInteger(text));
  return position;
}

StatusOr<Index> ParseItems(std::string_view text) {
  Index index;
  text = StripBlanks(text);
  if (text.empty()) return index;
  if (text.ends_with(',')) text.remove_suffix(1);
  for (std::string_view item : Split(text, ',')) {
    BELAY_ASSIGN_OR_RETURN(const IndexItem parsed, ParseItem(item));
    index.push_back(parsed);
  }
  return index;
}

}  // namespace

std::string IndexText(const Index& index) {
  std::string text;
  for (const IndexItem& item : index) {
    if (!text.empty()) text += ", ";
    text += std::visit(ItemText{}, item);
  }
  return text;
}

StatusOr<Index> ParseIndex(std::string_view text) {
  StatusOr<Index> index = ParseItems(text);
  if (index.ok()) return index;
  return absl::InvalidArgumentError(
      Cat("parse index \"", text, "\": ", index.status().message()));
}

}  // namespace belay
