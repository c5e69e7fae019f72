#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>

#include "directory_fixture.h"
#include "manager/manager_files.h"
#include "storage/file_lock.h"

namespace belay::pins_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class PinsTest : public DirectoryTest {
 protected:
  PinsTest() {
    fs::create_directories(Path("step_00000001"));
    Put("step_00000001/index.h5", "content");
  }

  Status Remove() const { return RemoveStep(step_, false); }

  const std::string step_ = Path("step_00000001");
};

TEST_F(PinsTest, AStepStaysWhileAnyoneHasPinnedIt) {
  HeldFile first = PinStep(step_).value();
  {
    const HeldFile second = PinStep(step_).value();
    ASSERT_GE(second.fd(), 0);
    first = HeldFile();
    const Status status = Remove();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("remove \"" + step_ +
                          "\": a program that reads it "
                          "has pinned it"));
    EXPECT_EQ(Content("step_00000001/index.h5"), "content");
  }
  EXPECT_EQ(Remove(), absl::OkStatus());
  EXPECT_FALSE(fs::exists(step_));
}

TEST_F(PinsTest, AStepThatIsAboutToGoIsNotPinned) {
  const StatusOr<HeldFile> going = LockAgainstPins("remove", step_);
  ASSERT_TRUE(going.ok());
  EXPECT_LT(PinStep(step_).value().fd(), 0);
  fs::remove_all(step_);
  EXPECT_LT(PinStep(step_).value().fd(), 0);
}

// A cache of downloads may hold the files of a step as links, and its user may
// want them to be followed.
TEST_F(PinsTest, AnIndexThatIsALinkIsPinned) {
  fs::rename(Path("step_00000001/index.h5"), Path("blob"));
  fs::create_symlink(Path("blob"), Path("step_00000001/index.h5"));
  EXPECT_TRUE(absl::IsInvalidArgument(PinStep(step_).status()));
  setenv("BELAY_FOLLOW_LINKS", "1", 1);
  const HeldFile pin = PinStep(step_).value();
  EXPECT_GE(pin.fd(), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(Remove()));
  unsetenv("BELAY_FOLLOW_LINKS");
}

TEST_F(PinsTest, NothingButAFileIsOpened) {
  fs::remove(Path("step_00000001/index.h5"));
  EXPECT_LT(LockAgainstPins("remove", step_).value().fd(), 0);
  ASSERT_EQ(mkfifo(Path("step_00000001/index.h5").c_str(), 0600), 0);
  EXPECT_FALSE(PinStep(step_).ok());
  EXPECT_FALSE(LockAgainstPins("remove", step_).ok());
}

// Who may only read can pin, and an owner who has protected the file against
// writing still respects it.
TEST_F(PinsTest, NeedsTheRightToReadOnly) {
  fs::permissions(dir_, fs::perms::all);
  fs::permissions(Path("step_00000001/index.h5"),
                  fs::perms::owner_read | fs::perms::group_read);
  HeldFile pin;
  ASSERT_EQ(AsNobody([&]() -> Status {
              StatusOr<HeldFile> taken = PinStep(step_);
              if (taken.ok()) pin = *std::move(taken);
              return taken.status();
            }),
            absl::OkStatus());
  ASSERT_GE(pin.fd(), 0);
  const auto locked = [&] {
    return AsNobody([&] { return LockAgainstPins("remove", step_).status(); });
  };
  EXPECT_TRUE(absl::IsFailedPrecondition(locked())) << locked();
  pin = HeldFile();
  EXPECT_EQ(locked(), absl::OkStatus());
}

}  // namespace
}  // namespace belay::pins_test
