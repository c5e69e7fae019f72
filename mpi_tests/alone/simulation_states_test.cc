// The state of three kinds of simulation codes, with the shapes, cuts and ghost
// cells that these have, saved and restored on different numbers of ranks:
//
// - A Lagrangian hydrodynamics code on a cube of p^3 ranks, as LULESH is.
//   Elements are [n][n][n] over all ranks, and nodes [n+1][n+1][n+1]. A rank
//   has its elements and all their nodes; those of the upper faces belong to
//   its neighbours.
// - A finite volume code that is cut along x only, as miniWeather is: [4][z][x]
//   with two ghost cells on each side of z and x, periodic in x. Ranks differ
//   by one column. In C, and in Fortran with the axes the other way round.
// - A heat equation cut into blocks of rows, one ghost row on either side.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "belay/checkpoint_reader.h"
#include "belay/rows.h"
#include "values.h"

namespace belay {
namespace {

using testing::Ok;

constexpr double kUntouched = -1;

// One array of doubles of which this rank owns a box, with ghost cells.
class Field {
 public:
  Field(std::string key, Shape global, Box box, MemoryLayout layout = {})
      : key_(std::move(key)),
        global_(std::move(global)),
        box_(std::move(box)),
        layout_(std::move(layout)) {
    const std::vector<int64_t> none(global_.size(), 0);
    if (layout_.before.empty()) layout_.before = none;
    if (layout_.after.empty()) layout_.after = layout_.before;
    if (layout_.periodic.empty()) layout_.periodic.resize(global_.size());
    size_t cells = 1;
    for (size_t axis = 0; axis < global_.size(); ++axis) {
      cells *= static_cast<size_t>(Length(axis));
    }
    memory_.resize(cells);
  }

  // The cells of the box as they are at that time; ghost cells are old.
  void Advance(double time) {
    for (size_t i = 0; i < memory_.size(); ++i) {
      memory_[i] = IsOwned(i) ? Expected(i, time) : kUntouched;
    }
  }
  void Spoil() { memory_.assign(memory_.size(), kUntouched); }
  int64_t CountWrong(double time) const {
    int64_t wrong = 0;
    for (size_t i = 0; i < memory_.size(); ++i) {
      wrong += memory_[i] != Expected(i, time);
    }
    return wrong;
  }
  void AddTo(State& state) {
    state.AddPiece(key_, global_, box_, {memory_, layout_});
  }

  // What other programs read: the whole array, row-major, without ghost cells.
  int64_t CountWrongIn(const CheckpointReader& reader, double time) const {
    const Tensor all = Ok(reader.ReadTensor(key_, WholeBox(global_)));
    const auto stored = all.values<double>();
    if (static_cast<int64_t>(stored.size()) != NumElements(global_)) return -1;
    int64_t wrong = 0;
    for (size_t i = 0; i < stored.size(); ++i) {
      wrong += stored[i] != ValueAt(static_cast<int64_t>(i), time);
    }
    return wrong;
  }

 private:
  int64_t Length(size_t axis) const {
    return layout_.before[axis] + box_.shape[axis] + layout_.after[axis];
  }
  // Of place `i` of the memory, counted from the begin of the box.
  Shape PlaceOf(size_t i) const {
    auto rest = static_cast<int64_t>(i);
    Shape place(global_.size());
    for (size_t n = 0; n < place.size(); ++n) {
      const bool is_column_major = layout_.order == AxisOrder::kColumnMajor;
      const size_t axis = is_column_major ? n : place.size() - 1 - n;
      place[axis] = rest % Length(axis) - layout_.before[axis];
      rest /= Length(axis);
    }
    return place;
  }
  bool IsOwned(size_t i) const {
    const Shape place = PlaceOf(i);
    for (size_t axis = 0; axis < place.size(); ++axis) {
      if (place[axis] < 0 || place[axis] >= box_.shape[axis]) return false;
    }
    return true;
  }
  // Differs for each cell of the array, key and time.
  double ValueAt(int64_t index, double time) const {
    return std::sqrt(static_cast<double>(index) + 2) + time +
           static_cast<double>(key_.size() * 100 + key_.back());
  }
  double Expected(size_t i, double time) const {
    const Shape place = PlaceOf(i);
    int64_t index = 0;
    for (size_t axis = 0; axis < place.size(); ++axis) {
      const int64_t length = global_[axis];
      int64_t at = box_.offset[axis] + place[axis];
      if (layout_.periodic[axis]) at = (at + length) % length;
      if (at < 0 || at >= length) return kUntouched;
      index = index * length + at;
    }
    return ValueAt(index, time);
  }

  std::string key_;
  Shape global_;
  Box box_;
  MemoryLayout layout_;
  std::vector<double> memory_;
};

// The values of one rank of a code: what all codes have, and the fields.
struct Code {
  State state() {
    State state;
    for (Field& field : fields) field.AddTo(state);
    state.Add("time", time);
    state.Add("step_size", step_size);
    state.Add("cycle", cycle);
    if (!column.empty()) state.Add("column", column);
    return state;
  }
  void Advance(int64_t to) {
    cycle = to;
    time = 0.125 * static_cast<double>(to);
    step_size = 1 / time;
    for (size_t i = 0; i < column.size(); ++i) {
      column[i] = time * static_cast<double>(i);
    }
    for (Field& field : fields) field.Advance(time);
  }
  void Spoil() {
    time = step_size = 0;
    cycle = -1;
    column.assign(column.size(), kUntouched);
    for (Field& field : fields) field.Spoil();
  }
  int64_t CountWrong(int64_t at) const {
    const double then = 0.125 * static_cast<double>(at);
    int64_t wrong = time != then || step_size != 1 / then || cycle != at;
    for (size_t i = 0; i < column.size(); ++i) {
      wrong += column[i] != then * static_cast<double>(i);
    }
    for (const Field& field : fields) wrong += field.CountWrong(then);
    return wrong;
  }

  std::vector<Field> fields;
  std::vector<double> column;  // equal on all ranks
  double time = 0;
  double step_size = 0;
  int64_t cycle = 0;
};

Code Hydrodynamics(int rank, int ranks) {
  constexpr int64_t kElements = 6;  // along an edge of the whole cube
  const auto side = static_cast<int64_t>(std::lround(std::cbrt(ranks)));
  const int64_t mine = kElements / side;
  const Shape at = {rank / (side * side), rank / side % side, rank % side};
  Shape offset, nodes;
  std::vector<int64_t> after;
  for (const int64_t place : at) {
    const bool is_last = place == side - 1;
    offset.push_back(place * mine);
    nodes.push_back(mine + (is_last ? 1 : 0));
    after.push_back(is_last ? 0 : 1);
  }
  Code code;
  for (const char* key : {"x", "y", "z", "xd", "yd", "zd"}) {
    const int64_t n = kElements + 1;
    code.fields.emplace_back(
        key, Shape{n, n, n}, Box{offset, nodes},
        MemoryLayout{.before = {0, 0, 0}, .after = after, .fill_ghosts = true});
  }
  for (const char* key : {"e", "p", "q", "v", "ss", "volo", "region"}) {
    code.fields.emplace_back(key, Shape{kElements, kElements, kElements},
                             Box{offset, {mine, mine, mine}});
  }
  return code;
}

constexpr int64_t kColumns = 100, kLevels = 50, kVariables = 4, kGhosts = 2;

// The first column of a rank, and how many it has.
std::pair<int64_t, int64_t> ColumnsOf(int rank, int ranks) {
  const double each = static_cast<double>(kColumns) / ranks;
  const int64_t first = std::lround(each * rank);
  return {first, std::lround(each * (rank + 1)) - first};
}

Code Weather(int rank, int ranks) {
  const auto [first, columns] = ColumnsOf(rank, ranks);
  Code code;
  code.fields.emplace_back("state", Shape{kVariables, kLevels, kColumns},
                           Box{{0, 0, first}, {kVariables, kLevels, columns}},
                           MemoryLayout{.before = {0, kGhosts, kGhosts},
                                        .fill_ghosts = true,
                                        .periodic = {false, false, true}});
  code.column.resize(kLevels + 2 * kGhosts);
  return code;
}

Code FortranWeather(int rank, int ranks) {
  const auto [first, columns] = ColumnsOf(rank, ranks);
  Code code;
  code.fields.emplace_back("state", Shape{kColumns, kLevels, kVariables},
                           Box{{first, 0, 0}, {columns, kLevels, kVariables}},
                           MemoryLayout{.before = {kGhosts, kGhosts, 0},
                                        .fill_ghosts = true,
                                        .periodic = {true, false, false},
                                        .order = AxisOrder::kColumnMajor});
  code.column.resize(kLevels + 2 * kGhosts);
  return code;
}

Code Heat(int rank, int ranks) {
  constexpr int64_t kRows = 54, kWidth = 40;
  const int64_t first = kRows * rank / ranks;
  const int64_t rows = kRows * (rank + 1) / ranks - first;
  Code code;
  for (const char* key : {"g", "h"}) {
    code.fields.emplace_back(
        key, Shape{kRows, kWidth}, Box{{first, 0}, {rows, kWidth}},
        MemoryLayout{.before = {1, 0}, .fill_ghosts = true});
  }
  return code;
}

class SimulationStatesTest : public testing::CheckpointTest {
 protected:
  using Maker = Code (*)(int rank, int ranks);

  // Calls `work` on the first ranks, with their communicator and their code.
  template <typename Work>
  void OnRanks(int ranks, Maker make, Work work) {
    Comm comm = Ok(comm_.Split(rank_ < ranks ? 0 : -1));
    if (rank_ < ranks) {
      Code code = make(rank_, ranks);
      work(comm, code);
    }
    EXPECT_EQ(comm.Close(), absl::OkStatus());
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // Each number of ranks saves, and all restore what it has saved.
  void ExpectRestoresOnAll(const std::vector<int>& all_ranks, Maker make) {
    for (const int saving : all_ranks) {
      if (saving > size_) continue;
      OnRanks(saving, make, [&](const Comm& comm, Code& code) {
        code.Advance(saving);
        const auto saved = Save(comm, run(), saving, code.state());
        EXPECT_TRUE(saved.ok()) << saved.status();
        if (comm.rank() > 0) return;
        const CheckpointReader reader =
            Ok(CheckpointReader::Open(StepFile(saving, "")));
        for (const Field& field : code.fields) {
          EXPECT_EQ(field.CountWrongIn(reader, code.time), 0);
        }
      });
      for (const int restoring : all_ranks) {
        if (restoring > size_) continue;
        SCOPED_TRACE(std::to_string(saving) + " to " +
                     std::to_string(restoring) + " ranks");
        OnRanks(restoring, make, [&](const Comm& comm, Code& code) {
          code.Spoil();
          const auto restored = Restore(comm, run(), saving, code.state());
          EXPECT_TRUE(restored.ok()) << restored.status();
          EXPECT_EQ(code.CountWrong(saving), 0);
        });
        ++num_restores_;
      }
    }
  }

  int num_restores_ = 0;
};

TEST_F(SimulationStatesTest, HydrodynamicsOnCubesOfRanks) {
  ExpectRestoresOnAll({1, 8, 27}, Hydrodynamics);
  EXPECT_EQ(num_restores_, size_ < 8 ? 1 : size_ < 27 ? 4 : 9);
}

TEST_F(SimulationStatesTest, WeatherInUnevenColumns) {
  ExpectRestoresOnAll({1, 3, 6, 7}, Weather);
  EXPECT_EQ(num_restores_, size_ < 3 ? 1 : size_ < 7 ? 4 : 16);
}

TEST_F(SimulationStatesTest, WeatherInFortran) {
  ExpectRestoresOnAll({1, 3, 6, 7}, FortranWeather);
}

TEST_F(SimulationStatesTest, HeatInBlocksOfRows) {
  ExpectRestoresOnAll({1, 2, 4, 7, 27}, Heat);
}

}  // namespace
}  // namespace belay
