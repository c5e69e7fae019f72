// Files of HDF5 on a disk that another program fills up.

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "absl/strings/str_cat.h"
#include "h5_testing.h"

namespace {

bool can_reserve = true;
std::string filler;

// Takes all space.
void FillUp() {
  const int fd = open(filler.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  const std::string page(4096, 'x');
  while (write(fd, page.data(), page.size()) > 0) continue;
  close(fd);
}

}  // namespace

// The library's calls land here.
extern "C" int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  if (can_reserve) {
    return static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, bytes));
  }
  errno = EOPNOTSUPP;
  return -1;
}

namespace belay::h5 {
namespace {

// A file system of 1 MiB at dir_, seen by this process only.
class H5FullDiskTest : public H5Test {
 protected:
  void SetUp() override {
    H5Test::SetUp();
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", dir_.c_str(), "tmpfs", 0, "size=1m") != 0) {
      GTEST_SKIP() << "needs the right to mount a small tmpfs";
    }
  }
  void TearDown() override {
    can_reserve = true;
    filler.clear();
    umount2(dir_.c_str(), MNT_DETACH);
    H5Test::TearDown();
  }

  // A file with 50 datasets, most of it not written yet.
  Handle Create() const {
    Handle file = Value(CreateFile(Path("a.h5")));
    ObjectCache cache;
    for (int i = 0; i < 50; ++i) {
      const DatasetSpec spec{absl::StrCat("w", i), DType::kU8, 0, {100}, {}};
      Value(CreateDataset(file, cache, spec));
    }
    return file;
  }
};

// HDF5 would crash when the process ends, if it had tried to write.
TEST_F(H5FullDiskTest, TheSpaceThatWasSeenIsGone) {
  for (const bool reserves : {true, false}) {
    can_reserve = reserves;
    Handle file = Create();
    filler = Path("filler");
    FillUp();
    EXPECT_EQ(file.Close(), absl::ResourceExhaustedError(
                                absl::StrCat("close file \"", Path("a.h5"),
                                             "\": no space left on device")));
    unlink(filler.c_str());
    unlink(Path("a.h5").c_str());
    filler.clear();
  }
}

TEST_F(H5FullDiskTest, WhatIsThereStaysWhereSpaceCannotBeReserved) {
  Ok(Create().Close());
  const std::string expected = testing::FileBytes(Path("a.h5"));
  unlink(Path("a.h5").c_str());
  can_reserve = false;
  Ok(Create().Close());
  EXPECT_EQ(testing::FileBytes(Path("a.h5")), expected);
}

}  // namespace
}  // namespace belay::h5
