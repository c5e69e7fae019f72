#include "errors.h"

#include <new>
#include <optional>
#include <utility>

#include "callbacks.h"
#include "log.h"
#include "mpi/collective.h"
#include "together.h"

namespace belay::python {
namespace {

// An error on this rank.
struct Failure {
  Status status;
  // The Python exception; null if there is none.
  py::object cause;
  // True if it is not an Exception but, for example, a KeyboardInterrupt, which
  // is raised unchanged.
  bool is_exit = false;
};

// The last exception of a callback. Needs the interpreter's lock. Never freed.
struct CallbackFailure {
  Status status;
  py::object exception;
  bool is_exit = false;
};
CallbackFailure& LastCallbackFailure() {
  static auto* const last = new CallbackFailure;
  return *last;
}

// Returns the exception of a callback if its text is in the message, else null.
py::object CauseOf(const std::string& message) {
  CallbackFailure& last = LastCallbackFailure();
  const std::string text(last.status.message());
  if (!last.exception || message.find(text) == message.npos) return {};
  return std::exchange(last.exception, py::object());
}

py::object ErrorType() {
  return py::module_::import("belay._errors").attr("Error");
}

[[noreturn]] void Raise(const Status& status, const py::object& cause) {
  const py::object error = ErrorOf(status);
  if (cause) {
    PyException_SetCause(error.ptr(), py::object(cause).release().ptr());
  }
  PyErr_SetObject(py::type::handle_of(error).ptr(), error.ptr());
  throw py::error_already_set();
}

absl::StatusCode CodeNamed(const std::string& name) {
  for (int code = 1; code <= 16; ++code) {
    const auto one = static_cast<absl::StatusCode>(code);
    if (absl::StatusCodeToString(one) == name) return one;
  }
  return absl::StatusCode::kUnknown;
}

bool IsExit(const py::error_already_set& error) {
  return !error.matches(PyExc_Exception);
}

// Returns the pending exception and clears it.
std::optional<Failure> TakePendingExit() {
  CallbackFailure& last = LastCallbackFailure();
  if (!last.exception || !last.is_exit) return std::nullopt;
  return Failure{last.status, std::exchange(last.exception, py::object()),
                 true};
}

[[noreturn]] void RaiseAsItIs(const py::object& exception) {
  PyErr_SetObject(py::type::handle_of(exception).ptr(), exception.ptr());
  throw py::error_already_set();
}

// Returns the exception or, if it only names the value, its cause.
py::object CauseIn(const py::error_already_set& error) {
  const py::object value = error.value();
  if (!py::isinstance(value, ErrorType())) return value;
  const py::object cause = value.attr("__cause__");
  return cause.is_none() ? value : cause;
}

std::optional<Failure> FailureOf(const std::function<void()>& prepare) {
  try {
    prepare();
    return std::nullopt;
  } catch (const StatusError& error) {
    return Failure{error.status(), {}};
  } catch (const py::error_already_set& error) {
    return Failure{StatusOf(error), CauseIn(error), IsExit(error)};
  } catch (const std::bad_alloc&) {
    return Failure{absl::ResourceExhaustedError("not enough memory"), {}};
  } catch (const std::exception& error) {
    return Failure{absl::InvalidArgumentError(error.what()), {}};
  }
}

}  // namespace

py::object ErrorOf(const Status& status) {
  return ErrorType()(py::str(std::string(status.message())),
                     absl::StatusCodeToString(status.code()));
}

void ThrowInvalid(const std::string& text) {
  throw StatusError(absl::InvalidArgumentError(text));
}

void ThrowIfError(const Status& status) {
  if (!status.ok()) throw StatusError(status);
}

Status StatusOf(const py::error_already_set& error) {
  const py::object value = error.value();
  if (py::isinstance(value, ErrorType())) {
    const std::string text = py::str(value);
    return Status(CodeNamed(py::str(value.attr("code"))),
                  text.empty() ? "belay.Error without a text" : text);
  }
  if (error.matches(PyExc_MemoryError)) {
    return absl::ResourceExhaustedError("not enough memory");
  }
  const std::string type = py::str(py::type::handle_of(value).attr("__name__"));
  const std::string text = py::str(value);
  const auto code = error.matches(PyExc_Exception)
                        ? absl::StatusCode::kInvalidArgument
                        : absl::StatusCode::kCancelled;
  return Status(code, text.empty() ? type : type + ": " + text);
}

std::string Shown(py::handle value) {
  constexpr size_t kMax = 60;
  const bool is_short = value.is_none() || PyLong_Check(value.ptr()) ||
                        PyFloat_Check(value.ptr()) ||
                        PyUnicode_Check(value.ptr()) ||
                        PyBytes_Check(value.ptr());
  const std::string type = py::str(py::type::handle_of(value).attr("__name__"));
  if (!is_short) return "a value of type " + type;
  const std::string text = py::repr(value);
  return text.size() <= kMax ? text : "a long " + type;
}

bool MayNameKey(const py::error_already_set& error) {
  return error.matches(PyExc_Exception) && !error.matches(PyExc_MemoryError) &&
         !error.matches(PyExc_RecursionError) &&
         !py::isinstance(error.value(), ErrorType());
}

void RaiseNaming(const std::string& where, const py::error_already_set& error) {
  const Status status = StatusOf(error);
  const std::string text(status.message());
  Raise(Status(status.code(), where + ": " + text), error.value());
}

Status StatusOfCallback(const py::error_already_set& error) {
  Status status = StatusOf(error);
  // A pending exception is not replaced.
  CallbackFailure& last = LastCallbackFailure();
  if (!last.exception || !last.is_exit) {
    last = {status, error.value(), IsExit(error)};
  }
  return status;
}

void ForgetCallbackError() {
  CallbackFailure& last = LastCallbackFailure();
  if (!last.is_exit) last.exception = {};
}

void ThrowPendingExit() {
  if (const std::optional<Failure> exit = TakePendingExit()) {
    RaiseAsItIs(exit->cause);
  }
}

Status WithCodeOfCallback(const Call& call, const Status& status) {
  const CallbackFailure& last = LastCallbackFailure();
  const Status mine = last.exception ? last.status : absl::OkStatus();
  const py::gil_scoped_release unlock;
  CommContext context = ContextOf(call, "callbacks");
  const Agreed<> agreed = Agree(context, mine);
  return agreed.ok() ? status
                     : Status(agreed.status().code(), status.message());
}

double DeadlineOf(const py::dict& options) {
  constexpr double kUsual = 600;
  if (!options.contains("deadline_seconds")) return kUsual;
  const py::object given = options["deadline_seconds"];
  const bool is_number =
      PyFloat_Check(given.ptr()) || PyLong_Check(given.ptr());
  if (!is_number) return kUsual;
  const double seconds = PyFloat_AsDouble(given.ptr());
  if (PyErr_Occurred() != nullptr) PyErr_Clear();  // a huge int
  return seconds >= 0 ? seconds : kUsual;
}

void PrepareTogether(const Call& call, const std::function<void()>& prepare) {
  ForgetCallbackError();
  FollowLogLevel();
  std::optional<Failure> failure = TakePendingExit();
  if (!failure) failure = FailureOf(prepare);
  Status agreed;
  {
    const Status mine = failure ? failure->status : absl::OkStatus();
    const py::gil_scoped_release unlock;
    CommContext context = ContextOf(call, "arguments");
    agreed = AgreeSameText(context,
                           "ranks are in different calls of belay: the call",
                           call.name, mine);
  }
  if (failure && failure->is_exit) RaiseAsItIs(failure->cause);
  if (!agreed.ok()) Raise(agreed, failure ? failure->cause : py::object());
}

const py::object& Imported(const char* module, const char* name) {
  return *new py::object(py::module_::import(module).attr(name));
}

void RegisterErrors() {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const StatusError& error) {
      const py::object value = ErrorOf(error.status());
      py::object cause = CauseOf(std::string(error.status().message()));
      if (cause) PyException_SetCause(value.ptr(), cause.release().ptr());
      PyErr_SetObject(py::type::handle_of(value).ptr(), value.ptr());
    }
  });
}

}  // namespace belay::python
