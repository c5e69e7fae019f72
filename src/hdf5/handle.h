// HDF5 identifiers that close themselves, and conversion of HDF5's errors.

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
// Every hid_t of the library is owned by a Handle from the call that made it.
// The Handle has the name of its object, so that late errors can say what
// failed.

// What the destructor of an open Handle does. kForget is for files that all
// ranks have open: closing them communicates, which destructors must not do.
// HDF5 closes forgotten files in MPI_Finalize.
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
  // Closes or forgets the identifier. Ignores errors: call Close() where they
  // matter.
  ~Handle();

  // Returns the identifier; negative if there is none.
  hid_t get() const { return id_; }
  bool is_open() const { return id_ >= 0; }
  // Returns the file, dataset or group that messages name.
  const std::string& name() const { return name_; }

  // Closes the identifier and forgets it, even on failure. Returns OK if there
  // is nothing to close. If all ranks have a file open, they must close it
  // together; the Status is not agreed.
  // Errors: those of ErrnoStatus - some data, even if written earlier, did not
  //   reach the file, for example for lack of space; Internal.
  Status Close();

 private:
  hid_t id_ = H5I_INVALID_HID;
  std::string name_;
  AtEnd at_end_ = AtEnd::kClose;
};

// Conversion of all results of HDF5 calls to statuses.
//
// In:  the result of one HDF5 call, its operation and its object.
// Out: a Status. Each result passes exactly one fault point, after the call,
//      so that a rank with an injected fault has taken part in it.
// HDF5 never prints: its error stack becomes the message, and is cleared.

// Starts HDF5 and turns off its error output, once per process. Every function
// that may be the first to call HDF5 calls InitLibrary.
void InitLibrary();

// Returns OK, or the error of the HDF5 call made just before. `site` is the
// operation, such as "create dataset". The message is: site "object": HDF5's
// text (major: minor), or the system's reason. An empty `object` is omitted.
// The text is that of the deepest message in HDF5's stack.
// Errors, by HDF5's text: Unavailable - the system reports one of
//   TransientErrors; ResourceExhausted - no space, quota or memory;
//   NotFound - no such file or object; AlreadyExists; PermissionDenied;
//   DataLoss - truncated, not HDF5, a bad signature or checksum; Internal - all
//   else, and injected faults.
Status Judge(bool ok, std::string_view site, std::string_view object);

// Returns true if an error that is not agreed yet comes from the system or MPI,
// such as too many open files, or was injected. Such an error says nothing
// about the file.
bool IsOfSystem(const Status& status);

// Judges a call that returns a negative number on failure.
Status Check(herr_t result, std::string_view site, std::string_view object);

// Judges a call that returns a count or a boolean.
StatusOr<int64_t> Number(int64_t result, std::string_view site,
                         std::string_view object);

// Takes ownership of a new identifier, and names it `object`. Closes it if a
// fault is injected.
StatusOr<Handle> Own(hid_t id, std::string_view site, std::string_view object);

// Reads a name with an HDF5 function that returns the length of the name, and
// writes at most `size` bytes of it, including a NUL at the end.
StatusOr<std::string> ReadName(
    absl::FunctionRef<ssize_t(char* name, size_t size)> read,
    std::string_view site, std::string_view object);

// Return the parts of an open dataset.
StatusOr<Handle> GetSpace(const Handle& dataset);
StatusOr<Handle> GetType(const Handle& dataset);
StatusOr<Handle> GetCreationProperties(const Handle& dataset);

// Makes HDF5 create files with the driver of writer_driver.cc, which hides
// failed metadata writes from HDF5. `access` is a property list of
// H5P_FILE_ACCESS.
// Errors: Internal - HDF5's text, which names `object`.
Status UseWriterDriver(hid_t access, std::string_view object);

// Returns the error number of the first failed write in files that this thread
// has closed since the last call, or 0.
int TakeWriteError();

}  // namespace belay::h5

#endif  // BELAY_HDF5_HANDLE_H_
