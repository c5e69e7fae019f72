#include "json_output.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "commands.h"
#include "elements.h"
#include "number_text.h"

namespace belay::tools {
namespace {

template <typename T>
Json NumberJson(T value) {
  if constexpr (kIsComplex<T>) {
    return Json::array({NumberJson(value.real()), NumberJson(value.imag())});
  } else if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
    return static_cast<double>(value);
  } else {
    return value;
  }
}

// Returns the elements from `next` on in one item of the axis before `axis`.
Json ItemJson(const Tensor& tensor, size_t axis, int64_t& next) {
  if (axis == tensor.shape().size()) return ElementJson(tensor, next++);
  Json items = Json::array();
  for (int64_t i = 0; i < tensor.shape()[axis]; ++i) {
    items.push_back(ItemJson(tensor, axis + 1, next));
  }
  return items;
}

}  // namespace

Json TextJson(std::string_view text) {
  if (IsUtf8(text)) return std::string(text);
  return {{"base64",
           absl::Base64Escape(absl::string_view(text.data(), text.size()))}};
}

Json TextOrNull(std::string_view text) {
  return text.empty() ? Json() : TextJson(text);
}

Json ElementJson(const Tensor& tensor, int64_t i) {
  return VisitType(tensor.dtype(), [&]<typename T>(T) {
    return NumberJson(Number(tensor.values<T>()[i]));
  });
}

Json RealJson(double value) { return NumberJson(value); }

Json ValuesJson(const Tensor& tensor) {
  int64_t next = 0;
  return ItemJson(tensor, 0, next);
}

bool HasAtMost(const Shape& shape, int64_t most) {
  int64_t items = 1;
  for (const int64_t length : shape) {
    if (length == 0) return true;
    if (items > most / length) return false;
    items *= length;
  }
  return items <= most;
}

Json FormatJson(int major, int minor) {
  return {{"major", major}, {"minor", minor}};
}

void PrintJson(const Json& json) {
  // ASCII, so that names cannot contain terminal escape sequences.
  Print("%s\n", json.dump(2, ' ', /*ensure_ascii=*/true));
}

void PrintError(const Status& status) {
  const auto message = status.message();  // Abseil's own string_view type
  PrintJson({{"error",
              {{"code", absl::StatusCodeToString(status.code())},
               {"message", PrintableText(std::string_view(message.data(),
                                                          message.size()))}}}});
}

int Fail(const Status& status, bool json) {
  if (json) PrintError(status);
  return Fail(status);
}

}  // namespace belay::tools
