// A save or a read in which some ranks do not come to the agreement, or hang in
// a call. Ends with an exit code other than 75 if the deadline does not work.

#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string_view>

#include "belay/async_saver.h"
#include "belay/comm.h"
#include "belay/variable/sharded_variable_ops.h"
#include "mpi/collective.h"
#include "mpi/deadline.h"
#include "mpi/word_in_flight.h"

namespace {

std::atomic<bool> fsync_stalls{false};

}  // namespace

// The library's calls land here. That of a directory, before the save returns,
// does not stall.
extern "C" int fsync(int fd) {
  struct stat info;
  if (fsync_stalls && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) sleep(20);
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace {

bool IsLate(std::string_view name, int rank, int size) {
  if (name == "last_rank_sleeps") return rank == size - 1;
  if (name == "first_rank_sleeps") return rank == 0;
  if (name == "odd_ranks_sleep") return rank % 2 == 1;
  if (name == "referees_sleep") return rank < 4;
  if (name == "writers_sleep") return rank > 0;
  return name == "call_blocks";
}

void Run(const belay::Comm& comm, std::string_view name) {
  belay::CommContext context{
      .comm = comm,
      .deadline = belay::Deadline(comm, 1, "save \"run/step_00000007\"")};
  context.deadline.Enter("gather");
  if (!belay::Agree(context, absl::OkStatus()).ok()) return;
  const bool blocks = name == "call_blocks";
  // A rank that sleeps in the program's own code has no deadline of its own.
  if (!blocks && IsLate(name, context.rank(), context.size())) {
    context.deadline = belay::Deadline(comm, 0, "");
  }
  // As in a save, the first rank knows what each has to do.
  const std::vector<std::string> work = {
      "writes \"a\"", "writes \"b\" and 2 more datasets", "writes nothing"};
  if (name == "writers_sleep" && context.rank() == 0) {
    context.deadline.Enter("write", work);
  } else {
    context.deadline.Enter("write");
  }
  if (name == "writers_sleep") {
    // The first of many rounds: what the ranks do stays known.
    (void)belay::Agree(context, absl::OkStatus());
    context.deadline.Restart();
  }
  if (IsLate(name, context.rank(), context.size())) sleep(20);
  (void)belay::Agree(context, absl::OkStatus());
}

// The system has no thread to watch with. The last rank comes too late; that
// the others have worked for most of the time does not give it more of it.
void WithoutThreads(const belay::Comm& comm) {
  pthread_attr_t too_large;
  pthread_attr_init(&too_large);
  pthread_attr_setstacksize(&too_large, size_t{1} << 50);
  if (pthread_setattr_default_np(&too_large) != 0) return;
  belay::CommContext context{
      .comm = comm,
      .deadline = belay::Deadline(comm, 4, "save \"run/step_00000007\"")};
  context.deadline.Enter("write");
  sleep(comm.rank() == comm.size() - 1 ? 6 : 3);
  (void)belay::Agree(context, absl::OkStatus());
}

// The first rank reads a variable alone.
void ReadAlone(const belay::Comm& comm) {
  const auto v = belay::CreateShardedVariable(comm, "v", belay::DType::kF32,
                                              {4}, belay::FixedShards(2));
  if (!v.ok()) return;
  if (comm.rank() > 0) sleep(20);
  (void)belay::Read(comm, *v, {}, belay::kEveryRank, {.deadline_seconds = 1});
}

// Rank 1 is stopped while it writes in the background.
void StopInFlush(const belay::Comm& comm) {
  const int64_t value = 7;
  belay::State state;
  state.Add("value", value);
  belay::AsyncSaver saver(comm);
  fsync_stalls = true;
  (void)saver.Save("flush_stops", 1, state,
                   {.overwrite = true, .deadline_seconds = 1});
  if (comm.rank() == 1) raise(SIGSTOP);
  (void)saver.Wait();
}

// The disk never answers the thread of a save in the background.
void StallFlush(const belay::Comm& comm) {
  const int64_t value = 7;
  belay::State state;
  state.Add("value", value);
  belay::AsyncSaver saver(comm);
  fsync_stalls = true;
  (void)saver.Save("flush_stalls", 1, state,
                   {.overwrite = true, .deadline_seconds = 1});
  (void)saver.Wait();
}

// The last rank does not take part in the duplicate.
void DuplicateAlone() {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (rank == size - 1) sleep(20);
  (void)belay::Comm::Duplicate(MPI_COMM_WORLD, 1);
}

// The last rank does not close, or split, a duplicate with a short deadline.
void LeaveCommAlone(std::string_view name) {
  auto comm = belay::Comm::Duplicate(MPI_COMM_WORLD, 1);
  if (!comm.ok()) return;
  if (comm->rank() == comm->size() - 1) sleep(20);
  if (name == "closes_alone") {
    (void)comm->Close();
  } else {
    (void)comm->Split(0);
  }
}

// Each rank waits for a message that nobody sends, the first in another call.
void WaitElsewhere(const belay::Comm& comm) {
  const bool is_first = comm.rank() == 0;
  // The first to give up is the one whose line is judged.
  belay::Deadline deadline(
      comm, is_first ? 2 : 2.8,
      is_first ? "save \"run/step_00000007\"" : "restore \"run\"");
  deadline.Enter("write");
  char byte = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(&byte, 1, MPI_BYTE, 0, 7, comm.raw(), &request);
  (void)deadline.Wait(request);
}

void Or(void* from, void* to, int*, MPI_Datatype*) {
  *static_cast<uint64_t*>(to) |= *static_cast<uint64_t*>(from);
}

// The first rank is so late in one exchange that the other tells of it, and
// never hears that; in the next the other does not come.
void ExchangeTwice(const belay::Comm& comm) {
  constexpr int kMillisecond = 1000;
  belay::WordInFlight word;
  if (comm.rank() == 0) usleep(700 * kMillisecond);
  if (!word.Start(comm, 1, &Or).ok()) return;
  if (comm.rank() == 0) usleep(200 * kMillisecond);
  if (!word.Finish(comm, 1, "step").ok()) return;
  if (comm.rank() == 1) sleep(20);
  if (word.Start(comm, 1, &Or).ok()) (void)word.Finish(comm, 1, "step");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  if (argv[1] == std::string_view("duplicates_alone")) DuplicateAlone();
  absl::StatusOr<belay::Comm> comm = belay::Comm::Duplicate(MPI_COMM_WORLD);
  if (!comm.ok()) return 3;
  if (argv[1] == std::string_view("reads_alone")) {
    ReadAlone(*comm);
  } else if (argv[1] == std::string_view("closes_alone") ||
             argv[1] == std::string_view("splits_alone")) {
    LeaveCommAlone(argv[1]);
  } else if (argv[1] == std::string_view("waits_elsewhere")) {
    WaitElsewhere(*comm);
  } else if (argv[1] == std::string_view("without_threads")) {
    WithoutThreads(*comm);
  } else if (argv[1] == std::string_view("flush_stalls")) {
    StallFlush(*comm);
  } else if (argv[1] == std::string_view("flush_stops")) {
    StopInFlush(*comm);
  } else if (argv[1] == std::string_view("exchanges_twice")) {
    ExchangeTwice(*comm);
  } else {
    Run(*comm, argv[1]);
  }
  std::fputs("the deadline did not end the job\n", stderr);
  MPI_Finalize();
  return 1;
}
