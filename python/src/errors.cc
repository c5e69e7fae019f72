#include "errors.h"

#include <mpi.h>

#include <cstddef>
#include <new>
#include <optional>

namespace belay::python {
namespace {

// What went wrong on this rank.
struct Failure {
  Status status;
  // Of Python; null if there is none.
  py::object cause;
  // Not an error but, for example, a KeyboardInterrupt: raised as it is.
  bool is_exit = false;
};

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

std::optional<Failure> FailureOf(const std::function<void()>& prepare) {
  try {
    prepare();
    return std::nullopt;
  } catch (const StatusError& error) {
    return Failure{error.status(), {}};
  } catch (const py::error_already_set& error) {
    return Failure{StatusOf(error), error.value(),
                   !error.matches(PyExc_Exception)};
  } catch (const std::bad_alloc&) {
    return Failure{absl::ResourceExhaustedError("not enough memory"), {}};
  } catch (const std::exception& error) {
    return Failure{absl::InvalidArgumentError(error.what()), {}};
  }
}

// The status of the lowest rank that failed, on all ranks; OK if none did.
Status Agree(const Comm& comm, const Status& mine) {
  int failed = mine.ok() ? comm.size() : comm.rank();
  int lowest = comm.size();
  MPI_Comm raw = comm.raw();
  if (MPI_Allreduce(&failed, &lowest, 1, MPI_INT, MPI_MIN, raw) !=
      MPI_SUCCESS) {
    return absl::InternalError("agree on arguments: MPI_Allreduce failed");
  }
  if (lowest == comm.size()) return absl::OkStatus();
  int head[2] = {mine.raw_code(), static_cast<int>(mine.message().size())};
  std::string text(mine.message());
  int code = MPI_Bcast(head, 2, MPI_INT, lowest, raw);
  if (code == MPI_SUCCESS) {
    text.resize(static_cast<size_t>(head[1]));
    code = MPI_Bcast(text.data(), head[1], MPI_CHAR, lowest, raw);
  }
  if (code != MPI_SUCCESS) {
    return absl::InternalError("agree on arguments: MPI_Bcast failed");
  }
  text += " [rank " + std::to_string(lowest) + " of " +
          std::to_string(comm.size()) + "]";
  return Status(static_cast<absl::StatusCode>(head[0]), text);
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
    return Status(CodeNamed(py::str(value.attr("code"))),
                  std::string(py::str(value)));
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

void PrepareTogether(const Comm& comm, const std::function<void()>& prepare) {
  const std::optional<Failure> failure = FailureOf(prepare);
  Status agreed;
  {
    const Status mine = failure ? failure->status : absl::OkStatus();
    const py::gil_scoped_release unlock;
    agreed = Agree(comm, mine);
  }
  if (failure && failure->is_exit) {
    PyErr_SetObject(py::type::handle_of(failure->cause).ptr(),
                    failure->cause.ptr());
    throw py::error_already_set();
  }
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
      PyErr_SetObject(py::type::handle_of(value).ptr(), value.ptr());
    }
  });
}

}  // namespace belay::python
