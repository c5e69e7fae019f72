// A step that is deleted between rank 0's look at its index and another rank's
// look at its data.

#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <string>

#include "manager_testing.h"

namespace {

// The step that goes as soon as this rank opens a data file of it, and where
// to.
std::string* going = nullptr;
std::string* gone = nullptr;

}  // namespace

// The library's calls land here.
extern "C" int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  if (going != nullptr && std::string(path).starts_with(*going + "/data_")) {
    rename(going->c_str(), gone->c_str());
  }
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

namespace belay::testing::manager_deletion_test {
namespace {

class ManagerDeletionTest : public ManagerTest {
 protected:
  void SetUp() override {
    auto writer = Manage();
    ASSERT_EQ(writer.status(), absl::OkStatus());
    SaveAll(*writer, 1, 3);
  }
  void TearDown() override { going = gone = nullptr; }

  // Lets step 2 go as soon as the last rank reads its data.
  void LetStepGo() {
    if (WorldRank() != WorldSize() - 1) return;
    going = &going_;
    gone = &gone_;
  }

  std::string going_ = StepDir(2);
  std::string gone_ = scratch_.File("gone");
};

TEST_F(ManagerDeletionTest, TheStepBeforeItIsRestored) {
  auto reader = Manage({.read_only = true});
  ASSERT_EQ(reader.status(), absl::OkStatus());
  LetStepGo();
  const StatusOr<ManagedRestore> restored = reader->RestoreLatest();
  ASSERT_EQ(restored.status(), absl::OkStatus());
  EXPECT_EQ(restored->step, 1);
  EXPECT_TRUE(restored->skipped.empty());  // it was not damaged
  EXPECT_TRUE(program_.Is(1));
  EXPECT_FALSE(std::filesystem::exists(going_));
}

TEST_F(ManagerDeletionTest, OfOneThatIsAskedForTheReasonIsTold) {
  if (WorldSize() == 1) GTEST_SKIP() << "needs a rank that sees less";
  auto reader = Manage({.read_only = true});
  ASSERT_EQ(reader.status(), absl::OkStatus());
  LetStepGo();
  EXPECT_THAT(SameError(reader->Restore(2).status(),
                        absl::StatusCode::kFailedPrecondition),
              ::testing::HasSubstr("the step was deleted while it was read"));
}

}  // namespace
}  // namespace belay::testing::manager_deletion_test
