// Writing sharded variables. The oracle of a slice assignment is reading: the
// numbers of the elements that the index selects are what it has to change.

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "random_index.h"
#include "variables.h"

namespace belay::sharded_variable_assign_test {
namespace {

using absl::StatusCode;
using testing::Ints;
using testing::Iota;
using testing::SumOverRanks;

constexpr auto kInvalid = StatusCode::kInvalidArgument;

Tensor Filled(const Shape& shape, int32_t value) {
  Tensor tensor(DType::kI32, shape);
  for (int32_t& element : tensor.values<int32_t>()) element = value;
  return tensor;
}

// Any elements, equal on all ranks.
Tensor RandomTensor(std::mt19937& random, const Shape& shape) {
  Tensor tensor(DType::kI32, shape);
  for (int32_t& element : tensor.values<int32_t>()) {
    element = static_cast<int32_t>(random() % 100000);
  }
  return tensor;
}

class AssignTest : public testing::VariableTest {
 protected:
  // Components of 1, 2 and 1 rows, as in TensorFlow's tests: 0, 1, 2, 3.
  ShardedVariable Small() { return Cut(Iota({4}), {1, 2, 1}); }
  Tensor SmallValue() { return Tensor::Of<int32_t>({4}, {10, 20, 30, 40}); }
  void ExpectValues(const ShardedVariable& v, std::vector<int32_t> expected) {
    const auto found = ToTensor(comm_, v);
    EXPECT_TRUE(found.ok()) << found.status();
    if (found.ok()) {
      EXPECT_EQ(Ints(*found), expected);
    }
  }
};

// test_assign.
TEST_F(AssignTest, Assign) {
  ShardedVariable v = Small();
  EXPECT_EQ(Assign(comm_, v, UpdateOp::kUpdate, SmallValue()),
            absl::OkStatus());
  ExpectValues(v, {10, 20, 30, 40});
}

// test_assign_add.
TEST_F(AssignTest, AssignAdd) {
  ShardedVariable v = Small();
  EXPECT_EQ(Assign(comm_, v, UpdateOp::kAdd, SmallValue()), absl::OkStatus());
  ExpectValues(v, {10, 21, 32, 43});
}

// test_assign_sub.
TEST_F(AssignTest, AssignSub) {
  ShardedVariable v = Small();
  EXPECT_EQ(Assign(comm_, v, UpdateOp::kSub, SmallValue()), absl::OkStatus());
  ExpectValues(v, {-10, -19, -28, -37});
}

// A larger value is an error, not cut off.
TEST_F(AssignTest, BadValues) {
  ShardedVariable v = Cut(Iota({4, 2}), {1, 2, 1});
  const auto assign = [&](const Tensor& value, UpdateOp op) {
    return Assign(comm_, v, op, value);
  };
  for (const Shape& shape : {Shape{5, 2}, Shape{4, 3}, Shape{3, 2}, Shape{8},
                             Shape{}, Shape{1, 4, 2}}) {
    ExpectError(assign(Filled(shape, 7), UpdateOp::kUpdate), kInvalid,
                absl::StrCat("assign \"v\": another shape (need [4, 2], found ",
                             ShapeText(shape), ") ", RankText(0)));
  }
  ExpectError(assign(Tensor(DType::kU32, {4, 2}), UpdateOp::kAdd), kInvalid,
              "another dtype (need i32, found u32)");
  ExpectError(assign(Filled({4, 2}, 0), UpdateOp::kDiv), kInvalid,
              "assign \"v\": ");
  EXPECT_FALSE(assign(Filled({4, 2}, 0), UpdateOp{77}).ok());
  ExpectHolds(v, Iota({4, 2}));
  Tensor bits(DType::kBool, {3});
  for (bool& bit : bits.values<bool>()) bit = true;
  ShardedVariable flags = Cut(bits, {1, 2});
  ExpectError(Assign(comm_, flags, UpdateOp::kAdd, bits),
              StatusCode::kUnimplemented, "assign \"v\": ");
}

TEST_F(AssignTest, OneRankIsWrong) {
  ShardedVariable v = Small();
  for (int wrong = 0; wrong < size_; ++wrong) {
    const bool mine = rank_ == wrong;
    ExpectError(Assign(comm_, v, UpdateOp::kUpdate, Filled({mine ? 5 : 4}, 7)),
                kInvalid, "found [5]) " + RankText(wrong));
    ExpectError(AssignSlice(comm_, v, {Slice{0, mine ? 2 : 3}}, Filled({3}, 7)),
                kInvalid,
                size_ == 1 || mine ? "assign slice" : RankText(wrong));
    if (wrong == 0) continue;  // the others differ from rank 0 then
    const std::string differs =
        absl::StrCat("differs between ranks: rank ", wrong, " of ", size_);
    ExpectError(Assign(comm_, v, UpdateOp::kUpdate, Filled({4}, mine ? 8 : 7)),
                kInvalid, differs);
    ExpectError(Assign(comm_, v, mine ? UpdateOp::kSub : UpdateOp::kAdd,
                       Filled({4}, 7)),
                kInvalid, differs);
    ExpectError(AssignSlice(comm_, v, {}, Filled({4}, mine ? 8 : 7)), kInvalid,
                differs);
    ExpectError(AssignSlice(comm_, v, {Slice{mine ? 1 : 0, 2}}, Filled({1}, 7)),
                kInvalid, differs);
  }
  ExpectValues(v, {0, 1, 2, 3});
}

// The element of `value` that broadcasting puts at a position of `shape`.
int32_t BroadcastElement(const Tensor& value, const Shape& shape,
                         int64_t position) {
  int64_t at = 0;
  int64_t stride = 1;
  const int64_t more = std::ssize(shape) - std::ssize(value.shape());
  for (int64_t axis = std::ssize(shape) - 1; axis >= more; --axis) {
    const int64_t length = value.shape()[axis - more];
    if (length > 1) at += position % shape[axis] * stride;
    stride *= length;
    position /= shape[axis];
  }
  return value.values<int32_t>()[at];
}

TEST_F(AssignTest, RandomSlicesOfRandomVariables) {
  std::mt19937 random(4321);
  for (int round = 0; round < 1500; ++round) {
    Tensor dense = Iota(testing::RandomShape(random));
    ShardedVariable v = RandomCut(random, dense);
    const Tensor mask = testing::RandomMask(random, dense.shape());
    const Index index = random() % 5 == 0
                            ? Index{&mask}
                            : testing::RandomIndex(random, dense.shape());
    const auto selected = GetItem(dense, index);
    ASSERT_TRUE(selected.ok()) << selected.status();
    // Drop first axes, and repeat along others.
    Shape shape = selected->shape();
    while (!shape.empty() && random() % 4 == 0) shape.erase(shape.begin());
    for (int64_t& length : shape) {
      if (random() % 4 == 0) length = 1;
    }
    const Tensor value = RandomTensor(random, shape);
    EXPECT_EQ(AssignSlice(comm_, v, index, value, {.deadline_seconds = 0}),
              absl::OkStatus())
        << IndexText(index);
    const auto numbers = selected->values<int32_t>();
    for (size_t i = 0; i < numbers.size(); ++i) {
      dense.values<int32_t>()[numbers[i]] =
          BroadcastElement(value, selected->shape(), static_cast<int64_t>(i));
    }
    SCOPED_TRACE(IndexText(index) + " of " + ShapeText(dense.shape()));
    ExpectHolds(v, dense);
  }
}

TEST_F(AssignTest, BadSlices) {
  ShardedVariable v = Cut(Iota({4, 2}), {1, 2, 1});
  const auto assign = [&](const Index& index, const Tensor& value) {
    return AssignSlice(comm_, v, index, value);
  };
  const std::string who = "assign slice \"v\": ";
  ExpectError(assign({4}, Filled({2}, 7)), StatusCode::kOutOfRange, who);
  ExpectError(assign({Slice{{}, {}, 0}}, Filled({2}, 7)), kInvalid, who);
  ExpectError(assign({Ellipsis{}, Ellipsis{}}, Filled({2}, 7)), kInvalid, who);
  ExpectError(assign({Slice{0, 2}}, Filled({3, 2}, 7)), kInvalid, who);
  ExpectError(assign({}, Filled({2, 4, 2}, 7)), kInvalid, who);
  ExpectError(assign({0}, Tensor(DType::kF32, {2})), kInvalid,
              who + "another dtype (need i32, found f32)");
  const Tensor floats(DType::kF32, {4});
  ExpectError(assign({&floats}, Filled({2}, 7)), kInvalid, who);
  ExpectHolds(v, Iota({4, 2}));
}

// Cuts a box into random pieces.
std::vector<Box> RandomTiling(std::mt19937& random, const Box& whole) {
  std::vector<Box> tiles = {whole};
  for (int tries = 0; tries < 20; ++tries) {
    const size_t which = random() % tiles.size();
    const size_t axis = random() % whole.shape.size();
    Box rest = tiles[which];
    if (rest.shape[axis] < 2) continue;
    const int64_t at = testing::Draw(random, 1, rest.shape[axis] - 1);
    tiles[which].shape[axis] = at;
    rest.offset[axis] += at;
    rest.shape[axis] -= at;
    tiles.push_back(rest);
  }
  return tiles;
}

// The values of a box of a dense tensor.
Tensor CutOut(const Tensor& dense, const Box& box) {
  Index index;
  for (size_t axis = 0; axis < box.shape.size(); ++axis) {
    index.push_back(
        Slice{box.offset[axis], box.offset[axis] + box.shape[axis], 1});
  }
  return *GetItem(dense, index);
}

// What this rank passes.
struct Pieces {
  std::vector<Box> boxes;
  std::vector<Tensor> tensors;
  std::vector<VariablePiece> list() const {
    std::vector<VariablePiece> pieces;
    for (size_t i = 0; i < boxes.size(); ++i) {
      pieces.push_back({boxes[i], &tensors[i]});
    }
    return pieces;
  }
};

TEST_F(AssignTest, RandomPiecesOfRandomVariables) {
  std::mt19937 random(99);
  for (int round = 0; round < 300; ++round) {
    const Tensor before = Iota(testing::RandomShape(random));
    const Tensor value = RandomTensor(random, before.shape());
    ShardedVariable v = RandomCut(random, before);
    Pieces mine;
    for (const Box& box : RandomTiling(random, WholeBox(before.shape()))) {
      if (static_cast<int>(random() % size_) != rank_) continue;
      mine.boxes.push_back(box);
      mine.tensors.push_back(CutOut(value, box));
    }
    const UpdateOp op = UpdateOp{static_cast<uint8_t>(random() % 3)};
    int64_t sent = 0;
    EXPECT_EQ(AssignPieces(comm_, v, op, mine.list(),
                           {.deadline_seconds = 0, .bytes_sent = &sent}),
              absl::OkStatus());
    Tensor expected = before.Clone();
    for (int64_t i = 0; i < expected.num_elements(); ++i) {
      const int32_t delta = value.values<int32_t>()[i];
      int32_t& element = expected.values<int32_t>()[i];
      element = op == UpdateOp::kUpdate ? delta
                : op == UpdateOp::kAdd  ? element + delta
                                        : element - delta;
    }
    ExpectHolds(v, expected);
    EXPECT_LE(SumOverRanks(sent), value.num_bytes());
  }
}

// Each rank passes the rows of the next rank, and then its own.
TEST_F(AssignTest, OnlyPiecesOfOthersTravel) {
  ShardedVariable v = Cut(Iota({2 * size_, 3}), std::vector<int64_t>(size_, 2));
  const Tensor value = Filled({2, 3}, 5);
  for (int shift : {1, 0}) {
    const int64_t row = 2 * ((rank_ + shift) % size_);
    int64_t sent = 0;
    EXPECT_EQ(
        AssignPieces(comm_, v, UpdateOp::kUpdate,
                     std::vector<VariablePiece>{{{{row, 0}, {2, 3}}, &value}},
                     {.bytes_sent = &sent}),
        absl::OkStatus());
    EXPECT_EQ(sent, shift == 1 && size_ > 1 ? 24 : 0);
  }
  ExpectHolds(v, Filled({2 * size_, 3}, 5));
}

TEST_F(AssignTest, PiecesThatDoNotTile) {
  ShardedVariable v = Cut(Iota({4, 2}), {1, 2, 1});
  const int last = size_ - 1;
  // Rank 0 passes the first `above` rows, the last rank those from `below` on.
  const auto assign = [&](int64_t above, int64_t below) {
    Pieces mine;
    if (rank_ == 0) mine.boxes.push_back({{0, 0}, {above, 2}});
    if (rank_ == last) mine.boxes.push_back({{below, 0}, {4 - below, 2}});
    for (const Box& box : mine.boxes) {
      mine.tensors.push_back(Filled(box.shape, 7));
    }
    return AssignPieces(comm_, v, UpdateOp::kUpdate, mine.list());
  };
  const std::string who = "assign pieces \"v\": ";
  const Status overlap = assign(3, 2);
  ExpectError(overlap, kInvalid, who);
  ExpectError(overlap, kInvalid, "box \"0,3:0,2\" of rank 0");
  ExpectError(overlap, kInvalid,
              absl::StrCat("box \"2,2:0,2\" of rank ", last));
  ExpectError(assign(1, 3), kInvalid, "no rank holds box \"1,2:0,2\"");
  ExpectError(AssignPieces(comm_, v, UpdateOp::kUpdate, {}), kInvalid,
              "no rank passed a piece (need pieces that tile shape [4, 2]");
  // The same piece on two ranks overlaps too.
  const Tensor whole = Filled({4, 2}, 7);
  const std::vector<VariablePiece> all = {{WholeBox({4, 2}), &whole}};
  if (size_ > 1) {
    ExpectError(AssignPieces(comm_, v, UpdateOp::kUpdate, all), kInvalid,
                "overlap");
  }
  ExpectHolds(v, Iota({4, 2}));
  EXPECT_EQ(assign(2, 2), absl::OkStatus());
  ExpectHolds(v, Filled({4, 2}, 7));
}

TEST_F(AssignTest, BadPieces) {
  ShardedVariable v = Cut(Iota({4, 2}), {1, 2, 1});
  const int last = size_ - 1;
  const Tensor whole = Filled({4, 2}, 7);
  const Tensor large = Filled({5, 2}, 7);
  const Tensor floats(DType::kF32, {4, 2});
  // The last rank passes this, the others nothing.
  const auto assign = [&](const Box& box, const Tensor* values,
                          UpdateOp op = UpdateOp::kUpdate) {
    std::vector<VariablePiece> pieces;
    if (rank_ == last) pieces.push_back({box, values});
    return AssignPieces(comm_, v, op, pieces);
  };
  const Box box = WholeBox({4, 2});
  const std::string who = "assign pieces \"v\": piece \"0,4:0,2\": ";
  ExpectError(
      assign(box, &large), kInvalid,
      who + "another shape (need [4, 2], found [5, 2]) " + RankText(last));
  ExpectError(assign(box, &floats), kInvalid, who + "another dtype");
  ExpectError(assign(box, nullptr), kInvalid, who + "the values are null");
  ExpectError(assign({{0, 0}, {5, 2}}, &large), StatusCode::kOutOfRange,
              "assign pieces \"v\": ");
  ExpectError(assign({{0}, {4}}, &whole), kInvalid, "assign pieces \"v\": ");
  const Tensor zeros = Filled({4, 2}, 0);
  ExpectError(assign(box, &zeros, UpdateOp::kDiv), kInvalid, who);
  if (size_ > 1) {
    ExpectError(
        assign(box, &whole, rank_ == last ? UpdateOp::kAdd : UpdateOp::kSub),
        kInvalid, "the variable or the op differs between ranks");
  }
  ExpectHolds(v, Iota({4, 2}));
  EXPECT_EQ(assign(box, &whole), absl::OkStatus());
  ExpectHolds(v, whole);
}

TEST_F(AssignTest, EmptyVariables) {
  for (const Shape& shape : {Shape{0, 2}, Shape{3, 0}}) {
    const Tensor value = Filled(shape, 0);
    ShardedVariable v = Cut(value, {shape[0], 0});
    EXPECT_EQ(Assign(comm_, v, UpdateOp::kAdd, value), absl::OkStatus());
    EXPECT_EQ(AssignSlice(comm_, v, {}, value), absl::OkStatus());
    EXPECT_EQ(AssignPieces(comm_, v, UpdateOp::kAdd, {}), absl::OkStatus());
  }
}

}  // namespace
}  // namespace belay::sharded_variable_assign_test
