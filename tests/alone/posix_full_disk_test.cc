#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "directory_fixture.h"
#include "storage/mapped_file.h"
#include "storage/posix_file.h"

namespace {

bool can_reserve = true;

}  // namespace

// The library's calls land here.
extern "C" int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  if (can_reserve) {
    return static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, bytes));
  }
  errno = EOPNOTSUPP;
  return -1;
}

namespace belay {
namespace {

constexpr int64_t kDiskBytes = 1 << 20;

// A file system of 1 MiB at dir_, seen by this process only.
class FullDiskTest : public DirectoryTest {
 protected:
  void SetUp() override {
    if (unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", dir_.c_str(), "tmpfs", 0, "size=1m") != 0) {
      GTEST_SKIP() << "needs the right to mount a small tmpfs: "
                   << ErrnoStatus(errno, "mount", dir_);
    }
    mounted_ = true;
  }
  void TearDown() override {
    can_reserve = true;
    if (mounted_) umount2(dir_.c_str(), MNT_DETACH);
  }

  PosixFile Create(const std::string& name) const {
    return PosixFile::Open(Path(name), PosixFile::Mode::kCreate).value();
  }

  bool mounted_ = false;
};

TEST_F(FullDiskTest, WriteStopsWithNoSpace) {
  PosixFile file = Create("a");
  const std::string data(kDiskBytes + 4096, 'x');
  EXPECT_EQ(file.PwriteAll(0, data.data(), kDiskBytes + 4096),
            absl::ResourceExhaustedError("write \"" + Path("a") +
                                         "\": no space left on device"));
  EXPECT_EQ(FreeBytes(dir_).value(), 0);
}

TEST_F(FullDiskTest, WritingBesideOthersStopsLikewise) {
  const std::string data(kDiskBytes, 'x');
  PosixFile taker = Create("a");
  ASSERT_TRUE(taker.Extend(kDiskBytes).ok());
  ASSERT_TRUE(taker.PwriteAll(0, data.data(), kDiskBytes / 2).ok());
  ASSERT_TRUE(Create("b").PwriteAll(0, data.data(), 4096).ok());
  const int other = open(Path("a").c_str(), O_RDWR);
  const WriteTurn turn(other);
  ASSERT_FALSE(turn.is_taken());
  PosixFile file =
      PosixFile::Open(Path("a"), PosixFile::Mode::kWriteBeside).value();
  const std::vector<std::span<const std::byte>> half = {
      std::as_bytes(std::span(data)).first(kDiskBytes / 2)};
  EXPECT_EQ(file.PwriteParts(kDiskBytes / 2, half),
            absl::ResourceExhaustedError("write \"" + Path("a") +
                                         "\": no space left on device"));
  EXPECT_EQ(FreeBytes(dir_).value(), 0);
  close(other);
}

TEST_F(FullDiskTest, FallocateSaysWhatIsFree) {
  PosixFile other = Create("other");
  ASSERT_TRUE(other.Fallocate(1 << 18).ok());
  EXPECT_EQ(FreeBytes(dir_).value(), kDiskBytes - (1 << 18));
  PosixFile file = Create("a");
  EXPECT_EQ(file.Fallocate(kDiskBytes),
            absl::ResourceExhaustedError(
                "reserve \"" + Path("a") +
                "\": no space left (need 1048576 bytes, found 786432)"));
}

TEST_F(FullDiskTest, WithoutFallocateOwnBlocksCount) {
  PosixFile file = Create("a");
  const std::string data(kDiskBytes / 2, 'x');
  ASSERT_TRUE(file.PwriteAll(0, data.data(), kDiskBytes / 2).ok());
  can_reserve = false;
  EXPECT_TRUE(file.Fallocate(kDiskBytes).ok());
  EXPECT_EQ(file.Stat()->size, kDiskBytes);
  EXPECT_TRUE(file.Fallocate(10).ok());
  EXPECT_EQ(file.Stat()->size, kDiskBytes);
  EXPECT_EQ(file.Fallocate(kDiskBytes + 1),
            absl::ResourceExhaustedError(
                "reserve \"" + Path("a") +
                "\": no space left (need 1048577 bytes, found 1048576)"));
}

TEST_F(FullDiskTest, AFileSystemWithoutALimitIsNeverFull) {
  ASSERT_TRUE(MakeDirectory(Path("ram")).ok());
  ASSERT_EQ(mount("none", Path("ram").c_str(), "ramfs", 0, nullptr), 0);
  EXPECT_EQ(FreeBytes(Path("ram")).value(), INT64_MAX);
  PosixFile file = Create("ram/a");  // ramfs cannot reserve either
  EXPECT_TRUE(file.Fallocate(int64_t{1} << 40).ok());
  EXPECT_EQ(file.Stat()->size, int64_t{1} << 40);
  EXPECT_EQ(file.Stat()->allocated_bytes, 0);
}

TEST_F(FullDiskTest, ReadOnlyFileSystem) {
  ASSERT_EQ(mount("none", dir_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, ""),
            0);
  EXPECT_EQ(MakeDirectory(Path("d")),
            absl::PermissionDeniedError("create directory \"" + Path("d") +
                                        "\": read-only file system"));
}

}  // namespace
}  // namespace belay
