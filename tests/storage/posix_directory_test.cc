#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "directory_fixture.h"
#include "storage/posix_file.h"

namespace belay::posix_directory_test {
namespace {

using PosixDirectoryTest = DirectoryTest;

TEST_F(PosixDirectoryTest, Directories) {
  EXPECT_TRUE(MakeDirectory(Path("d")).ok());
  EXPECT_EQ(MakeDirectory(Path("d")),
            absl::AlreadyExistsError("create directory \"" + Path("d") +
                                     "\": file exists"));
  EXPECT_EQ(MakeDirectory(Path("x/y")),
            absl::NotFoundError("create directory \"" + Path("x/y") +
                                "\": no such file or directory"));
  EXPECT_TRUE(SyncDirectory(Path("d")).ok());
  EXPECT_EQ(SyncDirectory(Path("x")),
            absl::NotFoundError("sync directory \"" + Path("x") +
                                "\": no such file or directory"));
  Put("f", "");
  EXPECT_EQ(SyncDirectory(Path("f")),
            absl::InvalidArgumentError("sync directory \"" + Path("f") +
                                       "\": not a directory"));
}

TEST_F(PosixDirectoryTest, ListDirectory) {
  EXPECT_EQ(ListDirectory(dir_).value(), std::vector<std::string>());
  for (const char* name : {"b", "c", ".hidden", "a"}) Put(name, "");
  EXPECT_EQ(ListDirectory(dir_).value(),
            (std::vector<std::string>{".hidden", "a", "b", "c"}));
  EXPECT_EQ(ListDirectory(Path("x")).status(),
            absl::NotFoundError("list directory \"" + Path("x") +
                                "\": no such file or directory"));
}

TEST_F(PosixDirectoryTest, Rename) {
  Put("a", "1");
  Put("b", "2");
  EXPECT_TRUE(Rename(Path("a"), Path("b")).ok());
  EXPECT_EQ(Content("b"), "1");
  EXPECT_EQ(Rename(Path("a"), Path("b")),
            absl::NotFoundError("rename \"" + Path("a") + "\" to \"" +
                                Path("b") + "\": no such file or directory"));
  ASSERT_TRUE(MakeDirectory(Path("d")).ok());
  ASSERT_TRUE(MakeDirectory(Path("full")).ok());
  Put("full/x", "");
  EXPECT_EQ(Rename(Path("d"), Path("full")),
            absl::AlreadyExistsError("rename \"" + Path("d") + "\" to \"" +
                                     Path("full") + "\": directory not empty"));
}

TEST_F(PosixDirectoryTest, ExistsSeesDanglingLinks) {
  Put("a", "");
  ASSERT_EQ(symlink("nowhere", Path("link").c_str()), 0);
  EXPECT_EQ(Exists(Path("a")).value(), true);
  EXPECT_EQ(Exists(Path("link")).value(), true);
  EXPECT_EQ(Exists(dir_).value(), true);
  EXPECT_EQ(Exists(Path("b")).value(), false);
  EXPECT_EQ(Exists(Path("a/b")).value(), false);
  EXPECT_EQ(Exists(Path(std::string(300, 'x'))).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(PosixDirectoryTest, RemoveTreeFollowsNoLinks) {
  ASSERT_TRUE(MakeDirectory(Path("keep")).ok());
  Put("keep/a", "kept");
  ASSERT_TRUE(MakeDirectory(Path("d")).ok());
  ASSERT_TRUE(MakeDirectory(Path("d/e")).ok());
  Put("d/e/f", "");
  ASSERT_EQ(symlink(Path("keep").c_str(), Path("d/link").c_str()), 0);
  EXPECT_TRUE(RemoveTree(Path("d")).ok());
  EXPECT_EQ(ListDirectory(dir_).value(), std::vector<std::string>{"keep"});
  EXPECT_EQ(Content("keep/a"), "kept");
  EXPECT_TRUE(RemoveTree(Path("d")).ok());
  EXPECT_TRUE(RemoveTree(Path("keep/a")).ok());
  EXPECT_EQ(ListDirectory(Path("keep")).value(), std::vector<std::string>());
}

TEST_F(PosixDirectoryTest, RemoveTreeReportsWhatItMayNot) {
  ASSERT_TRUE(MakeDirectory(Path("d")).ok());
  Put("d/a", "kept");
  ASSERT_EQ(chmod(Path("d").c_str(), 0555), 0);
  EXPECT_EQ(AsNobody([&] { return RemoveTree(Path("d")); }),
            absl::PermissionDeniedError("remove \"" + Path("d") +
                                        "\": permission denied"));
  ASSERT_EQ(chmod(Path("d").c_str(), 0755), 0);
  EXPECT_EQ(Content("d/a"), "kept");
}

TEST_F(PosixDirectoryTest, FreeBytesOfAMissingPath) {
  EXPECT_GT(FreeBytes(dir_).value(), 0);
  EXPECT_EQ(FreeBytes(Path("x")).status(),
            absl::NotFoundError("find free space \"" + Path("x") +
                                "\": no such file or directory"));
}

TEST_F(PosixDirectoryTest, EachDirectoryOperationPassesOneFaultPoint) {
  Put("a", "");
  ExpectOnePoint("create directory", [&] { return MakeDirectory(Path("d")); });
  ExpectOnePoint("sync directory", [&] { return SyncDirectory(dir_); });
  ExpectOnePoint("rename", [&] { return Rename(Path("a"), Path("b")); });
  ExpectOnePoint("remove", [&] { return RemoveTree(Path("a")); });
  ExpectOnePoint("find", [&] { return Exists(Path("a")).status(); });
  ExpectOnePoint("list directory",
                 [&] { return ListDirectory(dir_).status(); });
  ExpectOnePoint("find free space", [&] { return FreeBytes(dir_).status(); });
  EXPECT_EQ(ListDirectory(dir_).value(), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace belay::posix_directory_test
