// What ShouldSave sends, counted between the library and MPI.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "manager_testing.h"

namespace belay {
namespace {

// What this rank has begun, in order: the name of the call and its bytes.
std::vector<std::string>* calls = nullptr;

void Note(const char* name, int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  if (calls != nullptr) {
    calls->push_back(name + std::string(" ") + std::to_string(count * size));
  }
}

}  // namespace
}  // namespace belay

// Every call by which the library sends anything, but for files.
extern "C" {

int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type,
                   MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  belay::Note("MPI_Iallreduce", count, type);
  return PMPI_Iallreduce(from, to, count, type, op, comm, request);
}

int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm) {
  belay::Note("MPI_Allreduce", count, type);
  return PMPI_Allreduce(from, to, count, type, op, comm);
}

int MPI_Ibcast(void* bytes, int count, MPI_Datatype type, int root,
               MPI_Comm comm, MPI_Request* request) {
  belay::Note("MPI_Ibcast", count, type);
  return PMPI_Ibcast(bytes, count, type, root, comm, request);
}

int MPI_Igather(const void* from, int count, MPI_Datatype type, void* to,
                int to_count, MPI_Datatype to_type, int root, MPI_Comm comm,
                MPI_Request* request) {
  belay::Note("MPI_Igather", count, type);
  return PMPI_Igather(from, count, type, to, to_count, to_type, root, comm,
                      request);
}

int MPI_Isend(const void* from, int count, MPI_Datatype type, int to, int tag,
              MPI_Comm comm, MPI_Request* request) {
  belay::Note("MPI_Isend", count, type);
  return PMPI_Isend(from, count, type, to, tag, comm, request);
}

int MPI_Send(const void* from, int count, MPI_Datatype type, int to, int tag,
             MPI_Comm comm) {
  belay::Note("MPI_Send", count, type);
  return PMPI_Send(from, count, type, to, tag, comm);
}

int MPI_Barrier(MPI_Comm comm) {
  belay::Note("MPI_Barrier", 0, MPI_BYTE);
  return PMPI_Barrier(comm);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* copy) {
  belay::Note("MPI_Comm_dup", 0, MPI_BYTE);
  return PMPI_Comm_dup(comm, copy);
}

}  // extern "C"

namespace belay {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::ManagerTest;

class ManagerMessagesTest : public ManagerTest {
 protected:
  // What is sent by ShouldSave.
  static std::vector<std::string> MessagesOf(CheckpointManager& manager,
                                             int64_t step) {
    std::vector<std::string> seen;
    calls = &seen;
    EXPECT_EQ(manager.ShouldSave(step).status(), absl::OkStatus());
    calls = nullptr;
    return seen;
  }
};

TEST_F(ManagerMessagesTest, OneReductionOfEightBytesForEachStep) {
  auto manager = Manage({.auto_interval = AutoInterval{.mtbf_seconds = 1e9},
                         .stop_signals = {SIGUSR1},
                         .end_time = time_ + 1e9});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  SaveAll(*manager, 0, 1);
  for (int64_t step = 1; step < 100; ++step) {
    EXPECT_THAT(MessagesOf(*manager, step), ElementsAre("MPI_Iallreduce 8"));
  }
  kill(getpid(), SIGUSR1);
  EXPECT_THAT(MessagesOf(*manager, 100), ElementsAre("MPI_Iallreduce 8"));
  // Also the name of the signal and its rank came with it.
  EXPECT_THAT(MessagesOf(*manager, 101), IsEmpty());
  EXPECT_EQ(manager->ShouldStop()->ToString(), "SIGUSR1 on rank 0");
  EXPECT_THAT(MessagesOf(*manager, 102), IsEmpty());
}

// The answer of rank 0 for the step itself is no more than that.
TEST_F(ManagerMessagesTest, WithShouldSave) {
  auto manager =
      Manage({.should_save = [](int64_t step, std::optional<int64_t>) {
        return step % 2 == 0;
      }});
  for (int64_t step = 1; step < 20; ++step) {
    EXPECT_THAT(MessagesOf(*manager, step), ElementsAre("MPI_Iallreduce 8"));
  }
}

}  // namespace
}  // namespace belay
