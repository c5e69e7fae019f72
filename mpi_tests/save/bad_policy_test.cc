// Sharding policies that are wrong: the same error on all ranks, nothing is
// left behind, and the step before is untouched.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "absl/strings/str_format.h"
#include "policy_fixture.h"

namespace belay::bad_policy_test {
namespace {

using ::testing::HasSubstr;
using testing::Made;
using testing::Names;
using testing::Pieces;
using testing::Values;

class BadPolicyTest : public testing::PolicyTest {
 protected:
  void SetUp() override {
    Values values = SomeValues();
    MustSave(values, 1);
  }

  // Expects an error that is the same everywhere and has that text; the step
  // before is untouched and there is no other.
  void ExpectRefused(const ShardingPolicy& policy, absl::StatusCode code,
                     const std::string& text) {
    Values values = SomeValues();
    options_.sharding_policy = policy;
    const Status status = SaveStep(values, 2).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    if (rank_ == 0) {
      EXPECT_EQ(Names(run()), "step_00000001");
    }
    ExpectRestores(values, 1, 1);
  }

  // Expects that groups with this change are refused.
  void ExpectInvalid(const std::function<void(std::vector<ShardGroup>&)>& spoil,
                     const std::string& text) {
    ExpectRefused(Made([&](const Pieces& pieces) {
                    std::vector<ShardGroup> groups = {pieces};
                    spoil(groups);
                    return groups;
                  }),
                  absl::StatusCode::kInvalidArgument, text);
  }
};

TEST_F(BadPolicyTest, OneThatThrows) {
  ExpectRefused(Made([](const Pieces&) -> StatusOr<Grouping> {
                  throw std::runtime_error("out of ideas");
                }),
                absl::StatusCode::kInternal, "out of ideas");
}

TEST_F(BadPolicyTest, OneThatFails) {
  ExpectRefused(Made([](const Pieces&) -> StatusOr<Grouping> {
                  return absl::OutOfRangeError("not today");
                }),
                absl::StatusCode::kOutOfRange, "not today");
  ExpectRefused(MaxShardSize(0), absl::StatusCode::kInvalidArgument, "found 0");
}

TEST_F(BadPolicyTest, OneWithoutDescription) {
  ShardingPolicy policy = ShardByTask();
  policy.description = "";
  ExpectRefused(policy, absl::StatusCode::kInvalidArgument,
                absl::StrFormat("save \"%s\": the sharding policy has no "
                                "description, which names it in errors (need a "
                                "text, found \"\"); set `description`",
                                run()));
  // Also where the plan of a sound policy is there.
  PlanCache cache;
  options_ = {.durable = false, .cache = &cache};
  Values values = SomeValues();
  MustSave(values, 2);
  options_.sharding_policy.description = "";
  EXPECT_TRUE(absl::IsInvalidArgument(SaveStep(values, 3).status()));
}

TEST_F(BadPolicyTest, OneWithoutFunction) {
  ExpectRefused({.description = "empty"}, absl::StatusCode::kInvalidArgument,
                "empty");
}

TEST_F(BadPolicyTest, OneThatDropsOrDoublesOrAdds) {
  ExpectInvalid([](auto& groups) { groups[0].erase(groups[0].begin()); },
                "rows");
  ExpectInvalid([](auto& groups) { groups.push_back({groups[0][0]}); }, "rows");
  ExpectInvalid(
      [](auto& groups) {
        groups[0].push_back(groups[0][0]);
        groups[0].back().key = "another";
      },
      "another");
  ExpectInvalid([](auto& groups) { groups.emplace_back(); }, "made here");
}

TEST_F(BadPolicyTest, OneThatRetypesOrMovesOrReshapes) {
  ExpectInvalid([](auto& groups) { groups[0][0].dtype = DType::kI32; }, "rows");
  ExpectInvalid([](auto& groups) { groups[0][0].device.task = 77; }, "rows");
  ExpectInvalid([](auto& groups) { groups[0][0].device.job = "other"; },
                "rows");
  ExpectInvalid([](auto& groups) { groups[0][0].global_shape[0] += 1; },
                "rows");
  ExpectInvalid([](auto& groups) { groups[0][0].box.shape[0] -= 1; }, "rows");
}

TEST_F(BadPolicyTest, OneThatDiffersBetweenRanks) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  const std::string text = absl::StrFormat(
      "save: the option sharding_policy differs between ranks: rank %d of %d "
      "has "
      "another value than rank 0",
      size_ - 1, size_);
  const bool last = rank_ == size_ - 1;
  ExpectRefused(MaxShardSize(last ? 100 : 101),
                absl::StatusCode::kInvalidArgument, text);
  ExpectRefused(last ? MaxShardSize(100) : ShardByTask(),
                absl::StatusCode::kInvalidArgument, text);
}

}  // namespace
}  // namespace belay::bad_policy_test
