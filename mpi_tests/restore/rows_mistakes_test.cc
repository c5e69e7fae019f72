// What is wrong with rows that ranks hold, told on all ranks alike.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "belay/checkpoint.h"
#include "belay/rows.h"
#include "values.h"

namespace belay::rows_mistakes_test {
namespace {

using ::testing::HasSubstr;
using testing::Ok;

class RowsMistakesTest : public testing::CheckpointTest {};

TEST_F(RowsMistakesTest, OfASave) {
  std::vector<double> x(4);
  State odd;
  odd.AddRows("x", x, {.row = {3}});
  ExpectRefused(Save(comm_, run(), 1, odd).status(),
                absl::StatusCode::kInvalidArgument,
                "list \"x\": the range does not consist of whole rows of shape "
                "[3] (need a multiple of 3 numbers, found 4)");
  State twice;
  twice.AddRows("x", x);
  twice.AddRows("x", x);
  ExpectRefused(Save(comm_, run(), 1, twice).status(),
                absl::StatusCode::kInvalidArgument, "\"x\"");
  State span;
  span.AddRows("x", std::span(x.data(), 3), {.row = {2}});
  ExpectRefused(Save(comm_, run(), 3, span).status(),
                absl::StatusCode::kInvalidArgument, "whole rows of shape [2]");
}

TEST_F(RowsMistakesTest, OfTheForm) {
  std::vector<double> x(4);
  State good;
  good.AddRows("x", x, {.row = {2}});
  Ok(Save(comm_, run(), 1, good));
  State wide;
  wide.AddRows("x", x, {.row = {4}});
  ExpectRefused(Restore(comm_, run(), 1, wide).status(),
                absl::StatusCode::kFailedPrecondition,
                "the stored shape differs (need [" + std::to_string(2 * size_) +
                    ", 4], found [" + std::to_string(2 * size_) + ", 2]");
  std::vector<float> floats;
  State narrow;
  narrow.AddRows("x", floats, {.row = {2}});
  ExpectRefused(Restore(comm_, run(), 1, narrow).status(),
                absl::StatusCode::kFailedPrecondition,
                "the stored dtype differs (need f32, found f64");
  Ok(Restore(comm_, run(), 1, narrow, {.allow_dtype_cast = true}));
  EXPECT_EQ(floats.size(), 4);
  std::array<double, 3> fixed = {};
  State room;
  room.AddPerRank("x", fixed);
  ExpectRefused(Restore(comm_, run(), 1, room).status(),
                absl::StatusCode::kFailedPrecondition, "\"x\"");
  const double constant = 1;
  State unwritten;
  unwritten.AddPerRank("c", constant);
  Ok(Save(comm_, run(), 2, unwritten));
  ExpectRefused(Restore(comm_, run(), 2, unwritten).status(),
                absl::StatusCode::kInvalidArgument, "is const");
}

TEST_F(RowsMistakesTest, ATextHasNoEvenPart) {
  std::string text = "of rank " + std::to_string(rank_);
  State state, even;
  state.AddPerRank("text", text);
  Ok(Save(comm_, run(), 1, state));
  even.AddPerRank("text", text, {.other_ranks = OtherRanks::kEven});
  ExpectRefused(Save(comm_, run(), 2, even).status(),
                absl::StatusCode::kInvalidArgument,
                "list \"text\": OtherRanks::kEven cannot divide the texts");
  ExpectRefused(Restore(comm_, run(), 1, even).status(),
                absl::StatusCode::kInvalidArgument,
                "list \"text\": OtherRanks::kEven cannot divide the texts");
}

TEST_F(RowsMistakesTest, OfOwners) {
  std::vector<double> x(4);
  State good;
  good.AddRows("x", x, {.row = {2}});
  Ok(Save(comm_, run(), 1, good));
  State owned;
  const int bad = size_;
  owned.AddRows("x", x,
                {.row = {2}, .owner = [bad](const double&) { return bad; }});
  ExpectRefused(Restore(comm_, run(), 1, owned).status(),
                absl::StatusCode::kInvalidArgument,
                "restore \"x\": the owner of row 0 is not a rank (need 0 to " +
                    std::to_string(size_ - 1) + ", found " +
                    std::to_string(size_) + ")");
  State thrown;
  thrown.AddRows("x", x, {.row = {2}, .owner = [](const double&) -> int {
                            throw std::runtime_error("no idea");
                          }});
  EXPECT_THAT(std::string(Restore(comm_, run(), 1, thrown).status().message()),
              HasSubstr("no idea"));
  State owned_span, owned_twice;
  const auto zero = [](const double&) { return 0; };
  owned_span.AddRows("x", std::span(x.data(), 4), {.row = {2}, .owner = zero});
  ExpectRefused(Restore(comm_, run(), 1, owned_span).status(),
                absl::StatusCode::kFailedPrecondition,
                "need a range that can change its length");
  std::vector<double> once, again;
  owned_twice.AddRows("x", once, {.row = {2}, .owner = zero});
  owned_twice.AddRows("x", again, {.row = {2}, .owner = zero});
  ExpectRefused(Restore(comm_, run(), 1, owned_twice).status(),
                absl::StatusCode::kInvalidArgument, "\"x\": it is added twice");
}

TEST_F(RowsMistakesTest, OwnersHaveRowsOfOtherTypes) {
  std::vector<double> doubles(4);
  std::vector<float> floats;
  State stored;
  stored.AddRows("x", doubles);
  Ok(Save(comm_, run(), 1, stored));
  State state;
  const int last = size_ - 1;
  if (rank_ == 0) {
    state.AddRows("x", doubles,
                  {.owner = [last](const double&) { return last; }});
  } else {
    state.AddRows("x", floats,
                  {.owner = [last](const float&) { return last; }});
  }
  const Status status =
      Restore(comm_, run(), 1, state, {.allow_dtype_cast = true}).status();
  if (size_ == 1) {
    EXPECT_EQ(status, absl::OkStatus());
    return;
  }
  ExpectRefused(status, absl::StatusCode::kFailedPrecondition,
                "restore \"x\": ranks have rows of other types (need f32 in 4 "
                "bytes, found f64 in 8)");
}

TEST_F(RowsMistakesTest, RanksHaveRowsOfOtherForms) {
  if (size_ == 1) return;
  std::vector<double> doubles(4);
  std::vector<float> floats(4);
  State state;
  if (rank_ == 0) {
    state.AddRows("x", floats);
  } else {
    state.AddRows("x", doubles, {.row = {2}});
  }
  ExpectRefused(Save(comm_, run(), 1, state).status(),
                absl::StatusCode::kInvalidArgument,
                "plan \"x\": the rows of the ranks differ in dtype, shape or "
                "ids (rank 0 has f32 "
                "[], rank 1 has f64 [2])");
}

}  // namespace
}  // namespace belay::rows_mistakes_test
