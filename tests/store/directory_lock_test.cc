#include "store/directory_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "directory_fixture.h"

namespace belay::directory_lock_test {
namespace {

using ::testing::HasSubstr;

class DirectoryLockTest : public DirectoryTest {
 protected:
  StatusOr<DirectoryLock> Take() const { return DirectoryLock::Take(dir_, 0); }
};

TEST_F(DirectoryLockTest, OneHoldsIt) {
  StatusOr<DirectoryLock> first = Take();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->is_held());
  const Status second = Take().status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition) << second;
  EXPECT_THAT(std::string(second.message()),
              HasSubstr("another process holds the directory (waited 0 s)"));
  DirectoryLock moved = *std::move(first);
  EXPECT_FALSE(Take().ok());
  moved = {};
  EXPECT_TRUE(Take().ok());
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
}

TEST_F(DirectoryLockTest, WhatIsNoDirectoryIsNamed) {
  Put("file", "");
  EXPECT_EQ(DirectoryLock::Take(Path("file"), 0).status(),
            absl::InvalidArgumentError("lock \"" + Path("file") +
                                       "\": not a directory"));
  EXPECT_EQ(DirectoryLock::Take(Path("none"), 0).status(),
            absl::NotFoundError("lock \"" + Path("none") +
                                "\": no such file or directory"));
}

TEST_F(DirectoryLockTest, PassesOneFaultPoint) {
  ExpectOnePoint("lock", [&] { return Take().status(); });
}

}  // namespace
}  // namespace belay::directory_lock_test
