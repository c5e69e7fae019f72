// Making sharded variables: from a partitioner and from given components.

#include <gmock/gmock.h>

#include <stdexcept>

#include "sanitizers.h"
#include "variables.h"

namespace belay::sharded_variable_test {
namespace {

using absl::StatusCode;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ShardedVariableTest : public testing::VariableTest {
 protected:
  // The components that this rank gives are those whose number is its own,
  // modulo the number of ranks; here all are on rank 0 in their order.
  std::vector<GivenComponent> OnRankZero(std::vector<GivenComponent> list) {
    return rank_ == 0 ? std::move(list) : std::vector<GivenComponent>();
  }
  std::vector<int> Owners(const ShardedVariable& variable) {
    std::vector<int> owners;
    for (const Component& component : variable) {
      owners.push_back(component.owner);
    }
    return owners;
  }
};

// test_sharded_variable_simple: variables, shape, dtype and name.
TEST_F(ShardedVariableTest, Simple) {
  const auto v =
      CreateShardedVariable(comm_, "v", DType::kF32, {10, 3}, FixedShards(4));
  ASSERT_TRUE(v.ok()) << v.status();
  EXPECT_EQ(v->name(), "v");
  EXPECT_EQ(v->dtype(), DType::kF32);
  EXPECT_EQ(v->shape(), (Shape{10, 3}));
  EXPECT_EQ(SpecText(v->Spec()), "f32 [3, 3] [3, 3] [2, 3] [2, 3]");
  EXPECT_THAT(v->Offsets(),
              ElementsAre(Shape{0, 0}, Shape{3, 0}, Shape{6, 0}, Shape{8, 0}));
}

TEST_F(ShardedVariableTest, BeginsWithAlignedZerosOnItsOwners) {
  const auto v = CreateShardedVariable(comm_, "", DType::kI16, {7 * size_, 3},
                                       FixedShards(3 * size_));
  ASSERT_TRUE(v.ok()) << v.status();
  EXPECT_EQ(v->name(), "ShardedVariable");
  for (size_t i = 0; i < v->components().size(); ++i) {
    const Component& component = v->components()[i];
    EXPECT_EQ(component.owner, static_cast<int>(i) / 3);
    EXPECT_EQ(component.data != nullptr, component.owner == rank_);
    if (component.data == nullptr) continue;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(component.data) % 64, 0);
    for (int64_t at = 0; at < component.num_rows * 6; ++at) {
      EXPECT_EQ(component.data[at], std::byte{0});
    }
    std::memset(component.data, 0xff, component.num_rows * 6);
  }
}

TEST_F(ShardedVariableTest, FewComponentsGoToDifferentRanks) {
  const auto v =
      CreateShardedVariable(comm_, "v", DType::kF32, {2, 1}, FixedShards(2));
  ASSERT_TRUE(v.ok()) << v.status();
  EXPECT_THAT(Owners(*v), ElementsAre(0, size_ / 2));
}

TEST_F(ShardedVariableTest, CallerChoosesTheOwners) {
  const int last = size_ - 1;
  const auto v = CreateShardedVariable(
      comm_, "v", DType::kU8, {3}, FixedShards(3), {.owners = {last, 0, last}});
  ASSERT_TRUE(v.ok()) << v.status();
  EXPECT_THAT(Owners(*v), ElementsAre(last, 0, last));
}

TEST_F(ShardedVariableTest, EmptyVariables) {
  for (const Shape& shape : {Shape{0, 3}, Shape{3, 0}, Shape{0}}) {
    const auto v =
        CreateShardedVariable(comm_, "v", DType::kF64, shape, MaxSize(8));
    ASSERT_TRUE(v.ok()) << v.status();
    EXPECT_EQ(v->shape(), shape);
    ExpectHolds(*v, Tensor(DType::kF64, shape));
  }
}

TEST_F(ShardedVariableTest, CreateRefusesBadArguments) {
  const auto create = [&](DType dtype, const Shape& shape,
                          const Partitioner& partitioner,
                          std::vector<int> owners = {}) {
    return CreateShardedVariable(comm_, "v", dtype, shape, partitioner,
                                 {.owners = std::move(owners)})
        .status();
  };
  const std::string who = "create \"v\": ";
  ExpectError(create(DType::kF32, {}, FixedShards(1)),
              StatusCode::kInvalidArgument, who + "need at least 1 axis");
  ExpectError(create(DType::kString, {2}, FixedShards(1)),
              StatusCode::kInvalidArgument,
              who + "need a numeric dtype, found string");
  ExpectError(create(DType{99}, {2}, FixedShards(1)),
              StatusCode::kInvalidArgument, "found unknown dtype number 99");
  ExpectError(create(DType::kF32, {-1}, FixedShards(1)),
              StatusCode::kInvalidArgument, who);
  ExpectError(create(DType::kF32, {int64_t{1} << 61, 2}, FixedShards(1)),
              StatusCode::kInvalidArgument, "more than 2^63 - 1 bytes");
  ExpectError(create(DType::kF32, {2}, FixedShards(0)),
              StatusCode::kInvalidArgument, who);
  ExpectError(create(DType::kF32, {2}, nullptr), StatusCode::kInvalidArgument,
              who + "the partitioner has no function");
  ExpectError(create(DType::kF32, {5}, FixedShards(2), {0}),
              StatusCode::kInvalidArgument,
              "one owner for each component (need 2, found 1)");
  ExpectError(create(DType::kF32, {5}, FixedShards(2), {0, size_}),
              StatusCode::kInvalidArgument, "an owner is not a rank");
  if (!testing::kCanRunOutOfMemory) {
    GTEST_SKIP() << testing::kEndsWithoutMemory;
  }
  ExpectError(create(DType::kF32, {int64_t{1} << 59}, FixedShards(1)),
              StatusCode::kResourceExhausted, who + "no memory");
  ExpectError(create(DType::kU8, {INT64_MAX}, FixedShards(1)),
              StatusCode::kResourceExhausted, who + "no memory");
  ExpectError(create(DType::kU8, {INT64_MAX}, FixedShards(2), {0, 0}),
              StatusCode::kResourceExhausted, who + "no memory");
}

// More than a message counts, too.
TEST_F(ShardedVariableTest, TooManyAxesAreRefused) {
  float value = 7;
  for (size_t axes : {33, 300}) {
    const GivenComponent mine = {DType::kF32, Shape(axes, 1), &value, ""};
    const std::string text =
        "too many axes (need at most 32, found " + std::to_string(axes) + ")";
    ExpectError(JoinComponents(comm_, "v", {&mine, 1}).status(),
                StatusCode::kInvalidArgument, text);
    ExpectError(CreateShardedVariable(comm_, "v", DType::kF32, Shape(axes, 1),
                                      FixedShards(1))
                    .status(),
                StatusCode::kInvalidArgument, text);
  }
  const GivenComponent mine = {DType::kF32, Shape(32, 1), &value, ""};
  EXPECT_TRUE(JoinComponents(comm_, "v", {&mine, 1}).ok());
}

// A row of 2^64 - 8 bytes would count as -8.
TEST_F(ShardedVariableTest, RowsBeyond64BitsAreRefusedWhereThereAreNone) {
  const Shape shape = {0, 4294967295, 4294967297};
  ExpectError(
      CreateShardedVariable(comm_, "v", DType::kF64, shape, FixedShards(1))
          .status(),
      StatusCode::kInvalidArgument, "create \"v\": check shape");
  ExpectError(CreateShardedVariable(comm_, "v", DType::kF64,
                                    {0, int64_t{1} << 60}, FixedShards(1))
                  .status(),
              StatusCode::kInvalidArgument, "more than 2^63 - 1 bytes");
}

TEST_F(ShardedVariableTest, CreateRefusesBadPartitioners) {
  const auto create = [&](const Partitioner& partitioner) {
    return CreateShardedVariable(comm_, "v", DType::kF32, {4, 4}, partitioner)
        .status();
  };
  const auto last = size_ - 1;
  ExpectError(create([&](const Shape&, DType, int) -> StatusOr<Shape> {
                if (rank_ == last) throw std::runtime_error("oh no");
                return Shape{1, 1};
              }),
              StatusCode::kInternal,
              "create \"v\": the partitioner threw: oh no " + RankText(last));
  ExpectError(
      create([](const Shape&, DType, int) -> StatusOr<Shape> { throw 7; }),
      StatusCode::kInternal, "the partitioner threw no std::exception");
  ExpectError(create([](const Shape&, DType, int) -> StatusOr<Shape> {
                return absl::NotFoundError("no idea");
              }),
              StatusCode::kNotFound, "create \"v\": no idea");
  ExpectError(create([](const Shape&, DType, int) {
                return Shape{1, 2};
              }),
              StatusCode::kInvalidArgument, "the partitioner cuts axis 1");
  ExpectError(create([](const Shape&, DType, int) { return Shape{1}; }),
              StatusCode::kInvalidArgument, "create \"v\": ");
  ExpectError(create([](const Shape&, DType, int) {
                return Shape{5, 1};
              }),
              StatusCode::kInvalidArgument, "create \"v\": ");
  ExpectError(CreateShardedVariable(comm_, "v", DType::kU8, {int64_t{1} << 62},
                                    FixedShards(int64_t{1} << 40))
                  .status(),
              StatusCode::kInvalidArgument, "too many boxes");
  if (size_ == 1) return;
  ExpectError(create([&](const Shape&, DType, int) {
                return Shape{rank_ == last ? 2 : 3, 1};
              }),
              StatusCode::kInvalidArgument,
              "partition or owners differs between ranks");
  ExpectError(CreateShardedVariable(comm_, rank_ == last ? "a" : "b",
                                    DType::kF32, {2}, FixedShards(1))
                  .status(),
              StatusCode::kInvalidArgument, "differs between ranks");
}

// Each rank gives as many components as its number and one, of other rows.
TEST_F(ShardedVariableTest, JoinStacksByRankAndThenByList) {
  std::vector<std::vector<int32_t>> memory;
  std::vector<GivenComponent> given;
  int32_t next = 0;
  std::vector<int> owners;
  for (int rank = 0; rank < size_; ++rank) {
    for (int i = 0; i <= rank; ++i) {
      const int64_t rows = (rank + i) % 3;
      std::vector<int32_t> values;
      for (int64_t k = 0; k < 2 * rows; ++k) values.push_back(next++);
      owners.push_back(rank);
      if (rank != rank_) continue;
      memory.push_back(values);
      given.push_back({DType::kI32, {rows, 2}, memory.back().data(), ""});
    }
  }
  const auto v = JoinComponents(comm_, "joined", given);
  ASSERT_TRUE(v.ok()) << v.status();
  EXPECT_EQ(v->name(), "joined");
  EXPECT_EQ(Owners(*v), owners);
  EXPECT_EQ(v->shape(), (Shape{next / 2, 2}));
  ExpectHolds(*v, testing::Iota({next / 2, 2}));
  // The memory is the caller's.
  for (auto& values : memory) {
    for (int32_t& value : values) value = -1;
  }
  const auto read = ToTensor(comm_, *v);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(testing::Ints(*read), std::vector<int32_t>(next, -1));
}

// test_validation_errors. What cannot be written in C++, such as a member that
// is no variable, is left out.
TEST_F(ShardedVariableTest, ValidationErrors) {
  std::vector<double> memory(100);
  const auto join = [&](std::vector<GivenComponent> given) {
    return JoinComponents(comm_, "", given).status();
  };
  const std::string who = "join \"ShardedVariable\": ";
  const auto invalid = StatusCode::kInvalidArgument;
  void* data = memory.data();
  ExpectError(join({}), invalid, who + "need a non-empty list of components");
  ExpectError(join(OnRankZero({{DType::kF32, {2}, data, ""},
                               {DType::kF64, {2}, data, ""}})),
              invalid,
              who +
                  "components need the same dtype (component 0 of rank 0 has "
                  "f32, component 1 of rank 0 has f64)");
  ExpectError(join(OnRankZero({{DType::kF32, {2, 3}, data, ""},
                               {DType::kF32, {1, 2}, data, ""}})),
              invalid,
              "components need the same shapes except for axis 0 (component 0 "
              "of rank 0 has [2, 3], component 1 of rank 0 has [1, 2])");
  ExpectError(join({{DType::kF32, {2}, data, "4 0,2"}}), invalid,
              who + "component 0: it is a slice of something else already");
  ExpectError(join({{DType::kF32, {}, data, ""}}), invalid, "at least 1 axis");
  ExpectError(join({{DType::kString, {2}, data, ""}}), invalid, "dtype");
  ExpectError(join({{DType::kF32, {2}, nullptr, ""}}), invalid, "is null");
  ExpectError(join({{DType::kF32, {-2}, data, ""}}), invalid, who);
  auto* const odd = static_cast<std::byte*>(data) + 4;
  ExpectError(join({{DType::kF64, {2}, odd, ""}}), invalid,
              who +
                  "component 0: the elements are not aligned (need an address "
                  "that is a multiple of 8, found 4 more)");
  ExpectError(join({{DType::kC128, {2}, odd, ""}}), invalid, "not aligned");
  ExpectError(join({{DType::kF16, {2}, odd + 1, ""}}), invalid, "not aligned");
  EXPECT_TRUE(join({{DType::kC64, {2}, odd, ""}}).ok());
  EXPECT_TRUE(join({{DType::kU8, {2}, odd + 1, ""}}).ok());
  EXPECT_TRUE(join({{DType::kF64, {0}, odd, ""}}).ok());
  ExpectError(join(OnRankZero({{DType::kU8, {INT64_MAX, 0}, data, ""},
                               {DType::kU8, {1, 0}, data, ""}})),
              invalid, "more than 2^63 - 1 rows");
  if (size_ == 1) return;
  const auto dtype = rank_ == 1 ? DType::kF16 : DType::kF32;
  ExpectError(join({{dtype, {2}, data, ""}}), invalid,
              "component 0 of rank 1 has f16");
  ExpectError(join({{DType::kF32, {2, rank_ == 1 ? 2 : 3}, data, ""}}), invalid,
              "component 0 of rank 1 has [2, 2]");
  ExpectError(join({{DType::kF32, {2}, rank_ == 1 ? nullptr : data, ""}}),
              invalid, "is null " + RankText(1));
  ExpectError(JoinComponents(comm_, rank_ == 1 ? "a" : "b", {}).status(),
              invalid, "the name differs between ranks");
}

// test_as_function_input: code made for one variable serves the other.
TEST_F(ShardedVariableTest, EqualSpecsOfEqualVariables) {
  const auto make = [&](int64_t parts) {
    return CreateShardedVariable(comm_, "v", DType::kF32, {6, 2},
                                 FixedShards(parts));
  };
  EXPECT_EQ(make(3)->Spec(), make(3)->Spec());
  EXPECT_NE(make(3)->Spec(), make(2)->Spec());
}

// test_flatten: the components are the leaves, in order.
TEST_F(ShardedVariableTest, IterationVisitsTheComponents) {
  const auto v =
      CreateShardedVariable(comm_, "v", DType::kF32, {5, 2}, FixedShards(3));
  ASSERT_TRUE(v.ok()) << v.status();
  std::vector<int64_t> rows;
  for (const Component& component : *v) rows.push_back(component.num_rows);
  EXPECT_THAT(rows, ElementsAre(2, 2, 1));
}

TEST_F(ShardedVariableTest, NothingToTalkOver) {
  Comm closed;
  EXPECT_EQ(CreateShardedVariable(closed, "v", DType::kF32, {1}, FixedShards(1))
                .status()
                .code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(JoinComponents(closed, "v", {}).status().code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace belay::sharded_variable_test
