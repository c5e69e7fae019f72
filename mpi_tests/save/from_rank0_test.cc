// Values that every rank holds and that may differ: the one of rank 0 is saved.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/arrays/tensor.h"
#include "belay/async_saver.h"
#include "belay/checkpoint.h"
#include "values.h"

namespace belay::from_rank0_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Ok;

class FromRank0Test : public testing::CheckpointTest {};

TEST_F(FromRank0Test, TheValueOfRank0) {
  double dt = 0;
  int32_t steps = 0;
  std::string host;
  std::vector<double> norms;
  std::vector<float> matrix(12);
  Tensor tensor(DType::kF64, {2, 2});
  State state;
  state.AddFromRank0("dt", dt);
  state.AddFromRank0("steps", steps);
  state.AddFromRank0("host", host);
  state.AddFromRank0("norms", norms);
  state.AddFromRank0("matrix", {3, 4}, matrix);
  state.AddFromRank0("tensor", tensor);
  // As of that rank; the time step differs in its last bits.
  const auto set = [&](int rank) {
    dt = 0.5 * (1 + rank * 0x1p-52);
    steps = rank + 3;
    host = std::string(static_cast<size_t>(rank + 1), 'x');
    norms.assign(static_cast<size_t>(2 + rank), rank + 0.5);
    matrix.assign(12, static_cast<float>(rank));
    tensor.values<double>()[3] = rank;
  };
  PlanCache cache;
  AsyncSaver saver(comm_);
  int64_t step = 0;
  for (const std::optional<bool> check :
       {std::optional<bool>(), std::optional(true), std::optional(false)}) {
    for (const bool in_background : {false, true}) {
      for (int i = 0; i < 3; ++i) {
        set(rank_);
        const SaveOptions options{.check_replicas = check, .cache = &cache};
        if (in_background) {
          Ok(saver.Save(run(), ++step, state, options));
          Ok(saver.Wait());
        } else {
          Ok(Save(comm_, run(), ++step, state, options));
        }
        set(100);
        norms.clear();
        Ok(Restore(comm_, run(), step, state));
        EXPECT_EQ(dt, 0.5);
        EXPECT_EQ(steps, 3);
        EXPECT_EQ(host, "x");
        EXPECT_THAT(norms, ElementsAre(0.5, 0.5));
        EXPECT_THAT(matrix, ::testing::Each(0));
        EXPECT_EQ(tensor.values<double>()[3], 0);
      }
    }
  }
  EXPECT_EQ(saver.Close(), absl::OkStatus());
}

TEST_F(FromRank0Test, TheValueOfRank0InObjects) {
  struct Solver {
    double dt = 0;
    std::vector<double> history;
    void Track(Tracker& tracker) {
      tracker.Value("dt", FromRank0(dt));
      tracker.Value("history", FromRank0(history));
    }
  };
  Solver solver{.dt = 1.0 + rank_, .history = {1.0 * rank_, 2}};
  double total = rank_;
  Checkpoint checkpoint(comm_,
                        {{"solver", solver}, {"total", FromRank0(total)}});
  for (int i = 0; i < 3; ++i) {
    Ok(checkpoint.Save(run()));
    solver = {.dt = -1, .history = {-1, -1}};
    total = -1;
    Ok(checkpoint.Restore(run()));
    EXPECT_EQ(solver.dt, 1.0);
    EXPECT_THAT(solver.history, ElementsAre(0, 2));
    EXPECT_EQ(total, 0);
    solver = {.dt = 1.0 + rank_, .history = {1.0 * rank_, 2}};
    total = rank_;
  }
  // Pieces have no value of rank 0.
  std::vector<double> piece(4);
  Checkpoint pieces(
      comm_, {{"w", FromRank0(TrackedValue(Shape{4 * size_},
                                           Box{{4 * rank_}, {4}}, piece))}});
  EXPECT_THAT(std::string(pieces.Save(run()).status().message()),
              HasSubstr("FromRank0 is for values that every rank holds whole"));
}

TEST_F(FromRank0Test, Rank0HasToHoldItsValue) {
  if (size_ == 1) return;
  double dt = 1;
  State state;
  if (rank_ != 0) state.AddFromRank0("dt", dt);
  const Status status = Save(comm_, run(), 1, state).status();
  EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 0, whose value is saved, does not hold it"));
}

}  // namespace
}  // namespace belay::from_rank0_test
