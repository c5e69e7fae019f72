#include "safetensors/export_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "core/fault.h"
#include "directory_fixture.h"

namespace belay::export_lock_test {
namespace {

using ::testing::HasSubstr;

class ExportLockTest : public DirectoryTest {
 protected:
  StatusOr<ExportLock> Take() const {
    return ExportLock::Take(Path(".model.lock"), 0);
  }
};

TEST_F(ExportLockTest, OneHoldsItAndLeavesNothing) {
  StatusOr<ExportLock> first = Take();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(first->is_held());
  const Status second = Take().status();
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition) << second;
  EXPECT_THAT(std::string(second.message()),
              HasSubstr("another process exports to this name (waited 0 s)"));
  ExportLock moved = *std::move(first);
  EXPECT_FALSE(Take().ok());
  moved = {};
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
  EXPECT_TRUE(Take().ok());
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
}

TEST_F(ExportLockTest, AFileThatAKilledExportLeftIsTaken) {
  Put(".model.lock", "");
  EXPECT_TRUE(Take().ok());
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
}

// Another process may hold what cannot be locked here.
TEST_F(ExportLockTest, OnlyAFileOfItsOwnIsRemoved) {
  for (const bool was_there : {false, true}) {
    if (was_there) Put(".model.lock", "");
    fault::Arm(2);  // the lock, once the file is open
    const Status status = Take().status();
    fault::Disarm();
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(std::filesystem::exists(Path(".model.lock")), was_there);
  }
  {
    const StatusOr<ExportLock> held = Take();
    ASSERT_TRUE(held.ok());
    std::filesystem::rename(Path(".model.lock"), Path("old"));
    Put(".model.lock", "of another process");
  }
  EXPECT_TRUE(std::filesystem::exists(Path(".model.lock")));
}

TEST_F(ExportLockTest, WhatIsNoDirectoryIsNamed) {
  EXPECT_EQ(ExportLock::Take(Path("none/x.lock"), 0).status(),
            absl::NotFoundError("open \"" + Path("none/x.lock") +
                                "\": no such file or directory"));
}

}  // namespace
}  // namespace belay::export_lock_test
