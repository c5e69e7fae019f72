// Deadlines that are kept. Those that are missed: deadline_exit.cc.
#include "mpi/deadline.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

#include "comm_fixture.h"
#include "mpi/collective.h"
#include "mpi_test.h"

namespace belay {
namespace {

using testing::WorldRank;
using testing::WorldSize;

void Sleep(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

class DeadlineTest : public testing::CommFixture {};

TEST_F(DeadlineTest, WithoutLimitWaits) {
  CommContext context{.comm = comm_, .deadline = Deadline(comm_, 0, "save")};
  context.deadline.Enter("write");
  if (WorldRank() == last()) Sleep(0.1);
  int64_t sum = 1;
  EXPECT_EQ(SumAll(context, {&sum, 1}), absl::OkStatus());
  EXPECT_EQ(sum, WorldSize());
}

// Ranks tell each other that they wait; the late one comes, nobody hears of it
// any more, and later agreements and deadlines are not disturbed.
TEST_F(DeadlineTest, ArrivalsOfRanksThatWaitedInVainAreHarmless) {
  for (int late = 0; late < WorldSize(); ++late) {
    CommContext context{.comm = comm_,
                        .deadline = Deadline(comm_, 0.5, "save")};
    context.deadline.Enter("gather");
    if (WorldRank() == late) Sleep(0.4);
    EXPECT_EQ(Agree(context, absl::OkStatus()), absl::OkStatus());
    context.deadline.Enter("write");
    EXPECT_EQ(Agree(context, absl::OkStatus()), absl::OkStatus());
  }
  CommContext context{.comm = comm_, .deadline = Deadline(comm_, 60, "save")};
  EXPECT_EQ(Agree(context, absl::OkStatus()), absl::OkStatus());
}

// In all this takes longer than any limit here with its grace.
TEST_F(DeadlineTest, EnterStartsTheTimeAnewAndDestructionStopsIt) {
  {
    CommContext other{.comm = comm_, .deadline = Deadline(comm_, 0.1, "save")};
    EXPECT_EQ(Agree(other, absl::OkStatus()), absl::OkStatus());
    other.deadline = Deadline(comm_, 0.2, "restore");
    Deadline moved = std::move(other.deadline);
  }
  CommContext context{.comm = comm_, .deadline = Deadline(comm_, 0.6, "save")};
  for (int stage = 0; stage < 17; ++stage) {
    context.deadline.Enter("a stage");
    Sleep(0.3);
    EXPECT_EQ(Agree(context, absl::OkStatus()), absl::OkStatus());
  }
}

// As a batch system suspends a job: longer than any limit here with its grace.
void SuspendSoon(double seconds) {
  const pid_t rank = getpid();
  if (fork() != 0) return;
  Sleep(0.3);
  kill(rank, SIGSTOP);
  Sleep(seconds);
  kill(rank, SIGCONT);
  _exit(0);
}

TEST_F(DeadlineTest, TheTimeInWhichAJobIsSuspendedDoesNotCount) {
  CommContext context{.comm = comm_, .deadline = Deadline(comm_, 2, "save")};
  context.deadline.Enter("write");
  EXPECT_EQ(Agree(context, absl::OkStatus()), absl::OkStatus());
  SuspendSoon(8);
  // The last rank is in a call, the others wait at the agreement.
  if (WorldRank() == last()) Sleep(0.6);
  EXPECT_EQ(Agree(context, absl::OkStatus()), absl::OkStatus());
  Sleep(0.6);
  EXPECT_EQ(wait(nullptr) > 0, true);
  EXPECT_EQ(Agree(context, absl::OkStatus()), absl::OkStatus());
}

TEST_F(DeadlineTest, WaitsForSeveralRequests) {
  Deadline deadline(comm_, 60, "save");
  int sent = WorldRank();
  int received = -1;
  const int next = (WorldRank() + 1) % WorldSize();
  const int previous = (WorldRank() + last()) % WorldSize();
  MPI_Request requests[2];
  MPI_Irecv(&received, 1, MPI_INT, previous, 0, comm_.raw(), &requests[0]);
  MPI_Isend(&sent, 1, MPI_INT, next, 0, comm_.raw(), &requests[1]);
  EXPECT_EQ(deadline.Wait(requests), absl::OkStatus());
  EXPECT_EQ(received, previous);
  EXPECT_EQ(deadline.Wait(std::span<MPI_Request>()), absl::OkStatus());
}

TEST_F(DeadlineTest, WaitReturnsTheErrorOfMpi) {
  if (WorldSize() == 1) GTEST_SKIP() << "Open MPI truncates it silently";
  Deadline deadline(comm_, 60, "save");
  char small = 0;
  char large[16] = {};
  const int next = (WorldRank() + 1) % WorldSize();
  MPI_Request requests[2];
  MPI_Irecv(&small, 1, MPI_BYTE, MPI_ANY_SOURCE, 0, comm_.raw(), &requests[0]);
  MPI_Isend(large, 16, MPI_BYTE, next, 0, comm_.raw(), &requests[1]);
  EXPECT_EQ(deadline.Wait(requests),
            absl::InvalidArgumentError(
                "MPI_Test: MPI_ERR_TRUNCATE: message truncated; ranks are in "
                "different calls of belay; every rank of the communicator must "
                "make the same calls in the same order"));
}

// The program's handlers run on the program's threads.
TEST_F(DeadlineTest, TheCallersSignalMaskIsUnchanged) {
  sigset_t before;
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  { Deadline deadline(comm_, 60, "save"); }
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  for (int number : {SIGTERM, SIGUSR1, SIGINT}) {
    EXPECT_EQ(sigismember(&before, number), 0);
    EXPECT_EQ(sigismember(&after, number), 0);
  }
}

}  // namespace
}  // namespace belay
