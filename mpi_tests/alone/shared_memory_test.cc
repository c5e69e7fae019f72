// Memory that ranks share, and restores where there is none.

#include "mpi/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "fault_points.h"
#include "values.h"

namespace {

// Whether the system has no memory left for this rank.
bool is_full = false;

}  // namespace

// The library's calls land here.
extern "C" int posix_fallocate(int fd, off_t begin, off_t bytes) {
  if (is_full) return ENOSPC;
  return syscall(SYS_fallocate, fd, 0, begin, bytes) == 0 ? 0 : errno;
}

namespace belay {
namespace {

using ::testing::AllOf;
using testing::GatherStatus;
using ::testing::HasSubstr;
using testing::Ok;
using testing::SumOverRanks;
using testing::Values;

// No shared memory for this rank: rank 0 may not make a file of its size, and
// others get none of it.
class NoMemory {
 public:
  explicit NoMemory(bool here) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{.rlim_cur = 8192, .rlim_max = before_.rlim_max};
    is_full = here && testing::WorldRank() > 0;
    if (here && !is_full) setrlimit(RLIMIT_FSIZE, &small);
  }
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
  ~NoMemory() {
    is_full = false;
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

// Names of shared memory of this process.
int NamesLeft() {
  int names = 0;
  const std::string mine = absl::StrCat("belay.", getpid(), ".");
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    names += absl::StartsWith(entry.path().filename().string(), mine) ? 1 : 0;
  }
  return names;
}

class SharedMemoryTest : public testing::CheckpointTest {
 protected:
  static void SetUpTestSuite() { testing::UseMemory(); }

  // On nodes of so many ranks.
  StatusOr<SharedMemory> Create(int per_node, int64_t bytes) {
    CommContext context{.comm = comm_, .deadline = Deadline(comm_, 60, "test")};
    const int first = rank_ / per_node * per_node;
    return SharedMemory::Create(context,
                                {.first = first,
                                 .place = rank_ - first,
                                 .ranks = std::min(per_node, size_ - first)},
                                bytes);
  }
};

TEST_F(SharedMemoryTest, RanksOfANodeSeeWhatOthersWrite) {
  for (const int per_node : {1, 2, size_}) {
    for (const int64_t bytes : {1, 4096, 100001}) {
      const SharedMemory memory = Ok(Create(per_node, bytes));
      const int first = rank_ / per_node * per_node;
      for (int64_t i = 0; i < bytes; ++i) {
        EXPECT_EQ(memory.Part(rank_ - first)[i], 0);
      }
      MPI_Barrier(MPI_COMM_WORLD);
      std::fill_n(memory.Part(rank_ - first), bytes,
                  static_cast<char>(rank_ + 1));
      memory.Sync();
      MPI_Barrier(MPI_COMM_WORLD);
      memory.Sync();
      for (int rank = first; rank < std::min(first + per_node, size_); ++rank) {
        EXPECT_EQ(memory.Part(rank - first)[0], rank + 1);
        EXPECT_EQ(memory.Part(rank - first)[bytes - 1], rank + 1);
      }
      EXPECT_EQ(NamesLeft(), 0);
    }
  }
}

TEST_F(SharedMemoryTest, TooLittleOnAnyRankIsAgreed) {
  constexpr int64_t kBytes = 1 << 20;
  for (int rank = 0; rank < size_; ++rank) {
    const NoMemory limit(rank_ == rank);
    const Status status = Create(size_, kBytes).status();
    const std::vector<std::string> all = GatherStatus(status);
    for (const std::string& other : all) EXPECT_EQ(other, all[0]);
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    const int64_t needed = rank == 0 ? kBytes * size_ : kBytes;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("(need ", needed, " bytes) [rank ", rank,
                                       " of ", size_, "]")));
    EXPECT_EQ(NamesLeft(), 0);
  }
  EXPECT_TRUE(Create(size_, kBytes).ok());
}

// More than any machine has, and than a file may have.
TEST_F(SharedMemoryTest, FarTooMuchIsAnErrorOnAllRanks) {
  for (const int64_t bytes : {int64_t{1} << 50, int64_t{1} << 60}) {
    const Status status = Create(1, bytes).status();
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
    EXPECT_EQ(NamesLeft(), 0);
  }
}

class NoSharedMemoryTest : public SharedMemoryTest {
 protected:
  NoSharedMemoryTest() {
    values_.AddWhole("large", DType::kF32, {1 << 20});
    values_.AddWhole("flag", DType::kBool, {});
    values_.AddText("text", 70001);
    values_.AddCut("cut", DType::kI16, {999}, 0, rank_, size_);
    values_.Fill(1);
    Ok(Save(comm_, run(), 1, values_.MakeState(), {.durable = false}));
  }

  Values values_;
};

TEST_F(NoSharedMemoryTest, EachRankReadsForItself) {
  if (size_ == 1) GTEST_SKIP() << "nobody shares";
  const int64_t wanted = SumOverRanks(values_.num_bytes());
  for (int rank = 0; rank < size_; ++rank) {
    const NoMemory limit(rank_ == rank);
    values_.Spoil(1);
    const RestoreResult result =
        Ok(Restore(comm_, run(), 1, values_.MakeState(), {}));
    EXPECT_EQ(values_.CountWrong(1), 0);
    EXPECT_EQ(result.read_sharing, ReadSharing::kEachRank);
    EXPECT_EQ(result.counters.bytes, wanted);
    EXPECT_EQ(result.counters.delivered_bytes, 0);
    EXPECT_GT(result.blocks_verified, 0);
    EXPECT_THAT(
        result.sharing_note,
        AllOf(HasSubstr("each rank reads: no memory can be shared ("),
              HasSubstr("shared memory \"/belay."),
              HasSubstr(absl::StrCat("[rank ", rank, " of ", size_, "]"))));
    EXPECT_TRUE(testing::IsSameEverywhere(result.sharing_note));
  }
  const RestoreResult result =
      Ok(Restore(comm_, run(), 1, values_.MakeState(), {}));
  EXPECT_EQ(result.read_sharing, ReadSharing::kOnce);
}

TEST_F(NoSharedMemoryTest, WhereSharingWasAskedForItIsAnError) {
  if (size_ == 1) GTEST_SKIP() << "nobody shares";
  for (const RestoreOptions& options :
       {RestoreOptions{.read_sharing = ReadSharing::kOnce},
        RestoreOptions{.primary_replica = 0}}) {
    const NoMemory limit(rank_ == size_ - 1);
    const Status status =
        Restore(comm_, run(), 1, values_.MakeState(), options).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("reserve shared memory"));
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  }
}

// What is asked for in rounds, and what is converted.
TEST_F(NoSharedMemoryTest, AllRoundsReadForThemselves) {
  const std::vector<std::string> saved(300000, "12345678");
  std::vector<std::string> texts = saved;
  std::vector<float> floats(1 << 20, 2.5f);
  State state, wanted;
  state.Add("texts", texts);
  state.Add("floats", floats);
  Ok(Save(comm_, run(), 2, state, {.durable = false}));
  texts.clear();
  std::vector<double> doubles(floats.size());
  wanted.Add("texts", texts);
  wanted.Add("floats", doubles);
  const NoMemory limit(rank_ == size_ - 1);
  const RestoreResult result =
      Ok(Restore(comm_, run(), 2, wanted, {.allow_dtype_cast = true}));
  EXPECT_EQ(texts, saved);
  EXPECT_EQ(doubles, std::vector<double>(floats.size(), 2.5));
  EXPECT_EQ(result.conversions.size(), 1);
  if (size_ == 1) return;
  EXPECT_EQ(result.counters.delivered_bytes, 0);
  EXPECT_THAT(result.sharing_note, HasSubstr("no memory can be shared"));
}

// A fault where memory is made is no error; any other one is one on all ranks.
TEST_F(NoSharedMemoryTest, EveryFaultIsAgreed) {
  std::string note;
  const State state = values_.MakeState();
  const auto restore = [&] {
    const auto result =
        Restore(comm_, run(), 1, state, {.deadline_seconds = 30});
    note = result.ok() ? result->sharing_note : "";
    return result.status();
  };
  fault::Arm(0);
  EXPECT_EQ(restore(), absl::OkStatus());
  const std::vector<int64_t> counts = testing::CountOfEachRank(fault::Count());
  fault::Disarm();
  int alone = 0, failed = 0;
  for (int rank = 0; rank < size_; ++rank) {
    // Of what makes the memory, one point follows the other.
    for (int64_t n = 1; n <= counts[rank]; n += 3) {
      SCOPED_TRACE(absl::StrCat("point ", n, " of rank ", rank));
      values_.Spoil(1);
      const Status status = testing::WithFault(rank, n, restore);
      testing::ExpectAgreed(status, rank);
      if (status.ok()) {
        ++alone;
        EXPECT_EQ(values_.CountWrong(1), 0);
        EXPECT_THAT(note, HasSubstr("no memory can be shared"));
      } else {
        ++failed;
      }
      EXPECT_EQ(NamesLeft(), 0);
      if (!testing::OnAllRanks(!HasFailure())) return;
    }
  }
  EXPECT_GT(failed, 20);
  EXPECT_GE(alone, size_ == 1 ? 0 : size_);
}

}  // namespace
}  // namespace belay
