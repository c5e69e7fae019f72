#include "c/error.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "belay/version.h"
#include "core/text.h"
#include "mpi/mpi_error.h"

namespace belay::c {
namespace {

// The message of a thread's last error. If there is no memory for a string, a
// literal is used.
struct LastError {
  std::string text;
  const char* literal = nullptr;
};

std::atomic<bool> uses_fortran_axes = false;

LastError& Last() {
  thread_local LastError last;
  return last;
}

}  // namespace

int Fail(int code, std::string_view message) noexcept {
  LastError& last = Last();
  try {
    last.text.assign(message);
    last.literal = nullptr;
  } catch (...) {
    last.literal = "not enough memory for the text of an error";
  }
  return code;
}

int CodeOf(const Status& status) noexcept {
  if (status.ok()) return BELAY_OK;
  const int code = static_cast<int>(status.code());
  const auto message = status.message();  // an absl::string_view
  const std::string_view text(message.data(), message.size());
  try {
    return uses_fortran_axes ? Fail(code, InAxesOfFortran(text))
                             : Fail(code, text);
  } catch (...) {
    return Fail(code, text);  // no memory for the conversion
  }
}

Status NullArgument(std::string_view name) {
  return absl::InvalidArgumentError(Cat("the argument ", name, " is null"));
}

}  // namespace belay::c

void belay_use_fortran_axes() { belay::c::uses_fortran_axes = true; }

const char* belay_error_message() {
  const auto& last = belay::c::Last();
  return last.literal != nullptr ? last.literal : last.text.c_str();
}

void belay_check(int code, const char* file, int line) {
  if (code == BELAY_OK) return;
  belay::c::Call([&]() -> belay::Status {
    const belay::Status error(static_cast<absl::StatusCode>(code),
                              belay_error_message());
    belay::EndOnError(file == nullptr ? "belay" : belay::Cat(file, ":", line),
                      error);
  });
  std::abort();  // no memory for the message
}

const char* belay_code_name(int code) {
  switch (code) {
    case BELAY_OK:
      return "OK";
    case BELAY_CANCELLED:
      return "CANCELLED";
    case BELAY_UNKNOWN:
      return "UNKNOWN";
    case BELAY_INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case BELAY_DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case BELAY_NOT_FOUND:
      return "NOT_FOUND";
    case BELAY_ALREADY_EXISTS:
      return "ALREADY_EXISTS";
    case BELAY_PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    case BELAY_RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case BELAY_FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case BELAY_ABORTED:
      return "ABORTED";
    case BELAY_OUT_OF_RANGE:
      return "OUT_OF_RANGE";
    case BELAY_UNIMPLEMENTED:
      return "UNIMPLEMENTED";
    case BELAY_INTERNAL:
      return "INTERNAL";
    case BELAY_UNAVAILABLE:
      return "UNAVAILABLE";
    case BELAY_DATA_LOSS:
      return "DATA_LOSS";
    case BELAY_UNAUTHENTICATED:
      return "UNAUTHENTICATED";
    default:
      return "";
  }
}

const char* belay_version() { return BELAY_VERSION; }

// --- Fortran words ---

namespace belay::c {
namespace {

using Numbers = std::vector<int64_t>;

absl::string_view InAbseilsType(std::string_view text) {
  return {text.data(), text.size()};
}

// Parses numbers separated by `separator`. Returns nullopt for any other text.
std::optional<Numbers> NumbersIn(std::string_view text,
                                 std::string_view separator) {
  Numbers numbers;
  for (const absl::string_view part :
       absl::StrSplit(InAbseilsType(text), InAbseilsType(separator))) {
    if (!absl::SimpleAtoi(part, &numbers.emplace_back())) return std::nullopt;
  }
  return numbers;
}

// Converts a box, such as "2,3:0,4" (offset and length of each axis), to a
// section: "(1:4, 3:5)".
std::optional<std::string> SectionOf(std::string_view box, size_t& num_axes) {
  std::string section;
  size_t axes = 0;
  for (const absl::string_view axis : absl::StrSplit(InAbseilsType(box), ':')) {
    const auto both = NumbersIn({axis.data(), axis.size()}, ",");
    if (!both || both->size() != 2) return std::nullopt;
    const int64_t first = (*both)[0] + 1, last = (*both)[0] + (*both)[1];
    section = Cat(first, ":", last, section.empty() ? "" : ", ", section);
    ++axes;
  }
  num_axes = axes;
  return Cat("(", section, ")");
}

// Converts a shape without its brackets, such as "8, 6", to "(6, 8)".
std::optional<std::string> ShapeOf(std::string_view text, size_t& num_axes) {
  const std::optional<Numbers> lengths = NumbersIn(text, ", ");
  if (!lengths) return std::nullopt;
  std::string shape;
  for (const int64_t length : *lengths) {
    shape = Cat(length, shape.empty() ? "" : ", ", shape);
  }
  num_axes = lengths->size();
  return Cat("(", shape, ")");
}

// A replacement for a part of a message, and the length of that part.
struct Replaced {
  size_t length = 0;
  std::string text;
};

// Replaces the beginning of `text` if it starts with `open`, ends with `close`,
// and `convert` accepts the text between them.
template <typename Convert>
std::optional<Replaced> Between(std::string_view text, std::string_view open,
                                std::string_view close, Convert convert) {
  if (!text.starts_with(open)) return std::nullopt;
  const size_t end = text.find(close, open.size());
  if (end == text.npos) return std::nullopt;
  const std::optional<std::string> converted =
      convert(text.substr(open.size(), end - open.size()));
  if (!converted) return std::nullopt;
  return Replaced{end + close.size(), *converted};
}

// Replaces "axis 0" at the beginning of `text`, for an array with this number
// of axes.
std::optional<Replaced> AxisAt(std::string_view text, size_t num_axes) {
  constexpr std::string_view kAxis = "axis ";
  if (!text.starts_with(kAxis)) return std::nullopt;
  size_t end = kAxis.size();
  while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  const auto numbers =
      NumbersIn(text.substr(kAxis.size(), end - kAxis.size()), ",");
  if (!numbers || static_cast<size_t>(numbers->front()) >= num_axes) {
    return std::nullopt;
  }
  return Replaced{
      end, Cat(kAxis, static_cast<int64_t>(num_axes) - numbers->front())};
}

// Replaces a message about a negative offset at the beginning of `text`. The
// lower bound of a section is the offset plus 1.
std::optional<Replaced> LowerBoundAt(std::string_view text, size_t num_axes) {
  constexpr std::string_view kOffset = "offset of ";
  constexpr std::string_view kNegative = " is negative (need 0 or more, found ";
  if (!text.starts_with(kOffset)) return std::nullopt;
  const auto axis = AxisAt(text.substr(kOffset.size()), num_axes);
  if (!axis) return std::nullopt;
  const size_t at = kOffset.size() + axis->length;
  const auto found =
      Between(text.substr(at), kNegative, ")",
              [](std::string_view number) -> std::optional<std::string> {
                const auto numbers = NumbersIn(number, ",");
                if (!numbers) return std::nullopt;
                return Cat(" is below 1 (need 1 or more, found ",
                           numbers->front() + 1, ")");
              });
  if (!found) return std::nullopt;
  return Replaced{at + found->length,
                  Cat("the first index of ", axis->text, found->text)};
}

// Returns the number of axes of the first shape in the text, or `otherwise` if
// there is none.
size_t AxesIn(std::string_view text, size_t otherwise) {
  const size_t open = text.find(" of [");
  if (open == text.npos) return otherwise;
  size_t num_axes = otherwise;
  Between(text.substr(open + 4), "[", "]",
          [&](std::string_view lengths) { return ShapeOf(lengths, num_axes); });
  return num_axes;
}

}  // namespace

std::string InAxesOfFortran(std::string_view message) {
  std::string text;
  size_t num_axes = 0;  // of the most recent box or shape
  for (size_t at = 0; at < message.size();) {
    const std::string_view rest = message.substr(at);
    const bool is_word =
        at == 0 || message[at - 1] == ' ' || message[at - 1] == '(';
    std::optional<Replaced> replaced;
    if (is_word) {
      replaced = Between(rest, "box \"", "\"", [&](std::string_view box) {
        const auto section = SectionOf(box, num_axes);
        return section ? std::optional(Cat("section ", *section)) : section;
      });
      const size_t axes = AxesIn(rest, num_axes);
      if (!replaced) replaced = LowerBoundAt(rest, axes);
      if (!replaced) replaced = AxisAt(rest, axes);
      if (!replaced) {
        replaced = Between(rest, "[", "]", [&](std::string_view lengths) {
          return ShapeOf(lengths, num_axes);
        });
      }
    }
    if (!replaced && rest[0] == '"') {
      const size_t end = rest.find('"', 1);
      const size_t length = end == rest.npos ? rest.size() : end + 1;
      replaced = Replaced{length, std::string(rest.substr(0, length))};
    }
    text += replaced ? replaced->text : std::string(1, rest[0]);
    at += replaced ? replaced->length : 1;
  }
  return text;
}

}  // namespace belay::c
