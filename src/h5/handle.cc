#include "h5/handle.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "h5/error.h"

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

// The descriptor of a file that this process alone has open for writing;
// negative if it is another one.
int DescriptorOf(hid_t file) {
  const hid_t access = H5Fget_access_plist(file);
  const bool is_posix = access >= 0 && H5Pget_driver(access) == H5FD_SEC2;
  if (access >= 0) H5Pclose(access);
  unsigned intent = 0;
  void* descriptor = nullptr;
  if (!is_posix || H5Fget_intent(file, &intent) < 0 ||
      (intent & H5F_ACC_RDWR) == 0 ||
      H5Fget_vfd_handle(file, H5P_DEFAULT, &descriptor) < 0) {
    return -1;
  }
  return *static_cast<int*>(descriptor);
}

// What HDF5 may yet write besides the arrays: what it caches, and a little.
// It lies at the start of the file.
int64_t UnwrittenBytes(hid_t file) {
  constexpr int64_t kAndALittle = int64_t{64} << 10;
  hsize_t all = 0;
  size_t cached = 0;
  if (H5Fget_filesize(file, &all) < 0 ||
      H5Fget_mdc_size(file, nullptr, nullptr, &cached, nullptr) < 0) {
    return 0;
  }
  return std::min(static_cast<int64_t>(all),
                  static_cast<int64_t>(cached) + kAndALittle);
}

bool IsFull(int error) { return error == ENOSPC || error == EDQUOT; }

// Reads until the buffer is full or the file ends; the rest stays as it is.
bool ReadPart(int descriptor, int64_t at, std::string& part) {
  for (size_t done = 0; done < part.size();) {
    const ssize_t count =
        pread(descriptor, part.data() + done, part.size() - done,
              at + static_cast<int64_t>(done));
    if (count == 0) break;
    if (count < 0 && errno != EINTR) return false;
    if (count > 0) done += count;
  }
  return true;
}

// Gives the first bytes of a file their space where nothing else does: by
// writing what is there. Returns false if there is none.
bool WriteBack(int descriptor, int64_t bytes) {
  constexpr int64_t kPartBytes = int64_t{64} << 10;
  for (int64_t at = 0; at < bytes; at += kPartBytes) {
    std::string part(std::min(kPartBytes, bytes - at), '\0');
    if (!ReadPart(descriptor, at, part)) return true;
    const ssize_t written = pwrite(descriptor, part.data(), part.size(), at);
    if (written < 0) return !IsFull(errno);
    if (written < std::ssize(part)) return false;
  }
  return true;
}

bool HasRoom(int descriptor, int64_t bytes) {
  if (bytes == 0 || fallocate(descriptor, FALLOC_FL_KEEP_SIZE, 0, bytes) == 0) {
    return true;
  }
  if (errno != EOPNOTSUPP && errno != ENOSYS) return !IsFull(errno);
  struct statvfs space;
  const bool has_limit =
      fstatvfs(descriptor, &space) == 0 && space.f_blocks != 0;
  if (has_limit &&
      space.f_bavail * space.f_frsize < static_cast<uint64_t>(bytes)) {
    return false;
  }
  // Other ranks may take the space that was seen.
  return WriteBack(descriptor, bytes);
}

// What HDF5 cannot write when it closes a file leaves the file half open, and
// HDF5 crashes over it in MPI_Finalize; a flush that fails makes no
// difference. So such a file is not tried: its last writes go into memory.
Status MakeRoom(hid_t file, std::string_view name) {
  const int descriptor = DescriptorOf(file);
  if (descriptor < 0 || HasRoom(descriptor, UnwrittenBytes(file))) {
    return absl::OkStatus();
  }
  const int memory = memfd_create("belay", MFD_CLOEXEC);
  if (memory >= 0) {
    dup3(memory, descriptor, O_CLOEXEC);
    close(memory);
  }
  return absl::ResourceExhaustedError(
      Cat("close file \"", name, "\": no space left on device"));
}

void CloseSilently(hid_t id) {
  const Closer& closer = CloserOf(id);
  if (closer.type == H5I_FILE) MakeRoom(id, "").IgnoreError();
  closer.close(id);
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
  Status status;
  if (closer.type == H5I_FILE) status = MakeRoom(id, name_);
  status.Update(Check(closer.close(id), closer.site, name_));
  return status;
}

}  // namespace belay::h5
