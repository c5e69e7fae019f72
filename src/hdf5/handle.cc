#include "hdf5/handle.h"

#include <string_view>

#include "base/errno_status.h"
#include "hdf5/error.h"
#include "hdf5/writer_driver.h"

namespace belay::h5 {
namespace {

struct Closer {
  H5I_type_t type;
  herr_t (*close)(hid_t);
  std::string_view site;
};

constexpr Closer kClosers[] = {
    {H5I_FILE, H5Fclose, "close file"},
    {H5I_GROUP, H5Gclose, "close group"},
    {H5I_DATASET, H5Dclose, "close dataset"},
    {H5I_ATTR, H5Aclose, "close attribute"},
    {H5I_DATATYPE, H5Tclose, "close type"},
    {H5I_DATASPACE, H5Sclose, "close dataspace"},
    {H5I_GENPROP_LST, H5Pclose, "close property list"},
};

constexpr Closer kAnyCloser = {H5I_BADID, H5Idec_ref, "close identifier"};

const Closer& CloserOf(hid_t id) {
  const H5I_type_t type = H5Iget_type(id);
  for (const Closer& closer : kClosers) {
    if (closer.type == type) return closer;
  }
  return kAnyCloser;
}

// What HDF5 could not write, also where it did not say so.
Status WriteError(std::string_view site, std::string_view name) {
  const int error = TakeWriteError();
  if (error == 0) return absl::OkStatus();
  return ErrnoStatus(error, site, name);
}

void CloseSilently(hid_t id) {
  CloserOf(id).close(id);
  TakeWriteError();
  H5Eclear2(H5E_DEFAULT);
}

}  // namespace

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this == &other) return *this;
  if (is_open() && at_end_ == AtEnd::kClose) CloseSilently(id_);
  id_ = std::exchange(other.id_, H5I_INVALID_HID);
  name_ = std::move(other.name_);
  at_end_ = other.at_end_;
  return *this;
}

Handle::~Handle() {
  if (is_open() && at_end_ == AtEnd::kClose) CloseSilently(id_);
}

Status Handle::Close() {
  if (!is_open()) return absl::OkStatus();
  const hid_t id = std::exchange(id_, H5I_INVALID_HID);
  const Closer& closer = CloserOf(id);
  Status status = Check(closer.close(id), closer.site, name_);
  status.Update(WriteError(closer.site, name_));
  return status;
}

}  // namespace belay::h5
