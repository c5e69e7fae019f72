#include "belay/arrays/indexing.h"

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace belay::indexing_test {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Tensor Iota(const Shape& shape) {
  Tensor tensor(DType::kI32, shape);
  std::iota(tensor.values<int32_t>().begin(), tensor.values<int32_t>().end(),
            0);
  return tensor;
}

Tensor Get(const Tensor& x, std::string_view text) {
  const StatusOr<Index> index = ParseIndex(text);
  EXPECT_TRUE(index.ok()) << index.status();
  StatusOr<Tensor> item = GetItem(x, index.value_or(Index{}));
  EXPECT_TRUE(item.ok()) << item.status();
  return item.ok() ? std::move(item).value() : Tensor();
}

std::vector<int32_t> Values(const Tensor& x, std::string_view text) {
  const Tensor item = Get(x, text);
  return {item.values<int32_t>().begin(), item.values<int32_t>().end()};
}

Status Error(const Tensor& x, const Index& index) {
  return GetItem(x, index).status();
}

// TensorFlow: test_slicing, on the values 0..9.
TEST(IndexingTest, SlicesOfAVector) {
  const Tensor x = Iota({10});
  EXPECT_THAT(Values(x, ":"), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(Values(x, "2:8:3"), ElementsAre(2, 5));
  EXPECT_THAT(Values(x, "9:3:-2"), ElementsAre(9, 7, 5));
  EXPECT_THAT(Values(x, "::-1"), ElementsAre(9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
  EXPECT_THAT(Values(x, "-20:2"), ElementsAre(0, 1));
  EXPECT_THAT(Values(x, "::-5"), ElementsAre(9, 4));
  EXPECT_THAT(Values(x, "5:5"), IsEmpty());
  EXPECT_THAT(Values(x, "4:2"), IsEmpty());
}

// TensorFlow: test_slicing, on the rows [1, 2], [3, 4], .. [15, 16].
TEST(IndexingTest, SlicesOfAMatrix) {
  Tensor x = Iota({8, 2});
  for (int32_t& value : x.values<int32_t>()) ++value;
  const struct {
    std::string_view text;
    std::vector<int> rows;
  } kTable[] = {
      {":2", {0, 1}},
      {"-8:2", {0, 1}},
      {"-10:2", {0, 1}},
      {"5:", {5, 6, 7}},
      {"5:-1", {5, 6}},
      {"::3", {0, 3, 6}},
      {"::5", {0, 5}},
      {"1::6", {1, 7}},
      {"1:5:6", {1}},
      {"1::7", {1}},
      {"2:7", {2, 3, 4, 5, 6}},
      {"2:7:2", {2, 4, 6}},
      {"2:7:3", {2, 5}},
      {"2::-1", {2, 1, 0}},
      {"2:-8:-1", {2, 1}},
      {"2:-10:-1", {2, 1, 0}},
      {"4::-1", {4, 3, 2, 1, 0}},
      {"-1:-3:-1", {7, 6}},
      {"::-5", {7, 2}},
      {"6::-6", {6, 0}},
      {"6:5:-6", {6}},
      {"6::-7", {6}},
      {"7:1:-1", {7, 6, 5, 4, 3, 2}},
      {"7:1:-2", {7, 5, 3}},
      {"7:1:-4", {7, 3}},
      {"0:0", {}},
      {"5:3", {}},
      {"3:5:-1", {}},
      {"-1:0", {}},
      {"2:-1:-1", {}},
  };
  for (const auto& [text, rows] : kTable) {
    std::vector<int32_t> expected, second;
    for (int row : rows) {
      expected.push_back(2 * row + 1);
      expected.push_back(2 * row + 2);
      second.push_back(2 * row + 2);
    }
    const int64_t num_rows = static_cast<int64_t>(rows.size());
    EXPECT_THAT(Values(x, text), ElementsAreArray(expected)) << text;
    EXPECT_THAT(Get(x, text).shape(), ElementsAre(num_rows, 2)) << text;
    const std::string column = std::string(text) + ", 1";
    EXPECT_THAT(Values(x, column), ElementsAreArray(second)) << text;
    EXPECT_THAT(Get(x, column).shape(), ElementsAre(num_rows)) << text;
  }
}

TEST(IndexingTest, IntegersAndLaterAxes) {
  Tensor x = Iota({8, 2});
  EXPECT_THAT(Values(x, ":, 0"), ElementsAre(0, 2, 4, 6, 8, 10, 12, 14));
  EXPECT_THAT(Get(x, ":, 0:1").shape(), ElementsAre(8, 1));
  EXPECT_THAT(Values(x, "2"), ElementsAre(4, 5));
  EXPECT_THAT(Values(x, "6"), ElementsAre(12, 13));
  EXPECT_THAT(Values(x, "2, 1"), ElementsAre(5));
  EXPECT_THAT(Get(x, "2, 1").shape(), IsEmpty());
  EXPECT_THAT(Values(x, "-2"), ElementsAre(12, 13));
  EXPECT_THAT(Get(x, "...").shape(), ElementsAre(8, 2));
  EXPECT_THAT(Values(x, "..., 0"), ElementsAre(0, 2, 4, 6, 8, 10, 12, 14));
  EXPECT_THAT(Values(x, "0:1, ..."), ElementsAre(0, 1));
  EXPECT_THAT(Get(x, "newaxis, ...").shape(), ElementsAre(1, 8, 2));
  EXPECT_THAT(Get(x, "").shape(), ElementsAre(8, 2));
}

TEST(IndexingTest, AnArrayWithoutAxes) {
  const Tensor x = Iota({});
  EXPECT_THAT(Values(x, ""), ElementsAre(0));
  EXPECT_THAT(Values(x, "..."), ElementsAre(0));
  EXPECT_THAT(Get(x, "newaxis, ..., newaxis").shape(), ElementsAre(1, 1));
  EXPECT_EQ(Error(x, {0}).code(), absl::StatusCode::kOutOfRange);
}

// TensorFlow: test_slicing, "mask > 10".
TEST(IndexingTest, BooleanMask) {
  const Tensor x = Iota({4, 3});
  Tensor mask(DType::kBool, {4, 3});
  for (int i = 0; i < 12; ++i) mask.values<bool>()[i] = i > 7;
  const Tensor selected = GetItem(x, {&mask}).value();
  EXPECT_THAT(selected.shape(), ElementsAre(4));
  EXPECT_THAT(selected.values<int32_t>(), ElementsAre(8, 9, 10, 11));
  const Tensor rows = Tensor::Of<bool>({4}, {true, false, false, true});
  const Tensor selected_rows = GetItem(x, {&rows}).value();
  EXPECT_THAT(selected_rows.shape(), ElementsAre(2, 3));
  EXPECT_THAT(selected_rows.values<int32_t>(), ElementsAre(0, 1, 2, 9, 10, 11));
  const Tensor none = Tensor::Of<bool>({4}, {false, false, false, false});
  EXPECT_THAT(GetItem(x, {&none}).value().shape(), ElementsAre(0, 3));
}

// D1: row 0, and every first row of a shard but the last, come from the last
// shard. What each row is must not depend on where shards begin.
TEST(IndexingTest, D1EveryRowIsItself) {
  const Tensor x = Iota({10});
  for (int row = 0; row < 10; ++row) {
    EXPECT_THAT(Values(x, std::to_string(row)), ElementsAre(row));
    EXPECT_THAT(Values(x, std::to_string(row - 10)), ElementsAre(row));
  }
}

// D2: the wrong phase where a slice starts outside the array.
TEST(IndexingTest, D2SlicesThatStartOutsideKeepTheirPhase) {
  const Tensor x = Iota({10});
  EXPECT_THAT(Values(x, "-11::3"), ElementsAre(0, 3, 6, 9));
  EXPECT_THAT(Values(x, "15::-4"), ElementsAre(9, 5, 1));
}

// D3: an ellipsis that reaches axis 0 is applied to each shard.
TEST(IndexingTest, D3EllipsisFirst) {
  EXPECT_THAT(Values(Iota({4, 2}), "..., 1:3, :"), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(Values(Iota({4}), "..., 0"), ElementsAre(0));
}

// D4: so is what follows a newaxis.
TEST(IndexingTest, D4NewAxisFirst) {
  EXPECT_THAT(Values(Iota({4, 2}), "newaxis, 0:2"), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Get(Iota({4, 2}), "newaxis, 0:2").shape(), ElementsAre(1, 2, 2));
}

// D5: an empty result forgets about the other axes.
TEST(IndexingTest, D5AnEmptyResultHasTheShapeOfTheOtherAxes) {
  EXPECT_THAT(Get(Iota({4, 3}), "0:0, 0").shape(), ElementsAre(0));
  EXPECT_THAT(Get(Iota({4, 3}), "0:0, 1:").shape(), ElementsAre(0, 2));
  EXPECT_THAT(Get(Iota({4, 3}), "0:0, newaxis").shape(), ElementsAre(0, 1, 3));
}

// D6: an empty tuple fails, a mask inside a tuple is an ambiguous truth value,
// and True or False alone mean nothing.
TEST(IndexingTest, D6EmptyTuplesAndMasksAreDefined) {
  const Tensor x = Iota({2, 2});
  EXPECT_THAT(GetItem(x, Index{}).value().shape(), ElementsAre(2, 2));
  const Tensor mask = Tensor::Of<bool>({2}, {true, false});
  const Status inside = Error(x, {&mask, 0});
  EXPECT_EQ(inside.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(inside.message(), HasSubstr("a mask must be the only item"));
  const Tensor scalar = Tensor::Of<bool>({}, {true});
  const Status alone = Error(x, {&scalar});
  EXPECT_EQ(alone.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(alone.message(),
              HasSubstr("the mask is a scalar (need 1 axis or more, found 0)"));
}

// One item in braces is an item, whatever its type.
TEST(IndexingTest, AnyIntegerIsAPosition) {
  const Tensor x = Iota({8, 2});
  const auto row_of = [&](const Index& index) {
    const Tensor row = GetItem(x, index).value();
    return std::vector<int32_t>(row.values<int32_t>().begin(),
                                row.values<int32_t>().end());
  };
  const size_t row = 1;
  const Index index = {row};
  EXPECT_EQ(index.size(), 1);
  EXPECT_EQ(IndexText(index), "1");
  EXPECT_THAT(row_of(Index{row}), ElementsAre(2, 3));
  EXPECT_THAT(row_of({row}), ElementsAre(2, 3));
  EXPECT_THAT(row_of({uint8_t{7}}), ElementsAre(14, 15));
  EXPECT_THAT(row_of({int16_t{-1}}), ElementsAre(14, 15));
  EXPECT_THAT(row_of({3U, 1UL}), ElementsAre(7));
  EXPECT_THAT(row_of({Slice{row, row + 1}, 0}), ElementsAre(2));
  Tensor y = Iota({8, 2});
  EXPECT_EQ(SetItem(y, Index{row}, Tensor::Of<int32_t>({}, {9})),
            absl::OkStatus());
  EXPECT_THAT(y.values<int32_t>().first(6), ElementsAre(0, 1, 9, 9, 4, 5));
}

// An unsigned number that has wrapped around counts no positions from the end.
TEST(IndexingTest, NumbersAbove63BitsArePastTheEnd) {
  const Tensor x = Iota({4});
  const size_t before_first = size_t{0} - 1;
  EXPECT_EQ(Error(x, {before_first}).code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(GetItem(x, {Slice{before_first}}).value().shape(),
              ElementsAre(0));
  EXPECT_THAT(GetItem(x, {Slice{{}, before_first}}).value().shape(),
              ElementsAre(4));
}

// Orbax and NumPy have index tensors; here only masks select.
TEST(IndexingTest, ATensorThatIsNoMask) {
  const Tensor x = Iota({4});
  const Tensor positions = Tensor::Of<int64_t>({2}, {1, 2});
  EXPECT_EQ(Error(x, {&positions}),
            absl::InvalidArgumentError(
                "index [4] by \"tensor[2]\": a tensor selects elements only as "
                "a mask (need bool, found i64)"));
  EXPECT_EQ(Error(x, {nullptr}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(IndexingTest, OutOfRange) {
  const Tensor x = Iota({8, 2});
  EXPECT_EQ(Error(x, {100}),
            absl::OutOfRangeError("index [8, 2] by \"100\": out of bounds of "
                                  "axis 0 (need -8 to 7, found 100)"));
  EXPECT_EQ(Error(x, {-100}).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(Error(x, {Ellipsis{}, 2}),
            absl::OutOfRangeError("index [8, 2] by \"..., 2\": out of bounds "
                                  "of axis 1 (need -2 to 1, found 2)"));
  EXPECT_EQ(Error(x, {0, 0, Slice{}}),
            absl::OutOfRangeError("index [8, 2] by \"0, 0, :\": more items "
                                  "than axes (need at most 2, found 3)"));
  EXPECT_EQ(Error(Iota({0}), {0}),
            absl::OutOfRangeError("index [0] by \"0\": out of bounds of axis "
                                  "0, which is empty (found 0)"));
}

TEST(IndexingTest, InvalidArgument) {
  const Tensor x = Iota({8, 2});
  EXPECT_EQ(Error(x, {Slice{1, 2, 0}}),
            absl::InvalidArgumentError(
                "index [8, 2] by \"1:2:0\": slice of axis 0 does not move "
                "(need a step other than 0, found 0)"));
  EXPECT_EQ(Error(x, {Ellipsis{}, 0, Ellipsis{}}),
            absl::InvalidArgumentError(
                "index [8, 2] by \"..., 0, ...\": more than one ellipsis (need "
                "at most 1, found 2)"));
  EXPECT_EQ(Error(x, {&x}),
            absl::InvalidArgumentError(
                "index [8, 2] by \"tensor[8, 2]\": a tensor selects elements "
                "only as a mask (need bool, found i32)"));
  const Tensor mask(DType::kBool, {8, 3});
  EXPECT_EQ(Error(x, {&mask}),
            absl::InvalidArgumentError(
                "index [8, 2] by \"mask[8, 3]\": the mask has another shape "
                "than the first axes (need [8, 2], found [8, 3])"));
  const Tensor long_mask(DType::kBool, {8, 2, 1});
  EXPECT_THAT(Error(x, {&long_mask}).message(), HasSubstr("found [8, 2, 1]"));
  EXPECT_THAT(Error(x, {static_cast<const Tensor*>(nullptr)}).message(),
              HasSubstr("the mask is null"));
  const Tensor whole = Tensor::Of<bool>({1}, {true});
  EXPECT_THAT(Error(Iota({}), {&whole}).message(),
              HasSubstr("need [], found [1]"));
}

TEST(IndexingTest, NumbersOfASliceCompareWithNumbers) {
  const Slice slice{size_t{2}, 'a', INT64_C(-1)};
  EXPECT_TRUE(slice.start == 2 && 2U == slice.start && slice.start != 3);
  EXPECT_TRUE(slice.stop == 97 && slice.step == std::optional<int64_t>(-1));
  EXPECT_TRUE(slice.start != std::nullopt && Slice{}.start == std::nullopt);
  EXPECT_TRUE(Slice{}.start == SliceNumber() && slice.start != Slice{}.stop);
  EXPECT_EQ(ToIndexNumber(UINT64_MAX), INT64_MAX);
  EXPECT_EQ(ToIndexNumber(INT64_MIN), INT64_MIN);
}

TEST(SetItemTest, AssignsToThePlacesOfTheIndex) {
  Tensor x = Iota({3, 3});
  const Tensor column = Tensor::Of<int32_t>({2}, {-1, -2});
  ASSERT_TRUE(SetItem(x, {Slice{2, std::nullopt, -2}, 1}, column).ok());
  EXPECT_THAT(x.values<int32_t>(), ElementsAre(0, -2, 2, 3, 4, 5, 6, -1, 8));
}

TEST(SetItemTest, BroadcastsTheValue) {
  Tensor x = Iota({2, 3});
  const Tensor row = Tensor::Of<int32_t>({1, 1, 3}, {7, 8, 9});
  ASSERT_TRUE(SetItem(x, {}, row).ok());
  EXPECT_THAT(x.values<int32_t>(), ElementsAre(7, 8, 9, 7, 8, 9));
  ASSERT_TRUE(SetItem(x, {Slice{}, 2}, Tensor::Of<int32_t>({}, {0})).ok());
  EXPECT_THAT(x.values<int32_t>(), ElementsAre(7, 8, 0, 7, 8, 0));
  const Tensor mask =
      Tensor::Of<bool>({2, 3}, {false, true, true, false, false, true});
  ASSERT_TRUE(SetItem(x, {&mask}, Tensor::Of<int32_t>({3}, {4, 5, 6})).ok());
  EXPECT_THAT(x.values<int32_t>(), ElementsAre(7, 4, 5, 7, 8, 6));
}

TEST(SetItemTest, TheValueMayBeTheArray) {
  Tensor x = Iota({4});
  ASSERT_TRUE(SetItem(x, {Slice{.start = {}, .stop = {}, .step = -1}}, x).ok());
  EXPECT_THAT(x.values<int32_t>(), ElementsAre(3, 2, 1, 0));
}

TEST(SetItemTest, RefusesAndLeavesTheArrayAlone) {
  Tensor x = Iota({2, 3});
  EXPECT_EQ(SetItem(x, {0}, Iota({2})),
            absl::InvalidArgumentError(
                "broadcast \"[2]\": the shape does not fit the selection (need "
                "[3], found [2])"));
  EXPECT_EQ(SetItem(x, {0, 0}, Iota({2})).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SetItem(x, {}, Iota({2, 1, 3})).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SetItem(x, {0}, Tensor(DType::kF32, {3})),
            absl::InvalidArgumentError(
                "assign to \"0\": another dtype (need i32, found f32)"));
  EXPECT_EQ(SetItem(x, {5}, Iota({3})).code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(x.values<int32_t>(), ElementsAre(0, 1, 2, 3, 4, 5));
}

}  // namespace
}  // namespace belay::indexing_test
