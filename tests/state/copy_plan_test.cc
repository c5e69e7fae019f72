// How much the rules of a copy may make of what is stored.
#include "state/copy_plan.h"

#include <gtest/gtest.h>

#include <vector>

#include "belay/values/transform.h"

namespace belay::copy_plan_test {
namespace {

// A rule that puts an array behind itself so many times.
Status PlanRepeated(int64_t times) {
  const SavedCheckpoint saved{
      .arrays = {{.key = "w", .dtype = DType::kF32, .shape = {1 << 20}}}};
  CopyOptions options;
  options.rules = {{.key = "long",
                    .value = Transform::Concat(std::vector<Transform>(
                        static_cast<size_t>(times), Transform("w")))}};
  return PlanCopy(saved, options, "").status();
}

// One layer may become many.
TEST(CopyPlanTest, RulesMayRepeatWhatIsStored) {
  EXPECT_EQ(PlanRepeated(1), absl::OkStatus());
  EXPECT_EQ(PlanRepeated(512), absl::OkStatus());
}

TEST(CopyPlanTest, RulesDoNotRepeatItWithoutEnd) {
  EXPECT_EQ(PlanRepeated(2000),
            absl::InvalidArgumentError(
                "the rules make too many bytes of those that are stored (need "
                "at most 4362076160 of 4194304, found 8388608000)"));
}

}  // namespace
}  // namespace belay::copy_plan_test
