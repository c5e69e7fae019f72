// ValidateGroups against policies that break the rules, one by one, at random,
// and with very many pieces.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "belay/values/sharding_policy.h"
#include "policy_testing.h"

namespace belay::group_validation_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Validates; returns the message, "" if all is well.
std::string Problems(const Groups& groups, const Pieces& listed) {
  const Status status = ValidateGroups(groups, listed, "test policy");
  if (!status.ok()) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  }
  return std::string(status.message());
}

int64_t NumLines(const std::string& text) {
  return text.empty() ? 0 : 1 + std::count(text.begin(), text.end(), '\n');
}

ShardableTensor Matrix() { return WholeArray("m", DType::kF32, {2, 3}); }

ShardableTensor PartOfMatrix(Box box) {
  return PieceOfArray("m", DType::kF32, {2, 3}, std::move(box));
}

ShardableTensor Scalar(const std::string& key, int task = 0) {
  return OnTask(WholeArray(key, DType::kF32, {}), task);
}

// ---- TensorFlow's tests ----

TEST(ValidateShardsTest, Correct) {
  const Pieces listed = {Scalar("v0"), Scalar("v1"), Scalar("v2")};
  const StatusOr<Grouping> made = ShardByTask().group(listed);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(Problems(made->groups, listed), "");
  EXPECT_THAT(GroupTexts(made->groups), ::testing::ElementsAre("v0 + v1 + v2"));
}

TEST(ValidateShardsTest, DuplicateTensor) {
  const Pieces listed = {Scalar("v0"), Scalar("v1")};
  EXPECT_EQ(Problems({{Scalar("v0"), Scalar("v1")}, {Scalar("v0")}}, listed),
            "policy \"test policy\": group 1: key \"v0\" box \"\": doubled: "
            "group 0 has it too (need 1, found 2)");
}

TEST(ValidateShardsTest, AddedTensor) {
  EXPECT_EQ(Problems({{Scalar("v0"), Scalar("v1")}}, {Scalar("v0")}),
            "policy \"test policy\": group 0: key \"v1\" box \"\": added: no "
            "such key was listed");
}

TEST(ValidateShardsTest, ShapeChange) {
  const Pieces listed = {WholeArray("v", DType::kF32, {1, 2})};
  const std::string problems =
      Problems({{WholeArray("v", DType::kF32, {2, 1})}}, listed);
  EXPECT_THAT(problems,
              StartsWith("policy \"test policy\": group 0: key \"v\" box "
                         "\"0,2:0,1\": global shape altered (need [1, 2], "
                         "found [2, 1])\n"));
  EXPECT_THAT(problems, HasSubstr("box reaches past axis 0 of [1, 2]"));
}

TEST(ValidateShardsTest, DtypeChange) {
  ShardableTensor retyped = Scalar("v0");
  retyped.dtype = DType::kI32;
  EXPECT_EQ(Problems({{retyped}}, {Scalar("v0")}),
            "policy \"test policy\": group 0: key \"v0\" box \"\": dtype "
            "altered (need f32, found i32)");
}

TEST(ValidateShardsTest, TaskChange) {
  const Pieces listed = {Scalar("v0", 0), Scalar("v1", 1)};
  EXPECT_EQ(Problems({{Scalar("v0", 1), Scalar("v1", 1)}}, listed),
            "policy \"test policy\": group 0: key \"v0\" box \"\": task "
            "altered (need \"/job:job/replica:0/task:0\", found "
            "\"/job:job/replica:0/task:1\")");
}

TEST(ValidateShardsTest, DifferentTasks) {
  const Pieces listed = {Scalar("v0", 0), Scalar("v1", 1)};
  EXPECT_EQ(Problems({{Scalar("v0", 0), Scalar("v1", 1)}}, listed),
            "policy \"test policy\": group 0: key \"v1\" box \"\": different "
            "tasks in one group (need \"/job:job/replica:0/task:0\" as key "
            "\"v0\" box \"\", found \"/job:job/replica:0/task:1\")");
  EXPECT_EQ(Problems({{Scalar("v0", 0)}, {Scalar("v1", 1)}}, listed), "");
}

TEST(ValidateShardsTest, TensorRemoval) {
  EXPECT_EQ(Problems({}, {Scalar("v0"), Matrix()}),
            "policy \"test policy\": key \"v0\" box \"\": dropped: no group "
            "has elements of it (need 1, found 0)\n"
            "policy \"test policy\": key \"m\" box \"0,2:0,3\": dropped: no "
            "group has elements of it (need 6, found 0)");
}

// ---- What the source lacks ----

TEST(ValidateGroupsTest, PiecesMayBeCutAndReordered) {
  const Pieces listed = {Scalar("v0"), Matrix()};
  EXPECT_EQ(Problems({{PartOfMatrix({{1, 1}, {1, 2}}), Scalar("v0")},
                      {PartOfMatrix({{0, 0}, {2, 1}})},
                      {PartOfMatrix({{0, 1}, {1, 2}})}},
                     listed),
            "");
  EXPECT_EQ(Problems({}, {}), "");
}

TEST(ValidateGroupsTest, MendsA2UnknownBoxOfAKnownKey) {
  const std::string problems =
      Problems({{PartOfMatrix({{0, 0}, {2, 2}})}}, {Matrix()});
  EXPECT_EQ(problems,
            "policy \"test policy\": key \"m\" box \"0,2:0,3\": dropped in "
            "part: no group has box \"0,2:2,1\" (need 6, found 4)");
}

TEST(ValidateGroupsTest, MendsA3MoreBoxesThanAreNeeded) {
  EXPECT_EQ(
      Problems({{Matrix()}, {PartOfMatrix({{0, 0}, {1, 3}})}}, {Matrix()}),
      "policy \"test policy\": group 1: key \"m\" box \"0,1:0,3\": "
      "doubled: overlaps group 0: key \"m\" box \"0,2:0,3\"");
}

TEST(ValidateGroupsTest, OverlapAndGapInOneBox) {
  const std::string problems = Problems(
      {{PartOfMatrix({{0, 0}, {2, 2}}), PartOfMatrix({{0, 1}, {1, 2}})}},
      {Matrix()});
  EXPECT_EQ(NumLines(problems), 2) << problems;
  EXPECT_THAT(problems,
              AllOf(HasSubstr("\"0,1:1,2\": doubled: overlaps group 0: key "
                              "\"m\" box \"0,2:0,2\""),
                    HasSubstr("no group has box \"1,1:2,1\"")));
}

TEST(ValidateGroupsTest, MendsA6JobAndReplicaCount) {
  ShardableTensor job = Scalar("v0"), replica = Scalar("v0"), none = replica;
  job.device.job = "ps";
  replica.device.replica = 1;
  none.device.task.reset();
  for (const ShardableTensor& moved : {job, replica, none}) {
    const std::string problems = Problems({{moved}}, {Scalar("v0")});
    EXPECT_THAT(problems, HasSubstr("task altered (need "
                                    "\"/job:job/replica:0/task:0\""));
    EXPECT_EQ(NumLines(problems), 1);
  }
}

TEST(ValidateGroupsTest, DeviceTypeIsNoTask) {
  ShardableTensor other = Scalar("v0");
  other.device.device_type = "GPU";
  EXPECT_EQ(Problems({{other}}, {Scalar("v0")}), "");
}

TEST(ValidateGroupsTest, MendsA7FirstPieceWithoutTask) {
  ShardableTensor none = Scalar("v0");
  none.device = {};
  const Pieces listed = {none, Scalar("v1")};
  EXPECT_THAT(Problems({{none, Scalar("v1")}}, listed),
              HasSubstr("different tasks in one group (need \"\" as key \"v0\" "
                        "box \"\", found \"/job:job/replica:0/task:0\")"));
}

TEST(ValidateGroupsTest, MendsA9AllProblemsAtOnce) {
  ShardableTensor retyped = Scalar("a");
  retyped.dtype = DType::kI32;
  const std::string problems =
      Problems({{retyped, Scalar("c"), Scalar("x")}, {}},
               {Scalar("a"), Scalar("b"), Scalar("c", 1)});
  EXPECT_EQ(NumLines(problems), 5) << problems;
  EXPECT_THAT(problems,
              AllOf(HasSubstr("\"a\" box \"\": dtype"),
                    HasSubstr("\"b\" box \"\": dropped"),
                    HasSubstr("\"c\" box \"\": task altered"),
                    HasSubstr("\"x\" box \"\": added"),
                    HasSubstr("group 1: empty (need 1 piece or more")));
}

TEST(ValidateGroupsTest, MendsB4EmptyGroup) {
  EXPECT_EQ(Problems({{}}, {}),
            "policy \"test policy\": group 0: empty (need 1 piece or more, "
            "found 0)");
}

TEST(ValidateGroupsTest, BytesAreThoseOfTheBox) {
  ShardableTensor wrong = PartOfMatrix({{0, 0}, {1, 3}});
  wrong.bytes = 24;
  EXPECT_THAT(Problems({{wrong, PartOfMatrix({{1, 0}, {1, 3}})}}, {Matrix()}),
              HasSubstr("\"0,1:0,3\": bytes altered (need 12, found 24)"));
  EXPECT_THAT(Problems({{TextPiece("s", 3)}}, {TextPiece("s", 4)}),
              HasSubstr("bytes altered (need 4, found 3)"));
}

TEST(ValidateGroupsTest, SlicesOfAnArrayMayNotBeJoined) {
  const Pieces rows = {PartOfMatrix({{0, 0}, {1, 3}}),
                       PartOfMatrix({{1, 0}, {1, 3}})};
  EXPECT_EQ(Problems({rows}, rows), "");
  EXPECT_THAT(Problems({{Matrix()}}, rows),
              HasSubstr("\"0,2:0,3\": added: not part of one listed box"));
  // Elements of the array that another task writes.
  EXPECT_THAT(Problems({rows}, {rows[0]}),
              HasSubstr("\"1,1:0,3\": added: not part of one listed box"));
}

TEST(ValidateGroupsTest, BoxesThatAreNone) {
  for (const Box& box : {Box{{0}, {2}}, Box{{0, 0}, {2}}, Box{{0, -1}, {2, 3}},
                         Box{{0, 0}, {2, INT64_MAX}}, Box{}}) {
    ShardableTensor piece = Matrix();
    piece.box = box;
    const std::string problems = Problems({{piece}}, {Matrix()});
    EXPECT_THAT(problems, HasSubstr("check box"));
    EXPECT_EQ(NumLines(problems), 2) << problems;
  }
}

TEST(ValidateGroupsTest, BoxesWithoutElements) {
  const ShardableTensor none = PartOfMatrix({{2, 0}, {0, 3}});
  const ShardableTensor other = PartOfMatrix({{1, 0}, {0, 3}});
  const Pieces listed = {none, Matrix(), none};
  EXPECT_EQ(Problems({{none, Matrix(), none}}, listed), "");
  EXPECT_THAT(Problems({{none, Matrix()}}, listed),
              HasSubstr("\"2,0:0,3\": dropped (need 1, found 0)"));
  EXPECT_THAT(Problems({{none, none, none, Matrix()}}, listed),
              HasSubstr("\"2,0:0,3\": doubled"));
  const std::string problems = Problems({{none, Matrix(), other}}, listed);
  EXPECT_THAT(problems, HasSubstr("\"1,0:0,3\": added: no such box"));
  EXPECT_EQ(NumLines(problems), 2) << problems;
  EXPECT_THAT(Problems({{OnTask(none, 1)}}, {none}),
              HasSubstr("\"2,0:0,3\": task altered"));
}

TEST(ValidateGroupsTest, TwentyLinesAndACount) {
  Pieces listed;
  for (int i = 0; i < 35; ++i) listed.push_back(Scalar(std::to_string(i)));
  const std::string problems = Problems({}, listed);
  EXPECT_EQ(NumLines(problems), 21);
  EXPECT_THAT(problems, HasSubstr("key \"19\""));
  EXPECT_THAT(problems, Not(HasSubstr("key \"20\"")));
  EXPECT_TRUE(problems.ends_with("\nand 15 more")) << problems;
}

TEST(ValidateGroupsTest, WhatIsListedMustBeSound) {
  ShardableTensor unknown = Matrix(), outside = Matrix(), bytes = Matrix();
  unknown.dtype = static_cast<DType>(99);
  outside.box.offset[0] = 1;
  bytes.bytes = 23;
  ShardableTensor text = TextPiece("m", -1), vector = text, huge = Matrix();
  vector.global_shape = {1};
  vector.box = WholeBox({1});
  huge.global_shape = {INT64_MAX / 3, 3};
  EXPECT_THAT(Problems({}, {unknown}), HasSubstr("unknown dtype"));
  EXPECT_THAT(Problems({}, {outside}), HasSubstr("reaches past axis 0"));
  EXPECT_THAT(Problems({}, {bytes}), HasSubstr("need 24, found 23"));
  EXPECT_THAT(Problems({}, {text}), HasSubstr("negative length"));
  EXPECT_THAT(Problems({}, {vector}), HasSubstr("always a scalar"));
  EXPECT_THAT(Problems({}, {huge}), HasSubstr("more than 2^63 - 1 bytes"));
  EXPECT_EQ(Problems({}, {Matrix(), PartOfMatrix({{1, 0}, {1, 1}})}),
            "list \"m\": pieces overlap (box \"0,2:0,3\" and box "
            "\"1,1:0,1\")");
  EXPECT_EQ(Problems({}, {Matrix(), Scalar("m")}),
            "list \"m\": pieces of different arrays (f32 [2, 3] and f32 [])");
}

// ---- Very many ----

// A grid of 300 x 300 boxes of one array, in random order. Looking at all pairs
// of them would take longer than the test may.
Pieces ManyBoxes() {
  const int64_t kCells = 300;
  Pieces pieces;
  for (int64_t i = 0; i < kCells; ++i) {
    for (int64_t j = 0; j < kCells; ++j) {
      pieces.push_back(PieceOfArray("grid", DType::kU8,
                                    {2 * kCells, 2 * kCells},
                                    {{2 * i, 2 * j}, {2, 2}}));
    }
  }
  Random random(3);
  std::shuffle(pieces.begin(), pieces.end(), random);
  return pieces;
}

TEST(ValidateGroupsTest, ManyListedBoxes) {
  const Pieces listed = ManyBoxes();
  EXPECT_EQ(Problems({listed}, listed), "");
  EXPECT_EQ(Problems(MaxShardSize(3).group(listed)->groups, listed), "");
  const std::string doubled = Problems({listed, listed}, listed);
  EXPECT_TRUE(doubled.ends_with("\nand 89980 more")) << doubled;
}

TEST(ValidateGroupsTest, ManyPartsOfOneBox) {
  Pieces parts = ManyBoxes();
  const Pieces listed = {WholeArray("grid", DType::kU8, {600, 600})};
  EXPECT_EQ(Problems({parts}, listed), "");
  const std::string lost = BoxText(parts.back().box);
  parts.pop_back();
  EXPECT_EQ(Problems({parts}, listed),
            "policy \"test policy\": key \"grid\" box \"0,600:0,600\": dropped "
            "in part: no group has box \"" +
                lost + "\" (need 360000, found 359996)");
}

TEST(ValidateGroupsTest, ManyPartsThatOverlap) {
  // Each row meets each column.
  Pieces parts;
  for (int64_t i = 0; i < 40000; ++i) {
    parts.push_back(
        PieceOfArray("v", DType::kU8, {40000, 40000}, {{i, 0}, {1, 40000}}));
    parts.push_back(
        PieceOfArray("v", DType::kU8, {40000, 40000}, {{0, i}, {40000, 1}}));
  }
  const std::string problems =
      Problems({parts}, {WholeArray("v", DType::kU8, {40000, 40000})});
  EXPECT_EQ(NumLines(problems), 20) << problems;
}

TEST(ValidateGroupsTest, ManyKeys) {
  Pieces listed;
  for (int i = 0; i < 100000; ++i) {
    listed.push_back(Scalar("key " + std::to_string(i)));
  }
  EXPECT_EQ(Problems({listed}, listed), "");
  EXPECT_TRUE(Problems({}, listed).ends_with("\nand 99980 more"));
}

// ---- At random ----

// Breaks a grouping, or not: some changes do no harm.
void Spoil(Groups& groups, Random& random) {
  const auto any = [&](int64_t size) { return Uniform(0, size - 1, random); };
  ShardGroup& group = groups[any(static_cast<int64_t>(groups.size()))];
  const int64_t at = group.empty() ? 0 : any(std::ssize(group));
  const int64_t kind = group.empty() ? 9 : any(11);
  if (kind == 9) return groups.push_back({});
  ShardableTensor& piece = group[at];
  const auto ndim = static_cast<int64_t>(piece.box.shape.size());
  const int64_t axis = ndim == 0 ? 0 : any(ndim);
  if (kind == 0) group.erase(group.begin() + at);
  if (kind == 1) group.push_back(ShardableTensor(piece));
  if (kind == 2 && ndim > 0) piece.box.offset[axis] += Uniform(-1, 1, random);
  if (kind == 3 && ndim > 0) piece.box.shape[axis] += Uniform(-1, 1, random);
  if (kind == 4) piece.dtype = DType::kBF16;
  if (kind == 5) piece.device.task = 1;
  if (kind == 6) piece.global_shape.push_back(1);
  if (kind == 7) piece.key = "k" + std::to_string(any(5));
  if (kind == 8) ++piece.bytes;
  if (kind == 10) groups.push_back({group[any(std::ssize(group))]});
  if ((kind == 2 || kind == 3) && piece.dtype != DType::kString) {
    piece.bytes = NumElements(piece.box.shape) * DTypeSize(piece.dtype);
  }
}

TEST(ValidateGroupsTest, AgreesWithTheOracle) {
  Random random(2);
  const int kCases = 30000;
  int sound = 0;
  for (int i = 0; i < kCases; ++i) {
    const Pieces listed = RandomPieces(random);
    Groups groups = MaxShardSize(Uniform(8, 200, random)).group(listed)->groups;
    for (int64_t n = Uniform(0, 2, random); n > 0 && !groups.empty(); --n) {
      Spoil(groups, random);
    }
    const std::string problems = Problems(groups, listed);
    const std::string oracle = OracleSays(listed, groups);
    ASSERT_EQ(problems.empty(), oracle.empty())
        << ::testing::PrintToString(GroupTexts({listed})) << " to "
        << ::testing::PrintToString(GroupTexts(groups))
        << "\nfound: " << problems << "\noracle: " << oracle;
    sound += oracle.empty();
  }
  EXPECT_GT(sound, kCases / 4);
  EXPECT_LT(sound, kCases - kCases / 4);
}

}  // namespace
}  // namespace belay::group_validation_test
