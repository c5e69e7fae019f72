#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "directory_fixture.h"
#include "manager/manager_files.h"
#include "storage/commit.h"

namespace belay::set_aside_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Steps = std::vector<int64_t>;

class SetAsideTest : public DirectoryTest {
 protected:
  void Make(const Steps& steps) const {
    for (const int64_t step : steps) {
      const std::string name = "step_0000000" + std::to_string(step);
      fs::create_directories(Path(name));
      Put(name + "/index.h5", "step " + std::to_string(step));
    }
  }

  AsideOrder Order(NewerSteps how, const Steps& deletable = {}) const {
    return {.dir = dir_,
            .prefix = "step",
            .aside = NextAside(dir_, "step").value(),
            .how = how,
            .deletable = deletable};
  }

  Steps In(const std::string& dir) const {
    return CommittedSteps(dir, "step").value_or(Steps());
  }
};

TEST_F(SetAsideTest, StepsAreMovedUnderTheirNames) {
  Make({1, 2, 3});
  const auto outcome = SetAside(Order(NewerSteps::kSetAside), {2, 3});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->moved, ElementsAre(2, 3));
  EXPECT_THAT(outcome->deleted, IsEmpty());
  EXPECT_THAT(In(dir_), ElementsAre(1));
  EXPECT_THAT(In(Path("step.aside_0001")), ElementsAre(2, 3));
  EXPECT_EQ(Content("step.aside_0001/step_00000002/index.h5"), "step 2");
  EXPECT_EQ(NextAside(dir_, "step").value(), "step.aside_0002");
  EXPECT_EQ(NextAside(dir_, "other").value(), "other.aside_0001");
}

TEST_F(SetAsideTest, OnlyWhatManagersHaveSavedIsDeleted) {
  Make({1, 2, 3, 4});
  Put("step_00000004/notes.txt", "mine");
  const auto outcome = SetAside(Order(NewerSteps::kDelete, {2, 4}), {2, 3, 4});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_THAT(outcome->deleted, ElementsAre(2));
  EXPECT_THAT(outcome->moved, ElementsAre(3, 4));
  EXPECT_THAT(outcome->notes,
              ElementsAre(HasSubstr("step 4 is set aside and not deleted: "),
                          HasSubstr("no manager has saved it")));
  EXPECT_EQ(Content("step.aside_0001/step_00000004/notes.txt"), "mine");
}

// What is left goes up to some step, and a second call finishes.
TEST_F(SetAsideTest, WhereverItEndsItCanBeFinished) {
  for (const NewerSteps how : {NewerSteps::kSetAside, NewerSteps::kDelete}) {
    for (int64_t point = 1;; ++point) {
      fs::remove_all(dir_);
      fs::create_directory(dir_);
      Make({1, 2, 3, 4});
      const AsideOrder order = Order(how, {2, 3, 4});
      fault::Arm(point);
      const auto failed = SetAside(order, {2, 3, 4});
      const bool injected = fault::Count() >= point;
      fault::Disarm();
      const Steps left = In(dir_);
      for (size_t i = 0; i < left.size(); ++i) {
        EXPECT_EQ(left[i], static_cast<int64_t>(i + 1)) << point;
      }
      Steps newer(left.begin() + 1, left.end());
      EXPECT_TRUE(SetAside(order, newer).ok()) << point;
      EXPECT_THAT(In(dir_), ElementsAre(1));
      if (!injected) break;
    }
  }
}

// A damaged state file must not choose where steps go.
TEST_F(SetAsideTest, StepsStayInTheDirectory) {
  Make({1, 2});
  fs::create_directories(Path("elsewhere"));
  fs::create_directory_symlink("elsewhere", Path("step.aside_0001"));
  AsideOrder order = Order(NewerSteps::kSetAside);
  EXPECT_EQ(order.aside, "step.aside_0002");
  for (const std::string name :
       {"", ".", "..", "../x", "/tmp/x", "elsewhere", "step_00000001",
        "../step.aside_0001", "other.aside_0001", "step.aside_1",
        "step.aside_+001"}) {
    order.aside = name;
    EXPECT_EQ(SetAside(order, {2}).status(),
              absl::InvalidArgumentError(
                  "set steps of \"" + dir_ +
                  "\" aside: not a name for that (need step.aside_0001, found "
                  "\"" +
                  name + "\")"));
  }
  order.aside = "x\nsteps: none";
  EXPECT_THAT(std::string(SetAside(order, {2}).status().message()),
              HasSubstr("found \"x\\nsteps: none\""));
  Put("step.aside_0002", "a file");
  for (const std::string name : {"step.aside_0001", "step.aside_0002"}) {
    order.aside = name;
    EXPECT_EQ(SetAside(order, {2}).status(),
              absl::FailedPreconditionError(
                  "set steps of \"" + dir_ + "\" aside: \"" + Path(name) +
                  "\" is a symbolic link or not a directory; move it away"));
  }
  EXPECT_THAT(In(dir_), ElementsAre(1, 2));
  EXPECT_TRUE(fs::is_empty(Path("elsewhere")));
}

}  // namespace
}  // namespace belay::set_aside_test
