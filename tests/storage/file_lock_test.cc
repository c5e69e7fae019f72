#include "storage/file_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "directory_fixture.h"

namespace belay::file_lock_test {
namespace {

using ::testing::HasSubstr;

class FileLockTest : public DirectoryTest {
 protected:
  mode_t ModeIn(mode_t directory, mode_t umask) {
    EXPECT_EQ(::chmod(dir_.c_str(), directory), 0);
    const mode_t before = ::umask(umask);
    const StatusOr<FileLock> file = FileLock::Open(Path("lock"), "{belay");
    ::umask(before);
    EXPECT_TRUE(file.ok()) << file.status();
    struct stat stat = {};
    EXPECT_EQ(::stat(Path("lock").c_str(), &stat), 0);
    return stat.st_mode & 0777;
  }
};

TEST_F(FileLockTest, OnlyThoseOpenItWhoMayWriteToItsDirectory) {
  for (const mode_t umask : {0, 022, 077}) {
    EXPECT_EQ(ModeIn(0700, umask), 0600u);
    EXPECT_EQ(ModeIn(0755, umask), 0600u);
    EXPECT_EQ(ModeIn(0775, umask), 0660u);
    EXPECT_EQ(ModeIn(01777, umask), 0666u);
    std::filesystem::remove(Path("lock"));
  }
}

TEST_F(FileLockTest, AFileThatWasOpenToReadersIsClosedToThem) {
  Put("lock", "");
  ASSERT_EQ(::chmod(Path("lock").c_str(), 0644), 0);
  EXPECT_EQ(ModeIn(0755, 022), 0600u);
}

TEST_F(FileLockTest, AFileThatBelayHasNotMadeIsLeftAsItIs) {
  for (const std::string content : {"key of a colleague", "{belai", "{"}) {
    Put("theirs", content);
    ASSERT_EQ(::chmod(Path("theirs").c_str(), 0640), 0);
    ASSERT_EQ(::chmod(dir_.c_str(), 0775), 0);
    std::error_code error;
    std::filesystem::remove(Path("lock"), error);
    std::filesystem::create_hard_link(Path("theirs"), Path("lock"));
    EXPECT_THAT(FileLock::Open(Path("lock"), "{belay").status().message(),
                HasSubstr("need 1 hard link, found 2"));
    std::filesystem::remove(Path("theirs"));
    const bool is_part = std::string_view("{belay").starts_with(content);
    EXPECT_EQ(FileLock::Open(Path("lock"), "{belay").ok(), is_part) << content;
    struct stat stat = {};
    ASSERT_EQ(::stat(Path("lock").c_str(), &stat), 0);
    EXPECT_EQ(stat.st_mode & 0777, is_part ? 0660u : 0640u);
    EXPECT_EQ(Content("lock"), content);
  }
}

TEST_F(FileLockTest, WhoMayOnlyReadHoldsNobodyUp) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  EXPECT_EQ(ModeIn(0755, 022), 0600u);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(2);
    const int fd = ::open(Path("lock").c_str(), O_RDONLY | O_CLOEXEC);
    ::_exit(fd < 0 && errno == EACCES ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(FileLockTest, KnowsWhenItsNameIsGone) {
  const StatusOr<FileLock> file = FileLock::Open(Path("lock"), "{belay");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->HasItsName());
  std::filesystem::remove(Path("lock"));
  EXPECT_FALSE(file->HasItsName());
  Put("lock", "");  // another one of this name
  EXPECT_FALSE(file->HasItsName());
}

}  // namespace
}  // namespace belay::file_lock_test
