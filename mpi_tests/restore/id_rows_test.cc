// Rows that have numbers over all ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "belay/checkpoint.h"
#include "belay/checkpoint_reader.h"
#include "belay/rows.h"
#include "values.h"

namespace belay::id_rows_test {
namespace {

using ::testing::HasSubstr;
using testing::Ok;
using Point = std::array<float, 2>;
using Random = std::mt19937;

constexpr int64_t kCells = 101;

double ValueOf(int64_t id) { return 0.5 * static_cast<double>(id) + 3; }

struct Cells {
  void Track(Tracker& tracker) { tracker.RowsById("value", ids, values); }
  std::vector<int64_t> ids;
  std::vector<double> values;
};

class IdRowsTest : public testing::CheckpointTest {
 protected:
  // Some of the ids 0 to `cells`, each on one rank, in any order.
  std::vector<int64_t> Deal(int64_t cells, uint32_t seed) const {
    Random random(seed);  // the same on all ranks
    std::vector<int64_t> all(static_cast<size_t>(cells));
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), random);
    std::vector<int64_t> mine;
    for (const int64_t id : all) {
      const int rank = std::uniform_int_distribution<int>(0, size_ - 1)(random);
      if (rank == rank_) mine.push_back(id);
    }
    return mine;
  }
  static std::vector<double> ValuesOf(const std::vector<int64_t>& ids) {
    std::vector<double> values;
    for (const int64_t id : ids) values.push_back(ValueOf(id));
    return values;
  }
  // All cells, as step 1.
  void SaveCells() {
    const std::vector<int64_t> ids = Deal(kCells, 4);
    std::vector<double> values = ValuesOf(ids);
    State state;
    state.AddRowsById("value", ids, values);
    Ok(Save(comm_, run(), 1, state));
  }
};

// Whoever had them, everyone gets what they ask for, also what others get.
TEST_F(IdRowsTest, AnyOwnersAnyOrder) {
  std::vector<int64_t> ids;
  std::vector<double> values;
  std::vector<Point> points;
  std::vector<int16_t> wide;
  State state;
  state.AddRowsById("value", ids, values);
  state.AddRowsById("point", ids, points);
  state.AddRowsById("wide", ids, wide, {.row = {3}});
  PlanCache cache;
  Random own(static_cast<uint32_t>(rank_));
  for (uint32_t step = 1; step < 8; ++step) {
    const int64_t cells = step == 7 ? 0 : kCells + step % 2;
    ids = Deal(cells, step);
    values = ValuesOf(ids);
    points.clear();
    wide.clear();
    for (const int64_t id : ids) {
      points.push_back({static_cast<float>(id), -1});
      for (int64_t k = 3 * id; k < 3 * id + 3; ++k) {
        wide.push_back(static_cast<int16_t>(k));
      }
    }
    Ok(Save(comm_, run(), step, state, {.cache = &cache}));
    // What is asked for needs no owner, and may be asked for twice.
    ids.clear();
    for (int i = 0; i < 30 && cells > 0; ++i) {
      ids.push_back(std::uniform_int_distribution<int64_t>(0, cells - 1)(own));
    }
    values.assign(3, 0);
    points.clear();
    wide.clear();
    Ok(Restore(comm_, run(), step, state));
    EXPECT_EQ(values, ValuesOf(ids));
    ASSERT_EQ(points.size(), ids.size());
    ASSERT_EQ(wide.size(), 3 * ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(points[i], (Point{static_cast<float>(ids[i]), -1}));
      EXPECT_EQ(wide[3 * i + 2], 3 * ids[i] + 2);
    }
  }
}

// Stored in the order of the ids, whoever has them.
TEST_F(IdRowsTest, TheArrayIsInTheOrderOfTheIds) {
  const std::vector<int64_t> ids = Deal(kCells, 5);
  std::vector<double> values = ValuesOf(ids);
  State state;
  state.AddRowsById("value", ids, values);
  Ok(Save(comm_, run(), 1, state));
  const CheckpointReader reader = Ok(CheckpointReader::Open(run()));
  const Tensor all = Ok(reader.ReadTensor("value", WholeBox({kCells})));
  for (int64_t id = 0; id < kCells; ++id) {
    EXPECT_EQ(all.values<double>()[static_cast<size_t>(id)], ValueOf(id));
  }
  // As rows without ids, and as another dtype.
  std::vector<float> even;
  State rows;
  rows.AddRows("value", even);
  Ok(Restore(comm_, run(), 1, rows, {.allow_dtype_cast = true}));
  int64_t count = std::ssize(even), sum = 0;
  MPI_Allreduce(&count, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(sum, kCells);
}

TEST_F(IdRowsTest, CellsOfObjects) {
  Cells cells;
  cells.ids = Deal(kCells, 9);
  cells.values = ValuesOf(cells.ids);
  Checkpoint checkpoint(comm_, {{"cells", cells}});
  Ok(checkpoint.Save(run(), {.args = {{".*value", {.dtype = DType::kF32}}}}));
  cells.ids = {rank_, 7};
  cells.values.clear();
  const LoadStatus status =
      Ok(checkpoint.Restore(run(), {.allow_dtype_cast = true}));
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(cells.values, ValuesOf(cells.ids));
}

// Only some ranks have cells at all.
TEST_F(IdRowsTest, RanksWithoutTheKey) {
  std::vector<int64_t> ids;
  std::vector<double> values;
  State state;
  const bool has = rank_ % 2 == 0;
  for (int64_t id = rank_ / 2; has && id < kCells; id += (size_ + 1) / 2) {
    ids.push_back(id);
  }
  values = ValuesOf(ids);
  if (has) state.AddRowsById("value", ids, values);
  Ok(Save(comm_, run(), 1, state));
  values.clear();
  Ok(Restore(comm_, run(), 1, state));
  EXPECT_EQ(values, ValuesOf(ids));
}

TEST_F(IdRowsTest, Mistakes) {
  std::vector<int64_t> ids = Deal(kCells, 3);
  std::vector<double> values = ValuesOf(ids);
  State state;
  state.AddRowsById("value", ids, values);
  Ok(Save(comm_, run(), 1, state));
  const std::vector<int64_t> good = ids;
  const auto save = [&] { return Save(comm_, run(), 2, state).status(); };
  // The rank that has cell 5 says that it is another one.
  const auto five = std::find(ids.begin(), ids.end(), 5);
  const bool is_mine = five != ids.end();
  if (is_mine) *five = 6;
  const Status twice = save();
  EXPECT_TRUE(absl::IsInvalidArgument(twice)) << twice;
  EXPECT_THAT(std::string(twice.message()),
              ::testing::AnyOf(HasSubstr("id 6 appears twice (rank"),
                               HasSubstr("no rank has id 5; 1 of the ids")));
  EXPECT_TRUE(testing::IsSameEverywhere(twice.ToString()));
  ids = good;
  if (is_mine) *std::find(ids.begin(), ids.end(), 5) = kCells;
  ExpectRefused(save(), absl::StatusCode::kInvalidArgument,
                "save \"value\": id 101 at position");
  for (int64_t& id : ids) id = id == kCells ? 5 : id;
  for (int64_t& id : ids) id = id < 7 ? id : id + 1;
  ExpectRefused(save(), absl::StatusCode::kInvalidArgument,
                "no rank has id 7 [rank ");
  ids = good;
  if (rank_ == size_ - 1) values.push_back(1);
  ExpectRefused(save(), absl::StatusCode::kInvalidArgument, "\"value\": ");
  ids = {0, -1};
  ExpectRefused(Restore(comm_, run(), 1, state).status(),
                absl::StatusCode::kInvalidArgument,
                "restore \"value\": id -1 at position 1 is out of range "
                "(need 0 to 100)");
  if (size_ == 1) return;
  State mixed;
  ids = good;
  values = ValuesOf(ids);
  if (rank_ == 0) {
    mixed.AddRows("value", values);
  } else {
    mixed.AddRowsById("value", ids, values);
  }
  ExpectRefused(Save(comm_, run(), 3, mixed).status(),
                absl::StatusCode::kInvalidArgument,
                "the rows of the ranks differ in dtype, shape or ids (rank 0 "
                "has f64 [], rank 1 has "
                "f64 [] with ids)");
}

// A plan is not used again for rows that are of another kind now.
TEST_F(IdRowsTest, APlanOfRowsWithoutIds) {
  std::vector<int64_t> ids(4);
  std::iota(ids.begin(), ids.end(), 4 * (size_ - 1 - rank_));
  std::vector<double> values = ValuesOf(ids);
  const std::vector<double> before = values;
  State without, with;
  without.AddRows("x", values);
  with.AddRowsById("x", ids, values);
  PlanCache cache;
  const SaveOptions options = {.overwrite = true, .cache = &cache};
  for (const State* state : {&without, &with, &without, &with}) {
    EXPECT_FALSE(Ok(Save(comm_, run(), 1, *state, options)).plan_reused);
    values.assign(1, 0);
    Ok(Restore(comm_, run(), 1, *state));
    EXPECT_EQ(values, before);
  }
  const CheckpointReader reader = Ok(CheckpointReader::Open(run()));
  const Tensor all = Ok(reader.ReadTensor("x", WholeBox({4 * size_})));
  for (int64_t id = 0; id < 4 * size_; ++id) {
    EXPECT_EQ(all.values<double>()[static_cast<size_t>(id)], ValueOf(id));
  }
}

TEST_F(IdRowsTest, ARankHasOtherRows) {
  SaveCells();
  std::vector<int64_t> ids(kCells);
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<double> doubles;
  std::vector<float> floats;
  State without, other;
  const bool is_last = rank_ == size_ - 1;
  if (is_last) {
    without.AddRows("value", doubles);
    other.AddRowsById("value", ids, floats);
  } else {
    without.AddRowsById("value", ids, doubles);
    other.AddRowsById("value", ids, doubles);
  }
  const RestoreOptions casts = {.allow_dtype_cast = true};
  const Status mixed = Restore(comm_, run(), 1, without, casts).status();
  const Status of_other_type = Restore(comm_, run(), 1, other, casts).status();
  if (size_ == 1) {
    EXPECT_EQ(mixed, absl::OkStatus());
    EXPECT_EQ(of_other_type, absl::OkStatus());
    return;
  }
  ExpectRefused(mixed, absl::StatusCode::kFailedPrecondition,
                "restore \"value\": the rows of the ranks differ in dtype, "
                "shape or ids (rank 0 has "
                "f64 with ids, and this rank does not)");
  ExpectRefused(of_other_type, absl::StatusCode::kFailedPrecondition,
                "restore \"value\": the rows of the ranks differ in");
}

// Two keys of one array may have other dtypes.
TEST_F(IdRowsTest, TwoKeysOfOneArray) {
  SaveCells();
  const std::vector<int64_t> ids = {7, rank_, 50};
  std::vector<double> doubles;
  std::vector<float> floats;
  State state;
  state.AddRowsById("value", ids, doubles);
  state.AddRowsById("single", ids, floats);
  Ok(Restore(comm_, run(), 1, state,
             {.allow_dtype_cast = true,
              .args = {{"single", {.stored_key = "value"}}}}));
  EXPECT_EQ(doubles, ValuesOf(ids));
  EXPECT_EQ(std::vector<double>(floats.begin(), floats.end()), doubles);
}

// What is restored is never written to memory that a range has given up.
TEST_F(IdRowsTest, RangesOfTwoKeys) {
  std::vector<double> more(1000, 1.5);
  std::vector<int64_t> ids = Deal(kCells, 2);
  std::vector<double> values = ValuesOf(ids);
  State saved;
  saved.AddRowsById("value", ids, values);
  saved.Add("more", more);
  Ok(Save(comm_, run(), 1, saved));
  std::vector<double> one(3);
  ids = {1, 2, 3};
  const std::vector<int64_t> others = {4, 5};
  State twice;
  twice.AddRowsById("value", ids, one);
  twice.AddRowsById("other", others, one);
  ExpectRefused(Restore(comm_, run(), 1, twice,
                        {.args = {{"other", {.stored_key = "value"}}}})
                    .status(),
                absl::StatusCode::kFailedPrecondition,
                "its container was added under another key as well");
  one.resize(3);
  State moved;
  moved.AddRowsById("value", ids, std::span(one));
  moved.Add("more", one);
  ExpectRefused(Restore(comm_, run(), 1, moved).status(),
                absl::StatusCode::kFailedPrecondition,
                "restore \"value\": it lies in the memory of \"more\"");
}

// A program that knows how many cells there are is told of a mesh that is not
// its own.
TEST_F(IdRowsTest, AnotherNumberThanCounted) {
  std::vector<int64_t> ids = Deal(kCells, 2);
  std::vector<double> values = ValuesOf(ids);
  const auto counted = [&](int64_t count) {
    State state;
    state.AddRowsById("value", ids, values, {.count = count});
    return state;
  };
  PlanCache cache;
  Ok(Save(comm_, run(), 1, counted(kCells), {.cache = &cache}));
  Ok(Restore(comm_, run(), 1, counted(kCells)));
  ExpectRefused(
      Save(comm_, run(), 2, counted(kCells + 1), {.cache = &cache}).status(),
      absl::StatusCode::kInvalidArgument, "than was given for all ranks");
  ExpectRefused(Save(comm_, run(), 2, counted(kCells + 1)).status(),
                absl::StatusCode::kInvalidArgument,
                "save \"value\": all ranks together have another number of "
                "rows than was given for all ranks (need 102, found 101)");
  ids.clear();
  ExpectRefused(Restore(comm_, run(), 1, counted(kCells - 1)).status(),
                absl::StatusCode::kInvalidArgument,
                "restore \"value\": the checkpoint has another number");
  ExpectRefused(Save(comm_, run(), 2, counted(kCells)).status(),
                absl::StatusCode::kInvalidArgument, "save \"value\"");
}

TEST_F(IdRowsTest, NobodyAsksForAnything) {
  SaveCells();
  std::vector<int64_t> ids;
  std::vector<double> values;
  State state;
  state.AddRowsById("value", ids, values);
  ExpectRefused(
      Restore(comm_, run(), 1, state).status(),
      absl::StatusCode::kFailedPrecondition,
      "restore \"value\": no rank has an id, and 101 rows are stored");
}

TEST_F(IdRowsTest, IdsThatAreRowsThemselves) {
  std::vector<int64_t> ids = Deal(kCells, 2), next = ids;
  std::vector<double> values = ValuesOf(ids);
  State state;
  state.AddRowsById("next", ids, next);
  state.AddRowsById("value", next, values);
  Ok(Save(comm_, run(), 1, state));
  Ok(Restore(comm_, run(), 1, state));  // they stay what they are
  ids = {3, 4};
  next = {5, 6};
  ExpectRefused(
      Restore(comm_, run(), 1, state).status(),
      absl::StatusCode::kInvalidArgument,
      "restore \"value\": its ids are rows with ids themselves, which "
      "the same restore reads");
}

// Ids that are restored otherwise come first.
TEST_F(IdRowsTest, IdsOfTheSameRestore) {
  std::vector<int64_t> ids = Deal(kCells, 2);
  const std::vector<int64_t> before = ids;
  std::vector<double> values = ValuesOf(ids);
  State state;
  state.AddRows("ids", ids);
  state.AddRowsById("value", ids, values);
  Ok(Save(comm_, run(), 1, state));
  ids = {1};
  values.clear();
  Ok(Restore(comm_, run(), 1, state));
  EXPECT_EQ(ids, before);
  EXPECT_EQ(values, ValuesOf(ids));
  // Of a view, what it leads to.
  State of_view;
  values.clear();
  of_view.AddRowsById("value", std::span<const int64_t>(before), values);
  Ok(Restore(comm_, run(), 1, of_view));
  EXPECT_EQ(values, ValuesOf(before));
}

}  // namespace
}  // namespace belay::id_rows_test
