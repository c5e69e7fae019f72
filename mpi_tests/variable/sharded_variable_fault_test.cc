// Every fault of every operation on a variable: the same error on all ranks,
// and the variable as it was.

#include <gmock/gmock.h>

#include <functional>

#include "core/fault.h"
#include "variables.h"

namespace belay::sharded_variable_fault_test {
namespace {

using testing::Iota;

struct Operation {
  std::string name;
  std::function<Status(const Comm&, ShardedVariable&)> run;
};

Status RunJoin(const Comm& comm, ShardedVariable&) {
  static float memory[2];
  const GivenComponent mine{DType::kF32, {2}, memory, ""};
  return JoinComponents(comm, "j", {&mine, 1}).status();
}

// Each rank passes the rows of the next one.
Status RunPieces(const Comm& comm, ShardedVariable& v) {
  const int64_t row = 2 * ((comm.rank() + 1) % comm.size());
  const Tensor value = Iota({2, 3});
  const VariablePiece piece{{{row, 0}, {2, 3}}, &value};
  return AssignPieces(comm, v, UpdateOp::kAdd, {&piece, 1});
}

std::vector<Operation> AllOperations() {
  return {
      {"create",
       [](const Comm& comm, ShardedVariable&) {
         return CreateShardedVariable(comm, "c", DType::kF32, {9},
                                      FixedShards(4))
             .status();
       }},
      {"join", RunJoin},
      {"read",
       [](const Comm& comm, ShardedVariable& v) {
         return Read(comm, v, {Slice{{}, {}, -1}, 1}).status();
       }},
      {"read to the last rank",
       [](const Comm& comm, ShardedVariable& v) {
         return Read(comm, v, {}, comm.size() - 1).status();
       }},
      {"convert",
       [](const Comm& comm, ShardedVariable& v) {
         return ToTensor(comm, v).status();
       }},
      {"assign",
       [](const Comm& comm, ShardedVariable& v) {
         return Assign(comm, v, UpdateOp::kAdd, Iota(v.shape()));
       }},
      {"assign slice",
       [](const Comm& comm, ShardedVariable& v) {
         return AssignSlice(comm, v, {Slice{1, 4}}, Iota({3}));
       }},
      {"assign pieces", RunPieces},
  };
}

using VariableFaultTest = testing::VariableTest;

TEST_F(VariableFaultTest, EveryFaultOnEveryRankIsAgreed) {
  const Tensor before = Iota({2 * size_, 3});
  for (const Operation& operation : AllOperations()) {
    SCOPED_TRACE(operation.name);
    ShardedVariable v = Cut(before, std::vector<int64_t>(size_, 2));
    fault::Arm(0);
    EXPECT_EQ(operation.run(comm_, v), absl::OkStatus());
    int64_t points = fault::Count();
    fault::Disarm();
    EXPECT_GE(points, 2);
    MPI_Bcast(&points, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
    v = Cut(before, std::vector<int64_t>(size_, 2));
    for (int64_t point = 1; point <= points; ++point) {
      for (int rank = 0; rank < size_; ++rank) {
        fault::Arm(rank_ == rank ? point : 0);
        const Status status = operation.run(comm_, v);
        fault::Disarm();
        ExpectError(status, absl::StatusCode::kInternal,
                    "injected fault " + RankText(rank));
        ExpectHolds(v, before);
      }
    }
    EXPECT_EQ(operation.run(comm_, v), absl::OkStatus());
  }
}

}  // namespace
}  // namespace belay::sharded_variable_fault_test
