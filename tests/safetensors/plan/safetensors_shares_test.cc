#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "belay/arrays/flat_buffer.h"
#include "safetensors/export_plan.h"

namespace belay::safetensors::safetensors_shares_test {
namespace {

FileTensor Tensor(DType dtype, const Shape& shape) {
  return {.name = "a",
          .dtype = dtype,
          .shape = shape,
          .begin = 0,
          .end = NumElements(shape) * DTypeSize(dtype)};
}

std::vector<Box> BoxesOf(const Shape& shape, int64_t begin, int64_t end) {
  return BoxesOfRange(WholeBox(shape), begin, end);
}

// The number of the first element of a box.
int64_t FirstElement(const Shape& shape, const Box& box) {
  int64_t first = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    first = first * shape[axis] + box.offset[axis];
  }
  return first;
}

// Whether the elements of a box follow each other in the array.
bool IsContiguous(const Shape& shape, const Box& box) {
  size_t axis = 0;
  while (axis < shape.size() && box.shape[axis] == 1) ++axis;
  for (++axis; axis < shape.size(); ++axis) {
    if (box.shape[axis] != shape[axis]) return false;
  }
  return true;
}

TEST(SharesTest, EveryRangeIsItsBoxes) {
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{7}, Shape{2, 3}, Shape{3, 1, 2},
        Shape{2, 3, 4}, Shape{1, 1, 5}, Shape{2, 2, 2, 3}}) {
    const int64_t elements = NumElements(shape);
    for (int64_t begin = 0; begin <= elements; ++begin) {
      for (int64_t end = begin; end <= elements; ++end) {
        const std::vector<Box> boxes = BoxesOf(shape, begin, end);
        EXPECT_LE(boxes.size(), std::max<size_t>(1, 2 * shape.size() - 1));
        int64_t next = begin;
        for (const Box& box : boxes) {
          EXPECT_TRUE(CheckBox(box, shape).ok());
          EXPECT_TRUE(IsContiguous(shape, box)) << BoxText(box);
          EXPECT_EQ(FirstElement(shape, box), next);
          next += NumElements(box.shape);
        }
        EXPECT_EQ(next, end) << ShapeText(shape);
      }
    }
  }
  EXPECT_EQ(BoxesOf({4, 6}, 6, 18).size(), 1);
  EXPECT_EQ(BoxesOf({4, 6}, 3, 20).size(), 3);
}

TEST(SharesTest, CutsBetweenRowsOfNoMoreThanAMiB) {
  EXPECT_EQ(UnitElements(Tensor(DType::kF32, {})), 1);
  EXPECT_EQ(UnitElements(Tensor(DType::kF32, {100})), 1);
  EXPECT_EQ(UnitElements(Tensor(DType::kF32, {50257, 768})), 768);
  EXPECT_EQ(UnitElements(Tensor(DType::kF32, {8, 512, 512})), 512 * 512);
  EXPECT_EQ(UnitElements(Tensor(DType::kF64, {8, 512, 512})), 512);
  EXPECT_EQ(UnitElements(Tensor(DType::kU8, {2, (1 << 20) + 1})), 1);
}

// What the shares of all ranks have to be, whatever the tensors.
void ExpectShares(const std::vector<FileTensor>& tensors, int ranks) {
  const auto shares = EvenShares(tensors, ranks);
  ASSERT_EQ(shares.size(), ranks);
  int64_t total = 0;
  int64_t most_unit = 0;
  std::vector<int64_t> done(tensors.size());
  for (const FileTensor& tensor : tensors) {
    total += tensor.end - tensor.begin;
    most_unit =
        std::max(most_unit, UnitElements(tensor) * DTypeSize(tensor.dtype));
  }
  int64_t last = 0;
  for (const auto& share : shares) {
    int64_t bytes = 0;
    for (const TensorRange& range : share) {
      if (range.end > range.begin) {
        EXPECT_GE(range.tensor, last);
        last = range.tensor;
      }
      EXPECT_EQ(range.begin, done[range.tensor]);
      done[range.tensor] = range.end;
      bytes +=
          (range.end - range.begin) * DTypeSize(tensors[range.tensor].dtype);
    }
    EXPECT_LE(bytes, total / ranks + 1 + most_unit);
    EXPECT_GE(bytes, total / ranks - 1 - most_unit);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(done[i], NumElements(tensors[i].shape));
  }
}

TEST(SharesTest, AreEvenForAnyTensorsAndRanks) {
  std::mt19937 random(7);
  const DType dtypes[] = {DType::kU8, DType::kBF16, DType::kF32, DType::kC64};
  for (int round = 0; round < 200; ++round) {
    std::vector<FileTensor> tensors(random() % 6);
    for (FileTensor& tensor : tensors) {
      Shape shape;
      for (uint32_t axes = random() % 4; axes > 0; --axes) {
        shape.push_back(random() % 40);
      }
      tensor = Tensor(dtypes[random() % 4], shape);
    }
    for (const int ranks : {1, 2, 3, 7, 64}) ExpectShares(tensors, ranks);
  }
}

TEST(SharesTest, OfAModelOnAThousandRanks) {
  std::vector<FileTensor> tensors;
  for (int layer = 0; layer < 126; ++layer) {
    tensors.push_back(Tensor(DType::kBF16, {16384, 53248}));
    tensors.push_back(Tensor(DType::kBF16, {16384}));
    tensors.push_back(Tensor(DType::kBF16, {1}));
  }
  ExpectShares(tensors, 1024);
  size_t boxes = 0;
  for (const auto& share : EvenShares(tensors, 1024)) {
    for (const TensorRange& range : share) {
      boxes +=
          BoxesOf(tensors[range.tensor].shape, range.begin, range.end).size();
    }
  }
  EXPECT_LE(boxes, tensors.size() + 1024);
}

}  // namespace
}  // namespace belay::safetensors::safetensors_shares_test
