// The HDF5 driver for files that a single process writes.
//
// If HDF5 1.10 fails to write a file while closing it, the file stays half
// open. No call can close it again, and HDF5 crashes when the process ends. So
// this driver hides failed metadata writes from HDF5: it keeps the first error
// for the caller that closes the file, and drops later writes. Otherwise it
// behaves like HDF5's default driver, and makes identical files.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "hdf5/handle.h"

namespace belay::h5 {
namespace {

// HDF5 requires H5FD_t as the first member of a driver's file.
struct OpenFile {
  H5FD_t of_hdf5 = {};
  int fd = -1;
  int error = 0;      // of the first write that failed
  haddr_t end = 0;    // end of the file
  haddr_t space = 0;  // end of the space that HDF5 has allocated
  dev_t device = 0;
  ino_t number = 0;
};

// The first error in the files that HDF5 has closed, for TakeWriteError.
thread_local int write_error = 0;

OpenFile& AsOpenFile(H5FD_t* file) {
  return *reinterpret_cast<OpenFile*>(file);
}
const OpenFile& AsOpenFile(const H5FD_t* file) {
  return *reinterpret_cast<const OpenFile*>(file);
}

// Pushes an error to HDF5's error stack, as its own driver does.
void Tell(const char* what, hid_t minor, int error) {
  H5Epush2(H5E_DEFAULT, __FILE__, "belay", __LINE__, H5E_ERR_CLS, H5E_FILE,
           minor, "%s: errno = %d, error message = '%s'", what, error,
           std::strerror(error));
}

int OpenFlags(unsigned flags) {
  return O_CLOEXEC | ((flags & H5F_ACC_RDWR) != 0 ? O_RDWR : O_RDONLY) |
         ((flags & H5F_ACC_TRUNC) != 0 ? O_TRUNC : 0) |
         ((flags & H5F_ACC_CREAT) != 0 ? O_CREAT : 0) |
         ((flags & H5F_ACC_EXCL) != 0 ? O_EXCL : 0);
}

H5FD_t* Open(const char* name, unsigned flags, hid_t /*access*/,
             haddr_t /*most*/) {
  auto file = std::make_unique<OpenFile>();
  file->fd = open(name, OpenFlags(flags), 0666);
  struct stat stat = {};
  if (file->fd < 0 || fstat(file->fd, &stat) != 0) {
    Tell("unable to open file", H5E_CANTOPENFILE, errno);
    if (file->fd >= 0) close(file->fd);
    return nullptr;
  }
  file->end = static_cast<haddr_t>(stat.st_size);
  file->device = stat.st_dev;
  file->number = stat.st_ino;
  return &file.release()->of_hdf5;
}

void KeepFirst(int error, int& first) {
  if (first == 0) first = error;
}

herr_t Close(H5FD_t* of_hdf5) {
  const std::unique_ptr<OpenFile> file(&AsOpenFile(of_hdf5));
  if (close(file->fd) != 0) KeepFirst(errno, file->error);
  KeepFirst(file->error, write_error);
  return 0;
}

int Compare(const H5FD_t* a, const H5FD_t* b) {
  const auto key = [](const H5FD_t* file) {
    return std::pair(AsOpenFile(file).device, AsOpenFile(file).number);
  };
  return key(a) < key(b) ? -1 : key(b) < key(a) ? 1 : 0;
}

herr_t Query(const H5FD_t* /*file*/, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA |
           H5FD_FEAT_DATA_SIEVE | H5FD_FEAT_AGGREGATE_SMALLDATA |
           H5FD_FEAT_POSIX_COMPAT_HANDLE | H5FD_FEAT_SUPPORTS_SWMR_IO |
           H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t Space(const H5FD_t* file, H5FD_mem_t /*type*/) {
  return AsOpenFile(file).space;
}

herr_t SetSpace(H5FD_t* file, H5FD_mem_t /*type*/, haddr_t end) {
  AsOpenFile(file).space = end;
  return 0;
}

haddr_t End(const H5FD_t* file, H5FD_mem_t /*type*/) {
  return AsOpenFile(file).end;
}

herr_t Descriptor(H5FD_t* file, hid_t /*access*/, void** descriptor) {
  *descriptor = &AsOpenFile(file).fd;
  return 0;
}

// Bytes past the end of the file read as zeros.
herr_t Read(H5FD_t* file, H5FD_mem_t /*type*/, hid_t /*transfer*/, haddr_t at,
            size_t bytes, void* buffer) {
  auto* to = static_cast<char*>(buffer);
  while (bytes > 0) {
    const ssize_t count =
        pread(AsOpenFile(file).fd, to, bytes, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      Tell("file read failed", H5E_READERROR, errno);
      return -1;
    }
    if (count == 0) {
      std::memset(to, 0, bytes);
      return 0;
    }
    to += count;
    at += static_cast<haddr_t>(count);
    bytes -= static_cast<size_t>(count);
  }
  return 0;
}

// HDF5 can handle a failed write of values, so this also reports it
// immediately.
herr_t Write(H5FD_t* of_hdf5, H5FD_mem_t type, hid_t /*transfer*/, haddr_t at,
             size_t bytes, const void* buffer) {
  OpenFile& file = AsOpenFile(of_hdf5);
  file.end = std::max(file.end, at + bytes);
  const auto* from = static_cast<const char*>(buffer);
  while (bytes > 0 && file.error == 0) {
    const ssize_t count = pwrite(file.fd, from, bytes, static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      file.error = count < 0 ? errno : EIO;
      if (type != H5FD_MEM_DRAW) return 0;
      Tell("file write failed", H5E_WRITEERROR, file.error);
      return -1;
    }
    from += count;
    at += static_cast<haddr_t>(count);
    bytes -= static_cast<size_t>(count);
  }
  return 0;
}

// Sets the file's length to what HDF5 expects.
herr_t Truncate(H5FD_t* of_hdf5, hid_t /*transfer*/, hbool_t /*closing*/) {
  OpenFile& file = AsOpenFile(of_hdf5);
  if (file.space == file.end) return 0;
  if (file.error == 0 &&
      ftruncate(file.fd, static_cast<off_t>(file.space)) != 0) {
    file.error = errno;
  }
  file.end = file.space;
  return 0;
}

H5FD_class_t DriverClass() {
  H5FD_class_t driver = {};
  driver.name = "belay_writer";
  driver.maxaddr = static_cast<haddr_t>(INT64_MAX);
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.open = Open;
  driver.close = Close;
  driver.cmp = Compare;
  driver.query = Query;
  driver.get_eoa = Space;
  driver.set_eoa = SetSpace;
  driver.get_eof = End;
  driver.get_handle = Descriptor;
  driver.read = Read;
  driver.write = Write;
  driver.truncate = Truncate;
  const H5FD_mem_t map[] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(map), std::end(map), driver.fl_map);
  return driver;
}

// Registers the driver once per process. Returns a negative number if HDF5
// rejects it.
hid_t Driver() {
  static const H5FD_class_t driver = DriverClass();
  static const hid_t id = H5FDregister(&driver);
  return id;
}

}  // namespace

Status UseWriterDriver(hid_t access, std::string_view object) {
  const hid_t driver = Driver();
  return Check(driver < 0 ? -1 : H5Pset_driver(access, driver, nullptr),
               "set driver", object);
}

int TakeWriteError() { return std::exchange(write_error, 0); }

}  // namespace belay::h5
