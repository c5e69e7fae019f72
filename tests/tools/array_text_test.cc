#include "array_text.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "belay/arrays/box.h"

namespace belay::array_text_test {
namespace {

using tools::ArrayText;
using tools::Excerpt;
using tools::ReadExcerpt;

// Counts the parts that are read of an array of zeros.
struct Reads {
  int64_t count = 0;

  StatusOr<Excerpt> Of(const Shape& shape) {
    return ReadExcerpt(DType::kU8, WholeBox(shape), 1000,
                       [&](const Box& box) -> StatusOr<Tensor> {
                         ++count;
                         return Tensor(DType::kU8, box.shape);
                       });
  }
};

TEST(ArrayTextTest, EachEndOfFewAxesIsReadAlone) {
  Reads reads;
  const StatusOr<Excerpt> excerpt = reads.Of(Shape(6, 100));
  ASSERT_TRUE(excerpt.ok()) << excerpt.status();
  EXPECT_EQ(reads.count, 64);
  EXPECT_EQ(excerpt->values.shape(), Shape(6, 4));
}

TEST(ArrayTextTest, EndsOfManyAxesAreReadAtOnce) {
  Reads reads;
  const StatusOr<Excerpt> excerpt = reads.Of(Shape(12, 4));
  ASSERT_TRUE(excerpt.ok()) << excerpt.status();
  EXPECT_EQ(reads.count, 1);
  EXPECT_EQ(excerpt->values.shape(), Shape(12, 2));
}

// A small file may say that it has them.
TEST(ArrayTextTest, TooManyAxesAreRefused) {
  for (const Shape& shape : {Shape(32, 3), Shape(27, 2), Shape(20, 3)}) {
    Reads reads;
    const Status status = reads.Of(shape).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_EQ(reads.count, 0);
  }
  Reads reads;
  EXPECT_EQ(reads.Of(Shape(8, 100)).status(),
            absl::FailedPreconditionError(
                "too many axes to print both ends of each; choose a part with "
                "--box (parts would be read: at most 64, found 256)"));
  EXPECT_EQ(reads.count, 0);
}

}  // namespace
}  // namespace belay::array_text_test
