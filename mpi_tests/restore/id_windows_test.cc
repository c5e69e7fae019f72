// Rows with ids that are too many to travel at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "belay/rows.h"
#include "values.h"

namespace belay::id_windows_test {
namespace {

using ::testing::HasSubstr;
using testing::Ok;
using Cell = std::array<double, 32>;

// About eight windows, of which most are those of rank 0.
constexpr int64_t kCells = 250'000;

Cell CellOf(int64_t id) {
  Cell cell;
  cell.fill(static_cast<double>(id) + 0.5);
  cell.back() = -1;
  return cell;
}

class IdWindowsTest : public testing::CheckpointTest {
 protected:
  // Rank 0 has all ids but a few that each other rank has.
  std::vector<int64_t> Deal(uint32_t seed) const {
    std::vector<int64_t> all(kCells);
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), std::mt19937(seed));
    const int64_t few = 1000;
    const int64_t own = kCells - few * (size_ - 1);
    const int64_t begin = rank_ == 0 ? 0 : own + few * (rank_ - 1);
    return {all.begin() + begin,
            all.begin() + begin + (rank_ == 0 ? own : few)};
  }
  static std::vector<Cell> CellsOf(const std::vector<int64_t>& ids) {
    std::vector<Cell> cells;
    for (const int64_t id : ids) cells.push_back(CellOf(id));
    return cells;
  }
};

// A window ends within one key, and holds the end of one and the next.
TEST_F(IdWindowsTest, ThereAndBack) {
  std::vector<int64_t> ids = Deal(1);
  std::vector<Cell> cells = CellsOf(ids);
  std::vector<int64_t> numbers = ids;
  State state;
  state.AddRowsById("number", ids, numbers);
  state.AddRowsById("cell", ids, cells);
  state.AddRowsById("again", ids, numbers);
  Ok(Save(comm_, run(), 1, state));
  // Others ask now, and one of them asks for nothing.
  ids = Deal(2);
  if (size_ > 1 && rank_ == size_ - 1) ids.clear();
  numbers.clear();
  cells.assign(7, {});
  Ok(Restore(comm_, run(), 1, state));
  EXPECT_EQ(numbers, ids);
  EXPECT_TRUE(cells == CellsOf(ids));
}

TEST_F(IdWindowsTest, TwiceInAnotherWindow) {
  std::vector<int64_t> ids = Deal(1);
  const int64_t first = ids.front();
  if (rank_ == 0) ids.back() = first;
  std::vector<Cell> cells = CellsOf(ids);
  State state;
  state.AddRowsById("cell", ids, cells);
  const Status status = Save(comm_, run(), 1, state).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  if (rank_ == 0) {
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("save \"cell\": id " + std::to_string(first) +
                          " appears twice (rank 0 has it, and rank 0)"));
  }
}

TEST_F(IdWindowsTest, OutOfRangeInTheLastOne) {
  std::vector<int64_t> ids = Deal(1);
  std::vector<Cell> cells = CellsOf(ids);
  if (rank_ == 0) ids.back() = kCells;
  State state;
  state.AddRowsById("cell", ids, cells);
  const Status status = Save(comm_, run(), 1, state).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("id 250000 at position "));
  // Nothing is left of it, and the next save works.
  if (rank_ == 0) ids.back() = Deal(1).back();
  Ok(Save(comm_, run(), 1, state));
}

}  // namespace
}  // namespace belay::id_windows_test
