// Files of HDF5 on a file system that is lost while they are written.

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/status_macros.h"
#include "h5_testing.h"
#include "hdf5/handle.h"

namespace {

// So many calls are let through; negative: all.
int64_t calls_left = -1;
int lost_error = 0;

bool IsLost() {
  if (calls_left < 0) return false;
  if (calls_left > 0) {
    --calls_left;
    return false;
  }
  errno = lost_error;
  return true;
}

}  // namespace

// The library's calls, and those of HDF5, land here.
extern "C" int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  if (IsLost()) return -1;
  return static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, bytes));
}

extern "C" ssize_t pwrite(int fd, const void* data, size_t bytes, off_t at) {
  if (IsLost()) return -1;
  return syscall(SYS_pwrite64, fd, data, bytes, at);
}

extern "C" ssize_t pread(int fd, void* data, size_t bytes, off_t at) {
  if (IsLost()) return -1;
  return syscall(SYS_pread64, fd, data, bytes, at);
}

extern "C" int ftruncate(int fd, off_t bytes) noexcept {
  if (IsLost()) return -1;
  return static_cast<int>(syscall(SYS_ftruncate, fd, bytes));
}

namespace belay::h5 {
namespace {

class H5LostStorageTest : public H5Test {
 protected:
  void TearDown() override {
    calls_left = -1;
    H5Test::TearDown();
  }

  // Makes datasets, every other one with values. Most of it is written when
  // the file is closed.
  static Status Fill(const Handle& file) {
    ObjectCache cache;
    for (int i = 0; i < 50; ++i) {
      const std::string name = absl::StrCat("w", i);
      const DatasetSpec spec{name, DType::kU8, 0, {100}, {}};
      BELAY_RETURN_IF_ERROR(CreateDataset(file, cache, spec).status());
      if (i % 2 == 0) continue;
      BELAY_ASSIGN_OR_RETURN(const Handle dataset, OpenDataset(file, name));
      const std::string bytes(100, 'x');
      BELAY_RETURN_IF_ERROR(
          WriteHyperslab(dataset, WholeBox({100}), {DType::kU8}, bytes.data()));
    }
    return absl::OkStatus();
  }

  Handle Create() const {
    Handle file = Value(CreateFile(Path("a.h5")));
    Ok(Fill(file));
    return file;
  }

  // Makes a file of which only so many calls succeed, and returns what became
  // of it.
  Status MakeWith(int64_t calls) const {
    Handle file = Value(CreateFile(Path("a.h5")));
    calls_left = calls;
    Status status = Fill(file);
    if (status.ok()) {
      status = file.Close();
    } else {
      file = Handle();
    }
    calls_left = -1;
    unlink(Path("a.h5").c_str());
    return status;
  }
};

// HDF5 would crash when the process ends, if a file stayed half open.
TEST_F(H5LostStorageTest, AFileThatCannotBeWrittenIsClosed) {
  for (const int error : {ENOTCONN, EIO, ESTALE}) {
    lost_error = error;
    int64_t calls = 0;
    for (; calls < 1000; ++calls) {
      const Status status = MakeWith(calls);
      if (status.ok()) break;
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    }
    EXPECT_GT(calls, 2);
    EXPECT_LT(calls, 1000);
    const ssize_t open_files = H5Fget_obj_count(H5F_OBJ_ALL, H5F_OBJ_ALL);
    EXPECT_EQ(open_files, 0);
  }
}

TEST_F(H5LostStorageTest, WhatCannotBeReadIsNoDamage) {
  Ok(Create().Close());
  for (const int error : {ENOTCONN, EIO, ETIMEDOUT, EHOSTDOWN}) {
    lost_error = error;
    calls_left = 0;
    const Status status = OpenFileReadOnly(Path("a.h5")).status();
    calls_left = -1;
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_TRUE(IsOfSystem(status)) << status;
  }
}

TEST_F(H5LostStorageTest, AFileCanBeMadeOnceItIsBack) {
  lost_error = ENOTCONN;
  EXPECT_FALSE(MakeWith(1).ok());
  Ok(Create().Close());
  Ok(OpenFileReadOnly(Path("a.h5")).status());
}

}  // namespace
}  // namespace belay::h5
