// A million random indices against the oracle, each read and assigned in one
// piece and in the pieces of several owners.

#include <gmock/gmock.h>

#include <cstring>
#include <vector>

#include "belay/arrays/indexing.h"
#include "core/selection.h"
#include "index_oracle.h"

namespace belay::indexing_property_test {
namespace {

#ifdef NDEBUG
constexpr int kRounds = 250'000;  // of each of four tests
#else
constexpr int kRounds = 25'000;  // sanitizers take their time
#endif

constexpr DType kDTypes[] = {DType::kU8, DType::kI16, DType::kF32, DType::kI64,
                             DType::kC128};

// Bytes that tell nearly all places of all elements apart.
Tensor AnyValues(DType dtype, const Shape& shape, uint8_t seed) {
  Tensor tensor(dtype, shape);
  for (int64_t i = 0; i < tensor.num_bytes(); ++i) {
    tensor.data()[i] = static_cast<std::byte>(i * 37 + i / 256 + seed);
  }
  return tensor;
}

bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), a.num_bytes()) == 0;
}

// The values of the result, taken one by one.
Tensor Gather(const Tensor& x, const Expected& expected) {
  const int64_t bytes = DTypeSize(x.dtype());
  Tensor result(x.dtype(), expected.shape);
  for (size_t i = 0; i < expected.elements.size(); ++i) {
    std::memcpy(result.data() + i * bytes,
                x.data() + expected.elements[i] * bytes, bytes);
  }
  return result;
}

Tensor Scatter(const Tensor& x, const Expected& expected, const Tensor& value) {
  const int64_t bytes = DTypeSize(x.dtype());
  Tensor result = x.Clone();
  for (size_t i = 0; i < expected.elements.size(); ++i) {
    std::memcpy(result.data() + expected.elements[i] * bytes,
                value.data() + i * bytes, bytes);
  }
  return result;
}

// The first positions of each owner's rows, and the end of the last.
std::vector<int64_t> AnyOwners(IndexDraw& draw, int64_t length) {
  std::vector<int64_t> ends = {0};
  while (ends.back() < length || ends.size() < 2) {
    ends.push_back(draw.Number(ends.back(), length));
  }
  return ends;
}

struct Pieces {
  const Selection& selection;
  const std::vector<int64_t>& owners;
  int64_t element_bytes;
  int64_t position_bytes;  // of one position of axis 0

  // Calls visit(begin, part, byte offset of begin) for each owner.
  template <typename Visit>
  int64_t ForEach(Visit&& visit) const {
    int64_t num_rows = 0;
    for (size_t i = 0; i + 1 < owners.size(); ++i) {
      const RowPart part = RowsWithin(selection, owners[i], owners[i + 1]);
      num_rows += part.count;
      for (int64_t row = part.first; row < part.first + part.count; ++row) {
        const int64_t position = RowPosition(selection, row);
        EXPECT_TRUE(owners[i] <= position && position < owners[i + 1]);
      }
      visit(owners[i], part, owners[i] * position_bytes);
    }
    return num_rows;
  }

  int64_t RowBytes() const { return RowElements(selection) * element_bytes; }
};

void CheckPieces(IndexDraw& draw, const Tensor& x, const Index& index,
                 const Tensor& expected, const Tensor& value,
                 const Tensor& expected_after) {
  const Selection selection = Select(x.shape(), index).value();
  const int64_t length = x.shape()[0];
  const std::vector<int64_t> owners = AnyOwners(draw, length);
  const Pieces pieces{selection, owners, DTypeSize(x.dtype()),
                      length == 0 ? 0 : x.num_bytes() / length};
  Tensor result(x.dtype(), selection.result_shape);
  Tensor after = x.Clone();
  const int64_t row_bytes = pieces.RowBytes();
  const int64_t num_rows =
      pieces.ForEach([&](int64_t begin, const RowPart& part, int64_t offset) {
        CopySelected(selection, pieces.element_bytes, begin, part,
                     x.data() + offset, result.data() + part.first * row_bytes);
        const Tensor rows = BroadcastToRows(selection, value, part).value();
        ScatterSelected(selection, pieces.element_bytes, begin, part,
                        rows.data(), after.data() + offset);
      });
  ASSERT_EQ(num_rows, NumRows(selection));
  ASSERT_EQ(num_rows * RowElements(selection), result.num_elements());
  ASSERT_TRUE(SameBytes(result, expected));
  ASSERT_TRUE(SameBytes(after, expected_after));
}

void CheckCase(IndexDraw& draw, const Tensor& x, const Index& index,
               const Expected& expected) {
  SCOPED_TRACE(ShapeText(x.shape()) + " by " + IndexText(index));
  const Tensor values = Gather(x, expected);
  const StatusOr<Tensor> item = GetItem(x, index);
  ASSERT_TRUE(item.ok()) << item.status();
  ASSERT_EQ(item->shape(), expected.shape);
  ASSERT_TRUE(SameBytes(*item, values));
  const Tensor value = AnyValues(x.dtype(), expected.shape, 101);
  const Tensor after = Scatter(x, expected, value);
  Tensor assigned = x.Clone();
  ASSERT_TRUE(SetItem(assigned, index, value).ok());
  ASSERT_TRUE(SameBytes(assigned, after));
  if (!x.shape().empty()) CheckPieces(draw, x, index, values, value, after);
}

void CheckIndices(uint64_t seed, DType first, DType second) {
  IndexDraw draw(seed);
  for (int i = 0; i < kRounds && !::testing::Test::HasFailure(); ++i) {
    const Shape shape = draw.AnyShape(0);
    const Tensor x = AnyValues(i % 2 == 0 ? first : second, shape, 0);
    const Index index = draw.AnyIndex(shape);
    CheckCase(draw, x, index, IndexOracle(shape, index));
  }
}

TEST(IndexingPropertyTest, SmallElements) {
  CheckIndices(1, DType::kU8, DType::kI16);
}
TEST(IndexingPropertyTest, MediumElements) {
  CheckIndices(2, DType::kF32, DType::kI64);
}
TEST(IndexingPropertyTest, LargeElements) {
  CheckIndices(3, DType::kI64, DType::kC128);
}

TEST(IndexingPropertyTest, Masks) {
  IndexDraw draw(4);
  for (int i = 0; i < kRounds && !HasFailure(); ++i) {
    const Shape shape = draw.AnyShape(1);
    const Tensor x = AnyValues(kDTypes[i % 5], shape, 0);
    const Tensor mask = draw.AnyMask(shape);
    CheckCase(draw, x, {&mask}, MaskOracle(shape, mask));
  }
}

// The number in a tensor of `shape` that ends up at `coordinates`, which may
// have more axes: the last ones count, and axes of length 1 repeat.
int64_t BroadcastElement(const Shape& shape, const std::vector<int64_t>& at) {
  int64_t element = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    const int64_t c = at[at.size() - shape.size() + i];
    element = element * shape[i] + (shape[i] == 1 ? 0 : c);
  }
  return element;
}

TEST(IndexingPropertyTest, AssignmentBroadcasts) {
  IndexDraw draw(5);
  for (int i = 0; i < kRounds / 10 && !HasFailure(); ++i) {
    const Shape shape = draw.AnyShape(0);
    const Tensor x = AnyValues(DType::kI16, shape, 0);
    const Index index = draw.AnyIndex(shape);
    const Expected expected = IndexOracle(shape, index);
    Shape value_shape = expected.shape;
    value_shape.erase(value_shape.begin(),
                      value_shape.begin() + draw.Number(0, value_shape.size()));
    for (int64_t& length : value_shape) {
      if (draw.Number(0, 2) == 0) length = 1;
    }
    const Tensor value = AnyValues(DType::kI16, value_shape, 55);
    std::vector<int64_t> at(expected.shape.size(), 0);
    Expected places{.shape = expected.shape, .elements = {}};
    for (size_t n = 0; n < expected.elements.size(); ++n) {
      int64_t rest = static_cast<int64_t>(n);
      for (size_t axis = at.size(); axis-- > 0;) {
        at[axis] = rest % expected.shape[axis];
        rest /= expected.shape[axis];
      }
      places.elements.push_back(BroadcastElement(value_shape, at));
    }
    const Tensor whole = Gather(value, places);
    Tensor assigned = x.Clone();
    const Status status = SetItem(assigned, index, value);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(SameBytes(assigned, Scatter(x, expected, whole)))
        << ShapeText(shape) << " by " << IndexText(index) << " from "
        << ShapeText(value_shape);
    if (!shape.empty()) {
      CheckPieces(draw, x, index, Gather(x, expected), value, assigned);
    }
  }
}

// One item too many, or one position too far, is an error wherever it stands.
TEST(IndexingPropertyTest, BadIndicesAreErrors) {
  IndexDraw draw(6);
  for (int i = 0; i < kRounds / 10 && !HasFailure(); ++i) {
    const Shape shape = draw.AnyShape(1);
    const size_t axis = draw.Number(0, shape.size() - 1);
    const int64_t length = shape[axis];
    std::vector<IndexItem> items(shape.size(), Slice{});
    items[axis] = draw.Number(0, 1) == 0 ? length + draw.Number(0, 9)
                                         : -length - 1 - draw.Number(0, 9);
    ASSERT_EQ(Select(shape, Index(items)).status().code(),
              absl::StatusCode::kOutOfRange);
    items[axis] = Slice{.start = {}, .stop = {}, .step = 0};
    ASSERT_EQ(Select(shape, Index(items)).status().code(),
              absl::StatusCode::kInvalidArgument);
    items[axis] = Slice{};
    items.insert(items.begin() + draw.Number(0, items.size()), Slice{});
    ASSERT_EQ(Select(shape, Index(items)).status().code(),
              absl::StatusCode::kOutOfRange);
  }
}

}  // namespace
}  // namespace belay::indexing_property_test
