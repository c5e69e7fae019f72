#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>

#include "directory_fixture.h"
#include "storage/mapped_file.h"
#include "storage/posix_file.h"

namespace belay::open_regular_test {
namespace {

using Mode = PosixFile::Mode;

class OpenRegularTest : public DirectoryTest {
 protected:
  static int OpenDescriptors() {
    const std::filesystem::directory_iterator entries("/proc/self/fd");
    return static_cast<int>(std::distance(begin(entries), end(entries)));
  }

  static Status Refused(const std::string& path, const std::string& kind) {
    return absl::InvalidArgumentError(
        "open \"" + path + "\": not a file (need a regular file, found " +
        kind + ")");
  }
};

// Opening a pipe would wait for its other end.
TEST_F(OpenRegularTest, OpensOnlyFiles) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0666), 0);
  ASSERT_EQ(mknod(Path("socket").c_str(), S_IFSOCK | 0666, 0), 0);
  const int before = OpenDescriptors();
  for (Mode mode : {Mode::kRead, Mode::kWrite}) {
    EXPECT_EQ(PosixFile::Open(Path("pipe"), mode).status(),
              Refused(Path("pipe"), "a pipe"));
    EXPECT_EQ(PosixFile::Open(Path("socket"), mode).status(),
              Refused(Path("socket"), "a socket"));
    EXPECT_EQ(PosixFile::Open("/dev/null", mode).status(),
              Refused("/dev/null", "a device"));
  }
  EXPECT_EQ(PosixFile::Open(dir_, Mode::kRead).status(),
            Refused(dir_, "a directory"));
  EXPECT_EQ(MappedFile::Open(Path("pipe")).status(),
            Refused(Path("pipe"), "a pipe"));
  EXPECT_EQ(OpenDescriptors(), before);
}

// Whoever made the directory would choose what is read.
TEST_F(OpenRegularTest, LinksAreRefused) {
  Put("a", "text");
  std::filesystem::create_symlink("a", Path("link"));
  std::filesystem::create_symlink("nowhere", Path("dangling"));
  const int before = OpenDescriptors();
  for (const std::string name : {"link", "dangling"}) {
    const Status refused = absl::InvalidArgumentError(
        "open \"" + Path(name) +
        "\": a symbolic link, which may lead out of the directory (need a "
        "regular file); copy the file to its place, or set "
        "BELAY_FOLLOW_LINKS=1 if you trust whoever made the link");
    for (Mode mode : {Mode::kRead, Mode::kWrite, Mode::kWriteBeside}) {
      EXPECT_EQ(PosixFile::Open(Path(name), mode).status(), refused);
    }
    EXPECT_EQ(MappedFile::Open(Path(name)).status(), refused);
  }
  EXPECT_EQ(Content("a"), "text");
  EXPECT_EQ(OpenDescriptors(), before);
  // Directories above it may be links.
  std::filesystem::create_symlink(dir_, Path("here"));
  EXPECT_TRUE(PosixFile::Open(Path("here/a"), Mode::kRead).ok());
  setenv("BELAY_FOLLOW_LINKS", "1", 1);
  EXPECT_TRUE(PosixFile::Open(Path("link"), Mode::kRead).ok());
  setenv("BELAY_FOLLOW_LINKS", "0", 1);
  EXPECT_FALSE(PosixFile::Open(Path("link"), Mode::kRead).ok());
  unsetenv("BELAY_FOLLOW_LINKS");
}

TEST_F(OpenRegularTest, LinksThatAUserNamesLeadToFiles) {
  Put("a", "text");
  std::filesystem::create_symlink("a", Path("link"));
  EXPECT_TRUE(PosixFile::Open(Path("link"), Mode::kReadLinked).ok());
  EXPECT_TRUE(MappedFile::Open(Path("link"), Links::kFollowed).ok());
  const StatusOr<Descriptor> file =
      OpenRegular(Path("link"), O_RDONLY, "open", 0, Links::kFollowed);
  ASSERT_TRUE(file.ok()) << file.status();
  char text[5] = {};
  EXPECT_EQ(read(file->fd(), text, 4), 4);
  EXPECT_STREQ(text, "text");
}

}  // namespace
}  // namespace belay::open_regular_test
