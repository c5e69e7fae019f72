// More than 2 GiB in one variable and per rank: what MPI counts, HDF5 calls
// and pwrite cannot do at once. Needs memory, on a file system in memory.

#include <gtest/gtest.h>
#include <sys/statvfs.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "absl/strings/str_cat.h"
#include "mpi/all_to_all.h"
#include "values.h"

namespace belay {
namespace {

constexpr char kMemory[] = "/dev/shm";
constexpr int64_t kGiB = int64_t{1} << 30;
// Per rank; a little more than 2 GiB, and no round number.
constexpr int64_t kRows = 2141;
constexpr int64_t kRowBytes = (1 << 20) + 7;

int64_t FreeBytes() {
  struct statvfs info {};
  if (statvfs(kMemory, &info) != 0) return 0;
  return static_cast<int64_t>(info.f_bavail) *
         static_cast<int64_t>(info.f_frsize);
}

int64_t AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  int64_t kib = 0;
  while (file >> name) {
    if (name != "MemAvailable:") continue;
    file >> kib;
    break;
  }
  return kib * 1024;
}

class LargeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int64_t room = std::min(FreeBytes(), AvailableMemory());
    MPI_Bcast(&room, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    const int64_t need = size_ * 5 * kGiB + kGiB;
    if (room < need) {
      GTEST_SKIP() << kMemory << " has no room (need " << need
                   << " bytes, found " << room << ")";
    }
    setenv("TMPDIR", kMemory, 1);
    dir_ = std::make_unique<testing::ScratchDir>();
    comm_ = *Comm::Duplicate(MPI_COMM_WORLD);
    bytes_.reset(static_cast<unsigned char*>(malloc(num_bytes())));
    ASSERT_NE(bytes_, nullptr);
  }
  void TearDown() override { EXPECT_EQ(comm_.Close(), absl::OkStatus()); }

  static int64_t num_bytes() { return kRows * kRowBytes; }

  // Row `row` of this rank begins with its number and is filled with its last
  // byte: cheap to make and to check.
  static void FillRow(unsigned char* at, int64_t number, int64_t bytes) {
    std::memset(at, static_cast<int>(number * 37 % 251), bytes);
    std::memcpy(at, &number, sizeof(number));
  }
  void Fill(int64_t seed) {
    for (int64_t row = 0; row < kRows; ++row) {
      FillRow(&bytes_[row * kRowBytes], Number(row, seed), kRowBytes);
    }
  }
  int64_t CountWrongRows(int64_t seed) {
    std::vector<unsigned char> need(kRowBytes);
    int64_t wrong = 0;
    for (int64_t row = 0; row < kRows; ++row) {
      FillRow(need.data(), Number(row, seed), kRowBytes);
      wrong +=
          std::memcmp(need.data(), &bytes_[row * kRowBytes], kRowBytes) != 0;
    }
    return wrong;
  }
  int64_t Number(int64_t row, int64_t seed) const {
    return (seed * size_ + rank_) * kRows + row;
  }

  // One array of all ranks' rows, under or beside each other.
  State MakeState(int axis) {
    Shape shape = {kRows, kRowBytes};
    Box box = WholeBox(shape);
    box.offset[axis] = shape[axis] * rank_;
    shape[axis] *= size_;
    State state;
    state.AddPiece("large", shape, box, AtAddress(bytes_.get()));
    return state;
  }

  void ExpectRoundTrip(int axis, int64_t seed, const SaveOptions& options) {
    const std::string run = dir_->File("run");
    Fill(seed);
    const auto saved = Save(comm_, run, 1, MakeState(axis), options);
    ASSERT_TRUE(saved.ok()) << saved.status();
    EXPECT_EQ(saved->counters.bytes, size_ * num_bytes());
    EXPECT_EQ(saved->transfer, options.transfer);
    EXPECT_LT(saved->counters.peak_memory_bytes, 4 * kGiB);
    std::memset(bytes_.get(), 0xee, num_bytes());
    const auto restored = Restore(comm_, run, 1, MakeState(axis));
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(restored->blocks_verified,
              (size_ * num_bytes() + (1 << 20) - 1) >> 20);
    EXPECT_EQ(restored->blocks_partial, 0);
    EXPECT_EQ(CountWrongRows(seed), 0);
    MPI_Barrier(MPI_COMM_WORLD);
    std::error_code ignored;
    if (rank_ == 0) std::filesystem::remove_all(run, ignored);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  struct Free {
    void operator()(unsigned char* bytes) const { free(bytes); }
  };

  const int rank_ = testing::WorldRank();
  const int size_ = testing::WorldSize();
  std::unique_ptr<testing::ScratchDir> dir_;
  Comm comm_;
  std::unique_ptr<unsigned char[], Free> bytes_;
};

TEST_F(LargeTest, RowsWithEveryTransfer) {
  if (size_ > 1) GTEST_SKIP() << "one rank shows it";
  // The largest round: one call moves 1 GiB.
  ExpectRoundTrip(0, 1,
                  {.transfer = Transfer::kCollective,
                   .max_bytes_in_flight = kGiB,
                   .durable = false});
  ExpectRoundTrip(0, 2, {.transfer = Transfer::kIndependent, .durable = false});
  ExpectRoundTrip(0, 3, {.transfer = Transfer::kHdf5, .durable = false});
}

TEST_F(LargeTest, Columns) {
  if (size_ == 1) GTEST_SKIP() << "one rank has no cut";
  ExpectRoundTrip(1, 4, {.transfer = Transfer::kCollective, .durable = false});
  ExpectRoundTrip(1, 6, {.transfer = Transfer::kTwoPhase, .durable = false});
}

TEST_F(LargeTest, AllToAllOfOnePair) {
  if (size_ == 1) GTEST_SKIP() << "one rank has no pair";
  if (rank_ == 0) Fill(5);
  std::vector<std::span<const std::byte>> to(size_);
  if (rank_ == 0) {
    to[size_ - 1] = std::as_bytes(
        std::span(bytes_.get(), static_cast<size_t>(num_bytes())));
  }
  CommContext context{.comm = comm_, .deadline = Deadline(comm_, 120, "test")};
  const StatusOr<ReceivedBytes> received =
      AllToAll(context, absl::OkStatus(), to);
  ASSERT_EQ(received.status(), absl::OkStatus());
  if (rank_ != size_ - 1) return;
  const std::span<const std::byte> got = received->From(0);
  ASSERT_EQ(static_cast<int64_t>(got.size()), num_bytes());
  std::vector<unsigned char> need(kRowBytes);
  int64_t wrong = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    FillRow(need.data(), 5 * size_ * kRows + row, kRowBytes);
    wrong += std::memcmp(need.data(), &got[row * kRowBytes], kRowBytes) != 0;
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace belay
