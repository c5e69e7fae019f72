#include <charconv>
#include <system_error>

#include "base/status_macros.h"
#include "base/text.h"
#include "belay/arrays/indexing.h"

namespace belay {
namespace {

struct ItemText {
  std::string operator()(int64_t position) const { return Cat(position); }

  std::string operator()(const Slice& slice) const {
    std::string text = Cat(End(slice.start), ":", End(slice.stop));
    if (slice.step.has_value()) text += Cat(":", *slice.step);
    return text;
  }

  std::string operator()(const Ellipsis&) const { return "..."; }

  std::string operator()(const NewAxis&) const { return "newaxis"; }

  std::string operator()(const Tensor* mask) const {
    if (mask == nullptr) return "mask";
    return Cat(mask->dtype() == DType::kBool ? "mask" : "tensor",
               ShapeText(mask->shape()));
  }

 private:
  static std::string End(const std::optional<int64_t>& end) {
    return end.has_value() ? Cat(*end) : "";
  }
};

StatusOr<int64_t> ParseInteger(std::string_view text) {
  const char* const last = text.data() + text.size();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error == std::errc() && end == last) return value;
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
  Slice slice;
  BELAY_ASSIGN_OR_RETURN(slice.start, ParseEnd(parts[0]));
  BELAY_ASSIGN_OR_RETURN(slice.stop, ParseEnd(parts[1]));
  if (parts.size() == 3) {
    BELAY_ASSIGN_OR_RETURN(slice.step, ParseEnd(parts[2]));
  }
  return slice;
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
