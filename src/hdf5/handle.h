// Ownership of one HDF5 identifier.
//
// Every hid_t of the library lives in a Handle from the call that made it on;
// it carries the name of its object, so that late errors can say what failed.

#ifndef BELAY_HDF5_HANDLE_H_
#define BELAY_HDF5_HANDLE_H_

#include <hdf5.h>

#include <string>
#include <utility>

#include "belay/status.h"

namespace belay::h5 {

// What the destructor of a Handle does with an identifier that is still open.
// kForget is for files that all ranks have open: closing them communicates,
// and destructors never do. HDF5 closes forgotten ones in MPI_Finalize.
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

  // The identifier; negative if there is none. Local.
  hid_t get() const { return id_; }
  bool is_open() const { return id_ >= 0; }
  // The file, dataset or group that messages name. Local.
  const std::string& name() const { return name_; }

  // Closes the identifier and forgets it, also on failure. Local. Nothing to
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

}  // namespace belay::h5

#endif  // BELAY_HDF5_HANDLE_H_
