// HDF5 identifiers that close themselves, and HDF5's errors as statuses.

#ifndef BELAY_HDF5_HANDLE_H_
#define BELAY_HDF5_HANDLE_H_

#include <hdf5.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "belay/status.h"

namespace belay::h5 {

// Ownership of one HDF5 identifier.
//
// Every hid_t of the library lives in a Handle from the call that made it on;
// it carries the name of its object, so that late errors can say what failed.

// The action of the destructor of a Handle that is still open. kForget is for
// files that all ranks have open: closing them communicates, and destructors
// never do. HDF5 closes forgotten ones in MPI_Finalize.
enum class AtEnd { kClose, kForget };

// Owns an identifier of a file, group, dataset, attribute, type, dataspace or
// property list. Move only; no shared ownership.
class Handle {
 public:
  Handle() = default;
  Handle(hid_t id, std::string name, AtEnd at_end = AtEnd::kClose)
      : id_(id), name_(std::move(name)), at_end_(at_end) {}
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)),
        name_(std::move(other.name_)),
        at_end_(other.at_end_) {}
  Handle& operator=(Handle&& other) noexcept;
  // Closes or forgets. An error is lost: call Close() where it matters.
  ~Handle();

  // The identifier; negative if there is none.
  hid_t get() const { return id_; }
  bool is_open() const { return id_ >= 0; }
  // The file, dataset or group that messages name.
  const std::string& name() const { return name_; }

  // Closes the identifier and forgets it, also on failure. Nothing to
  // close is OK. All ranks together on a file that all have open; the Status
  // is not agreed.
  // Errors: those of ErrnoStatus - what was written before, too, did not reach
  //   the file, as for lack of space; Internal.
  Status Close();

 private:
  hid_t id_ = H5I_INVALID_HID;
  std::string name_;
  AtEnd at_end_ = AtEnd::kClose;
};

// The single funnel between HDF5 and the rest of the library.
//
// In:  the result of one HDF5 call, the operation and the object it was for.
// Out: a Status. Each result passes exactly one fault point, after the call,
//      so that a rank with an injected fault has taken part in it.
// HDF5 never prints: its error stack becomes the message and is cleared.
// Only destructors close identifiers past the funnel.

// Starts HDF5 and switches off its printing of errors, once per process.
// Called by every function here that can be the first one to call HDF5.
void InitLibrary();

// Returns OK, or the failure of the HDF5 call that came just before.
// `site` says what was done, such as "create dataset"; an empty `object` is
// left out of the message: site "object": HDF5's text (major: minor), or what
// the system said. The deepest message of HDF5's stack counts.
// Errors, by HDF5's text: Unavailable - the system says what TransientErrors
//   has; ResourceExhausted - no space, quota or memory;
//   NotFound - no such file or object; AlreadyExists; PermissionDenied;
//   DataLoss - truncated, not HDF5, a bad signature or checksum; Internal - all
//   else, and injected faults.
Status Judge(bool ok, std::string_view site, std::string_view object);

// Returns whether an error, not yet agreed on, comes from the system or MPI,
// such as too many open files, or was injected: it says nothing about the file.
bool IsOfSystem(const Status& status);

// Judges a call that returns a negative number on failure.
Status Check(herr_t result, std::string_view site, std::string_view object);

// Judges a call that returns a count, or a yes or no.
StatusOr<int64_t> Number(int64_t result, std::string_view site,
                         std::string_view object);

// Takes ownership of a new identifier, which is named `object`. An
// injected fault closes it.
StatusOr<Handle> Own(hid_t id, std::string_view site, std::string_view object);

// Reads a name by a function of HDF5 that returns its length, and writes at
// most `size` bytes of it with a NUL behind it.
StatusOr<std::string> ReadName(
    absl::FunctionRef<ssize_t(char* name, size_t size)> read,
    std::string_view site, std::string_view object);

// Return the parts of an open dataset.
StatusOr<Handle> GetSpace(const Handle& dataset);
StatusOr<Handle> GetType(const Handle& dataset);
StatusOr<Handle> GetCreationProperties(const Handle& dataset);

// Lets files be made by the driver of writer_driver.cc, which lets no write
// fail. `access` is a property list of H5P_FILE_ACCESS.
// Errors: Internal - HDF5's text, which names `object`.
Status UseWriterDriver(hid_t access, std::string_view object);

// Returns the error number of the first write that failed in the files that
// this thread has closed since the last call, or 0.
int TakeWriteError();

}  // namespace belay::h5

#endif  // BELAY_HDF5_HANDLE_H_
