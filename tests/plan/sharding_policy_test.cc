#include "belay/values/sharding_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "policy_testing.h"

namespace belay::sharding_policy_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ---- The policies of docs/sharding.md, word for word ----

const belay::ShardingPolicy all_in_one = {
    .description = "all in one group",
    .parameters = {{"version", "1"}},
    .group = [](const std::vector<belay::ShardableTensor>& pieces) {
      return std::vector<belay::ShardGroup>{pieces};
    }};

// Puts at most `pieces_per_group` pieces into a group.
class ParameterPolicy {
 public:
  explicit ParameterPolicy(size_t pieces_per_group)
      : pieces_per_group_(pieces_per_group) {}

  std::vector<belay::ShardGroup> operator()(
      const std::vector<belay::ShardableTensor>& pieces) const {
    std::vector<belay::ShardGroup> groups;
    for (const belay::ShardableTensor& piece : pieces) {
      if (groups.empty() || groups.back().size() == pieces_per_group_) {
        groups.emplace_back();
      }
      groups.back().push_back(piece);
    }
    return groups;
  }

  belay::ShardingPolicy Policy() const {
    return {
        .description = "so many pieces per group",
        .parameters = {{"pieces_per_group", std::to_string(pieces_per_group_)}},
        .group = *this};
  }

 private:
  size_t pieces_per_group_;
};

// ---- End of docs/sharding.md ----

ShardableTensor Scalar(const std::string& key, int task = 0) {
  return OnTask(WholeArray(key, DType::kF32, {}), task);
}

Pieces ThreeScalars() { return {Scalar("v0"), Scalar("v1"), Scalar("v2")}; }

// The groups of each task as text.
std::vector<std::vector<std::string>> Texts(
    const StatusOr<std::vector<Grouping>>& made) {
  std::vector<std::vector<std::string>> texts;
  EXPECT_TRUE(made.ok()) << made.status();
  if (!made.ok()) return texts;
  for (const Grouping& grouping : *made) {
    texts.push_back(GroupTexts(grouping.groups));
  }
  return texts;
}

ShardingPolicy PolicyOf(
    std::function<StatusOr<Grouping>(const Pieces&)> group) {
  return {.description = "mine", .parameters = {}, .group = std::move(group)};
}

void ExpectError(const ShardingPolicy& policy, absl::StatusCode code,
                 const std::string& text) {
  const Status status = ApplyPolicy(policy, ThreeScalars()).status();
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(text));
}

// ---- Built in ----

TEST(ShardingPoliciesTest, ShardByTaskPolicy) {
  const Pieces pieces = {Scalar("v0", 0), Scalar("v1", 1), Scalar("v2", 2),
                         Scalar("graph", 0)};
  EXPECT_THAT(Texts(ApplyPolicy(ShardByTask(), pieces)),
              ElementsAre(ElementsAre("v0 + graph"), ElementsAre("v1"),
                          ElementsAre("v2")));
}

TEST(ShardByTaskTest, MendsB3NoGroupForNoPieces) {
  const StatusOr<Grouping> made = ShardByTask().group({});
  ASSERT_TRUE(made.ok());
  EXPECT_THAT(made->groups, IsEmpty());
}

TEST(ShardByTaskTest, PiecesStayAsTheyAre) {
  ShardableTensor piece =
      PieceOfArray("v", DType::kF32, {4, 3}, {{1, 0}, {2, 3}});
  piece.device = {.job = "ps",
                  .replica = 2,
                  .task = 5,
                  .device_type = "GPU",
                  .device_index = 1};
  const StatusOr<Grouping> made = ShardByTask().group({piece});
  ASSERT_TRUE(made.ok());
  const ShardableTensor& same = made->groups.at(0).at(0);
  EXPECT_EQ(same.dtype, piece.dtype);
  EXPECT_EQ(same.global_shape, piece.global_shape);
  EXPECT_EQ(same.box, piece.box);
  EXPECT_EQ(same.device, piece.device);
  EXPECT_EQ(same.bytes, 24);
}

// ---- Policies of users ----

TEST(ShardingCallbackTest, AllInOnePolicy) {
  EXPECT_THAT(Texts(ApplyPolicy(all_in_one, ThreeScalars())),
              ElementsAre(ElementsAre("v0 + v1 + v2")));
}

TEST(ShardingCallbackTest, ParameterPolicy) {
  EXPECT_THAT(Texts(ApplyPolicy(ParameterPolicy(2).Policy(), ThreeScalars())),
              ElementsAre(ElementsAre("v0 + v1", "v2")));
  EXPECT_THAT(Texts(ApplyPolicy(ParameterPolicy(1).Policy(), ThreeScalars())),
              ElementsAre(ElementsAre("v0", "v1", "v2")));
}

// ---- PolicyHash ----

TEST(ShardingCallbackTest, Hash) {
  EXPECT_EQ(PolicyHash(all_in_one), PolicyHash(all_in_one));
  const uint64_t one = PolicyHash(ParameterPolicy(1).Policy());
  EXPECT_EQ(one, PolicyHash(ParameterPolicy(1).Policy()));
  EXPECT_NE(one, PolicyHash(ParameterPolicy(2).Policy()));
  EXPECT_NE(PolicyHash(ShardByTask()), PolicyHash(MaxShardSize(8)));
  EXPECT_NE(PolicyHash(MaxShardSize(8)), PolicyHash(MaxShardSize(9)));
}

TEST(PolicyHashTest, MendsA11NothingCancels) {
  using Parameters = std::vector<std::pair<std::string, std::string>>;
  const auto hash = [](const std::string& description, Parameters parameters) {
    return PolicyHash({.description = description,
                       .parameters = std::move(parameters),
                       .group = nullptr});
  };
  const std::vector<uint64_t> hashes = {
      hash("p", {}),
      hash("p", {{"a", "1"}, {"b", "2"}}),
      hash("p", {{"a", "2"}, {"b", "1"}}),  // values swapped
      hash("p", {{"b", "2"}, {"a", "1"}}),  // another order
      hash("p", {{"a", "a"}, {"b", "b"}}),  // equal hashes
      hash("p", {{"a", "1b"}, {"", "2"}}),  // other borders
      hash("p", {{"a1", ""}, {"b", "2"}}),
      hash("pa", {{"1", "b2"}}),
      hash("p", {{"a", "1"}}),
      hash("", {{"p", ""}}),
  };
  for (size_t i = 0; i < hashes.size(); ++i) {
    EXPECT_EQ(std::count(hashes.begin(), hashes.end(), hashes[i]), 1) << i;
  }
}

// A rank holds copies of several replicas where layouts differ.
TEST(ApplyPolicyTest, ReplicasOfATaskMayShareAGroup) {
  const ShardableTensor one = Scalar("v0");
  ShardableTensor other = Scalar("v1");
  other.device.replica = 3;
  EXPECT_EQ(ValidateGroups({{one, other}}, {one, other}, "x"),
            absl::OkStatus());
  EXPECT_THAT(
      ValidateGroups({{one, Scalar("v1")}}, {one, other}, "x").message(),
      HasSubstr("task altered (need \"/job:job/replica:3/task:0\", "
                "found \"/job:job/replica:0/task:0\")"));
}

// ---- ApplyPolicy ----

TEST(ApplyPolicyTest, OncePerTaskInOrderOfFirstAppearance) {
  Pieces pieces = {Scalar("a", 3), Scalar("b", 1), Scalar("c", 3),
                   Scalar("d", 1), Scalar("e", 1)};
  pieces[3].device.job = "ps";
  pieces[4].device.replica = 7;
  pieces[2].device.device_type = "GPU";  // the same task
  EXPECT_THAT(Texts(ApplyPolicy(ShardByTask(), pieces)),
              ElementsAre(ElementsAre("a + c"), ElementsAre("b"),
                          ElementsAre("d"), ElementsAre("e")));
}

TEST(ApplyPolicyTest, TasksWithTheSameText) {
  Pieces pieces = {Scalar("a"), Scalar("b")};
  pieces[0].device = {.job = "x/task:1"};
  pieces[1].device = {.job = "x", .task = 1};
  EXPECT_EQ(Texts(ApplyPolicy(ShardByTask(), pieces)).size(), 2u);
}

TEST(ApplyPolicyTest, NoPiecesNoCall) {
  const ShardingPolicy never =
      PolicyOf([](const Pieces&) -> StatusOr<Grouping> {
        return absl::UnknownError("called");
      });
  EXPECT_THAT(Texts(ApplyPolicy(never, {})), IsEmpty());
}

TEST(ApplyPolicyTest, WarningsArePassedOn) {
  const auto made = ApplyPolicy(PolicyOf([](const Pieces& pieces) {
                                  Grouping grouping =
                                      std::vector<ShardGroup>{pieces};
                                  grouping.warnings = {"careful"};
                                  return grouping;
                                }),
                                ThreeScalars());
  ASSERT_TRUE(made.ok());
  EXPECT_THAT(made->at(0).warnings, ElementsAre("careful"));
}

TEST(ApplyPolicyTest, NoFunction) {
  const ShardingPolicy none = PolicyOf(nullptr);
  EXPECT_EQ(ApplyPolicy(none, {}).status().code(),
            absl::StatusCode::kInvalidArgument);
  ExpectError(none, absl::StatusCode::kInvalidArgument,
              "policy \"mine\": no function");
}

TEST(ApplyPolicyTest, NoDescription) {
  ShardingPolicy none = ShardByTask();
  none.description = "";
  EXPECT_EQ(ApplyPolicy(none, {}).status(),
            absl::InvalidArgumentError(
                "the sharding policy has no description, which names it in "
                "errors (need a text, found \"\"); set `description`"));
}

TEST(ApplyPolicyTest, ErrorsOfThePolicy) {
  ExpectError(PolicyOf([](const Pieces&) -> StatusOr<Grouping> {
                return absl::ResourceExhaustedError("too much");
              }),
              absl::StatusCode::kResourceExhausted,
              "policy \"mine\": task \"/job:job/replica:0/task:0\": too much");
  ExpectError(MaxShardSize(0), absl::StatusCode::kInvalidArgument,
              "need 1 byte or more, found 0");
}

TEST(ApplyPolicyTest, ExceptionsBecomeInternal) {
  const auto throws = [](auto thrown) {
    return PolicyOf(
        [thrown](const Pieces&) -> StatusOr<Grouping> { throw thrown; });
  };
  constexpr auto kInternal = absl::StatusCode::kInternal;
  ExpectError(throws(std::runtime_error("boom")), kInternal,
              "task \"/job:job/replica:0/task:0\": exception: boom");
  ExpectError(throws(std::bad_alloc()), kInternal, "exception: std::bad_alloc");
  ExpectError(throws(std::string("text")), kInternal, "exception: text");
  ExpectError(throws("literal"), kInternal, "exception: literal");
  ExpectError(throws(7), kInternal, "exception: int 7");
  ExpectError(throws(2.5), kInternal, "exception of a type without text");
}

TEST(ApplyPolicyTest, BadPoliciesAreRefused) {
  // Applies a change to a grouping that would be right.
  const auto refused = [](const std::string& text, auto spoil) {
    ExpectError(PolicyOf([spoil](const Pieces& pieces) {
                  std::vector<ShardGroup> groups = {pieces};
                  spoil(groups);
                  return groups;
                }),
                absl::StatusCode::kInvalidArgument, text);
  };
  using Made = std::vector<ShardGroup>;
  refused("\"v2\" box \"\": dropped", [](Made& m) { m[0].pop_back(); });
  refused("doubled", [](Made& m) { m.push_back({m[0][1]}); });
  refused("\"x\" box \"\": added", [](Made& m) { m[0][0].key = "x"; });
  refused("global shape altered (need [], found [1])",
          [](Made& m) { m[0][0].global_shape = {1}; });
  refused("wrong number of axes", [](Made& m) { m[0][0].box = {{0}, {1}}; });
  refused("dtype altered (need f32, found i32)",
          [](Made& m) { m[0][0].dtype = DType::kI32; });
  refused("dtype altered (need f32, found unknown)",
          [](Made& m) { m[0][0].dtype = static_cast<DType>(0); });
  refused("task altered", [](Made& m) { m[0][0].device.task = 1; });
  refused("task altered", [](Made& m) { m[0][0].device.job = "ps"; });
  refused("task altered", [](Made& m) { m[0][0].device.replica = 1; });
  refused("different tasks in one group",
          [](Made& m) { m[0][1].device.task = 1; });
  refused("group 1: empty", [](Made& m) { m.emplace_back(); });
  refused("dropped", [](Made& m) { m.clear(); });
}

TEST(ApplyPolicyTest, ViolationsOfAllTasksAreReported) {
  const ShardingPolicy dropper = {
      .description = "dropper", .parameters = {}, .group = [](const Pieces&) {
        return Groups{};
      }};
  const Status status =
      ApplyPolicy(dropper, {Scalar("a", 0), Scalar("b", 1)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("key \"a\""));
  EXPECT_THAT(std::string(status.message()), HasSubstr("key \"b\""));
}

TEST(ApplyPolicyTest, UnsoundPiecesReachNoPolicy) {
  Pieces pieces = ThreeScalars();
  pieces[1].bytes = 5;
  const Status status = ApplyPolicy(MaxShardSize(8), pieces).status();
  EXPECT_EQ(status.message(),
            "list \"v1\": piece with box \"\": bytes are not those of the box "
            "(need 4, found 5)");
}

}  // namespace
}  // namespace belay::sharding_policy_test
