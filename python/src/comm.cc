#include "comm.h"

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "errors.h"

namespace belay::python {
namespace {

// Set by MPI_Finalize before it frees anything else. After that, MPI frees what
// is left.
bool is_finalizing = false;

int NoteFinalize(MPI_Comm, int, void*, void*) {
  is_finalizing = true;
  return MPI_SUCCESS;
}

// Called on all ranks when the program frees its communicator, with or without
// the interpreter's lock, and by MPI_Finalize, when the interpreter may no
// longer exist.
int FreeKept(MPI_Comm, int, void* attribute, void*) {
  std::unique_ptr<KeptComm> kept(static_cast<KeptComm*>(attribute));
  if (!is_finalizing) kept->comm.Close().IgnoreError();
  if (Py_IsInitialized() != 0) {
    const py::gil_scoped_acquire lock;
    kept = nullptr;
  } else {
    static_cast<void>(kept.release());  // its Python objects no longer exist
  }
  return MPI_SUCCESS;
}

// The key of the attribute through which a communicator refers to its KeptComm.
int Keyval() {
  static const int keyval = [] {
    int finalize = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, NoteFinalize, &finalize,
                           nullptr);
    MPI_Comm_set_attr(MPI_COMM_SELF, finalize, nullptr);
    int kept = MPI_KEYVAL_INVALID;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, FreeKept, &kept, nullptr);
    return kept;
  }();
  return keyval;
}

// mpi4py and belay must use one MPI library: a handle of another library is
// meaningless.
void CheckLibrary(const py::module_& mpi) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  const std::string mine(text);
  std::string other = py::str(mpi.attr("Get_library_version")());
  other.resize(std::min(other.size(), other.find('\0')));  // some end with it
  const auto size = mpi.attr("_sizeof")(mpi.attr("Comm")).cast<size_t>();
  if (size != sizeof(MPI_Comm) || mine != other) {
    throw py::import_error("belay uses \"" + mine + "\", and mpi4py \"" +
                           other + "\": both must use the same MPI library");
  }
}

[[noreturn]] void ThrowInUse() {
  throw StatusError(absl::FailedPreconditionError(
      "another thread, or a callback, is in a call with this communicator"));
}

MPI_Comm HandleOf(py::handle comm) {
  static const bool is_checked = [] {
    CheckLibrary(py::module_::import("mpi4py.MPI"));
    return true;
  }();
  static_cast<void>(is_checked);
  const py::module_ mpi = py::module_::import("mpi4py.MPI");
  if (!py::isinstance(comm, mpi.attr("Comm"))) {
    throw py::type_error("comm: need a communicator of mpi4py, found " +
                         std::string(py::str(py::type::handle_of(comm))));
  }
  const auto address = mpi.attr("_addressof")(comm).cast<uintptr_t>();
  return *reinterpret_cast<MPI_Comm*>(address);
}

}  // namespace

CommUse::CommUse(bool& flag) : flag_(flag) {
  if (flag) ThrowInUse();
  flag = true;
}

Comm DuplicateOf(py::handle comm, double deadline_seconds) {
  // Communicators that a thread is currently duplicating without the
  // interpreter's lock.
  static auto* const busy = new std::set<MPI_Comm>;
  MPI_Comm raw = HandleOf(comm);
  if (busy->contains(raw)) ThrowInUse();
  busy->insert(raw);
  StatusOr<Comm> made =
      WithoutLock([&] { return Comm::Duplicate(raw, deadline_seconds); });
  busy->erase(raw);
  if (made.ok() && made->size() > 1) {
    py::module_::import("belay._exit").attr("arm")();
  }
  return ValueOrThrow(std::move(made));
}

KeptComm& KeptCommOf(py::handle comm, double deadline_seconds) {
  MPI_Comm raw = HandleOf(comm);
  int is_initialized = 0;
  int is_finalized = 0;
  MPI_Initialized(&is_initialized);
  MPI_Finalized(&is_finalized);
  void* attribute = nullptr;
  int is_kept = 0;
  if (is_initialized && !is_finalized && raw != MPI_COMM_NULL) {
    MPI_Comm_get_attr(raw, Keyval(), &attribute, &is_kept);
  }
  if (is_kept) return *static_cast<KeptComm*>(attribute);
  auto kept = std::make_unique<KeptComm>();
  kept->comm = DuplicateOf(comm, deadline_seconds);
  MPI_Comm_set_attr(raw, Keyval(), kept.get());
  return *kept.release();
}

}  // namespace belay::python
