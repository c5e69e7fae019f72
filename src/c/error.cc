#include "c/error.h"

#include <atomic>
#include <cstdlib>
#include <string>

#include "base/option_words.h"
#include "base/text.h"
#include "belay/version.h"
#include "c/fortran_words.h"
#include "mpi/end_on_error.h"

namespace belay::c {
namespace {

// The text of the last error of a thread. Where there is no memory for a
// string, it is a literal.
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
  const auto message = status.message();  // of Abseil's own type
  const std::string_view text(message.data(), message.size());
  try {
    const std::string own = InWordsOf(&OptionWords::c, std::string(text));
    return Fail(code, uses_fortran_axes ? InAxesOfFortran(own) : own);
  } catch (...) {
    return Fail(code, text);  // no memory for other words
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
