// The space of files: what is reserved, and what has holes.

#include <gtest/gtest.h>

#include <string>

#include "directory_fixture.h"
#include "storage/posix_file.h"

namespace belay::posix_file_space_test {
namespace {

class PosixFileSpaceTest : public DirectoryTest {
 protected:
  PosixFile Create(const std::string& name) const {
    return *PosixFile::Open(Path(name), PosixFile::Mode::kCreate);
  }
};

TEST_F(PosixFileSpaceTest, FallocateReservesAndExtends) {
  PosixFile file = Create("a");
  EXPECT_TRUE(file.PwriteAll(0, "abc", 3).ok());
  EXPECT_TRUE(file.Fallocate(1'000'000).ok());
  EXPECT_EQ(file.Stat()->size, 1'000'000);
  EXPECT_GE(file.Stat()->allocated_bytes, 1'000'000);
  EXPECT_EQ(Content("a").substr(0, 4), std::string("abc\0", 4));
  EXPECT_TRUE(file.Fallocate(10).ok());
  EXPECT_EQ(file.Stat()->size, 1'000'000);
}

TEST_F(PosixFileSpaceTest, ExtendReservesNothingButLooksForSpace) {
  PosixFile file = Create("a");
  EXPECT_TRUE(file.PwriteAll(0, "abc", 3).ok());
  EXPECT_TRUE(file.Extend(10'000'000).ok());
  EXPECT_EQ(file.Stat()->size, 10'000'000);
  EXPECT_LT(file.Stat()->allocated_bytes, 1'000'000);
  const Status status = file.Extend(int64_t{1} << 60);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(file.Stat()->size, 10'000'000);
}

TEST_F(PosixFileSpaceTest, DataBytesLeavesHolesOut) {
  PosixFile file = Create("a");
  EXPECT_EQ(file.DataBytes(), 0);
  EXPECT_TRUE(file.PwriteAll(0, "x", 1).ok());
  EXPECT_EQ(file.DataBytes(), 1);
  EXPECT_TRUE(file.PwriteAll(10'000'000, "x", 1).ok());
  EXPECT_GE(file.DataBytes(), 2);
  EXPECT_LT(file.DataBytes(), 1'000'000);
}

TEST_F(PosixFileSpaceTest, StatSeesHoles) {
  PosixFile file = Create("a");
  EXPECT_TRUE(file.PwriteAll(10'000'000, "x", 1).ok());
  EXPECT_EQ(file.Stat()->size, 10'000'001);
  EXPECT_LT(file.Stat()->allocated_bytes, 1'000'000);
}

}  // namespace
}  // namespace belay::posix_file_space_test
