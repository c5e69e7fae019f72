// Every large allocation of every operation on a variable fails on every rank:
// the same error on all ranks, and the variable as it was.

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include "belay/variable/sparse_ops.h"
#include "counted_memory.h"
#include "variables.h"

namespace belay {
namespace {

constexpr int64_t kRows = 600;  // on each rank

Tensor Floats(const Shape& shape) {
  Tensor tensor(DType::kF32, shape);
  float next = 0;
  for (float& value : tensor.values<float>()) value = next++;
  return tensor;
}

// What the operations are passed, made before any allocation fails.
struct Arguments {
  Arguments(int rank, int size)
      : values(Floats({kRows * size, 3})),
        rows(DType::kI64, {kRows * size}),
        rank_0_rows(DType::kI64, {rank == 0 ? kRows * size : 0}),
        splits(DType::kI64, {kRows * size + 1}),
        mask(DType::kBool, {kRows * size}),
        piece_values(Floats({kRows, 3})),
        given(kRows, {DType::kF32, {1, 3}, values.data(), ""}) {
    int64_t row = kRows * size;
    for (int64_t& value : rows.values<int64_t>()) value = --row;
    if (rank == 0) {
      std::memcpy(rank_0_rows.data(), rows.data(), rows.num_bytes());
    }
    int64_t split = 0;
    for (int64_t& value : splits.values<int64_t>()) value = split++;
    std::memset(mask.data(), 1, mask.num_bytes());
    // Each rank passes the rows of the next one.
    piece = {{{kRows * ((rank + 1) % size), 0}, {kRows, 3}}, &piece_values};
  }

  Tensor values;
  Tensor rows;         // all, backwards
  Tensor rank_0_rows;  // the same; on other ranks none
  Tensor splits;       // one row in each list
  Tensor mask;
  Tensor piece_values;
  VariablePiece piece;
  std::vector<GivenComponent> given;
};

struct Operation {
  std::string name;
  std::function<Status(const Comm&, ShardedVariable&, const Arguments&)> run;
};

std::vector<Operation> AllOperations() {
  return {
      {"create",
       [](const Comm& comm, ShardedVariable&, const Arguments&) {
         return CreateShardedVariable(comm, "c", DType::kF32, {4 * kRows, 9},
                                      FixedShards(8))
             .status();
       }},
      {"join",
       [](const Comm& comm, ShardedVariable&, const Arguments& a) {
         return JoinComponents(comm, "j", a.given).status();
       }},
      {"read",
       [](const Comm& comm, ShardedVariable& v, const Arguments&) {
         return Read(comm, v, {Slice{{}, {}, -1}, Slice{0, 2}}).status();
       }},
      {"read by mask",
       [](const Comm& comm, ShardedVariable& v, const Arguments& a) {
         return Read(comm, v, {&a.mask}, 0).status();
       }},
      {"assign slice",
       [](const Comm& comm, ShardedVariable& v, const Arguments& a) {
         return AssignSlice(comm, v, {Slice{{}, {}, -1}}, a.values);
       }},
      {"assign pieces",
       [](const Comm& comm, ShardedVariable& v, const Arguments& a) {
         return AssignPieces(comm, v, UpdateOp::kAdd, {&a.piece, 1});
       }},
      {"scatter",
       [](const Comm& comm, ShardedVariable& v, const Arguments& a) {
         return ScatterAdd(comm, v, a.rows, a.values);
       }},
      {"sparse read",
       [](const Comm& comm, ShardedVariable& v, const Arguments& a) {
         return SparseRead(comm, v, a.rows).status();
       }},
      // Only rank 0 asks, so the others need room for their answers.
      {"embedding lookup",
       [](const Comm& comm, ShardedVariable& v, const Arguments& a) {
         return EmbeddingLookup(comm, v, a.rank_0_rows).status();
       }},
      {"embedding lookup of lists",
       [](const Comm& comm, ShardedVariable& v, const Arguments& a) {
         return EmbeddingLookupSparse(comm, v,
                                      {.row_splits = &a.splits, .ids = &a.rows},
                                      Combiner::kMean)
             .status();
       }},
  };
}

using OutOfMemoryTest = testing::VariableTest;

TEST_F(OutOfMemoryTest, EveryLargeAllocationOnEveryRankIsAgreed) {
  const Arguments arguments(rank_, size_);
  const std::vector<int64_t> rows(size_, kRows);
  for (const Operation& operation : AllOperations()) {
    ShardedVariable v = Cut(arguments.values, rows);
    counted_memory.Arm(0);
    EXPECT_EQ(operation.run(comm_, v, arguments), absl::OkStatus());
    std::vector<int64_t> counts(size_);
    MPI_Allgather(&counted_memory.large_calls, 1, MPI_INT64_T, counts.data(), 1,
                  MPI_INT64_T, MPI_COMM_WORLD);
    EXPECT_GE(counts[0], 1) << operation.name;
    for (int rank = 0; rank < size_; ++rank) {
      v = Cut(arguments.values, rows);
      for (int64_t number = 1; number <= counts[rank]; ++number) {
        SCOPED_TRACE(operation.name + ", allocation " + std::to_string(number));
        counted_memory.Arm(rank_ == rank ? number : 0);
        const Status status = operation.run(comm_, v, arguments);
        counted_memory.Arm(0);
        ExpectError(status, absl::StatusCode::kResourceExhausted,
                    "no memory for ");
        EXPECT_NE(status.ToString().find(RankText(rank)), std::string::npos);
        ExpectHolds(v, arguments.values);
      }
    }
  }
}

// A scatter with a failing allocation leaves no memory behind, one that
// succeeds leaves that of the rows that travelled.
TEST_F(OutOfMemoryTest, ScatterUsesTheMemoryOfTheLastOne) {
  const Arguments arguments(rank_, size_);
  ShardedVariable v = Cut(arguments.values, std::vector<int64_t>(size_, kRows));
  // Returns the number of large allocations.
  const auto scatter = [&](bool fails = false) {
    counted_memory.Arm(fails ? 1 : 0);
    const Status status =
        ScatterAdd(comm_, v, arguments.rows, arguments.values);
    const int64_t counted = counted_memory.large_calls;
    counted_memory.Arm(0);
    EXPECT_EQ(status.ok(), !fails) << status;
    return counted;
  };
  const int64_t first = scatter();
  const int64_t travelling = size_ > 1 ? 2 : 0;  // to others, and from others
  EXPECT_EQ(scatter(), first - travelling);
  EXPECT_EQ(scatter(), first - travelling);
  scatter(true);
  EXPECT_EQ(scatter(), first);
  // Nothing travels, and nothing is kept.
  EXPECT_EQ(ScatterAdd(comm_, v, Tensor(DType::kI64, {0}),
                       Tensor(DType::kF32, {0, 3})),
            absl::OkStatus());
  EXPECT_EQ(scatter(), first);
  // A variable takes its memory along.
  ShardedVariable moved = std::move(v);
  v = std::move(moved);
  EXPECT_EQ(scatter(), first - travelling);
}

}  // namespace
}  // namespace belay
