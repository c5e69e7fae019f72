#include "belay/state.h"

#include <gtest/gtest.h>

#include <complex>
#include <span>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/arrays/mesh.h"
#include "belay/sharded_variable.h"

namespace belay::state_test {
namespace {

TEST(StateTest, ScalarsAreReplicated) {
  State state;
  double lr = 0.1;
  int64_t step = 3;
  bool done = false;
  state.Add("lr", lr);
  state.Add("step", step);
  state.Add("done", done);
  ASSERT_EQ(state.shards().size(), 3);
  const Shard& shard = state.shards()[0];
  EXPECT_EQ(shard.key, "lr");
  EXPECT_EQ(shard.dtype, DType::kF64);
  EXPECT_EQ(shard.global_shape, Shape());
  EXPECT_EQ(shard.box, Box{});
  EXPECT_EQ(shard.replica, State::kReplicaIsRank);
  EXPECT_EQ(shard.data, &lr);
  EXPECT_EQ(shard.text, nullptr);
  EXPECT_EQ(state.shards()[1].dtype, DType::kI64);
  EXPECT_EQ(state.shards()[2].dtype, DType::kBool);
  EXPECT_EQ(state.status(), absl::OkStatus());
}

TEST(StateTest, TextsAreBorrowedAsTexts) {
  State state;
  std::string name = "belay";
  state.Add("name", name);
  ASSERT_EQ(state.shards().size(), 1);
  const Shard& shard = state.shards()[0];
  EXPECT_EQ(shard.dtype, DType::kString);
  EXPECT_EQ(shard.text, &name);
  EXPECT_EQ(shard.data, nullptr);
  EXPECT_EQ(shard.global_shape, Shape());
  EXPECT_EQ(shard.replica, State::kReplicaIsRank);
}

TEST(StateTest, AReplicatedArrayIsWhole) {
  State state;
  std::vector<std::complex<float>> values(6);
  state.AddReplicated("z", {2, 3}, AtAddress(values.data()));
  const Shard& shard = state.shards().at(0);
  EXPECT_EQ(shard.dtype, DType::kC64);
  EXPECT_EQ(shard.global_shape, Shape({2, 3}));
  EXPECT_EQ(shard.box, WholeBox({2, 3}));
  EXPECT_EQ(shard.replica, State::kReplicaIsRank);
}

TEST(StateTest, PiecesKeepTheirOrderAndBox) {
  State state;
  std::vector<BFloat16> low(6), high(3);
  state.AddPiece("w", {3, 3}, {{0, 0}, {2, 3}}, AtAddress(low.data()));
  state.AddPiece("w", {3, 3}, {{2, 0}, {1, 3}}, AtAddress(high.data()));
  ASSERT_EQ(state.shards().size(), 2);
  const Shard& shard = state.shards()[1];
  EXPECT_EQ(shard.key, "w");
  EXPECT_EQ(shard.dtype, DType::kBF16);
  EXPECT_EQ(shard.global_shape, Shape({3, 3}));
  EXPECT_EQ(shard.box, (Box{{2, 0}, {1, 3}}));
  EXPECT_EQ(shard.replica, 0);
  EXPECT_EQ(shard.data, high.data());
}

TEST(StateTest, ALaidOutPieceHasBoxAndReplicaOfTheLayout) {
  const Mesh mesh = Mesh::Create({{"data", 2}, {"model", 2}}).value();
  const Layout layout = Layout::Create(mesh, {{}, {"model"}}).value();
  for (int rank = 0; rank < 4; ++rank) {
    State state;
    std::vector<int32_t> local(4 * 3);
    state.AddLaidOut("w", layout, {4, 6}, rank, AtAddress(local.data()));
    const Shard& shard = state.shards().at(0);
    EXPECT_EQ(shard.dtype, DType::kI32);
    EXPECT_EQ(shard.global_shape, Shape({4, 6}));
    EXPECT_EQ(shard.box, (Box{{0, rank % 2 * 3}, {4, 3}})) << rank;
    EXPECT_EQ(shard.replica, rank / 2) << rank;
  }
}

TEST(StateTest, ALayoutThatDoesNotFitIsRemembered) {
  const Mesh mesh = Mesh::Create({{"x", 2}}).value();
  const Layout layout = Layout::Create(mesh, {{"x"}}).value();
  State state;
  float values[4] = {};
  state.AddLaidOut("w", layout, {2, 2}, 0, values);
  const Status expected = layout.LocalBox({2, 2}, 0).status();
  EXPECT_FALSE(expected.ok());
  EXPECT_EQ(
      state.status(),
      Status(expected.code(), "add \"w\": " + std::string(expected.message())));
  EXPECT_TRUE(state.shards().empty());
}

TEST(StateTest, ANullPointerIsRememberedOnce) {
  State state;
  std::string* text = nullptr;
  float* data = nullptr;
  state.AddReplicated("w", {2}, AtAddress(data));
  state.Add("t", text);
  EXPECT_EQ(state.status(),
            absl::InvalidArgumentError("add \"w\": the pointer is null"));
  State other;
  other.Add("t", text);
  EXPECT_EQ(other.status(),
            absl::InvalidArgumentError("add \"t\": the pointer is null"));
}

TEST(StateTest, AVariableAddsTheComponentsThatAreHere) {
  std::byte memory[8] = {};
  ShardedVariable variable(
      "v", DType::kI16, {5, 2},
      {{.first_row = 0, .num_rows = 3, .owner = 1},
       {.first_row = 3, .num_rows = 0, .owner = 1},
       {.first_row = 3, .num_rows = 2, .owner = 0, .data = memory}},
      nullptr);
  State state;
  state.AddShardedVariable("w", variable);
  EXPECT_EQ(state.status(), absl::OkStatus());
  ASSERT_EQ(state.shards().size(), 2);
  const Shard& empty = state.shards()[0];
  EXPECT_EQ(empty.box, (Box{{3, 0}, {0, 2}}));
  const Shard& held = state.shards()[1];
  EXPECT_EQ(held.key, "w");
  EXPECT_EQ(held.dtype, DType::kI16);
  EXPECT_EQ(held.global_shape, (Shape{5, 2}));
  EXPECT_EQ(held.box, (Box{{3, 0}, {2, 2}}));
  EXPECT_EQ(held.data, memory);
}

TEST(StateTest, AVariableThatIsNone) {
  State state;
  ShardedVariable none;
  state.AddShardedVariable("w", none);
  EXPECT_EQ(state.status(),
            absl::InvalidArgumentError("add \"w\": the variable was not made, "
                                       "or was moved from"));
}

TEST(StateTest, AnEmptyPieceNeedsNoMemory) {
  State state;
  float* none = nullptr;
  state.AddPiece("w", {2, 3}, {{0, 0}, {0, 3}}, AtAddress(none));
  EXPECT_EQ(state.status(), absl::OkStatus());
  EXPECT_EQ(state.shards().size(), 1);
}

// A range is compared with what it is for; of a pointer nobody can tell.
TEST(StateTest, RangesHaveTheSizeOfTheirBox) {
  std::vector<float> six(6);
  const auto status_of = [](auto add) {
    State state;
    add(state);
    return state.status();
  };
  const auto other_size = [](const char* key, int64_t need, int64_t found) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "add \"%s\": the size of the memory does not match its box (need %d "
        "elements, found %d)%s",
        key, need, found,
        found > need ? "; a MemoryLayout describes a box in larger memory"
                     : ""));
  };
  const Box box = {{0, 0}, {2, 3}};
  EXPECT_EQ(status_of([&](State& state) {
              state.AddPiece("w", {4, 3}, box, six);
              state.AddPiece("p", {4, 3}, box, AtAddress(six.data()));
              state.AddReplicated("r", {3, 2}, std::span(six));
            }),
            absl::OkStatus());
  EXPECT_EQ(status_of([&](State& state) {
              state.AddPiece("w", {4, 3}, {{0, 0}, {4, 3}}, six);
            }),
            other_size("w", 12, 6));
  EXPECT_EQ(status_of([&](State& state) {
              state.AddReplicated("r", {5}, std::span(six));
            }),
            other_size("r", 5, 6));
  EXPECT_EQ(status_of([&](State& state) {
              state.AddFlatRange("f/", {{.key = "w", .global_shape = {6}}}, 0,
                                 3, six);
            }),
            other_size("f/", 3, 6));
  float eight[8] = {};
  EXPECT_EQ(status_of([&](State& state) {
              state.AddReplicated("longer", {2, 3}, eight);
            }),
            absl::OkStatus());
  EXPECT_EQ(status_of([&](State& state) {
              state.AddReplicated("shorter", {9}, eight);
            }),
            other_size("shorter", 9, 8));
  const Layout halves =
      Layout::Create(Mesh::Create({{"x", 2}}).value(), {{"x"}}).value();
  EXPECT_EQ(status_of([&](State& state) {
              state.AddLaidOut("l", halves, {12}, 1, six);
            }),
            absl::OkStatus());
  EXPECT_EQ(status_of([&](State& state) {
              state.AddLaidOut("l", halves, {6}, 1, six);
            }),
            other_size("l", 3, 6));
}

TEST(StateTest, WhatIsConstIsListedAsSuch) {
  const double number = 1;
  const std::string text = "t";
  const std::vector<float> values(6);
  float writable[6] = {};
  State state;
  state.Add("number", number);
  state.Add("text", text);
  state.Add("values", values);
  state.AddReplicated("shaped", {2, 3}, values);
  state.AddPiece("piece", {6}, WholeBox({6}), AtAddress(values.data()));
  EXPECT_EQ(state.status(), absl::OkStatus());
  EXPECT_EQ(state.shards().size(), 5);
  for (const Shard& shard : state.shards()) EXPECT_TRUE(shard.is_const);
  State other;
  other.AddPiece("piece", {6}, WholeBox({6}), writable);
  EXPECT_FALSE(other.shards()[0].is_const);
}

TEST(StateTest, AFlatRangeIsListedInBoxes) {
  State state;
  std::vector<float> values(8);
  const std::vector<FlatPiece> pieces = {
      {.key = "w", .global_shape = {3, 4}},
      {.key = "b", .global_shape = {4}, .replica = 2}};
  state.AddFlatRange("adam/m/", pieces, 6, 14, AtAddress(values.data()));
  ASSERT_EQ(state.shards().size(), 3);
  const Shard& head = state.shards()[0];
  EXPECT_EQ(head.key, "adam/m/w");
  EXPECT_EQ(head.dtype, DType::kF32);
  EXPECT_EQ(head.global_shape, Shape({3, 4}));
  EXPECT_EQ(head.box, Box({{1, 2}, {1, 2}}));
  EXPECT_EQ(head.data, values.data());
  EXPECT_EQ(state.shards()[1].box, Box({{2, 0}, {1, 4}}));
  EXPECT_EQ(state.shards()[1].data, values.data() + 2);
  const Shard& bias = state.shards()[2];
  EXPECT_EQ(bias.key, "adam/m/b");
  EXPECT_EQ(bias.box, Box({{0}, {2}}));
  EXPECT_EQ(bias.replica, 2);
  EXPECT_EQ(bias.data, values.data() + 6);
  EXPECT_EQ(state.status(), absl::OkStatus());
  state.AddFlatRange("none/", pieces, 16, 20,
                     AtAddress(static_cast<float*>(nullptr)));  // padding
  EXPECT_EQ(state.status(), absl::OkStatus());
}

TEST(StateTest, AFlatRangeWithMistakesIsRemembered) {
  State null, range, text;
  const std::vector<FlatPiece> pieces = {{.key = "w", .global_shape = {3}}};
  null.AddFlatRange("m/", pieces, 0, 3,
                    AtAddress(static_cast<float*>(nullptr)));
  EXPECT_EQ(null.status(),
            absl::InvalidArgumentError("add \"m/w\": the pointer is null"));
  float value = 0;
  range.AddFlatRange("m/", pieces, 2, 1, AtAddress(&value));
  EXPECT_EQ(range.status(),
            absl::InvalidArgumentError(
                "add \"m/\": cut a flat buffer: not a range (need 0 <= begin "
                "<= end, found 2 and 1)"));
  text.AddFlatRange("m/", pieces, 0, 3, AtAddress(&value, DType::kString));
  EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace belay::state_test
