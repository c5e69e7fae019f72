// A small state of every kind of value, cut over any number of ranks, and what
// the tests with faults do with it: save, restore, compare bit for bit.

#ifndef BELAY_MPI_TESTS_SMALL_STATE_H_
#define BELAY_MPI_TESTS_SMALL_STATE_H_

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "belay/comm.h"
#include "belay/save_restore.h"
#include "belay/state.h"
#include "mpi_test.h"

namespace belay::testing {

// The values of one rank. Which they are depends on `seed` and on where they
// lie in the arrays, not on the number of ranks.
struct SmallValues {
  explicit SmallValues(int64_t seed, int64_t times = 1)
      : rank(WorldRank()), ranks(WorldSize()), scale(times) {
    Fill(seed);
  }

  void Fill(int64_t seed) {
    by_rows.clear();
    by_columns.clear();
    for (int64_t i = 0; i < kRows * columns(); ++i) {
      by_rows.push_back(
          static_cast<double>(seed * 1000003 + rank * kRows * columns() + i));
    }
    for (int64_t row = 0; row < columns(); ++row) {
      for (int64_t i = 0; i < kRows; ++i) {
        by_columns.push_back(static_cast<float>(
            (seed * 1009 + row * kRows * ranks + rank * kRows + i) % 16777216));
      }
    }
    everywhere = {static_cast<int32_t>(seed), 2, 3, 5, 7};
    text = "seed " + std::to_string(seed);
    number = seed * 17;
  }

  // What a restore must overwrite.
  void Spoil() {
    std::fill(by_rows.begin(), by_rows.end(), -1.0);
    std::fill(by_columns.begin(), by_columns.end(), -1.0f);
    std::fill(everywhere.begin(), everywhere.end(), -1);
    text = "?";
    number = -1;
  }

  State state() {
    State state;
    state.AddPiece("model/rows", {kRows * ranks, columns()},
                   {.offset = {kRows * rank, 0}, .shape = {kRows, columns()}},
                   AtAddress(by_rows.data()));
    state.AddPiece("model/columns", {columns(), kRows * ranks},
                   {.offset = {0, kRows * rank}, .shape = {columns(), kRows}},
                   AtAddress(by_columns.data()));
    state.AddReplicated("model/everywhere", {5}, AtAddress(everywhere.data()));
    state.Add("text", text);
    state.Add("number", number);
    return state;
  }

  bool operator==(const SmallValues& other) const {
    return by_rows == other.by_rows && by_columns == other.by_columns &&
           everywhere == other.everywhere && text == other.text &&
           number == other.number;
  }

  int64_t columns() const { return 4 * scale; }

  static constexpr int64_t kRows = 2;  // of each rank
  int64_t rank;
  int64_t ranks;
  int64_t scale;
  std::vector<double> by_rows;
  std::vector<float> by_columns;
  std::vector<int32_t> everywhere;
  std::string text;
  int64_t number = 0;
};

// Code and message of every rank, in order. Collective.
inline std::vector<std::string> GatherStatus(const Status& mine) {
  constexpr int kBytes = 2048;
  const std::string text = mine.ToString().substr(0, kBytes - 1);
  std::string padded = text + std::string(kBytes - text.size(), '\0');
  std::vector<char> all(static_cast<size_t>(kBytes) * WorldSize());
  MPI_Allgather(padded.data(), kBytes, MPI_CHAR, all.data(), kBytes, MPI_CHAR,
                MPI_COMM_WORLD);
  std::vector<std::string> texts;
  for (int rank = 0; rank < WorldSize(); ++rank) {
    texts.emplace_back(all.data() + static_cast<size_t>(kBytes) * rank);
  }
  return texts;
}

// Whether it is true on all ranks. Collective.
inline bool OnAllRanks(bool mine) {
  int value = mine ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return value == 1;
}

// Whether the step restores as the values of `seed`. Collective; agreed.
inline bool RestoresAs(const Comm& comm, const std::string& dir,
                       std::optional<int64_t> step, int64_t seed,
                       int64_t scale = 1) {
  const SmallValues expected(seed, scale);
  SmallValues found(seed, scale);
  found.Spoil();
  const State state = found.state();
  const StatusOr<RestoreResult> result =
      Restore(comm, dir, step, state,
              {.allow_dtype_cast = true, .deadline_seconds = 30});
  return OnAllRanks(result.ok() && found == expected);
}

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_SMALL_STATE_H_
