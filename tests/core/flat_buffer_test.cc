#include "belay/arrays/flat_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "box_oracle.h"
#include "core/strided_copy.h"

namespace belay::flat_buffer_test {
namespace {

using ::testing::ElementsAre;

TEST(BoxesOfRangeTest, WholeRowsAreOneBox) {
  const Box box{{2, 3}, {4, 5}};
  EXPECT_THAT(BoxesOfRange(box, 0, 20), ElementsAre(box));
  EXPECT_THAT(BoxesOfRange(box, 5, 15), ElementsAre(Box{{3, 3}, {2, 5}}));
  EXPECT_THAT(BoxesOfRange(box, 6, 9), ElementsAre(Box{{3, 4}, {1, 3}}));
  EXPECT_THAT(BoxesOfRange(box, 7, 7), ElementsAre());
  EXPECT_THAT(BoxesOfRange(Box{}, 0, 1), ElementsAre(Box{}));
}

TEST(BoxesOfRangeTest, PartialRowsAtBothEnds) {
  EXPECT_THAT(BoxesOfRange({{0, 0}, {4, 5}}, 3, 17),
              ElementsAre(Box{{0, 3}, {1, 2}}, Box{{1, 0}, {2, 5}},
                          Box{{3, 0}, {1, 2}}));
}

TEST(BoxesOfRangeTest, EveryRangeInOrder) {
  const Box box{{1, 2, 3}, {3, 2, 4}};
  for (int64_t begin = 0; begin <= 24; ++begin) {
    for (int64_t end = begin; end <= 24; ++end) {
      int64_t next = begin;
      const std::vector<Box> parts = BoxesOfRange(box, begin, end);
      ASSERT_LE(parts.size(), 5u);
      for (const Box& part : parts) {
        ForEachRun(part, box, box, [&](const ElementRun& run) {
          ASSERT_EQ(run.a, next);
          next += run.length;
        });
      }
      ASSERT_EQ(next, end);
    }
  }
}

TEST(BoxesOfRangeTest, AtMostTwoPerAxisLessOne) {
  for (const Shape& shape : {Shape{7}, Shape{3, 7}, Shape{3, 3, 3, 3}}) {
    const int64_t elements = NumElements(shape);
    const size_t most = 2 * shape.size() - 1;
    EXPECT_EQ(BoxesOfRange(WholeBox(shape), 1, elements - 1).size(), most);
    for (int64_t begin = 0; begin < elements; ++begin) {
      for (int64_t end = begin; end <= elements; ++end) {
        EXPECT_LE(BoxesOfRange(WholeBox(shape), begin, end).size(), most);
      }
    }
  }
}

TEST(BoxesOfFlatRangeTest, PiecesLieEndToEnd) {
  const std::vector<FlatPiece> pieces = {
      {.key = "w", .global_shape = {3, 4}},
      {.key = "b", .global_shape = {5}},
      {.key = "rows", .global_shape = {9, 2}, .box = Box{{3, 0}, {2, 2}}}};
  EXPECT_THAT(*BoxesOfFlatRange(pieces, 0, 7),
              ElementsAre(FlatBox{0, {{0, 0}, {1, 4}}, 0},
                          FlatBox{0, {{1, 0}, {1, 3}}, 4}));
  EXPECT_THAT(
      *BoxesOfFlatRange(pieces, 7, 20),
      ElementsAre(FlatBox{0, {{1, 3}, {1, 1}}, 0},
                  FlatBox{0, {{2, 0}, {1, 4}}, 1}, FlatBox{1, {{0}, {5}}, 5},
                  FlatBox{2, {{3, 0}, {1, 2}}, 10},
                  FlatBox{2, {{4, 0}, {1, 1}}, 12}));
  EXPECT_THAT(*BoxesOfFlatRange(pieces, 20, 40),  // 21 and on are padding
              ElementsAre(FlatBox{2, {{4, 1}, {1, 1}}, 0}));
  EXPECT_THAT(*BoxesOfFlatRange(pieces, 21, 40), ElementsAre());
}

TEST(BoxesOfFlatRangeTest, PaddingBetweenPieces) {
  const std::vector<FlatPiece> pieces = {
      {.key = "a", .global_shape = {3}, .begin = 2},
      {.key = "none", .global_shape = {0, 4}},
      {.key = "scalar", .global_shape = {}, .begin = 8}};
  const FlatBox none{1, {{0, 0}, {0, 4}}, 0};
  EXPECT_THAT(*BoxesOfFlatRange(pieces, 0, 4),
              ElementsAre(FlatBox{0, {{0}, {2}}, 2}, none));
  EXPECT_THAT(*BoxesOfFlatRange(pieces, 4, 9),
              ElementsAre(FlatBox{0, {{2}, {1}}, 0}, none, FlatBox{2, {}, 4}));
  EXPECT_THAT(*BoxesOfFlatRange(pieces, 5, 8), ElementsAre(none));
}

// Draws pieces, with padding before some of them.
std::vector<FlatPiece> DrawPieces(Rng& rng) {
  std::vector<FlatPiece> pieces;
  const int64_t count = Draw(rng, 0, 5);
  int64_t next = 0;
  for (int64_t i = 0; i < count; ++i) {
    FlatPiece piece{.key = std::to_string(i),
                    .global_shape = DrawShape(rng, 4, 4)};
    if (Draw(rng, 0, 1) == 1) piece.box = DrawBox(rng, piece.global_shape);
    if (Draw(rng, 0, 2) == 0) piece.begin = next += Draw(rng, 0, 3);
    next += NumElements(piece.box.value_or(WholeBox(piece.global_shape)).shape);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

// The piece and its element at each place of the buffer.
using Place = std::pair<int64_t, Position>;
std::vector<Place> Buffer(const std::vector<FlatPiece>& pieces) {
  std::vector<Place> buffer;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const FlatPiece& piece = pieces[i];
    while (piece.begin && static_cast<int64_t>(buffer.size()) < *piece.begin) {
      buffer.push_back({-1, {}});
    }
    const Box box = piece.box.value_or(WholeBox(piece.global_shape));
    for (Position& element : Elements(box)) {
      buffer.push_back({static_cast<int64_t>(i), std::move(element)});
    }
  }
  return buffer;
}

TEST(BoxesOfFlatRangeTest, EveryElementLiesWhereItIsSaidToLie) {
  Rng rng(7);
  for (int round = 0; round < 3000; ++round) {
    const std::vector<FlatPiece> pieces = DrawPieces(rng);
    const std::vector<Place> buffer = Buffer(pieces);
    const auto size = static_cast<int64_t>(buffer.size());
    const int64_t begin = Draw(rng, 0, size);
    const int64_t end = Draw(rng, begin, size + 2);
    std::vector<Place> found(end - begin, Place{-1, {}});
    std::vector<size_t> boxes(pieces.size(), 0);
    const auto parts = BoxesOfFlatRange(pieces, begin, end);
    ASSERT_TRUE(parts.ok()) << parts.status();
    for (const FlatBox& part : *parts) {
      ++boxes[part.piece];
      int64_t at = part.position;
      for (Position& element : Elements(part.box)) {
        Place& place = found.at(at++);
        EXPECT_EQ(place.first, -1) << "listed twice";
        place = {static_cast<int64_t>(part.piece), std::move(element)};
      }
    }
    for (int64_t i = begin; i < std::min(end, size); ++i) {
      ASSERT_EQ(found[i - begin], buffer[i]) << "round " << round;
    }
    for (int64_t i = size; i < end; ++i) {
      ASSERT_EQ(found[i - begin].first, -1) << "padding is listed";
    }
    for (size_t i = 0; i < pieces.size(); ++i) {
      const size_t ndim = pieces[i].global_shape.size();
      EXPECT_LE(boxes[i], std::max<size_t>(1, 2 * ndim) - (ndim > 0 ? 1 : 0));
    }
  }
}

TEST(BoxesOfFlatRangeTest, Mistakes) {
  const auto error = [](const std::vector<FlatPiece>& pieces, int64_t begin,
                        int64_t end) {
    return BoxesOfFlatRange(pieces, begin, end).status();
  };
  EXPECT_EQ(error({}, -1, 3),
            absl::InvalidArgumentError(
                "cut a flat buffer: not a range (need 0 <= begin <= end, found "
                "-1 and 3)"));
  EXPECT_EQ(error({}, 4, 3).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(error({{.key = "a", .global_shape = {6}},
                   {.key = "b", .global_shape = {2}, .begin = 5}},
                  0, 3),
            absl::InvalidArgumentError(
                "cut a flat buffer: \"b\": begins before the piece before it "
                "ends (need element 6 or later, found 5)"));
  EXPECT_EQ(
      error({{.key = "a", .global_shape = {6}, .box = Box{{4}, {3}}}}, 0, 3)
          .code(),
      absl::StatusCode::kOutOfRange);
  EXPECT_EQ(error({{.key = "a", .global_shape = {-6}}}, 0, 3).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      error({{.key = "a", .global_shape = {6}, .begin = INT64_MAX - 5}}, 0, 3),
      absl::OutOfRangeError(
          "cut a flat buffer: \"a\": ends past element 2^63 - 1 (begins at "
          "9223372036854775802 and has 6)"));
}

}  // namespace
}  // namespace belay::flat_buffer_test
