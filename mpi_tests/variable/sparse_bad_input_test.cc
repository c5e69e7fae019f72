#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "belay/variable/sparse_ops.h"
#include "core/fault.h"
#include "sparse_oracle.h"

namespace belay::sparse_bad_input_test {
namespace {

using testing::Counting;
using testing::Dealt;
using testing::ExpectHolds;
using testing::MakeVariable;
using testing::Ones;
using testing::WorldRank;
using testing::WorldSize;

using SparseBadInput = testing::SparseTest;

// What one rank may do wrong.
struct Mistake {
  std::string name;
  Status expected;  // without " [rank R of N]"
  std::function<Status(const Comm&, ShardedVariable&)> run;
};

Status Add(const Comm& comm, ShardedVariable& v, const Tensor& indices,
           const Tensor& rows) {
  return ScatterAdd(comm, v, indices, rows);
}

std::vector<Mistake> Mistakes() {
  const auto with_indices = [](Tensor indices) {
    const auto shared = std::make_shared<Tensor>(std::move(indices));
    return [shared](const Comm& comm, ShardedVariable& v) {
      return Add(comm, v, *shared, Ones({shared->num_elements(), 2}));
    };
  };
  const auto with_rows = [](Tensor rows) {
    const auto shared = std::make_shared<Tensor>(std::move(rows));
    return [shared](const Comm& comm, ShardedVariable& v) {
      return Add(comm, v, Tensor::Of<int64_t>({2}, {0, 1}), *shared);
    };
  };
  const std::string add = "scatter_add \"v\": ";
  return {
      {"too large",
       absl::OutOfRangeError(add + "indices[1] is not one of the 10 rows "
                                   "(need 0 to 9, found 10)"),
       with_indices(Tensor::Of<int32_t>({3}, {9, 10, 11}))},
      {"negative",
       absl::OutOfRangeError(add + "indices[0] is not one of the 10 rows "
                                   "(need 0 to 9, found -1)"),
       with_indices(Tensor::Of<int64_t>({1}, {-1}))},
      {"scalar index",
       absl::InvalidArgumentError(
           add + "indices must be 1D (need 1 axis, found shape [])"),
       with_indices(Tensor::Of<int64_t>({}, {1}))},
      {"2-D indices",
       absl::InvalidArgumentError(
           add + "indices must be 1D (need 1 axis, found shape [1, 1])"),
       with_indices(Tensor::Of<int64_t>({1, 1}, {1}))},
      {"float indices",
       absl::InvalidArgumentError(
           add + "indices of another dtype (need i32 or i64, found f32)"),
       with_indices(Tensor::Of<float>({1}, {1}))},
      {"rows too few",
       absl::InvalidArgumentError(
           add + "rows: another shape (need [2, 2], found [1, 2])"),
       with_rows(Ones({1, 2}))},
      {"rows too narrow",
       absl::InvalidArgumentError(
           add + "rows: another shape (need [2, 2], found [2])"),
       with_rows(Ones({2}))},
      {"rows of another dtype",
       absl::InvalidArgumentError(add +
                                  "rows: another dtype (need f32, found i32)"),
       with_rows(Tensor::Of<int32_t>({2, 2}, {1, 1, 1, 1}))},
  };
}

TEST_F(SparseBadInput, AMistakeOfAnyRankIsEverybodysAndNothingChanges) {
  const Tensor dense = Counting({10, 2});
  for (const Mistake& mistake : Mistakes()) {
    for (int wrong = 0; wrong < WorldSize(); ++wrong) {
      SCOPED_TRACE(mistake.name);
      ShardedVariable v = MakeVariable(Dealt({4, 3, 3}), dense);
      const Status status =
          WorldRank() == wrong
              ? mistake.run(comm_, v)
              : Add(comm_, v, Tensor::Of<int64_t>({2}, {0, 9}), Ones({2, 2}));
      EXPECT_EQ(status,
                Status(mistake.expected.code(),
                       absl::StrCat(std::string(mistake.expected.message()),
                                    RankOf(wrong))));
      ExpectHolds(v, dense);
    }
  }
}

TEST_F(SparseBadInput, ReadingChecksIndicesToo) {
  const ShardedVariable v = MakeVariable(Dealt({4, 3, 3}), Counting({10, 2}));
  const int last = WorldSize() - 1;
  const int32_t index = WorldRank() == last ? 10 : 9;
  EXPECT_EQ(SparseRead(comm_, v, Tensor::Of<int32_t>({1}, {index})).status(),
            absl::OutOfRangeError(
                "sparse_read \"v\": indices[0] is not one of the 10 rows "
                "(need 0 to 9, found 10)" +
                RankOf(last)));
  EXPECT_EQ(SparseRead(comm_, v, Tensor::Of<int32_t>({1, 1}, {1})).status(),
            absl::InvalidArgumentError(
                "sparse_read \"v\": indices must be 1D (need 1 axis, found "
                "shape [1, 1])" +
                RankOf(0)));
}

TEST_F(SparseBadInput, IntegersAreNotDividedByZero) {
  const Tensor dense = Tensor::Of<int32_t>({4}, {1, 2, 3, 4});
  for (int wrong = 0; wrong < WorldSize(); ++wrong) {
    ShardedVariable v = MakeVariable(Dealt({2, 2}), dense);
    const int32_t divisor = WorldRank() == wrong ? 0 : 2;
    const Status status = ScatterDiv(comm_, v, Tensor::Of<int32_t>({2}, {3, 0}),
                                     Tensor::Of<int32_t>({2}, {2, divisor}));
    EXPECT_EQ(status,
              absl::InvalidArgumentError(
                  "scatter_div \"v\": update by \"div\": delta 1 of 2 is zero "
                  "(need a i32 other than 0, found 0)" +
                  RankOf(wrong)));
    ExpectHolds(v, dense);
  }
}

TEST_F(SparseBadInput, AnOpThatTheDtypeLacksIsRefused) {
  const Tensor dense = Tensor::Of<bool>({2}, {true, false});
  ShardedVariable v = MakeVariable(Dealt({1, 1}), dense);
  const Status status = ScatterAdd(comm_, v, Tensor::Of<int32_t>({0}, {}),
                                   Tensor::Of<bool>({0}, {}));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(
      status.message(),
      "scatter_add \"v\": update by \"add\": not defined for bool" + RankOf(0));
}

TEST_F(SparseBadInput, RanksThatDisagreeAreToldSo) {
  if (WorldSize() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const Tensor dense = Counting({10, 2});
  const int last = WorldSize() - 1;
  const bool other = WorldRank() == last;
  const Tensor indices = Tensor::Of<int64_t>({1}, {1});
  {
    ShardedVariable v = MakeVariable(Dealt({5, 5}), dense);
    EXPECT_EQ(Scatter(comm_, v, other ? UpdateOp::kSub : UpdateOp::kAdd,
                      indices, Ones({1, 2})),
              absl::InvalidArgumentError(absl::StrCat(
                  "scatter_sub \"v\": the op or the variable differs between "
                  "ranks: rank ",
                  last, " of ", WorldSize(), " has another value than rank 0",
                  RankOf(last))));
    ExpectHolds(v, dense);
  }
  ShardedVariable v =
      MakeVariable(other ? Dealt({4, 6}) : Dealt({5, 5}), dense);
  EXPECT_EQ(ScatterAdd(comm_, v, indices, Ones({1, 2})).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SparseRead(comm_, v, indices).status(),
            absl::InvalidArgumentError(absl::StrCat(
                "sparse_read \"v\": the variable differs between ranks: rank ",
                last, " of ", WorldSize(), " has another value than rank 0",
                RankOf(last))));
}

TEST_F(SparseBadInput, AVariableWithoutRowsHasNone) {
  ShardedVariable v =
      MakeVariable({.rows = {0, 0}, .owners = {0, 0}}, Counting({0, 2}));
  EXPECT_EQ(ScatterAdd(comm_, v, Tensor::Of<int32_t>({0}, {}), Ones({0, 2})),
            absl::OkStatus());
  const StatusOr<Tensor> none =
      SparseRead(comm_, v, Tensor::Of<int32_t>({0}, {}));
  ASSERT_EQ(none.status(), absl::OkStatus());
  EXPECT_EQ(none->shape(), (Shape{0, 2}));
  EXPECT_EQ(SparseRead(comm_, v, Tensor::Of<int32_t>({1}, {0})).status().code(),
            absl::StatusCode::kOutOfRange);
}

TEST_F(SparseBadInput, WithoutAVariableOrACommunicatorThereIsAnError) {
  ShardedVariable none;
  EXPECT_EQ(
      ScatterAdd(comm_, none, Tensor::Of<int32_t>({0}, {}), Ones({0})).code(),
      absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      SparseRead(comm_, none, Tensor::Of<int32_t>({0}, {})).status().code(),
      absl::StatusCode::kFailedPrecondition);
  const Comm closed;
  ShardedVariable v = MakeVariable(Dealt({1}), Ones({1}));
  EXPECT_EQ(ScatterAdd(closed, v, Tensor::Of<int32_t>({0}, {}), Ones({0})),
            absl::FailedPreconditionError(
                "scatter_add \"v\": the communicator is closed or was moved "
                "from"));
}

TEST_F(SparseBadInput, EveryFaultOnEveryRankIsAgreedAndNothingChanges) {
  const Tensor dense = Counting({8, 2});
  const Tensor indices = Tensor::Of<int32_t>({3}, {7, 0, 3});
  ShardedVariable v = MakeVariable(Dealt({3, 5}), dense);
  const std::function<Status()> calls[] = {
      [&] {
        return ScatterAdd(comm_, v, indices, Ones({3, 2}));
      },
      [&] { return SparseRead(comm_, v, indices).status(); },
  };
  for (const auto& call : calls) {
    v = MakeVariable(Dealt({3, 5}), dense);
    fault::Arm(0);
    EXPECT_EQ(call(), absl::OkStatus());
    const int64_t points = fault::Count();
    EXPECT_GE(points, 3);
    v = MakeVariable(Dealt({3, 5}), dense);
    for (int64_t point = 1; point <= points; ++point) {
      for (int rank = 0; rank < WorldSize(); ++rank) {
        fault::Arm(WorldRank() == rank ? point : 0);
        const Status status = call();
        EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
        EXPECT_NE(status.message().find("injected fault" + RankOf(rank)),
                  absl::string_view::npos)
            << status;
        ExpectHolds(v, dense);
      }
    }
    fault::Disarm();
    EXPECT_EQ(call(), absl::OkStatus());
  }
}

}  // namespace
}  // namespace belay::sparse_bad_input_test
