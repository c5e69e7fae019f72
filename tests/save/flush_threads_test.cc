// The thread of a save in the background beside the thread of the program, for
// several ranks of a node in one process: what ThreadSanitizer can look at,
// since there is no MPI (`./dev tsan`).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/threads.h"
#include "directory_fixture.h"
#include "save/flush.h"
#include "save/node_progress.h"
#include "save/snapshot.h"

namespace belay::flush_threads_test {
namespace {

constexpr int kRanks = 6;
constexpr int64_t kRows = 300;
constexpr int64_t kColumns = 40;  // of each rank
constexpr int64_t kFirstByte = 64;

// What a save gives its thread.
struct Flush {
  std::shared_ptr<FlushJob> job = std::make_shared<FlushJob>();
  std::shared_ptr<FlushProgress> progress = std::make_shared<FlushProgress>();
};

// A rank of the node: some columns of a table, whose bytes are the number of
// the save and the rank.
class Rank {
 public:
  Rank(int rank, NodeProgress node, std::string path)
      : rank_(rank),
        path_(std::move(path)),
        node_(std::make_shared<NodeProgress>(std::move(node))),
        values_(kRows * kColumns) {
    const Shape shape = {kRows, kRanks * kColumns};
    const Box box = {{0, rank * kColumns}, {kRows, kColumns}};
    shards_ = {{.key = "w",
                .dtype = DType::kU8,
                .global_shape = shape,
                .box = box,
                .data = values_.data()}};
    writes_ = {
        .bytes = std::ssize(values_),
        .orders = {{.box = box, .extent = {WholeBox(shape), kFirstByte}}}};
  }

  static char ByteOf(int64_t save, int rank) {
    return static_cast<char>(save * 31 + rank + 1);
  }

  // Begins to save. The thread copies the values if it is `lazy`; they are
  // wrong when this returns. It writes nothing before `gate` is open.
  Flush Begin(int64_t save, bool lazy, int64_t bytes_per_second = 0,
              std::optional<std::shared_future<void>> gate = std::nullopt) {
    values_.assign(values_.size(), ByteOf(save, rank_));
    Flush flush;
    *flush.job = {.path = path_,
                  .memory = memory_,
                  .once_open = [] { return absl::OkStatus(); },
                  .node = node_,
                  .number = save,
                  .bytes_per_second = bytes_per_second};
    if (rank_ == 0) flush.job->synced = *FilesToSync::Open({path_});
    EXPECT_EQ(memory_->Reserve(writes_.bytes, true), absl::OkStatus());
    // Some of it does not fit.
    const int64_t limit = save % 3 == 2 ? writes_.bytes / 2 : INT64_MAX;
    snapshot_ = {
        .data = memory_->data(), .room = writes_.bytes, .limit = limit};
    const auto copy = [this, flush]() -> Status {
      WriteCounts counts;
      const Status status =
          TakeSnapshot({.shards = shards_, .writes = writes_, .path = path_},
                       snapshot_, counts);
      flush.job->files = std::move(snapshot_.files);
      flush.progress->has_copied = true;
      flush.progress->has_copied.notify_all();
      return status;
    };
    if (!lazy) {
      EXPECT_EQ(copy(), absl::OkStatus());
      flush.progress->writing.Begin(*flush.job);
    }
    thread_.Begin([copy, flush, lazy, gate] {
      const Status status = lazy ? copy() : absl::OkStatus();
      if (gate) gate->wait();
      return status.ok() ? WriteSnapshot(*flush.job, *flush.progress) : status;
    });
    flush.progress->has_copied.wait(false);
    values_.assign(values_.size(), 0);
    return flush;
  }

  // As the calls of a program look at it, which write or compare what is left.
  Status Wait(const Flush& flush) {
    StallWatch watch;
    thread_.Hurry();
    while (HelpFlush(*flush.job, *flush.progress)) {
    }
    while (!thread_.WaitFor(std::chrono::milliseconds(1))) {
      HelpFlush(*flush.job, *flush.progress);
      EXPECT_FALSE(
          watch.IsStuck(std::chrono::steady_clock::now(), node_->ticks(), 60));
      EXPECT_GE(flush.progress->write_calls, 0);
    }
    EXPECT_GE(flush.progress->seconds, 0);
    return thread_.result();
  }

  Status ReadBack(const Flush& flush) {
    thread_.Begin(
        [flush] { return ReadBackSnapshot(*flush.job, *flush.progress); });
    return Wait(flush);
  }

  const NodeProgress& node() const { return *node_; }

 private:
  int rank_;
  std::string path_;
  std::shared_ptr<NodeProgress> node_;
  std::shared_ptr<SnapshotMemory> memory_ = std::make_shared<SnapshotMemory>();
  std::vector<char> values_;
  std::vector<Shard> shards_;
  RankWrites writes_;
  Snapshot snapshot_;
  WorkerThread thread_;
};

class FlushThreadsTest : public DirectoryTest {
 protected:
  FlushThreadsTest() {
    Put("data", std::string(kFirstByte + kRanks * kRows * kColumns, '.'));
  }

  // Runs the program of each rank in a thread of its own.
  template <typename Program>
  void OnAllRanks(Program program) {
    std::vector<NodeProgress> nodes = NodeProgress::OfThreads(kRanks);
    std::vector<std::thread> programs;
    for (int rank = 0; rank < kRanks; ++rank) {
      programs.emplace_back([&, rank] {
        Rank mine(rank, std::move(nodes[rank]), Path("data"));
        program(rank, mine);
      });
    }
    for (std::thread& one : programs) one.join();
  }

  void ExpectSaved(int64_t save) {
    std::string expected(kFirstByte, '.');
    for (int64_t row = 0; row < kRows; ++row) {
      for (int rank = 0; rank < kRanks; ++rank) {
        expected += std::string(kColumns, Rank::ByteOf(save, rank));
      }
    }
    EXPECT_EQ(Content("data"), expected) << "save " << save;
  }

  std::barrier<> all_{kRanks};
};

TEST_F(FlushThreadsTest, EveryRankWritesAndOneSyncs) {
  constexpr int64_t kSaves = 40;
  OnAllRanks([&](int rank, Rank& mine) {
    for (int64_t save = 1; save <= kSaves; ++save) {
      const Flush flush = mine.Begin(save, save % 2 == 0);
      EXPECT_EQ(mine.Wait(flush), absl::OkStatus());
      if (save % 5 == 0) {
        EXPECT_EQ(mine.ReadBack(flush), absl::OkStatus());
      }
      all_.arrive_and_wait();
      EXPECT_TRUE(mine.node().AllReached(save));
      EXPECT_FALSE(mine.node().AnyFailed(save));
      if (rank == 0) ExpectSaved(save);
      all_.arrive_and_wait();
    }
  });
}

// The thread gets no core until the call that waits has written all.
TEST_F(FlushThreadsTest, ACallWritesWhatIsLeft) {
  constexpr int64_t kSaves = 10;
  OnAllRanks([&](int rank, Rank& mine) {
    for (int64_t save = 1; save <= kSaves; ++save) {
      std::promise<void> gate;
      const Flush flush = mine.Begin(save, false, 0, gate.get_future().share());
      int64_t pieces = 0;
      while (HelpFlush(*flush.job, *flush.progress)) ++pieces;
      EXPECT_GT(pieces, 1);
      EXPECT_TRUE(flush.progress->writing.IsDone(*flush.job));
      all_.arrive_and_wait();
      if (rank == 0) ExpectSaved(save);
      gate.set_value();
      EXPECT_EQ(mine.Wait(flush), absl::OkStatus());
      all_.arrive_and_wait();
    }
  });
}

// One rank gives up at any moment; the one that syncs hears of it, unless all
// had written.
TEST_F(FlushThreadsTest, ARankGivesUp) {
  constexpr int64_t kSaves = 40;
  OnAllRanks([&](int rank, Rank& mine) {
    std::minstd_rand random(7);
    for (int64_t save = 1; save <= kSaves; ++save) {
      const int victim = static_cast<int>(random() % kRanks);
      const std::chrono::microseconds wait(random() % 1500);
      const Flush flush = mine.Begin(save, true);
      if (rank == victim) {
        std::this_thread::sleep_for(wait);
        flush.progress->is_cancelled = true;
      }
      const Status status = mine.Wait(flush);
      if (!status.ok()) {
        EXPECT_TRUE(absl::IsCancelled(status)) << status;
        EXPECT_TRUE(flush.progress->has_given_up);
        EXPECT_TRUE(rank == victim || rank == 0);
      }
      all_.arrive_and_wait();
      EXPECT_NE(mine.node().AllReached(save), mine.node().AnyFailed(save));
      all_.arrive_and_wait();
    }
  });
}

// The thread owns what it uses: savers go in the middle of a save, and others
// begin at once.
TEST_F(FlushThreadsTest, ASaverGoesWhileItsThreadWrites) {
  constexpr int64_t kSavers = 30;
  for (int64_t saver = 1; saver <= kSavers; ++saver) {
    OnAllRanks([&](int rank, Rank& mine) {
      std::minstd_rand random(static_cast<unsigned>(saver * kRanks + rank));
      const Flush flush = mine.Begin(1, saver % 2 == 0, 1 << 20);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
      flush.progress->is_cancelled = true;
    });
  }
}

}  // namespace
}  // namespace belay::flush_threads_test
