// Saves that do not fit, on a small file system that full_disk.sh has mounted
// at BELAY_FULL_DISK for all ranks.

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "belay/async_saver.h"
#include "format/paths.h"
#include "small_state.h"

namespace {

bool can_reserve = true;
// Another program that fills the disk up right after the check for space.
std::string filler;
constexpr uint64_t kLeftFree = 200 << 10;

void FillUp(const std::string& path, uint64_t free_bytes, uint64_t left) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  const std::string block(1024, 'x');
  for (uint64_t i = left; i + block.size() < free_bytes; i += block.size()) {
    if (write(fd, block.data(), block.size()) < 0) break;
  }
  fsync(fd);
  close(fd);
}

}  // namespace

// The library's calls land here.
extern "C" int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  if (can_reserve) {
    return static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, bytes));
  }
  errno = EOPNOTSUPP;
  return -1;
}

extern "C" int fstatvfs(int fd, struct statvfs* space) noexcept {
  using Function = int (*)(int, struct statvfs*);
  static const auto real =
      reinterpret_cast<Function>(dlsym(RTLD_NEXT, "fstatvfs"));
  const int result = real(fd, space);
  if (!filler.empty())
    FillUp(filler, space->f_bavail * space->f_frsize, kLeftFree);
  return result;
}

namespace belay::testing {
namespace {

using ::testing::MatchesRegex;

// A state has 288 bytes times its scale on three ranks; the disk has 4 MiB.
constexpr int64_t kSmall = 1000;
constexpr int64_t kFits = 9000;
constexpr int64_t kTooLarge = 20000;

struct Way {
  std::string name;
  SaveOptions options;
  bool in_background = false;
};

std::vector<Way> Ways() {
  using enum Transfer;
  return {
      {"TwoPhase", {}},
      {"Collective", {.transfer = kCollective}},
      {"Independent", {.transfer = kIndependent}},
      {"Hdf5", {.transfer = kHdf5}},
      {"PerTask", {.file_layout = FileLayout::kPerTask}},
      {"PerTaskHdf5", {.file_layout = FileLayout::kPerTask, .transfer = kHdf5}},
      {"Rounds", {.max_bytes_in_flight = 65536}},
      {"Background", {}, true},
      {"Filters", {.args = {{".*", {.filters = Deflate()}}}}}};
}

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class FullDiskTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    const char* disk = std::getenv("BELAY_FULL_DISK");
    if (disk == nullptr) GTEST_SKIP() << "run me through full_disk.sh";
    dir_ = std::string(disk) + "/run";
    filler_ = std::string(disk) + "/filler";
    comm_ = Comm::Duplicate(MPI_COMM_WORLD).value();
    options_ = GetParam().options;
    options_.deadline_seconds = 20;
    EXPECT_EQ(SaveScale(1, 5, kSmall), absl::OkStatus());
  }

  void TearDown() override {
    can_reserve = true;
    filler.clear();
    MPI_Barrier(MPI_COMM_WORLD);
    if (WorldRank() == 0) {
      std::filesystem::remove_all(dir_);
      unlink(filler_.c_str());
    }
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_EQ(comm_.Close(), absl::OkStatus());
  }

  Status SaveScale(int64_t step, int64_t seed, int64_t scale) {
    SmallValues values(seed, scale);
    const State state = values.state();
    if (!GetParam().in_background) {
      return Save(comm_, dir_, step, state, options_).status();
    }
    AsyncSaver saver(comm_);
    const auto pending = saver.Save(dir_, step, state, options_);
    return pending.ok() ? saver.Wait().status() : pending.status();
  }

  // The same error everywhere, nothing left, all as before; then a smaller
  // state is saved.
  void ExpectCleanFailure(const Status& status) {
    for (const std::string& text : GatherStatus(status)) {
      EXPECT_EQ(text, status.ToString());
    }
    // OMPIO may lose bytes without a word; reading back finds out.
    if (!absl::IsResourceExhausted(status)) {
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
      EXPECT_THAT(std::string(status.message()),
                  MatchesRegex("read back \".*\": [0-9]+ bytes at offset "
                               "[0-9]+ are not what was written .rank . of "
                               "3."));
      EXPECT_STREQ(std::getenv("OMPI_MCA_io"), "ompio");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) {
      names.insert(entry.path().filename().string());
    }
    EXPECT_EQ(names, std::set<std::string>{StepName(1)});
    EXPECT_TRUE(RestoresAs(comm_, dir_, 1, 5, kSmall));
    can_reserve = true;
    filler.clear();
    if (WorldRank() == 0) unlink(filler_.c_str());
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_EQ(SaveScale(2, 6, kSmall), absl::OkStatus());
    EXPECT_TRUE(RestoresAs(comm_, dir_, 2, 6, kSmall));
    EXPECT_TRUE(RestoresAs(comm_, dir_, 1, 5, kSmall));
  }

  std::string dir_;
  std::string filler_;
  Comm comm_;
  SaveOptions options_;
};

TEST_P(FullDiskTest, ReservingFindsTooLittle) {
  const Status status = SaveScale(2, 6, kTooLarge);
  // Of several creators one may find no room even to begin.
  if (options_.file_layout == FileLayout::kPerTask) {
    ExpectCleanFailure(status);
    return;
  }
  EXPECT_THAT(std::string(status.message()),
              MatchesRegex("reserve \".*/run/step_00000002.inprogress/data_.*"
                           ".h5\": no space left \\(need [0-9]+ bytes, found "
                           "[0-9]+\\) \\[rank [0-2] of 3\\]"));
  ExpectCleanFailure(status);
}

TEST_P(FullDiskTest, TheCheckFindsTooLittle) {
  can_reserve = false;
  options_.file_layout = FileLayout::kShared;  // one creator checks for all
  const Status status = SaveScale(2, 6, kTooLarge);
  EXPECT_THAT(std::string(status.message()),
              MatchesRegex("reserve \".*/run/step_00000002.inprogress/data_.*"
                           ".h5\": no space left \\(need [0-9]+ bytes, found "
                           "[0-9]+\\) \\[rank 1 of 3\\]"));
  ExpectCleanFailure(status);
}

TEST_P(FullDiskTest, FillsUpWhileWriting) {
  if (options_.transfer == Transfer::kHdf5 || !options_.args.empty()) {
    GTEST_SKIP() << "parallel HDF5 does not return on all ranks, or crashes in "
                    "MPI_Finalize over the file that it could not close";
  }
  can_reserve = false;
  filler = filler_;
  const Status status = SaveScale(2, 6, kFits);
  ExpectCleanFailure(status);
}

// So full that not even metadata has room: HDF5 fails where it closes.
TEST_P(FullDiskTest, IsFullBefore) {
  for (const uint64_t left : {0, 4, 8, 12, 16, 24, 32, 48}) {
    SCOPED_TRACE(left);
    MPI_Barrier(MPI_COMM_WORLD);
    if (WorldRank() == 0) {
      struct statvfs space;
      statvfs(std::getenv("BELAY_FULL_DISK"), &space);
      FillUp(filler_, space.f_bavail * space.f_frsize, left << 10);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    ExpectCleanFailure(SaveScale(2, 6, kSmall));
    MPI_Barrier(MPI_COMM_WORLD);
    if (WorldRank() == 0) std::filesystem::remove_all(dir_ + "/" + StepName(2));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, FullDiskTest, ::testing::ValuesIn(Ways()),
                         [](const auto& way) { return way.param.name; });

}  // namespace
}  // namespace belay::testing
