// Rows that ranks hold any number of.

#include "belay/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "belay/checkpoint.h"
#include "belay/checkpoint_reader.h"
#include "belay/reader/copy_checkpoint.h"
#include "values.h"

namespace belay::rows_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Ok;
using Point = std::array<double, 3>;

// A communicator of the first ranks, which the others do not have.
class RowsTest : public testing::CheckpointTest {
 protected:
  // Runs `work` with the first `ranks` ranks.
  template <typename Work>
  void WithFirst(int ranks, Work work) {
    StatusOr<Comm> some = comm_.Split(rank_ < ranks ? 0 : -1);
    ASSERT_TRUE(some.ok()) << some.status();
    if (rank_ < ranks) {
      work(*some);
      EXPECT_EQ(some->Close(), absl::OkStatus());
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // Rank r has r + 2 numbers, which go on over the ranks.
  static std::vector<double> Numbers(int rank) {
    std::vector<double> mine(static_cast<size_t>(rank + 2));
    std::iota(mine.begin(), mine.end(), Before(rank));
    return mine;
  }
  static double Before(int rank) {
    return rank * (rank - 1) / 2.0 + 2.0 * rank;
  }
};

TEST_F(RowsTest, AsManyRanksGetTheirOwn) {
  std::vector<double> x = Numbers(rank_);
  std::vector<Point> points(x.size());
  for (size_t i = 0; i < x.size(); ++i) points[i] = {x[i], -x[i], 0.5};
  std::vector<float> rows(4 * x.size());
  std::iota(rows.begin(), rows.end(), static_cast<float>(100 * rank_));
  const std::vector<double> x_before = x;
  const std::vector<Point> points_before = points;
  const std::vector<float> rows_before = rows;
  State state;
  state.AddRows("x", x);
  state.AddRows("points", points);
  state.AddRows("rows", rows, {.row = {2, 2}});
  PlanCache cache;
  for (int64_t step = 1; step < 4; ++step) {
    const SaveResult saved =
        Ok(Save(comm_, run(), step, state, {.cache = &cache}));
    EXPECT_EQ(saved.plan_reused, step > 1);
    x.clear();
    points.assign(1, {});
    rows.resize(400);
    Ok(Restore(comm_, run(), step, state));
    EXPECT_EQ(x, x_before);
    EXPECT_EQ(points, points_before);
    EXPECT_EQ(rows, rows_before);
  }
  // They move, and the plan with them.
  if (rank_ == 0) x.push_back(77);
  EXPECT_FALSE(Ok(Save(comm_, run(), 4, state, {.cache = &cache})).plan_reused);
  x.clear();
  Ok(Restore(comm_, run(), 4, state));
  EXPECT_EQ(x.size(), x_before.size() + (rank_ == 0 ? 1 : 0));
  // One array, in the order of the ranks.
  const CheckpointReader reader = Ok(CheckpointReader::Open(run()));
  const auto total = static_cast<int64_t>(Before(size_));
  EXPECT_EQ(Ok(reader.Find("points")).shape, (Shape{total, 3}));
  EXPECT_EQ(Ok(reader.Find("rows")).shape, (Shape{total, 2, 2}));
}

TEST_F(RowsTest, OtherRanksGetAnEvenPart) {
  std::vector<double> x = Numbers(rank_);
  State state;
  state.AddRows("x", x);
  Ok(Save(comm_, run(), 1, state));
  const int total = static_cast<int>(Before(size_));
  for (int ranks = 1; ranks < size_; ++ranks) {
    WithFirst(ranks, [&](const Comm& some) {
      std::vector<double> part(3);
      State wanted;
      wanted.AddRows("x", part);
      Ok(Restore(some, run(), 1, wanted));
      const int first = total / ranks * rank_ + std::min(rank_, total % ranks);
      ASSERT_EQ(part.size(), total / ranks + (rank_ < total % ranks ? 1 : 0));
      std::vector<double> expected(part.size());
      std::iota(expected.begin(), expected.end(), first);
      EXPECT_EQ(part, expected);
    });
  }
}

// Whatever the number of ranks, each row is at its owner, in order.
TEST_F(RowsTest, RowsGoToTheirOwners) {
  std::vector<Point> points;
  for (const double x : Numbers(rank_)) points.push_back({x, 2 * x, 3 * x});
  std::vector<int32_t> ids(points.size() * 2);
  std::iota(ids.begin(), ids.end(), 2 * static_cast<int32_t>(Before(rank_)));
  State state;
  state.AddRows("points", points);
  state.AddRows("ids", ids, {.row = {2}});
  Ok(Save(comm_, run(), 1, state));
  const int total = static_cast<int>(Before(size_));
  for (int ranks = 1; ranks <= size_; ++ranks) {
    WithFirst(ranks, [&](const Comm& some) {
      std::vector<Point> mine(7);
      std::vector<int32_t> mine_ids;
      State wanted;
      wanted.AddRows("points", mine, {.owner = [ranks](const Point& point) {
                       return static_cast<int>(point[0]) % ranks;
                     }});
      wanted.AddRows("ids", mine_ids,
                     {.row = {2}, .owner = [ranks](const int32_t& id) {
                        return id / 2 % ranks;
                      }});
      Ok(Restore(some, run(), 1, wanted));
      std::vector<Point> expected;
      std::vector<int32_t> expected_ids;
      for (int i = rank_; i < total; i += ranks) {
        expected.push_back({1.0 * i, 2.0 * i, 3.0 * i});
        expected_ids.push_back(2 * i);
        expected_ids.push_back(2 * i + 1);
      }
      EXPECT_EQ(mine, expected);
      EXPECT_EQ(mine_ids, expected_ids);
    });
  }
}

TEST_F(RowsTest, WhatEachRankHasOfItsOwn) {
  std::string text(static_cast<size_t>(3 * rank_), 'a');
  std::vector<uint64_t> random(static_cast<size_t>(rank_ % 3), 5);
  int64_t position = 10 * rank_;
  std::array<float, 2> pair = {1.0F * rank_, 2.0F};
  State state;
  state.AddPerRank("text", text);
  state.AddPerRank("random", random);
  state.AddPerRank("position", position);
  state.AddPerRank("pair", pair);
  Ok(Save(comm_, run(), 1, state));
  text = "other";
  random.assign(9, 1);
  position = 0;
  pair = {};
  Ok(Restore(comm_, run(), 1, state));
  EXPECT_EQ(text, std::string(static_cast<size_t>(3 * rank_), 'a'));
  EXPECT_EQ(random, std::vector<uint64_t>(static_cast<size_t>(rank_ % 3), 5));
  EXPECT_EQ(position, 10 * rank_);
  EXPECT_THAT(pair, ElementsAre(1.0F * rank_, 2.0F));
}

TEST_F(RowsTest, OtherRanksNeedARuleForWhatEachHas) {
  std::vector<int64_t> mine(static_cast<size_t>(rank_ + 1), rank_);
  State state;
  state.AddPerRank("mine", mine);
  Ok(Save(comm_, run(), 1, state));
  if (size_ == 1) return;
  WithFirst(size_ - 1, [&](const Comm& some) {
    std::vector<int64_t> found;
    State wanted, first, chosen, even;
    wanted.AddPerRank("mine", found);
    const Status status = Restore(some, run(), 1, wanted).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("restore \"mine\": this value is per rank, and other ranks "
                  "have saved it (need " +
                  std::to_string(size_) + " ranks that restore it, found " +
                  std::to_string(size_ - 1) + ")"));
    first.AddPerRank("mine", found, {.other_ranks = OtherRanks::kFirst});
    Ok(Restore(some, run(), 1, first));
    EXPECT_THAT(found, ElementsAre(0));
    const int last = size_ - 1;
    chosen.AddPerRank("mine", found,
                      {.source = [last](int rank, int ranks, int saved) {
                        EXPECT_EQ(ranks + 1, saved);
                        return rank == 0 ? last : -1;
                      }});
    Ok(Restore(some, run(), 1, chosen));
    // Who is given nobody's keeps what it has.
    EXPECT_EQ(found.size(), rank_ == 0 ? size_ : 1);
    EXPECT_THAT(found, Each(rank_ == 0 ? last : 0));
    even.AddPerRank("mine", found, {.other_ranks = OtherRanks::kEven});
    Ok(Restore(some, run(), 1, even));
    EXPECT_LE(found.size(),
              (size_ * (size_ + 1) / 2 + size_ - 2) / (size_ - 1));
  });
}

// The ranks of a solver mostly are a grid.
TEST_F(RowsTest, OnACartesianCommunicator) {
  std::vector<int> lengths(3);
  MPI_Dims_create(size_, 3, lengths.data());
  const std::vector<int> periodic(3, 1);
  MPI_Comm grid = MPI_COMM_NULL;
  MPI_Cart_create(MPI_COMM_WORLD, 3, lengths.data(), periodic.data(), 0, &grid);
  Comm comm = Ok(Comm::Duplicate(grid));
  std::vector<double> x = Numbers(rank_);
  State state;
  state.AddRows("x", x);
  Ok(Save(comm, run(), 1, state));
  State owned;
  const int last = size_ - 1;
  owned.AddRows("x", x, {.owner = [last](const double&) { return last; }});
  Ok(Restore(comm, run(), 1, owned));
  EXPECT_EQ(std::ssize(x), rank_ == last ? Before(size_) : 0);
  EXPECT_EQ(comm.Close(), absl::OkStatus());
  MPI_Comm_free(&grid);
}

// Ranks that restore a list share it among them, and nothing is dropped.
TEST_F(RowsTest, OnlySomeRanksHaveAList) {
  std::vector<double> x = Numbers(rank_);
  State state;
  state.AddRows("x", x);
  Ok(Save(comm_, run(), 1, state));
  std::vector<double> found;
  State some;
  const bool is_here = rank_ % 2 == 0;
  if (is_here) some.AddRows("x", found);
  Ok(Restore(comm_, run(), 1, some));
  int64_t count = std::ssize(found), all = 0;
  MPI_Allreduce(&count, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(all, static_cast<int64_t>(Before(size_)));
  // And a save of it has the rows of those ranks.
  Ok(Save(comm_, run(), 2, some));
  const std::vector<double> before = found;
  found.clear();
  Ok(Restore(comm_, run(), 2, some));
  EXPECT_EQ(found, before);
}

struct Cloud {
  void Track(Tracker& tracker) {
    tracker.Rows("points", points);
    tracker.PerRank("seed", seed);
    tracker.Value("time", time);
  }
  std::vector<Point> points;
  std::string seed;
  double time = 0;
};

TEST_F(RowsTest, RowsOfObjects) {
  Cloud cloud;
  for (const double x : Numbers(rank_)) cloud.points.push_back({x, x, x});
  cloud.seed = std::string(static_cast<size_t>(rank_), 'x');
  cloud.time = 4;
  Checkpoint checkpoint(comm_, {{"cloud", cloud}});
  Ok(checkpoint.Save(run()));
  Cloud other;
  Checkpoint restored(comm_, {{"cloud", other}});
  const LoadStatus status = Ok(restored.Restore(run()));
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(other.points, cloud.points);
  EXPECT_EQ(other.seed, cloud.seed);
  EXPECT_EQ(other.time, 4);
  // A copy keeps what is said of the ranks.
  const std::string to = dir_.File("to");
  Ok(CopyCheckpoint(comm_, run(), kLatestStep, to, {}, {}));
  Cloud copied;
  Checkpoint of_copy(comm_, {{"cloud", copied}});
  EXPECT_EQ(Ok(of_copy.Restore(to)).AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(copied.points, cloud.points);
  EXPECT_EQ(copied.seed, cloud.seed);
}

// Stored as another dtype, whose checksums are those of all rows.
TEST_F(RowsTest, RowsOfAnotherDType) {
  std::vector<double> x = Numbers(rank_);
  const std::vector<double> before = x;
  float single = 1.5F;
  State state;
  state.AddRows("x", x);
  state.Add("single", single);
  PlanCache cache;
  for (int64_t step = 1; step < 3; ++step) {
    Ok(Save(comm_, run(), step, state,
            {.args = {{"x", {.dtype = DType::kF32}}}, .cache = &cache}));
    x.clear();
    const RestoreResult restored =
        Ok(Restore(comm_, run(), step, state, {.allow_dtype_cast = true}));
    EXPECT_EQ(x, before);
    EXPECT_EQ(restored.blocks_partial, 0);
    Ok(Save(comm_, run(), step, state,
            {.float32_as_bfloat16 = true, .overwrite = true}));
    x.clear();
    Ok(Restore(comm_, run(), step, state, {.allow_dtype_cast = true}));
    EXPECT_EQ(x, before);
  }
}

// What a rule of a copy only gives another key stays rows of ranks.
TEST_F(RowsTest, RowsThatACopyRenames) {
  std::vector<double> x = Numbers(rank_), y = x;
  State state;
  state.AddRows("x", x);
  state.AddRows("y", y);
  Ok(Save(comm_, run(), 1, state));
  CopyOptions options;
  options.rules = {{.key = "z", .value = Transform("x")}};
  Ok(CopyCheckpoint(comm_, run(), kLatestStep, dir_.File("to"), {}, options));
  const std::vector<double> before = x;
  State copied;
  copied.AddRows("z", x);
  copied.AddRows("y", y);
  x.clear();
  y.clear();
  Ok(Restore(comm_, dir_.File("to"), kLatestStep, copied));
  EXPECT_EQ(x, before);
  EXPECT_EQ(y, before);
}

TEST_F(RowsTest, NoRowsAtAll) {
  std::vector<Point> none;
  std::vector<double> on_last(rank_ == size_ - 1 ? 2 : 0, 1.5);
  State state;
  state.AddRows("none", none);
  state.AddRows("last", on_last);
  Ok(Save(comm_, run(), 1, state));
  none.resize(4);
  on_last.resize(9);
  Ok(Restore(comm_, run(), 1, state));
  EXPECT_THAT(none, IsEmpty());
  EXPECT_EQ(on_last, std::vector<double>(rank_ == size_ - 1 ? 2 : 0, 1.5));
}

// The key of rows may begin with that of other rows.
TEST_F(RowsTest, ACopyHasRowsBelowRows) {
  std::vector<double> x = Numbers(rank_), below = {1.0 * rank_};
  State state;
  state.AddRows("a", x);
  state.AddRows("a/x", below);
  Ok(Save(comm_, run(), 1, state));
  Ok(CopyCheckpoint(comm_, run(), 1, dir_.File("copy"), {}));
  x.clear();
  below.clear();
  Ok(Restore(comm_, dir_.File("copy"), std::nullopt, state));
  EXPECT_EQ(x, Numbers(rank_));
  EXPECT_THAT(below, ElementsAre(1.0 * rank_));
}

// A stored array may be restored under two keys, each by ranks of its own.
TEST_F(RowsTest, TwoKeysOfOneArrayAreApart) {
  std::vector<double> x = Numbers(rank_), a, b;
  State saved;
  saved.AddRows("x", x);
  Ok(Save(comm_, run(), 1, saved));
  const int ranks = size_;
  const auto owner = [ranks](const double& row) {
    return static_cast<int>(row) % ranks;
  };
  State state;
  if (rank_ == 0) state.AddRows("a", a);
  state.AddRows<std::vector<double>>("b", b, {.owner = owner});
  Ok(Restore(comm_, run(), 1, state,
             {.args = {{"[ab]", {.stored_key = "x"}}}}));
  EXPECT_EQ(a.size(), rank_ == 0 ? static_cast<size_t>(Before(size_)) : 0);
  for (const double row : b) EXPECT_EQ(owner(row), rank_);
  State owned;
  owned.AddRows<std::vector<double>>("a", a, {.owner = owner});
  owned.AddRows<std::vector<double>>("b", b, {.owner = owner});
  Ok(Restore(comm_, run(), 1, owned,
             {.args = {{"[ab]", {.stored_key = "x"}}}}));
  EXPECT_EQ(a, b);
}

}  // namespace
}  // namespace belay::rows_test
