#include "belay/variable/sparse_ops.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "sparse_oracle.h"

namespace belay::sparse_ops_test {
namespace {

using testing::Counting;
using testing::Cut;
using testing::Dealt;
using testing::ExpectHolds;
using testing::IndexTensor;
using testing::MakeVariable;
using testing::WorldRank;
using testing::WorldSize;

using SparseOps = testing::SparseTest;

// The indices and rows of every rank, which every rank can work out.
struct Call {
  std::vector<std::vector<int64_t>> indices;
  std::vector<Tensor> rows;
};

// Applies the calls of all ranks to a dense tensor.
template <typename T>
void UpdateDenseByAll(UpdateOp op, const Call& call, Tensor& dense) {
  for (int rank = 0; rank < WorldSize(); ++rank) {
    testing::UpdateDense<T>(op, call.indices[rank], call.rows[rank], dense);
  }
}

// The same rows on every rank: the dense result has each one several times.
Call SameOnAll(const std::vector<int64_t>& indices, const Tensor& rows) {
  Call call;
  for (int rank = 0; rank < WorldSize(); ++rank) {
    call.indices.push_back(indices);
    call.rows.push_back(rows.Clone());
  }
  return call;
}

constexpr UpdateOp kAllOps[] = {
    UpdateOp::kUpdate, UpdateOp::kAdd, UpdateOp::kSub, UpdateOp::kMul,
    UpdateOp::kDiv,    UpdateOp::kMin, UpdateOp::kMax};

using ScatterFunction = Status (*)(const Comm&, ShardedVariable&, const Tensor&,
                                   const Tensor&, const VariableOptions&);
constexpr std::pair<UpdateOp, ScatterFunction> kNamedScatters[] = {
    {UpdateOp::kAdd, ScatterAdd},       {UpdateOp::kSub, ScatterSub},
    {UpdateOp::kMul, ScatterMul},       {UpdateOp::kDiv, ScatterDiv},
    {UpdateOp::kMin, ScatterMin},       {UpdateOp::kMax, ScatterMax},
    {UpdateOp::kUpdate, ScatterUpdate},
};

// TensorFlow's test_scatter_add_uneven_partition.
TEST_F(SparseOps, ScatterAddUnevenPartition) {
  Tensor dense = Counting({32, 1});
  ShardedVariable v = MakeVariable(Dealt({11, 11, 10}), dense);
  const std::vector<int64_t> indices = {0, 10, 11, 12, 30, 31};
  const Call call = SameOnAll(indices, Counting({6, 1}, 100));
  EXPECT_EQ(
      ScatterAdd(comm_, v, IndexTensor(indices, true), call.rows[WorldRank()]),
      absl::OkStatus());
  UpdateDenseByAll<float>(UpdateOp::kAdd, call, dense);
  EXPECT_EQ(dense.values<float>()[31], 31 + 105 * WorldSize());
  ExpectHolds(v, dense);
}

// TensorFlow's test_scatter_ops_even_partition.
TEST_F(SparseOps, ScatterOpsEvenPartition) {
  for (const auto& [op, scatter] : kNamedScatters) {
    Tensor dense = Counting({30, 2}, 1);
    ShardedVariable v = MakeVariable(Dealt({10, 10, 10}), dense);
    const std::vector<int64_t> indices = {0, 10, 12, 21, 22};
    const Call call = SameOnAll(indices, Counting({5, 2}, 10));
    EXPECT_EQ(scatter(comm_, v, IndexTensor(indices, false),
                      call.rows[WorldRank()], {}),
              absl::OkStatus());
    UpdateDenseByAll<float>(op, call, dense);
    ExpectHolds(v, dense);
  }
}

// TensorFlow's test_batch_scatter_update.
TEST_F(SparseOps, BatchScatterUpdate) {
  Tensor dense = Counting({32, 1});
  ShardedVariable v = MakeVariable(Dealt({11, 11, 10}), dense);
  const std::vector<int64_t> indices = {10, 11, 12, 13, 14, 15};
  const Call call = SameOnAll(indices, Counting({6, 1}, 1000));
  EXPECT_EQ(BatchScatterUpdate(comm_, v, IndexTensor(indices, true),
                               call.rows[WorldRank()]),
            absl::OkStatus());
  UpdateDenseByAll<float>(UpdateOp::kUpdate, call, dense);
  EXPECT_EQ(dense.values<float>()[15], 1005);
  ExpectHolds(v, dense);
}

// TensorFlow's test_sparse_read, and what it leaves out: with indices that are
// not sorted its rows come in the order of the components.
TEST_F(SparseOps, SparseRead) {
  const Tensor dense = Counting({30, 1});
  const ShardedVariable v = MakeVariable(Dealt({10, 10, 10}), dense);
  for (const std::vector<int64_t>& indices :
       {std::vector<int64_t>{0, 10, 12, 21, 22},
        std::vector<int64_t>{22, 0, 21, 0, 12, 10, 29}}) {
    const StatusOr<Tensor> rows =
        SparseRead(comm_, v, IndexTensor(indices, false));
    ASSERT_EQ(rows.status(), absl::OkStatus());
    EXPECT_EQ(rows->shape(), (Shape{static_cast<int64_t>(indices.size()), 1}));
    for (size_t i = 0; i < indices.size(); ++i) {
      EXPECT_EQ(rows->values<float>()[i], static_cast<float>(indices[i]));
    }
  }
}

TEST_F(SparseOps, OfRepeatedUpdatesTheLastOneOfTheLastRankStays) {
  Tensor dense = Counting({6});
  ShardedVariable v = MakeVariable(Dealt({1, 2, 3}), dense);
  const float mine = 100 * static_cast<float>(WorldRank());
  EXPECT_EQ(ScatterUpdate(
                comm_, v, Tensor::Of<int32_t>({4}, {5, 0, 5, 3}),
                Tensor::Of<float>({4}, {mine, mine + 1, mine + 2, mine + 3})),
            absl::OkStatus());
  const float last = 100 * static_cast<float>(WorldSize() - 1);
  dense.values<float>()[5] = last + 2;
  dense.values<float>()[0] = last + 1;
  dense.values<float>()[3] = last + 3;
  ExpectHolds(v, dense);
}

TEST_F(SparseOps, RepeatedIndicesAccumulateInOrder) {
  // 1e8 + 1 - 1e8 is 0 in f32, and 1e8 - 1e8 + 1 is 1: order shows.
  Tensor dense = Tensor::Of<float>({1}, {0});
  const Cut cut{.rows = {1}, .owners = {WorldSize() - 1}};
  ShardedVariable v = MakeVariable(cut, dense);
  const bool is_first = WorldRank() == 0;
  const Tensor indices = Tensor::Of<int64_t>(
      {is_first ? 3 : 0}, std::vector<int64_t>(is_first ? 3 : 0));
  const std::vector<float> deltas = {1e8F, 1, -1e8F};
  EXPECT_EQ(
      ScatterAdd(comm_, v, indices,
                 Tensor::Of<float>({is_first ? 3 : 0},
                                   std::span(deltas).first(is_first ? 3 : 0))),
      absl::OkStatus());
  ExpectHolds(v, dense);
}

TEST_F(SparseOps, RanksWithoutIndicesTakePart) {
  for (int alone = -1; alone < WorldSize(); ++alone) {
    Tensor dense = Counting({9, 3});
    ShardedVariable v = MakeVariable(Dealt({4, 0, 5}), dense);
    Call call;
    for (int rank = 0; rank < WorldSize(); ++rank) {
      call.indices.push_back(rank == alone ? std::vector<int64_t>{8, 0, 4}
                                           : std::vector<int64_t>{});
      call.rows.push_back(Counting({rank == alone ? 3 : 0, 3}));
    }
    const Tensor indices = IndexTensor(call.indices[WorldRank()], true);
    EXPECT_EQ(ScatterAdd(comm_, v, indices, call.rows[WorldRank()]),
              absl::OkStatus());
    UpdateDenseByAll<float>(UpdateOp::kAdd, call, dense);
    ExpectHolds(v, dense);
    const StatusOr<Tensor> rows = SparseRead(comm_, v, indices);
    ASSERT_EQ(rows.status(), absl::OkStatus());
    EXPECT_EQ(rows->shape()[0], WorldRank() == alone ? 3 : 0);
  }
}

TEST_F(SparseOps, RowsOfThisRankDoNotTravel) {
  // Every rank has one component and updates and reads its own rows alone.
  Cut cut;
  for (int rank = 0; rank < WorldSize(); ++rank) {
    cut.rows.push_back(3);
    cut.owners.push_back(rank);
  }
  Tensor dense = Counting({3 * WorldSize(), 4});
  ShardedVariable v = MakeVariable(cut, dense);
  Call call;
  for (int rank = 0; rank < WorldSize(); ++rank) {
    call.indices.push_back({3 * rank + 2, 3 * rank, 3 * rank + 2});
    call.rows.push_back(Counting({3, 4}));
  }
  int64_t sent = 0;
  const VariableOptions options{.bytes_sent = &sent};
  const Tensor indices = IndexTensor(call.indices[WorldRank()], true);
  EXPECT_EQ(ScatterAdd(comm_, v, indices, call.rows[WorldRank()], options),
            absl::OkStatus());
  EXPECT_EQ(SparseRead(comm_, v, indices, options).status(), absl::OkStatus());
  EXPECT_EQ(sent, 0);
  UpdateDenseByAll<float>(UpdateOp::kAdd, call, dense);
  ExpectHolds(v, dense);
}

// One random scatter of all ranks; returns the bytes that this rank may send.
template <typename T>
void FuzzScatter(const Comm& comm, UpdateOp op, std::mt19937& random) {
  const Cut cut = testing::RandomCut(random);
  const std::vector<Shape> row_shapes = {{}, {3}, {2, 2}, {17}, {0}};
  Shape shape = row_shapes[random() % row_shapes.size()];
  shape.insert(shape.begin(), cut.num_rows());
  Tensor dense = testing::RandomTensor<T>(shape, random);
  ShardedVariable v = MakeVariable(cut, dense);
  Call call;
  for (int rank = 0; rank < WorldSize(); ++rank) {
    call.indices.push_back(
        testing::RandomIndices(cut.num_rows(), 6 * (random() % 3), random));
    shape[0] = static_cast<int64_t>(call.indices.back().size());
    call.rows.push_back(
        testing::RandomTensor<T>(shape, random, op == UpdateOp::kDiv));
  }
  int64_t sent = 0;
  EXPECT_EQ(Scatter(comm, v, op,
                    IndexTensor(call.indices[WorldRank()], random() % 2 == 0),
                    call.rows[WorldRank()], {.bytes_sent = &sent}),
            absl::OkStatus());
  int64_t expected = 0;
  for (int64_t row : call.indices[WorldRank()]) {
    if (cut.OwnerOf(row) != WorldRank()) expected += 8 + v.RowBytes();
  }
  EXPECT_EQ(sent, expected);
  UpdateDenseByAll<T>(op, call, dense);
  ExpectHolds(v, dense);
}

TEST_F(SparseOps, AnyScatterIsThatOfADenseTensor) {
  std::mt19937 random(20240615);
  for (int round = 0; round < 40; ++round) {
    for (UpdateOp op : kAllOps) {
      SCOPED_TRACE(absl::StrCat("round ", round, ", op ",
                                std::string(UpdateOpName(op))));
      FuzzScatter<float>(comm_, op, random);
      FuzzScatter<double>(comm_, op, random);
      FuzzScatter<int8_t>(comm_, op, random);
      FuzzScatter<uint16_t>(comm_, op, random);
      FuzzScatter<int32_t>(comm_, op, random);
      FuzzScatter<int64_t>(comm_, op, random);
      if (op == UpdateOp::kMin || op == UpdateOp::kMax) continue;
      FuzzScatter<std::complex<float>>(comm_, op, random);
      FuzzScatter<std::complex<double>>(comm_, op, random);
    }
    FuzzScatter<bool>(comm_, UpdateOp::kUpdate, random);
    if (HasFailure()) return;
  }
}

// Two variables, and updates of very different sizes: what one leaves behind
// must not show in the next.
TEST_F(SparseOps, AnySeriesOfScattersIsThatOfDenseTensors) {
  std::mt19937 random(11);
  const Cut cut = testing::RandomCut(random);
  const int64_t widths[] = {1, 40};
  Tensor dense[2];
  ShardedVariable variables[2];
  for (int i = 0; i < 2; ++i) {
    dense[i] =
        testing::RandomTensor<int32_t>({cut.num_rows(), widths[i]}, random);
    variables[i] = MakeVariable(cut, dense[i]);
  }
  for (int round = 0; round < 200; ++round) {
    const int i = static_cast<int>(random() % 2);
    const int64_t most = int64_t{1} << random() % 11;
    Call call;
    for (int rank = 0; rank < WorldSize(); ++rank) {
      call.indices.push_back(
          testing::RandomIndices(cut.num_rows(), most, random));
      const auto count = static_cast<int64_t>(call.indices.back().size());
      call.rows.push_back(
          testing::RandomTensor<int32_t>({count, widths[i]}, random));
    }
    const Tensor& rows = call.rows[WorldRank()];
    // A call that fails in between.
    const Tensor bad = Tensor::Of<int64_t>({1}, {-1});
    if (round % 7 == 0) {
      EXPECT_EQ(ScatterAdd(comm_, variables[i], bad, rows).code(),
                absl::StatusCode::kOutOfRange);
    }
    EXPECT_EQ(ScatterSub(comm_, variables[i],
                         IndexTensor(call.indices[WorldRank()], true), rows),
              absl::OkStatus());
    UpdateDenseByAll<int32_t>(UpdateOp::kSub, call, dense[i]);
    ExpectHolds(variables[i], dense[i]);
    if (HasFailure()) return;
  }
}

TEST_F(SparseOps, AnySparseReadIsThatOfADenseTensor) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const Cut cut = testing::RandomCut(random);
    const int64_t width = random() % 5;
    const Tensor dense =
        testing::RandomTensor<int16_t>({cut.num_rows(), width}, random);
    const ShardedVariable v = MakeVariable(cut, dense);
    std::vector<std::vector<int64_t>> indices;
    for (int rank = 0; rank < WorldSize(); ++rank) {
      indices.push_back(
          testing::RandomIndices(cut.num_rows(), 10 * (random() % 3), random));
    }
    const std::vector<int64_t>& mine = indices[WorldRank()];
    int64_t sent = 0;
    const StatusOr<Tensor> rows = SparseRead(
        comm_, v, IndexTensor(mine, round % 2 == 0), {.bytes_sent = &sent});
    ASSERT_EQ(rows.status(), absl::OkStatus());
    EXPECT_EQ(rows->shape(), (Shape{static_cast<int64_t>(mine.size()), width}));
    for (int64_t i = 0; i < rows->num_elements(); ++i) {
      EXPECT_EQ(rows->values<int16_t>()[i],
                dense.values<int16_t>()[mine[i / width] * width + i % width]);
    }
    EXPECT_EQ(sent, testing::BytesToAskAndAnswer(cut, indices, v.RowBytes()));
  }
}

}  // namespace
}  // namespace belay::sparse_ops_test
