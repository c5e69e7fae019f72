// What ranks send each other in a save whose structure has not changed, counted
// between the library and MPI.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "belay/checkpoint.h"
#include "values.h"

namespace belay {
namespace {

// The bytes of each collective that this rank has taken part in.
std::vector<int64_t>* calls = nullptr;

void Note(int count, MPI_Datatype type) {
  int size = 0;
  PMPI_Type_size(type, &size);
  if (calls != nullptr) calls->push_back(int64_t{count} * size);
}

}  // namespace
}  // namespace belay

extern "C" {

int MPI_Iallreduce(const void* from, void* to, int count, MPI_Datatype type,
                   MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  belay::Note(count, type);
  return PMPI_Iallreduce(from, to, count, type, op, comm, request);
}

int MPI_Ireduce(const void* from, void* to, int count, MPI_Datatype type,
                MPI_Op op, int root, MPI_Comm comm, MPI_Request* request) {
  belay::Note(count, type);
  return PMPI_Ireduce(from, to, count, type, op, root, comm, request);
}

int MPI_Ibcast(void* bytes, int count, MPI_Datatype type, int root,
               MPI_Comm comm, MPI_Request* request) {
  belay::Note(count, type);
  return PMPI_Ibcast(bytes, count, type, root, comm, request);
}

int MPI_Igather(const void* from, int count, MPI_Datatype type, void* to,
                int to_count, MPI_Datatype to_type, int root, MPI_Comm comm,
                MPI_Request* request) {
  belay::Note(count, type);
  return PMPI_Igather(from, count, type, to, to_count, to_type, root, comm,
                      request);
}

int MPI_Iscatter(const void* from, int count, MPI_Datatype type, void* to,
                 int to_count, MPI_Datatype to_type, int root, MPI_Comm comm,
                 MPI_Request* request) {
  belay::Note(count, type);
  return PMPI_Iscatter(from, count, type, to, to_count, to_type, root, comm,
                       request);
}

int MPI_Iallgather(const void* from, int count, MPI_Datatype type, void* to,
                   int to_count, MPI_Datatype to_type, MPI_Comm comm,
                   MPI_Request* request) {
  belay::Note(count, type);
  return PMPI_Iallgather(from, count, type, to, to_count, to_type, comm,
                         request);
}

int MPI_Ialltoall(const void* from, int count, MPI_Datatype type, void* to,
                  int to_count, MPI_Datatype to_type, MPI_Comm comm,
                  MPI_Request* request) {
  belay::Note(count, type);
  return PMPI_Ialltoall(from, count, type, to, to_count, to_type, comm,
                        request);
}

int MPI_Ialltoallw(const void* from, const int counts[], const int offsets[],
                   const MPI_Datatype types[], void* to, const int to_counts[],
                   const int to_offsets[], const MPI_Datatype to_types[],
                   MPI_Comm comm, MPI_Request* request) {
  belay::Note(counts[0], types[0]);
  return PMPI_Ialltoallw(from, counts, offsets, types, to, to_counts,
                         to_offsets, to_types, comm, request);
}

int MPI_Isend(const void* from, int count, MPI_Datatype type, int to, int tag,
              MPI_Comm comm, MPI_Request* request) {
  belay::Note(count, type);
  return PMPI_Isend(from, count, type, to, tag, comm, request);
}

}  // extern "C"

namespace belay {
namespace {

class AgreementTest : public testing::CheckpointTest {
 protected:
  // The bytes of the collectives of the second save of `n` values.
  std::vector<int64_t> SecondSave(int n) {
    std::vector<float> values(n);
    const auto describe = [&](Tracker& tracker) {
      for (int i = 0; i < n; ++i) {
        tracker.Value("v" + std::to_string(i), values[i]);
      }
    };
    Checkpoint checkpoint(comm_, {{"all", describe}});
    // Checksums are of the values and travel too.
    const SaveOptions options{.checksums = false,
                              .transfer = Transfer::kIndependent,
                              .durable = false};
    const std::string dir = run() + std::to_string(n);
    const SaveResult first = testing::Ok(checkpoint.Save(dir, options));
    EXPECT_GT(first.counters.agreement_bytes, 10 * n);
    std::vector<int64_t> seen;
    calls = &seen;
    const SaveResult second = testing::Ok(checkpoint.Save(dir, options));
    calls = nullptr;
    EXPECT_TRUE(second.plan_reused);
    EXPECT_LE(second.counters.agreement_bytes, 64);
    // All others are agreements and totals.
    EXPECT_EQ(seen[0] + seen[1], second.counters.agreement_bytes);
    return seen;
  }
};

TEST_F(AgreementTest, ASaveOfTheSameStructureSendsNoDescriptions) {
  const std::vector<int64_t> few = SecondSave(10);
  int64_t sum = 0;
  for (const int64_t bytes : few) sum += bytes;
  EXPECT_LT(sum, 500);
  for (const int n : {1000, 100000}) {
    EXPECT_EQ(SecondSave(n), few) << n << " values";
  }
}

}  // namespace
}  // namespace belay
