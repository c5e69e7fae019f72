// What a save with `overwrite` may take the place of.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "directory_fixture.h"
#include "storage/commit.h"

namespace belay::replaceable_test {
namespace {

using ReplaceableTest = DirectoryTest;

TEST_F(ReplaceableTest, AStepAndWhatIsLeftOfOne) {
  std::filesystem::create_directory(Path("step"));
  EXPECT_EQ(CheckReplaceable(Path("step")), absl::OkStatus());
  Put("step/data_00000_of_00001.h5", "data");
  EXPECT_EQ(CheckReplaceable(Path("step")), absl::OkStatus());
  Put("step/index.h5", "index");
  EXPECT_EQ(CheckReplaceable(Path("step")), absl::OkStatus());
}

TEST_F(ReplaceableTest, NothingOfOthers) {
  std::filesystem::create_directory(Path("notes"));
  Put("notes/thesis.tex", "text");
  Put("file", "text");
  for (const std::string name : {"notes", "file"}) {
    EXPECT_EQ(CheckReplaceable(Path(name)),
              absl::FailedPreconditionError(
                  "overwrite \"" + Path(name) +
                  "\": not a checkpoint; nothing is removed; move it away or "
                  "choose another one"));
  }
  Put("notes/index.h5", "index");
  EXPECT_EQ(
      CheckReplaceable(Path("notes")),
      absl::FailedPreconditionError(
          "overwrite \"" + Path("notes") +
          "\": not written by belay: \"thesis.tex\"; nothing is removed"));
}

}  // namespace
}  // namespace belay::replaceable_test
