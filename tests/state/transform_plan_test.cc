// Transforms against arrays that are computed element by element.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "belay/extend/transform_function.h"
#include "core/strided_copy.h"
#include "state/transform.h"
#include "transform_oracle.h"

namespace belay::transform_plan_test {
namespace {

using ::testing::HasSubstr;
Box SomeBox(const Shape& shape, Random& random) {
  Box box;
  for (const int64_t length : shape) {
    const int64_t begin = Uniform(0, length, random);
    box.offset.push_back(begin);
    box.shape.push_back(Uniform(0, length - begin, random));
  }
  return box;
}

TEST(TransformPlanTest, AnyBoxOfAnyTransform) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    World world(seed);
    Shape shape;
    const int64_t num_axes = Uniform(0, 3, world.random());
    for (int64_t i = 0; i < num_axes; ++i) {
      shape.push_back(Uniform(i == 0 ? 0 : 1, 4, world.random()));
    }
    const Oracle expected = world.Any(shape, 3);
    const auto find = [&](const std::string& key) { return world.Find(key); };
    const StatusOr<ArrayForm> form = ComputeForm(expected.transform, find);
    ASSERT_TRUE(form.ok()) << seed << ": " << form.status();
    ASSERT_EQ(form->shape, shape) << seed << expected.transform.ToString();
    const Box box = SomeBox(shape, world.random());
    Tensor found(DType::kI32, box.shape);
    std::fill_n(found.data(), found.num_bytes(), std::byte{0xAB});
    std::vector<TransformMove> moves;
    std::vector<TransformRead> reads;
    std::vector<ComputedLosses> losses;
    ASSERT_EQ(PlanTransform(expected.transform, box,
                            {.data = found.data(),
                             .dtype = DType::kI32,
                             .shape = box.shape,
                             .offset = Shape(box.shape.size(), 0)},
                            false, find, moves, reads),
              absl::OkStatus());
    for (const TransformRead& read : reads) world.Read(read);
    ASSERT_EQ(FinishTransform(std::move(moves), losses), absl::OkStatus());
    const Oracle part = Make({}, box.shape, [&](const Shape& element) {
      Shape there = element;
      for (size_t i = 0; i < there.size(); ++i) there[i] += box.offset[i];
      return expected.At(there);
    });
    const std::span<const int32_t> values = found.values<int32_t>();
    ASSERT_EQ(std::vector<int32_t>(values.begin(), values.end()), part.values)
        << seed << ": " << expected.transform.ToString();
  }
}

// What PlanTransform reads for a box of one array, "a", of i32.
std::vector<TransformRead> ReadsOf(const Transform& transform,
                                   const Shape& stored, const Box& box,
                                   size_t& num_moves) {
  static Tensor memory(DType::kI32, {1 << 20});
  const ArrayForm form{DType::kI32, stored};
  std::vector<TransformMove> moves;
  std::vector<TransformRead> reads;
  EXPECT_EQ(PlanTransform(
                transform, box,
                {.data = memory.data(),
                 .dtype = DType::kI32,
                 .shape = box.shape,
                 .offset = Shape(box.shape.size(), 0)},
                false, [&](const std::string&) { return &form; }, moves, reads),
            absl::OkStatus());
  num_moves = moves.size();
  return reads;
}

int64_t ElementsOf(const std::vector<TransformRead>& reads) {
  int64_t elements = 0;
  for (const TransformRead& read : reads) {
    elements += NumElements(read.box.shape);
  }
  return elements;
}

// Without a copy where it lies as it is stored.
TEST(TransformPlanTest, ReadsInPlace) {
  const Transform stack = Transform::Stack({"a", "b", "c"});
  size_t num_moves = 0;
  auto reads = ReadsOf(stack, {4, 6}, {{1, 1, 0}, {2, 2, 6}}, num_moves);
  EXPECT_EQ(num_moves, 0u);
  ASSERT_EQ(reads.size(), 2u);
  EXPECT_EQ(reads[0].key, "b");
  EXPECT_EQ(reads[0].box, (Box{{1, 0}, {2, 6}}));
  EXPECT_EQ(reads[1].data - reads[0].data, 2 * 6 * 4);
  ReadsOf(Transform::Split("a", 0, 2, 1), {4, 6}, WholeBox({2, 6}), num_moves);
  EXPECT_EQ(num_moves, 0u);
  ReadsOf(Transform::Split("a", 1, 2, 1), {4, 6}, WholeBox({4, 3}), num_moves);
  EXPECT_EQ(num_moves, 0u);
  ReadsOf(Transform::Stack({"a", "b"}, 1), {4}, WholeBox({4, 2}), num_moves);
  EXPECT_EQ(num_moves, 2u);
  ReadsOf(Transform::Transpose("a"), {4, 6}, WholeBox({6, 4}), num_moves);
  EXPECT_EQ(num_moves, 1u);
  ReadsOf(Transform::Transpose("a"), {1, 6}, WholeBox({6, 1}), num_moves);
  EXPECT_EQ(num_moves, 0u);
}

// What lies between the elements of a slice is read only where that costs
// nothing.
TEST(TransformPlanTest, ReadsOnlyWhatASliceTakes) {
  const auto every = [](int64_t step) {
    return Transform::Slice("a", Index{belay::Slice{{}, {}, step}});
  };
  size_t num_moves = 0;
  EXPECT_EQ(ElementsOf(ReadsOf(every(2), {10, 3}, WholeBox({5, 3}), num_moves)),
            15);
  EXPECT_EQ(ElementsOf(ReadsOf(every(-3), {10}, {{1}, {2}}, num_moves)), 2);
  const auto near = ReadsOf(every(2), {8192}, WholeBox({4096}), num_moves);
  EXPECT_EQ(near.size(), 1u);
  EXPECT_EQ(ElementsOf(near), 8191);
  const auto far =
      ReadsOf(every(2), {4096, 1024}, {{0, 0}, {2048, 8}}, num_moves);
  EXPECT_EQ(far.size(), 2048u);
  EXPECT_EQ(ElementsOf(far), 2048 * 8);
}

}  // namespace
}  // namespace belay::transform_plan_test
