#include "errors.h"

#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <new>
#include <optional>
#include <thread>
#include <utility>

#include "base/option_words.h"
#include "callbacks.h"
#include "log.h"

namespace belay::python {
namespace {

// Of every deadline of belay; docs/errors.md tells batch scripts.
constexpr int kDeadlineExitCode = 75;

// What went wrong on this rank.
struct Failure {
  Status status;
  // Of Python; null if there is none.
  py::object cause;
  // Not an error but, for example, a KeyboardInterrupt: raised as it is.
  bool is_exit = false;
};

// The last exception of a function that belay has called. Needs the
// interpreter's lock. Never freed.
struct CallbackFailure {
  Status status;
  py::object exception;
  bool is_exit = false;
};
CallbackFailure& LastCallbackFailure() {
  static auto* const last = new CallbackFailure;
  return *last;
}

// The exception of a callback whose text the message has; null if there is
// none.
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

// What is pending, which it no longer is then.
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

std::optional<Failure> FailureOf(const std::function<void()>& prepare) {
  try {
    prepare();
    return std::nullopt;
  } catch (const StatusError& error) {
    return Failure{error.status(), {}};
  } catch (const py::error_already_set& error) {
    return Failure{StatusOf(error), error.value(), IsExit(error)};
  } catch (const std::bad_alloc&) {
    return Failure{absl::ResourceExhaustedError("not enough memory"), {}};
  } catch (const std::exception& error) {
    return Failure{absl::InvalidArgumentError(error.what()), {}};
  }
}

// Waits until the request is done. Ends the process with the exit code of a
// missed deadline if that takes too long; 0 seconds are no limit. Time in which
// the whole process was stopped does not count.
int WaitFor(MPI_Request& request, double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTestsBeforeNap = 1000;
  constexpr std::chrono::microseconds kNap{20};
  constexpr std::chrono::duration<double> kMostGap{10};
  std::chrono::duration<double> waited{0};
  Clock::time_point before = Clock::now();
  for (int64_t tests = 0;; ++tests) {
    int is_done = 0;
    const int code = MPI_Test(&request, &is_done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || is_done != 0) return code;
    const Clock::time_point now = Clock::now();
    if (now - before < kMostGap) waited += now - before;
    before = now;
    if (seconds > 0 && waited.count() > seconds) {
      std::fprintf(stderr,
                   "belay: deadline: agree on arguments: waited %g s for other "
                   "ranks; ending the job with exit code %d\n",
                   seconds, kDeadlineExitCode);
      std::fflush(stderr);
      _exit(kDeadlineExitCode);
    }
    if (tests < kTestsBeforeNap) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

// Sends the status of the rank `from` to all.
int Broadcast(const Comm& comm, int from, double seconds, int& status_code,
              std::string& text) {
  MPI_Request request = MPI_REQUEST_NULL;
  int head[2] = {status_code, static_cast<int>(text.size())};
  int code = MPI_Ibcast(head, 2, MPI_INT, from, comm.raw(), &request);
  if (code == MPI_SUCCESS) code = WaitFor(request, seconds);
  if (code != MPI_SUCCESS) return code;
  status_code = head[0];
  text.resize(static_cast<size_t>(head[1]));
  code = MPI_Ibcast(text.data(), head[1], MPI_CHAR, from, comm.raw(), &request);
  return code == MPI_SUCCESS ? WaitFor(request, seconds) : code;
}

// The status of the lowest rank that failed, on all ranks; OK if none did.
Status Agree(const Comm& comm, double seconds, const Status& mine) {
  const int failed = mine.ok() ? comm.size() : comm.rank();
  int lowest = comm.size();
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_Iallreduce(&failed, &lowest, 1, MPI_INT, MPI_MIN, comm.raw(),
                            &request);
  if (code == MPI_SUCCESS) code = WaitFor(request, seconds);
  if (code == MPI_SUCCESS && lowest == comm.size()) return absl::OkStatus();
  int status_code = mine.raw_code();
  std::string text(mine.message());
  if (code == MPI_SUCCESS) {
    code = Broadcast(comm, lowest, seconds, status_code, text);
  }
  if (code != MPI_SUCCESS) {
    return absl::InternalError("agree on arguments: MPI failed");
  }
  text += " [rank " + std::to_string(lowest) + " of " +
          std::to_string(comm.size()) + "]";
  return Status(static_cast<absl::StatusCode>(status_code), text);
}

}  // namespace

std::string InPythonsWords(std::string_view message) {
  return InWordsOf(&OptionWords::python, std::string(message));
}

std::vector<std::string> InPythonsWords(std::vector<std::string> messages) {
  for (std::string& one : messages) one = InPythonsWords(std::string_view(one));
  return messages;
}

py::object ErrorOf(const Status& status) {
  return ErrorType()(py::str(InPythonsWords(std::string(status.message()))),
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

Status StatusOfCallback(const py::error_already_set& error) {
  Status status = StatusOf(error);
  // One that is pending is not replaced.
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

Status WithCodeOfCallback(const Comm& comm, double deadline_seconds,
                          const Status& status) {
  const CallbackFailure& last = LastCallbackFailure();
  const Status mine = last.exception ? last.status : absl::OkStatus();
  const py::gil_scoped_release unlock;
  const Status agreed = Agree(comm, deadline_seconds, mine);
  return agreed.ok() ? status : Status(agreed.code(), status.message());
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

void PrepareTogether(const Comm& comm, double deadline_seconds,
                     const std::function<void()>& prepare) {
  ForgetCallbackError();
  FollowLogLevel();
  std::optional<Failure> failure = TakePendingExit();
  if (!failure) failure = FailureOf(prepare);
  Status agreed;
  {
    const Status mine = failure ? failure->status : absl::OkStatus();
    const py::gil_scoped_release unlock;
    agreed = Agree(comm, deadline_seconds, mine);
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
