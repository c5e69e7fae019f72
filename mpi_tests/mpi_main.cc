// The main of every test on several ranks. Rank 0 prints; failures of other
// ranks are collected and printed at the end with their rank. The exit code is
// non-zero on every rank if any rank failed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

// Keeps what failed on this rank. A fatal failure is printed at once too,
// because this rank then leaves a test in which others may wait for it.
class Collector : public ::testing::EmptyTestEventListener {
 public:
  explicit Collector(int rank) : rank_(rank) {}

  void OnTestStart(const ::testing::TestInfo& info) override {
    test_ = std::string(info.test_suite_name()) + "." + info.name();
  }

  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (!result.failed()) return;
    const char* file = result.file_name();
    const std::string text = "[rank " + std::to_string(rank_) + "] " + test_ +
                             "\n" + (file == nullptr ? "unknown file" : file) +
                             ":" + std::to_string(result.line_number()) +
                             ": Failure\n" + result.message() + "\n";
    if (result.fatally_failed()) std::fputs(text.c_str(), stderr);
    failures_ += text;
  }

  const std::string& failures() const { return failures_; }

 private:
  int rank_;
  std::string test_;
  std::string failures_;
};

void PrintOnRoot(const std::string& mine, int rank, int size) {
  const int bytes = static_cast<int>(mine.size());
  std::vector<int> counts(size);
  MPI_Gather(&bytes, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::vector<int> starts(size + 1);
  for (int i = 0; i < size; ++i) starts[i + 1] = starts[i] + counts[i];
  std::string all(starts[size], '\0');
  MPI_Gatherv(mine.data(), bytes, MPI_CHAR, all.data(), counts.data(),
              starts.data(), MPI_CHAR, 0, MPI_COMM_WORLD);
  if (rank == 0) std::fputs(all.c_str(), stdout);
}

int RunOnAllRanks() {
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  // All ranks run the same tests in the same order.
  GTEST_FLAG_SET(shuffle, false);
  ::testing::TestEventListeners& listeners =
      ::testing::UnitTest::GetInstance()->listeners();
  if (rank != 0) {
    GTEST_FLAG_SET(output, "");
    delete listeners.Release(listeners.default_result_printer());
  }
  auto* collector = new Collector(rank);  // owned by the listeners
  listeners.Append(collector);
  int failed = RUN_ALL_TESTS();
  PrintOnRoot(rank == 0 ? std::string() : collector->failures(), rank, size);
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  ::testing::InitGoogleMock(&argc, argv);
  const int failed = RunOnAllRanks();
  MPI_Finalize();
  return failed;
}
