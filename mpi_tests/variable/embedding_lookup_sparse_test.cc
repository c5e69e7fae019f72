#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "belay/variable/sparse_ops.h"
#include "sparse_oracle.h"

namespace belay::embedding_lookup_sparse_test {
namespace {

using testing::Cut;
using testing::Dealt;
using testing::Example;
using testing::IndexTensor;
using testing::MakeVariable;
using testing::ValuesOf;
using testing::WorldRank;
using testing::WorldSize;

using EmbeddingLookupSparseTest = testing::SparseTest;

using Floats = std::vector<float>;

// Rows {0: [0, 3], 1: [4], 2: [1]}.
struct ExampleLists {
  Tensor splits = Tensor::Of<int64_t>({4}, {0, 2, 3, 4});
  Tensor ids = Tensor::Of<int64_t>({4}, {0, 3, 4, 1});

  IdLists lists() const { return {.row_splits = &splits, .ids = &ids}; }
};

TEST_F(EmbeddingLookupSparseTest, EmbeddingLookupSparse) {
  const ShardedVariable v = Example();
  const ExampleLists example;
  EXPECT_EQ(ValuesOf(EmbeddingLookupSparse(comm_, v, example.lists(),
                                           Combiner::kMean)),
            (Floats{4, 5, 9, 10, 3, 4}));
  EXPECT_EQ(ValuesOf(EmbeddingLookupSparse(comm_, v, example.lists(),
                                           Combiner::kSum)),
            (Floats{8, 10, 9, 10, 3, 4}));
  const float root = std::sqrt(2.0F);
  EXPECT_EQ(ValuesOf(EmbeddingLookupSparse(comm_, v, example.lists(),
                                           Combiner::kSqrtn)),
            (Floats{8 / root, 10 / root, 9, 10, 3, 4}));
}

TEST_F(EmbeddingLookupSparseTest, SafeEmbeddingLookupSparse) {
  const ShardedVariable v = Example();
  // Negative ids, weights that are not above 0, and lists with nothing else.
  const Tensor splits = Tensor::Of<int32_t>({6}, {0, 3, 4, 4, 6, 8});
  const Tensor ids = Tensor::Of<int32_t>({8}, {0, -1, 3, -7, 9, 4, 1, 2});
  const Tensor weights = Tensor::Of<float>({8}, {1, 5, 1, 1, 0, -2, 2, 2});
  const IdLists lists{.row_splits = &splits, .ids = &ids, .weights = &weights};
  EXPECT_EQ(
      ValuesOf(SafeEmbeddingLookupSparse(comm_, v, lists, Combiner::kMean)),
      (Floats{4, 5, 0, 0, 0, 0, 0, 0, 4, 5}));
  EXPECT_EQ(
      ValuesOf(SafeEmbeddingLookupSparse(comm_, v, lists, Combiner::kSum, 2)),
      (Floats{8, 10, 5, 6, 5, 6, 5, 6, 16, 20}));
}

TEST_F(EmbeddingLookupSparseTest, WeightsAndTheirFormulas) {
  const ShardedVariable v = Example();
  const Tensor splits = Tensor::Of<int64_t>({5}, {0, 2, 2, 4, 6});
  const Tensor ids = Tensor::Of<int64_t>({6}, {0, 4, 1, 1, 2, 3});
  const Tensor weights = Tensor::Of<double>({6}, {3, 4, 1, -1, 0, 0});
  const IdLists lists{.row_splits = &splits, .ids = &ids, .weights = &weights};
  EXPECT_EQ(ValuesOf(EmbeddingLookupSparse(comm_, v, lists, Combiner::kSum)),
            (Floats{39, 46, 0, 0, 0, 0, 0, 0}));
  // A mean over weights whose sum is 0 is zeros, not a NaN.
  EXPECT_EQ(ValuesOf(EmbeddingLookupSparse(comm_, v, lists, Combiner::kMean)),
            (Floats{39.0F / 7, 46.0F / 7, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(ValuesOf(EmbeddingLookupSparse(comm_, v, lists, Combiner::kSqrtn)),
            (Floats{39.0F / 5, 46.0F / 5, 0, 0, 0, 0, 0, 0}));
}

TEST_F(EmbeddingLookupSparseTest, MaxNormComesBeforeTheSum) {
  const ShardedVariable v =
      MakeVariable(Dealt({1, 1}), Tensor::Of<float>({2, 2}, {3, 4, -30, 40}));
  const Tensor splits = Tensor::Of<int32_t>({2}, {0, 2});
  const Tensor ids = Tensor::Of<int32_t>({2}, {0, 1});
  EXPECT_EQ(ValuesOf(EmbeddingLookupSparse(comm_, v,
                                           {.row_splits = &splits, .ids = &ids},
                                           Combiner::kSum, {.max_norm = 5})),
            (Floats{0, 8}));
}

TEST_F(EmbeddingLookupSparseTest, SmallFloatsAreSummedAsF32) {
  // In bf16 256 + 1 is 256, so the order of roundings shows.
  const BFloat16 one{0x3f80};
  const BFloat16 big{0x4380};  // 256
  const ShardedVariable v =
      MakeVariable(Dealt({1, 1}), Tensor::Of<BFloat16>({2, 1}, {big, one}));
  const Tensor splits = Tensor::Of<int32_t>({2}, {0, 3});
  const Tensor ids = Tensor::Of<int32_t>({3}, {0, 1, 1});
  const StatusOr<Tensor> sum = EmbeddingLookupSparse(
      comm_, v, {.row_splits = &splits, .ids = &ids}, Combiner::kSum);
  ASSERT_EQ(sum.status(), absl::OkStatus());
  EXPECT_EQ(sum->values<BFloat16>()[0].bits, 0x4381);  // 258
}

// Random lists for one rank.
struct RandomLists {
  std::vector<int64_t> splits = {0};
  std::vector<int64_t> ids;
  std::vector<float> weights;
};

RandomLists MakeLists(int64_t num_rows, bool safe, std::mt19937& random) {
  RandomLists lists;
  const int count = static_cast<int>(random() % 6);
  for (int list = 0; list < count; ++list) {
    const int length = num_rows == 0 ? 0 : static_cast<int>(random() % 5);
    for (int i = 0; i < length; ++i) {
      const bool drop = safe && random() % 4 == 0;
      lists.ids.push_back(drop ? -1 - static_cast<int64_t>(random() % 3)
                               : static_cast<int64_t>(random() % num_rows));
      lists.weights.push_back(static_cast<float>(random() % 5) -
                              (safe ? 1.0F : 0.0F));
    }
    lists.splits.push_back(static_cast<int64_t>(lists.ids.size()));
  }
  return lists;
}

// The formulas of the header for one element of one list, in f64.
double CombinedElement(const RandomLists& lists, size_t list,
                       const Tensor& dense, int64_t column, Combiner combiner,
                       bool safe, std::optional<int64_t> default_id) {
  const int64_t width = dense.shape()[1];
  double sum = 0;
  double weights = 0;
  double squares = 0;
  int kept = 0;
  for (int64_t i = lists.splits[list]; i < lists.splits[list + 1]; ++i) {
    const double weight = lists.weights[i];
    if (safe && (lists.ids[i] < 0 || weight <= 0)) continue;
    ++kept;
    sum += weight * dense.values<double>()[lists.ids[i] * width + column];
    weights += weight;
    squares += weight * weight;
  }
  if (kept == 0 && default_id.has_value()) {
    return dense.values<double>()[*default_id * width + column];
  }
  if (combiner == Combiner::kSum) return sum;
  const double divisor =
      combiner == Combiner::kMean ? weights : std::sqrt(squares);
  return divisor == 0 ? 0 : sum / divisor;
}

TEST_F(EmbeddingLookupSparseTest, AnySparseLookupFollowsTheFormula) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    const Cut cut = testing::RandomCut(random);
    const Tensor dense =
        testing::RandomTensor<double>({cut.num_rows(), 2}, random);
    const ShardedVariable v = MakeVariable(cut, dense);
    const bool safe = random() % 2 == 0;
    const Combiner combiner = static_cast<Combiner>(random() % 3);
    std::optional<int64_t> default_id;
    if (safe && cut.num_rows() > 0 && random() % 2 == 0) {
      default_id = random() % cut.num_rows();
    }
    RandomLists lists;
    for (int rank = 0; rank < WorldSize(); ++rank) {
      RandomLists made = MakeLists(cut.num_rows(), safe, random);
      if (rank == WorldRank()) lists = std::move(made);
    }
    const Tensor splits = IndexTensor(lists.splits, round % 2 == 0);
    const Tensor ids = IndexTensor(lists.ids, round % 3 == 0);
    const Tensor weights = Tensor::Of<float>(
        {static_cast<int64_t>(lists.weights.size())}, lists.weights);
    const IdLists given{
        .row_splits = &splits, .ids = &ids, .weights = &weights};
    const StatusOr<Tensor> found =
        safe ? SafeEmbeddingLookupSparse(comm_, v, given, combiner, default_id)
             : EmbeddingLookupSparse(comm_, v, given, combiner);
    ASSERT_EQ(found.status(), absl::OkStatus());
    ASSERT_EQ(found->shape(),
              (Shape{static_cast<int64_t>(lists.splits.size()) - 1, 2}));
    for (int64_t i = 0; i < found->num_elements(); ++i) {
      EXPECT_DOUBLE_EQ(found->values<double>()[i],
                       CombinedElement(lists, i / 2, dense, i % 2, combiner,
                                       safe, default_id))
          << "round " << round << " element " << i;
    }
  }
}

// What the last rank gets wrong.
struct BadLists {
  Tensor splits = Tensor::Of<int64_t>({3}, {0, 1, 2});
  Tensor ids = Tensor::Of<int64_t>({2}, {0, 1});
  Tensor weights = Tensor::Of<float>({2}, {1, 1});
  std::string error;
};

std::vector<BadLists> AllBadLists() {
  std::vector<BadLists> all(9);
  all[0].splits = Tensor::Of<int64_t>({3}, {0, 1, 1});
  all[0].error = "row_splits do not span the ids (need 0 to 2, found 0 to 1)";
  all[1].splits = Tensor::Of<int64_t>({0}, {});
  all[1].error = "row_splits do not span the ids (need 0 to 2, found -1 to -1)";
  all[2].splits = Tensor::Of<int64_t>({4}, {0, 2, 1, 2});
  all[2].error = "row_splits descend at 2 (need at least 2, found 1)";
  all[3].splits = Tensor::Of<float>({3}, {0, 1, 2});
  all[3].error = "row_splits of another dtype (need i32 or i64, found f32)";
  all[4].ids = Tensor::Of<int64_t>({1, 2}, {0, 1});
  all[4].error = "ids must be 1D (need 1 axis, found [1, 2])";
  all[5].weights = Tensor::Of<float>({3}, {1, 1, 1});
  all[5].error = "one weight per id (need 2, found 3)";
  all[6].weights = Tensor::Of<int32_t>({2}, {1, 1});
  all[6].error = "weights of another dtype (need f32 or f64, found i32)";
  all[7].ids = Tensor::Of<int64_t>({2}, {0, 5});
  all[7].error = "indices[1] is not one of the 5 rows (need 0 to 4, found 5)";
  all[8].splits = Tensor::Of<int64_t>({3}, {1, 1, 2});
  all[8].error = "row_splits do not span the ids (need 0 to 2, found 1 to 2)";
  return all;
}

TEST_F(EmbeddingLookupSparseTest, ListsOfAnotherFormAreErrorsEverywhere) {
  const ShardedVariable v = Example();
  const int last = WorldSize() - 1;
  const BadLists good;
  for (const BadLists& bad : AllBadLists()) {
    const BadLists& mine = WorldRank() == last ? bad : good;
    const Status status = EmbeddingLookupSparse(comm_, v,
                                                {.row_splits = &mine.splits,
                                                 .ids = &mine.ids,
                                                 .weights = &mine.weights},
                                                Combiner::kSum)
                              .status();
    EXPECT_EQ(status.message(),
              "embedding_lookup_sparse \"v\": " + bad.error + RankOf(last));
  }
  EXPECT_EQ(
      EmbeddingLookupSparse(comm_, v, {}, Combiner::kSum).status(),
      absl::InvalidArgumentError(
          "embedding_lookup_sparse \"v\": row_splits are null" + RankOf(0)));
}

TEST_F(EmbeddingLookupSparseTest, ADefaultIdIsCheckedWhereItIsUsed) {
  const ShardedVariable v = Example();
  const int last = WorldSize() - 1;
  const bool is_last = WorldRank() == last;
  const Tensor splits = Tensor::Of<int64_t>({2}, {0, 1});
  const Tensor ids = Tensor::Of<int64_t>({1}, {is_last ? -1 : 1});
  EXPECT_EQ(
      SafeEmbeddingLookupSparse(comm_, v, {.row_splits = &splits, .ids = &ids},
                                Combiner::kMean, 7)
          .status(),
      absl::OutOfRangeError(
          "safe_embedding_lookup_sparse \"v\": indices[0] is not one "
          "of the 5 rows (need 0 to 4, found 7)" +
          RankOf(last)));
}

TEST_F(EmbeddingLookupSparseTest, OnlyRealFloatsAreCombined) {
  const ShardedVariable integers =
      MakeVariable(Dealt({5}), Tensor::Of<int32_t>({5, 1}, {1, 2, 3, 4, 5}));
  const ExampleLists example;
  EXPECT_EQ(
      EmbeddingLookupSparse(comm_, integers, example.lists(), Combiner::kSum)
          .status(),
      absl::InvalidArgumentError(
          "embedding_lookup_sparse \"v\": rows are combined (need f16, "
          "bf16, f32 or f64, found i32)" +
          RankOf(0)));
}

}  // namespace
}  // namespace belay::embedding_lookup_sparse_test
