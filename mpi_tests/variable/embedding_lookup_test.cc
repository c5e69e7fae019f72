#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "belay/variable/sparse_ops.h"
#include "sparse_oracle.h"

namespace belay::embedding_lookup_test {
namespace {

using testing::Cut;
using testing::Dealt;
using testing::Example;
using testing::IndexTensor;
using testing::MakeVariable;
using testing::ValuesOf;
using testing::WorldRank;
using testing::WorldSize;

using EmbeddingLookupTest = testing::SparseTest;

using Floats = std::vector<float>;

// --- TensorFlow's test_embedding_lookup ---

TEST_F(EmbeddingLookupTest, EmbeddingLookupDense) {
  const ShardedVariable v = Example();
  const Tensor ids = Tensor::Of<int64_t>({3}, {0, 3, 4});
  EXPECT_EQ(ValuesOf(EmbeddingLookup(comm_, v, ids)),
            (Floats{1, 2, 7, 8, 9, 10}));
}

TEST_F(EmbeddingLookupTest, EmbeddingLookupModCountsOverComponents) {
  const ShardedVariable v = Example();
  const Tensor ids = Tensor::Of<int32_t>({5}, {0, 3, 4, 1, 2});
  EXPECT_EQ(
      ValuesOf(EmbeddingLookup(comm_, v, ids, {.strategy = IdStrategy::kMod})),
      (Floats{1, 2, 3, 4, 7, 8, 5, 6, 9, 10}));
}

// --- Shapes and rows ---

TEST_F(EmbeddingLookupTest, IdsHaveAnyShape) {
  const ShardedVariable v = Example();
  const StatusOr<Tensor> scalar =
      EmbeddingLookup(comm_, v, Tensor::Of<int32_t>({}, {4}));
  ASSERT_EQ(scalar.status(), absl::OkStatus());
  EXPECT_EQ(scalar->shape(), Shape{2});
  EXPECT_EQ(ValuesOf(scalar), (Floats{9, 10}));
  const StatusOr<Tensor> matrix =
      EmbeddingLookup(comm_, v, Tensor::Of<int32_t>({2, 1, 2}, {4, 0, 0, 1}));
  ASSERT_EQ(matrix.status(), absl::OkStatus());
  EXPECT_EQ(matrix->shape(), (Shape{2, 1, 2, 2}));
  EXPECT_EQ(ValuesOf(matrix), (Floats{9, 10, 1, 2, 1, 2, 3, 4}));
  const StatusOr<Tensor> none =
      EmbeddingLookup(comm_, v, Tensor::Of<int32_t>({0, 3}, {}));
  ASSERT_EQ(none.status(), absl::OkStatus());
  EXPECT_EQ(none->shape(), (Shape{0, 3, 2}));
}

TEST_F(EmbeddingLookupTest, RowsMayBeScalars) {
  const ShardedVariable v =
      MakeVariable(Dealt({1, 3}), Tensor::Of<int64_t>({4}, {10, 11, 12, 13}));
  const StatusOr<Tensor> one =
      EmbeddingLookup(comm_, v, Tensor::Of<int64_t>({}, {3}));
  ASSERT_EQ(one.status(), absl::OkStatus());
  EXPECT_EQ(one->shape(), Shape{});
  EXPECT_EQ(one->values<int64_t>()[0], 13);
}

TEST_F(EmbeddingLookupTest, FewerRowsThanComponents) {
  const ShardedVariable v = MakeVariable(Dealt({0, 1, 0, 0, 1, 0, 0}),
                                         Tensor::Of<float>({2, 1}, {5, 6}));
  EXPECT_EQ(
      ValuesOf(EmbeddingLookup(comm_, v, Tensor::Of<int32_t>({3}, {1, 0, 1}))),
      (Floats{6, 5, 6}));
  EXPECT_EQ(ValuesOf(EmbeddingLookup(comm_, v, Tensor::Of<int32_t>({2}, {4, 1}),
                                     {.strategy = IdStrategy::kMod})),
            (Floats{6, 5}));
}

// Rows that are not clipped keep every bit.
TEST_F(EmbeddingLookupTest, MaxNormScalesLongRows) {
  const ShardedVariable v = MakeVariable(
      Dealt({2, 2}),
      Tensor::Of<float>({4, 2}, {3, 4, 0.1F, 0.7F, 0, 0, -30, 40}));
  const Tensor ids = Tensor::Of<int32_t>({4}, {3, 0, 1, 2});
  const LookupOptions options{.max_norm = 5};
  EXPECT_EQ(ValuesOf(EmbeddingLookup(comm_, v, ids, options)),
            (Floats{-3, 4, 3, 4, 0.1F, 0.7F, 0, 0}));
}

// --- What travels ---

TEST_F(EmbeddingLookupTest, AnIdThatIsRepeatedTravelsOnce) {
  if (WorldSize() == 1) GTEST_SKIP() << "nothing travels";
  const Cut cut{.rows = {4}, .owners = {0}};
  const ShardedVariable v =
      MakeVariable(cut, Tensor::Of<double>({4, 1}, {0, 1, 2, 3}));
  const std::vector<int64_t> ids(1000, 2);
  int64_t sent = 0;
  const StatusOr<Tensor> rows =
      EmbeddingLookup(comm_, v, IndexTensor(ids, true), {.bytes_sent = &sent});
  EXPECT_EQ(ValuesOf<double>(rows), std::vector<double>(1000, 2));
  EXPECT_EQ(sent, WorldRank() == 0 ? 8 * (WorldSize() - 1) : 8);
}

// Where an id's row is, by the definition of the strategies; -1 if nowhere.
int64_t RowOf(const Cut& cut, IdStrategy strategy, int64_t id) {
  if (strategy == IdStrategy::kDiv) return id < cut.num_rows() ? id : -1;
  const int64_t n = static_cast<int64_t>(cut.rows.size());
  if (id / n >= cut.rows[id % n]) return -1;
  int64_t row = id / n;
  for (int64_t i = 0; i < id % n; ++i) row += cut.rows[i];
  return row;
}

// Ids with a row, of the strategy.
std::vector<int64_t> RandomIds(const Cut& cut, IdStrategy strategy, int count,
                               std::mt19937& random) {
  std::vector<int64_t> possible;
  for (int64_t id = 0; id < 200; ++id) {
    if (RowOf(cut, strategy, id) >= 0) possible.push_back(id);
  }
  std::vector<int64_t> ids(possible.empty() ? 0 : count);
  for (int64_t& id : ids) id = possible[random() % possible.size()];
  return ids;
}

TEST_F(EmbeddingLookupTest, AnyLookupIsThatOfADenseTensor) {
  std::mt19937 random(99);
  for (int round = 0; round < 300; ++round) {
    const Cut cut = testing::RandomCut(random);
    const IdStrategy strategy =
        random() % 2 == 0 ? IdStrategy::kDiv : IdStrategy::kMod;
    const Tensor dense =
        testing::RandomTensor<int32_t>({cut.num_rows(), 3}, random);
    const ShardedVariable v = MakeVariable(cut, dense);
    std::vector<std::vector<int64_t>> rows(WorldSize());
    std::vector<int64_t> mine;
    for (int rank = 0; rank < WorldSize(); ++rank) {
      const std::vector<int64_t> ids =
          RandomIds(cut, strategy, 5 * (random() % 4), random);
      for (int64_t id : ids) rows[rank].push_back(RowOf(cut, strategy, id));
      if (rank == WorldRank()) mine = ids;
    }
    int64_t sent = 0;
    const StatusOr<Tensor> found =
        EmbeddingLookup(comm_, v, IndexTensor(mine, round % 2 == 0),
                        {.strategy = strategy, .bytes_sent = &sent});
    ASSERT_EQ(found.status(), absl::OkStatus());
    for (int64_t i = 0; i < found->num_elements(); ++i) {
      EXPECT_EQ(found->values<int32_t>()[i],
                dense.values<int32_t>()[rows[WorldRank()][i / 3] * 3 + i % 3]);
    }
    EXPECT_EQ(sent, testing::BytesToAskAndAnswer(cut, rows, v.RowBytes()));
  }
}

// --- Bad input ---

TEST_F(EmbeddingLookupTest, IdsWithoutARowAreErrorsEverywhere) {
  const ShardedVariable v = Example();
  for (int wrong = 0; wrong < WorldSize(); ++wrong) {
    const bool is_wrong = WorldRank() == wrong;
    const auto lookup = [&](int32_t id, IdStrategy strategy) {
      return EmbeddingLookup(comm_, v,
                             Tensor::Of<int32_t>({2}, {0, is_wrong ? id : 1}),
                             {.strategy = strategy})
          .status();
    };
    const std::string begin = "embedding_lookup \"v\": ";
    EXPECT_EQ(lookup(5, IdStrategy::kDiv),
              absl::OutOfRangeError(begin +
                                    "indices[1] is not one of the 5 rows "
                                    "(need 0 to 4, found 5)" +
                                    RankOf(wrong)));
    EXPECT_EQ(lookup(-1, IdStrategy::kDiv).code(),
              absl::StatusCode::kOutOfRange);
    EXPECT_EQ(lookup(5, IdStrategy::kMod),
              absl::OutOfRangeError(
                  begin +
                  "id 1 of 2, 5, is row 1 of component 2 (need a row below 1, "
                  "found 1)" +
                  RankOf(wrong)));
    EXPECT_EQ(lookup(-4, IdStrategy::kMod),
              absl::OutOfRangeError(
                  begin + "id 1 of 2 is negative (need at least 0, found -4)" +
                  RankOf(wrong)));
  }
}

TEST_F(EmbeddingLookupTest, OptionsAreChecked) {
  const Tensor ids = Tensor::Of<int64_t>({1}, {0});
  const ShardedVariable v = Example();
  EXPECT_EQ(EmbeddingLookup(comm_, v, ids, {.max_norm = 0}).status(),
            absl::InvalidArgumentError(
                "embedding_lookup \"v\": max_norm is out of range (need above "
                "0, found 0)" +
                RankOf(0)));
  const ShardedVariable integers =
      MakeVariable(Dealt({1}), Tensor::Of<int32_t>({1, 1}, {1}));
  EXPECT_EQ(EmbeddingLookup(comm_, integers, ids, {.max_norm = 1}).status(),
            absl::InvalidArgumentError(
                "embedding_lookup \"v\": max_norm with another dtype (need "
                "f16, bf16, f32 or f64, found i32)" +
                RankOf(0)));
}

}  // namespace
}  // namespace belay::embedding_lookup_test
