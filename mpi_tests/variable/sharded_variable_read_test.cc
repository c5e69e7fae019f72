// Reading sharded variables: x[index] of a dense array is the oracle, and for
// a table of slices the rows are written out.

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "belay/arrays/tensor_arithmetic.h"
#include "random_index.h"
#include "variables.h"

namespace belay::sharded_variable_read_test {
namespace {

using absl::StatusCode;
using testing::Ints;
using testing::Iota;
using testing::SameTensor;
using testing::SumOverRanks;

Index Parse(const char* text) {
  const auto index = ParseIndex(text);
  EXPECT_TRUE(index.ok()) << text << ": " << index.status();
  return index.ok() ? *index : Index();
}

class ReadTest : public testing::VariableTest {
 protected:
  void ExpectReads(const ShardedVariable& variable, const Tensor& dense,
                   const Index& index) {
    const StatusOr<Tensor> expected = GetItem(dense, index);
    const StatusOr<Tensor> found = Read(comm_, variable, index);
    EXPECT_TRUE(expected.ok() && found.ok()) << found.status();
    if (!expected.ok() || !found.ok()) return;
    EXPECT_TRUE(SameTensor(*found, *expected))
        << IndexText(index) << " of " << ShapeText(dense.shape());
  }
};

// Rows 0 to 9 in components of 3, 3 and 4. test_slicing, first table.
TEST_F(ReadTest, SlicingOfOneAxis) {
  struct Case {
    const char* index;
    std::vector<int32_t> rows;
  };
  const Case kCases[] = {
      {":", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
      {"2:8:3", {2, 5}},
      {"9:3:-2", {9, 7, 5}},
      {"::-1", {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}},
      {"-20:2", {0, 1}},
      {"-11::3", {0, 3, 6, 9}},
      {"15::-4", {9, 5, 1}},
      {"::-5", {9, 4}},
      {"5:5", {}},
      {"4:2", {}},
  };
  const ShardedVariable v = Cut(Iota({10}), {3, 3, 4});
  for (const Case& c : kCases) {
    const auto found = Read(comm_, v, Parse(c.index));
    EXPECT_TRUE(found.ok()) << found.status();
    if (!found.ok()) continue;
    EXPECT_EQ(Ints(*found), c.rows) << c.index;
  }
}

// The list of test_slicing, and what it never looks at: row 0 and the first
// rows of the other components.
TEST_F(ReadTest, Slicing) {
  const Tensor dense = Iota({8, 2});
  const ShardedVariable v = Cut(dense, {3, 3, 2});
  for (const char* index : {":2",          "-8:2",        "-10:2",
                            "5:",          "5:-1",        "::3",
                            "::5",         "1::6",        "1:5:6",
                            "1::7",        "2:7",         "2:7:2",
                            "2:7:3",       "2::-1",       "2:-8:-1",
                            "2:-10:-1",    "4::-1",       "-1:-3:-1",
                            "::-5",        "6::-6",       "6:5:-6",
                            "6::-7",       "7:1:-1",      "7:1:-2",
                            "7:1:-4",      "0:0",         "5:3",
                            "3:5:-1",      "-1:0",        "2:-1:-1",
                            ":,0",         ":,0:1",       "2",
                            "6",           "2,1",         "-2",
                            "...",         "...,0",       "0:1,...",
                            "newaxis,...", "0",           "3",
                            "-8",          "5",           "7",
                            "newaxis,0:2", "...,1:",      "0:0,0",
                            "...,0:2,:",   ":,newaxis,1", "-1,...,newaxis"}) {
    ExpectReads(v, dense, Parse(index));
  }
  ExpectReads(v, dense, {});
  Tensor mask(DType::kBool, {8, 2});
  for (int i = 0; i < 16; ++i) mask.values<bool>()[i] = i > 10;
  ExpectReads(v, dense, {&mask});
  Tensor rows = Tensor::Of<bool>(
      {8}, {true, false, false, true, false, false, true, true});
  ExpectReads(v, dense, {&rows});
}

// test_convert_to_tensor and test_numpy.
TEST_F(ReadTest, ConvertToTensor) {
  const Tensor dense = Iota({6, 2, 2});
  const ShardedVariable v = Cut(dense, {1, 0, 2, 3});
  ExpectHolds(v, dense);
  EXPECT_TRUE(ToTensor(comm_, v, DType::kI32).ok());
  ExpectError(ToTensor(comm_, v, DType::kF32).status(),
              StatusCode::kInvalidArgument,
              "convert \"v\": incompatible type conversion (need i32, found "
              "f32)");
  const auto last = size_ - 1;
  ExpectError(
      ToTensor(comm_, v, rank_ == last ? DType::kI64 : DType::kI32).status(),
      StatusCode::kInvalidArgument, "found i64) " + RankText(last));
}

// test_operator_overload: operators work on the dense conversion.
TEST_F(ReadTest, OperatorOverload) {
  const ShardedVariable v =
      Cut(Tensor::Of<float>({4}, {1, 2, 3, 4}), {1, 2, 1});
  const ShardedVariable w =
      Cut(Tensor::Of<float>({4}, {5, 2, 9, 4}), {2, 0, 2});
  const auto a = ToTensor(comm_, v);
  const auto b = ToTensor(comm_, w);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  const auto equal = *a == *b;
  ASSERT_TRUE(equal.ok()) << equal.status();
  EXPECT_TRUE(
      SameTensor(*equal, Tensor::Of<bool>({4}, {false, true, false, true})));
  const auto sum = *a + *b;
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_TRUE(SameTensor(*sum, Tensor::Of<float>({4}, {6, 4, 12, 8})));
}

// Every row of every cut into two components.
TEST_F(ReadTest, EveryRowOfEverySplit) {
  const Tensor dense = Iota({7, 3});
  for (int64_t first = 0; first <= 7; ++first) {
    const ShardedVariable v = Cut(dense, {first, 7 - first}, {size_ - 1, 0});
    for (int64_t row = -7; row < 7; ++row) ExpectReads(v, dense, {row});
  }
}

// Elements of any size, in which every byte differs from its neighbours.
Tensor RandomDense(std::mt19937& random) {
  constexpr DType kTypes[] = {DType::kI8,  DType::kBF16, DType::kF32,
                              DType::kI64, DType::kC128, DType::kF8E4M3};
  Tensor dense(kTypes[random() % 6], testing::RandomShape(random));
  for (int64_t i = 0; i < dense.num_bytes(); ++i) {
    dense.data()[i] = static_cast<std::byte>(i * 7 + i / 251);
  }
  return dense;
}

TEST_F(ReadTest, RandomIndicesOfRandomVariables) {
  std::mt19937 random(1234);
  for (int round = 0; round < 300; ++round) {
    const Tensor dense = RandomDense(random);
    const ShardedVariable v = RandomCut(random, dense);
    for (int i = 0; i < 10; ++i) {
      const Tensor mask = testing::RandomMask(random, dense.shape());
      const Index index = random() % 5 == 0
                              ? Index{&mask}
                              : testing::RandomIndex(random, dense.shape());
      const auto expected = GetItem(dense, index);
      ASSERT_TRUE(expected.ok()) << IndexText(index) << expected.status();
      const int to = random() % 2 == 0 ? kEveryRank : round % size_;
      int64_t sent = 0;
      const auto found = Read(comm_, v, index, to,
                              {.deadline_seconds = 0, .bytes_sent = &sent});
      ASSERT_TRUE(found.ok()) << found.status();
      const bool gets = to == kEveryRank || to == rank_;
      EXPECT_TRUE(gets ? SameTensor(*found, *expected)
                       : SameTensor(*found, Tensor()))
          << IndexText(index) << " of " << ShapeText(dense.shape());
      // Nobody is sent what nobody asked for.
      const int64_t most =
          expected->num_bytes() * (to == kEveryRank ? size_ - 1 : 1);
      EXPECT_LE(SumOverRanks(sent), most);
    }
  }
}

// Component i is on rank i, with 3 rows of 5 elements of 4 bytes.
TEST_F(ReadTest, RowsTravelOnlyFromOwnersToAskers) {
  const Tensor dense = Iota({3 * size_, 5});
  const ShardedVariable v = Cut(dense, std::vector<int64_t>(size_, 3));
  const auto sent = [&](const char* index, int to) {
    int64_t bytes = 0;
    EXPECT_TRUE(Read(comm_, v, Parse(index), to, {.bytes_sent = &bytes}).ok());
    return bytes;
  };
  const int64_t others = size_ - 1;
  EXPECT_EQ(sent("...", kEveryRank), 60 * others);
  EXPECT_EQ(sent("...", 0), rank_ == 0 ? 0 : 60);
  EXPECT_EQ(sent("0", kEveryRank), rank_ == 0 ? 20 * others : 0);
  EXPECT_EQ(sent("::3, 2:4", kEveryRank), 8 * others);
  EXPECT_EQ(sent("-1, 1", 0), rank_ == size_ - 1 && rank_ != 0 ? 4 : 0);
  EXPECT_EQ(sent("0:0", kEveryRank), 0);
  // Counts add up.
  int64_t bytes = 7;
  EXPECT_TRUE(Read(comm_, v, {}, 0, {.bytes_sent = &bytes}).ok());
  EXPECT_EQ(bytes, rank_ == 0 ? 7 : 67);
}

TEST_F(ReadTest, IntoATensorThatIsThere) {
  const Tensor dense = Iota({6, 2});
  const ShardedVariable v = Cut(dense, {2, 2, 2});
  Tensor result = Iota({3, 2});
  const std::byte* memory = result.data();
  EXPECT_EQ(Read(comm_, v, Parse("1:4"), result), absl::OkStatus());
  EXPECT_EQ(result.data(), memory);
  EXPECT_TRUE(SameTensor(result, *GetItem(dense, Parse("1:4"))));
  const int last = size_ - 1;
  // Only where it is wanted is it looked at.
  Tensor other;
  EXPECT_EQ(Read(comm_, v, Parse("::2"), rank_ == last ? result : other, last),
            absl::OkStatus());
  if (rank_ == last) {
    EXPECT_TRUE(SameTensor(result, *GetItem(dense, Parse("::2"))));
  }
  ExpectError(Read(comm_, v, {}, rank_ == last ? other : result),
              StatusCode::kInvalidArgument, "read \"v\": another ");
  ExpectError(Read(comm_, v, Parse("0"), result), StatusCode::kInvalidArgument,
              "read \"v\": another shape (need [2], found [3, 2])");
  EXPECT_TRUE(SameTensor(other, Tensor()));
}

TEST_F(ReadTest, BadIndices) {
  const ShardedVariable v = Cut(Iota({8, 2}), {3, 3, 2});
  const auto read = [&](const Index& index) {
    return Read(comm_, v, index).status();
  };
  for (int64_t row : {100, -100, 8, -9}) {
    ExpectError(read({row}), StatusCode::kOutOfRange, "out of bounds");
  }
  ExpectError(read(Parse("::0")), StatusCode::kInvalidArgument, "step");
  ExpectError(read(Parse("..., ...")), StatusCode::kInvalidArgument,
              "read \"v\": ");
  ExpectError(read(Parse("0, 0, 0")), StatusCode::kOutOfRange, "read \"v\": ");
  const Tensor floats(DType::kF32, {8, 2});
  ExpectError(read({&floats}), StatusCode::kInvalidArgument, "f32");
  const Tensor short_mask(DType::kBool, {7});
  ExpectError(read({&short_mask}), StatusCode::kInvalidArgument, "[7]");
  const int last = size_ - 1;
  ExpectError(read({int64_t{rank_ == last ? 8 : 7}}), StatusCode::kOutOfRange,
              RankText(last));
  for (int to : {-2, size_}) {
    ExpectError(Read(comm_, v, {}, to).status(), StatusCode::kInvalidArgument,
                absl::StrCat("found ", to));
  }
}

TEST_F(ReadTest, RanksThatDisagree) {
  if (size_ == 1) return;
  const ShardedVariable v = Cut(Iota({8, 2}), {3, 3, 2});
  const int last = size_ - 1;
  const bool odd = rank_ == last;
  const std::string text = absl::StrCat(
      "read \"v\": the variable, the index or the target differs "
      "between ranks: rank ",
      last, " of ", size_);
  const auto expect_differs = [&](const Status& status) {
    ExpectError(status, StatusCode::kInvalidArgument, text);
  };
  expect_differs(Read(comm_, v, Parse(odd ? "1:3" : "1:4")).status());
  expect_differs(Read(comm_, v, Parse(odd ? "newaxis" : "...")).status());
  expect_differs(Read(comm_, v, {}, odd ? 0 : kEveryRank).status());
  Tensor mask(DType::kBool, {8});
  for (int i = 0; i < 8; ++i) mask.values<bool>()[i] = i == (odd ? 2 : 3);
  expect_differs(Read(comm_, v, {&mask}).status());
  const ShardedVariable w = Cut(Iota({8, 2}), {3, 2, 3});
  expect_differs(Read(comm_, odd ? w : v, {}).status());
  // What only looks different is the same.
  EXPECT_TRUE(Read(comm_, v, Parse(odd ? ":" : "0:99, ...")).ok());
}

TEST_F(ReadTest, VariablesThatAreNone) {
  ShardedVariable v = Cut(Iota({8, 2}), {3, 3, 2});
  ExpectError(Read(comm_, ShardedVariable(), {}).status(),
              StatusCode::kFailedPrecondition, "was not made");
  const ShardedVariable far("v", DType::kI32, {1}, {{0, 1, size_, nullptr}},
                            nullptr);
  ExpectError(Read(comm_, far, {}).status(), StatusCode::kFailedPrecondition,
              "made on more ranks");
  if (size_ == 1) return;
  // The same ranks with other numbers.
  MPI_Comm reversed;
  MPI_Comm_split(MPI_COMM_WORLD, 0, size_ - rank_, &reversed);
  Comm comm = *Comm::Duplicate(reversed);
  ExpectError(Read(comm, v, {}).status(), StatusCode::kFailedPrecondition,
              "made where ranks have other numbers");
  EXPECT_EQ(comm.Close(), absl::OkStatus());
  MPI_Comm_free(&reversed);
}

}  // namespace
}  // namespace belay::sharded_variable_read_test
