#include "mpi/mpi_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "absl/strings/str_cat.h"
#include "core/fault.h"
#include "file_bytes.h"
#include "mpi_test.h"

namespace belay {
namespace {

using testing::ScratchDir;
using testing::WorldRank;
using testing::WorldSize;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Open MPI's default is OMPIO; the launcher selects one of the two.
bool IsOmpio() {
  const std::string io = Environment("OMPI_MCA_io");
  return io.empty() || io == "ompio";
}

// The user has the last word about OMPIO's way of writing.
bool UserWantsSieving() {
  return Environment("OMPI_MCA_fbtl_posix_write_datasieving") == "1";
}

class MpiFileTest : public ::testing::Test {
 protected:
  MpiFileTest()
      : comm_(*Comm::Duplicate(MPI_COMM_WORLD)),
        context_{.comm = comm_, .deadline = Deadline(comm_, 100, "test")} {}
  ~MpiFileTest() override {
    context_.deadline = Deadline(comm_, 0, "");
    EXPECT_EQ(comm_.Close(), absl::OkStatus());
  }

  // Makes a file of `bytes` dots.
  std::string NewFile(int64_t bytes) {
    const std::string path = dir_.File("data");
    if (WorldRank() == 0) {
      std::ofstream(path, std::ios::binary) << std::string(bytes, '.');
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return path;
  }

  // What the file holds once every rank is here and before any goes on.
  std::string Contents(const std::string& path) {
    MPI_Barrier(MPI_COMM_WORLD);
    std::string contents = testing::FileBytes(path);
    MPI_Barrier(MPI_COMM_WORLD);
    return contents;
  }

  std::string Last() {
    return absl::StrCat(" [rank ", WorldSize() - 1, " of ", WorldSize(), "]");
  }
  bool is_last() { return WorldRank() == WorldSize() - 1; }

  ScratchDir dir_;
  Comm comm_;
  CommContext context_;
};

// Rank r holds every size-th byte from byte r on: the finest interleaving.
TEST_F(MpiFileTest, WritesInterleavedSegments) {
  constexpr int64_t kBytes = 4096;
  const std::string path = NewFile(kBytes);
  StatusOr<MpiFile> file = MpiFile::OpenForWrite(context_, path, {});
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string mine(kBytes, static_cast<char>('a' + WorldRank()));
  std::vector<IoSegment> segments;
  std::string expected;
  for (int64_t i = 0; i < kBytes; ++i) {
    const int owner = static_cast<int>(i % WorldSize());
    expected += static_cast<char>('a' + owner);
    if (owner == WorldRank()) segments.push_back({&mine[i], i, 1});
  }
  EXPECT_EQ(file->WriteAll(segments), absl::OkStatus());
  EXPECT_EQ(file->Close(), absl::OkStatus());
  EXPECT_TRUE(Contents(path) == expected);
}

struct Piece {
  int owner = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
};

// Pieces of random sizes and owners with holes, the same on all ranks. Owner
// WorldSize() means a hole.
std::vector<Piece> RandomPieces(uint32_t seed, int64_t total) {
  std::mt19937 random(seed);
  std::vector<Piece> pieces;
  for (int64_t at = 0; at < total;) {
    const int owner = static_cast<int>(random() % (WorldSize() + 1));
    int64_t bytes = 1 + random() % (random() % 4 == 0 ? 20000 : 40);
    bytes = std::min(bytes, total - at);
    pieces.push_back({owner, at, bytes});
    at += bytes;
  }
  return pieces;
}

// The sources are cut from one buffer back to front, so that the order in
// memory is not the order in the file.
TEST_F(MpiFileTest, WritesRandomSegmentsInSeveralCalls) {
  constexpr int64_t kBytes = 300000;
  const std::string path = NewFile(kBytes);
  std::string expected(kBytes, '.');
  StatusOr<MpiFile> file =
      MpiFile::OpenForWrite(context_, path, {{"cb_nodes", "2"}});
  ASSERT_TRUE(file.ok()) << file.status();
  for (uint32_t call = 1; call <= 5; ++call) {
    std::string source(kBytes, '\0');
    std::vector<IoSegment> segments;
    int64_t used = kBytes;
    for (const Piece& piece : RandomPieces(call, kBytes)) {
      if (piece.owner == WorldSize()) continue;
      std::string bytes(piece.bytes, '\0');
      for (int64_t i = 0; i < piece.bytes; ++i) {
        bytes[i] = static_cast<char>(call * 7 + (piece.offset + i) * 13);
      }
      expected.replace(piece.offset, piece.bytes, bytes);
      if (piece.owner != WorldRank()) continue;
      used -= piece.bytes;
      source.replace(used, piece.bytes, bytes);
      segments.push_back({&source[used], piece.offset, piece.bytes});
    }
    EXPECT_EQ(file->WriteAll(segments), absl::OkStatus());
  }
  EXPECT_EQ(file->Close(), absl::OkStatus());
  EXPECT_TRUE(Contents(path) == expected);
}

TEST_F(MpiFileTest, RanksMayHaveNothingToWrite) {
  const std::string path = NewFile(10);
  StatusOr<MpiFile> file = MpiFile::OpenForWrite(context_, path, {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->WriteAll({}), absl::OkStatus());
  const IoSegment segment{"xyz", 4, 3};
  const IoSegment empty{nullptr, 2, 0};
  EXPECT_EQ(file->WriteAll(
                std::span<const IoSegment>(is_last() ? &segment : &empty, 1)),
            absl::OkStatus());
  EXPECT_EQ(file->Close(), absl::OkStatus());
  EXPECT_EQ(Contents(path), "....xyz...");
}

TEST_F(MpiFileTest, WritesFarIntoTheFileAndBehindItsEnd) {
  constexpr int64_t kFar = (int64_t{5} << 30) + 3;
  const std::string path = NewFile(1);
  StatusOr<MpiFile> file = MpiFile::OpenForWrite(context_, path, {});
  ASSERT_TRUE(file.ok()) << file.status();
  const char mine = static_cast<char>('a' + WorldRank());
  const IoSegment segment{&mine, kFar + WorldRank(), 1};
  EXPECT_EQ(file->WriteAll({&segment, 1}), absl::OkStatus());
  EXPECT_EQ(file->Close(), absl::OkStatus());
  MPI_Barrier(MPI_COMM_WORLD);
  std::ifstream stored(path, std::ios::binary);
  stored.seekg(kFar);
  std::string tail(std::istreambuf_iterator<char>(stored), {});
  EXPECT_EQ(tail, std::string("abcdefghij").substr(0, WorldSize()));
}

TEST_F(MpiFileTest, RefusesSegmentsThatAreNotAscendingOnOneRank) {
  const std::string path = NewFile(20);
  StatusOr<MpiFile> file = MpiFile::OpenForWrite(context_, path, {});
  ASSERT_TRUE(file.ok()) << file.status();
  const std::vector<IoSegment> good = {{"ab", 2 * WorldRank(), 2}};
  const std::vector<IoSegment> bad = {{"ab", 4, 2}, {"cd", 5, 2}};
  const Status refused = absl::InvalidArgumentError(
      absl::StrCat("write \"", path,
                   "\": segments are not ascending and disjoint (need "
                   "offset 6 or more, found 5)"));
  const Status expected = is_last() ? refused : absl::OkStatus();
  EXPECT_EQ(file->WriteAll(is_last() ? bad : good), expected);
  EXPECT_EQ(file->WriteAll(good), expected);
  EXPECT_EQ(file->Close(), expected);
  std::string contents(20, '.');
  for (int rank = 0; rank + 1 < WorldSize(); ++rank) {
    contents.replace(2 * rank, 2, "ab");
  }
  EXPECT_EQ(Contents(path), contents);
}

TEST_F(MpiFileTest, RefusesMoreThanOneGibibyte) {
  const std::string path = NewFile(1);
  StatusOr<MpiFile> file = MpiFile::OpenForWrite(context_, path, {});
  ASSERT_TRUE(file.ok()) << file.status();
  const IoSegment segments[] = {{"", 0, 5}, {"", 5, int64_t{1} << 30}};
  EXPECT_EQ(file->WriteAll(segments),
            absl::InvalidArgumentError(
                absl::StrCat("write \"", path,
                             "\": too much for one call (need 1073741824 "
                             "bytes or less, found 1073741829)")));
  (void)file->Close();
  EXPECT_EQ(Contents(path), ".");
}

TEST_F(MpiFileTest, OpeningAMissingFileFailsEverywhereAlike) {
  const std::string path = dir_.File("missing/data");
  const StatusOr<MpiFile> file = MpiFile::OpenForWrite(context_, path, {});
  EXPECT_EQ(file.status(), absl::NotFoundError(absl::StrCat(
                               "open \"", path,
                               "\": MPI_ERR_NO_SUCH_FILE: no such file or "
                               "directory [rank 0 of ",
                               WorldSize(), "]")));
}

TEST_F(MpiFileTest, AHintThatMpiWouldRefuseIsAnError) {
  const std::string key(MPI_MAX_INFO_KEY, 'k');
  const std::string path = NewFile(1);
  EXPECT_EQ(MpiFile::OpenForWrite(context_, path, {{key, "1"}}).status(),
            absl::InvalidArgumentError(absl::StrCat(
                "set hint: key \"", key, "\" has a wrong length (need 1 to ",
                MPI_MAX_INFO_KEY - 1, " characters, found ", MPI_MAX_INFO_KEY,
                ") [rank 0 of ", WorldSize(), "]")));
  EXPECT_EQ(MpiFile::OpenForWrite(context_, path, {{"cb_nodes", ""}}).status(),
            absl::InvalidArgumentError(absl::StrCat(
                "set hint: value \"\" has a wrong length (need 1 to ",
                MPI_MAX_INFO_VAL - 1, " characters, found 0) [rank 0 of ",
                WorldSize(), "]")));
}

TEST_F(MpiFileTest, FaultsOnOpenAreAgreed) {
  const std::string path = NewFile(1);
  fault::Arm(is_last() ? 1 : 0);
  const StatusOr<MpiFile> file = MpiFile::OpenForWrite(context_, path, {});
  fault::Disarm();
  EXPECT_EQ(file.status(),
            absl::InternalError("open: injected fault" + Last()));
}

// One rank fails; the others write theirs, and all stay in step.
TEST_F(MpiFileTest, ARankThatFailedGoesOnTakingPart) {
  for (int point : {1, 2}) {
    const std::string path = NewFile(2 * WorldSize());
    StatusOr<MpiFile> file = MpiFile::OpenForWrite(context_, path, {});
    ASSERT_TRUE(file.ok()) << file.status();
    fault::Arm(is_last() ? point : 0);
    const Status failed = absl::InternalError(
        absl::StrCat(point == 1 ? "set view of" : "write", ": injected fault"));
    const Status expected = is_last() ? failed : absl::OkStatus();
    const IoSegment first{"x", WorldRank(), 1};
    EXPECT_EQ(file->WriteAll({&first, 1}), expected);
    const IoSegment second{"y", WorldSize() + WorldRank(), 1};
    EXPECT_EQ(file->WriteAll({&second, 1}), expected);
    EXPECT_EQ(file->Close(), expected);
    fault::Disarm();
    const int others = WorldSize() - 1;
    EXPECT_EQ(Contents(path), std::string(others, 'x') +
                                  (point == 1 ? '.' : 'x') +
                                  std::string(others, 'y') + '.');
  }
}

TEST_F(MpiFileTest, JudgesTheStackItRunsOn) {
  StatusOr<MpiFile> file = MpiFile::OpenForWrite(
      context_, NewFile(1), {{"romio_no_indep_rw", "false"}});
  ASSERT_TRUE(file.ok()) << file.status();
  const StatusOr<MpiIoVerdict> verdict = file->Judge(context_);
  ASSERT_TRUE(verdict.ok()) << verdict.status();
  EXPECT_EQ(verdict->name, IsOmpio() ? "OMPIO" : "ROMIO");
  EXPECT_EQ(verdict->sound, !IsOmpio() || !UserWantsSieving());
  EXPECT_EQ(verdict->note,
            !IsOmpio() ? ""
            : UserWantsSieving()
                ? absl::StrCat("fbtl_posix_write_datasieving is not 0 "
                               "[rank 0 of ",
                               WorldSize(), "]")
                : "fbtl_posix_write_datasieving is 0");
  EXPECT_EQ(file->Close(), absl::OkStatus());
}

// The file size limit of a process stands for a full disk. Aggregators get the
// error; at least one rank must.
TEST_F(MpiFileTest, AWriteThatFailsIsReported) {
  if (IsOmpio()) GTEST_SKIP() << "OMPIO reports success";
  constexpr int64_t kLimit = 64 << 10;
  const std::string path = NewFile(1);
  StatusOr<MpiFile> file = MpiFile::OpenForWrite(context_, path, {});
  ASSERT_TRUE(file.ok()) << file.status();
  const std::string mine(kLimit, 'm');
  const IoSegment segment{mine.data(), kLimit * (1 + WorldRank()), kLimit};
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{.rlim_cur = kLimit, .rlim_max = before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Status written = file->WriteAll({&segment, 1});
  setrlimit(RLIMIT_FSIZE, &before);
  int failed = written.ok() ? 0 : 1;
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_GE(failed, 1);
  EXPECT_EQ(file->Close().code(), written.code());
}

TEST_F(MpiFileTest, ForgettingAFileDoesNotHang) {
  StatusOr<MpiFile> file = MpiFile::OpenForWrite(context_, NewFile(1), {});
  ASSERT_TRUE(file.ok()) << file.status();
  MpiFile moved = *std::move(file);
  EXPECT_EQ(file->Close(), absl::OkStatus());
}

}  // namespace
}  // namespace belay
