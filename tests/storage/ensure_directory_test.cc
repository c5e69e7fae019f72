#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "directory_fixture.h"
#include "storage/posix_file.h"

namespace belay::ensure_directory_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using EnsureDirectoryTest = DirectoryTest;

TEST_F(EnsureDirectoryTest, MakesOneDirectory) {
  EXPECT_EQ(EnsureDirectory(Path("run"), true), absl::OkStatus());
  EXPECT_TRUE(std::filesystem::is_directory(Path("run")));
  EXPECT_EQ(EnsureDirectory(Path("run"), true), absl::OkStatus());
}

TEST_F(EnsureDirectoryTest, AsksForAParentThatIsMissing) {
  const Status status = EnsureDirectory(Path("no/run"), true);
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("make \"" + Path("no") + "\" first"));
}

// As a link to a scratch directory that is not mounted.
TEST_F(EnsureDirectoryTest, TellsOfALinkToNothing) {
  std::filesystem::create_symlink(Path("no"), Path("link"));
  const Status status = EnsureDirectory(Path("link/run"), true);
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("\"" + Path("link") +
                        "\" is a symbolic link to a missing directory"));
}

// Nothing can be made there, and its parent is no reason.
TEST_F(EnsureDirectoryTest, DoesNotAskForAParentThatIsThere) {
  const Status status = EnsureDirectory("/proc/belay_run", true);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("first")));
}

}  // namespace
}  // namespace belay::ensure_directory_test
