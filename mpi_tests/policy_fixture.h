// What the tests of sharding policies share: values of every kind, and saves of
// which every rank expects the same outcome.

#ifndef BELAY_MPI_TESTS_POLICY_FIXTURE_H_
#define BELAY_MPI_TESTS_POLICY_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include "values.h"

namespace belay::testing {

using Pieces = std::vector<ShardableTensor>;

// A policy of one's own.
inline ShardingPolicy Made(
    std::function<StatusOr<Grouping>(const Pieces&)> group) {
  return {
      .description = "made here", .parameters = {}, .group = std::move(group)};
}

class PolicyTest : public CheckpointTest {
 protected:
  // Devices are of the job "belay", whatever the tests run in.
  PolicyTest() {
    unsetenv("BELAY_JOB_NAME");
    unsetenv("SLURM_JOB_NAME");
  }

  // An array along each axis, copies, a scalar, texts and nothing at all.
  Values SomeValues(int axis = 0) {
    Values values;
    values.AddCut("rows", DType::kF32, {64, 70}, axis, rank_, size_);
    values.AddCut("columns", DType::kU8, {40, 28}, 1 - axis, rank_, size_);
    values.AddWhole("copies", DType::kF64, {90});
    values.AddWhole("scalar", DType::kI64, {});
    values.AddWhole("empty", DType::kI64, {0, 3});
    values.AddText("text", 30);
    return values;
  }

  // Saves the values of `step` as that step; the same outcome on all ranks.
  StatusOr<SaveResult> SaveStep(Values& values, int64_t step) {
    values.Fill(step);
    auto saved = Save(comm_, run(), step, values.MakeState(), options_);
    EXPECT_TRUE(IsSameEverywhere(saved.status().ToString()));
    return saved;
  }

  SaveResult MustSave(Values& values, int64_t step) {
    StatusOr<SaveResult> saved = SaveStep(values, step);
    EXPECT_TRUE(saved.ok()) << saved.status();
    return saved.ok() ? *std::move(saved) : SaveResult{};
  }

  SaveOptions options_{.durable = false};
};

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_POLICY_FIXTURE_H_
