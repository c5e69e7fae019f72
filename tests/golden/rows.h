// What ranks hold any number of, in the golden checkpoints.

#ifndef BELAY_TESTS_GOLDEN_ROWS_H_
#define BELAY_TESTS_GOLDEN_ROWS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "belay/state.h"

namespace belay::golden {

inline constexpr int64_t kRowsStep = 17;
inline constexpr int kRowsRanks = 2;  // that have written it

// Those of one rank.
struct Rows {
  Rows() = default;
  explicit Rows(int rank)
      : points(rank == 0 ? 3 : 1),
        numbers(2, rank),
        text(rank == 0 ? "" : "b") {
    for (size_t i = 0; i < points.size(); ++i) {
      points[i] = {100.0 * rank + static_cast<double>(i), 0.5};
    }
  }
  void AddTo(State& state) {
    state.AddRows("points", points);
    state.AddPerRank("numbers", numbers, {.other_ranks = OtherRanks::kEven});
    state.AddPerRank("text", text, {.other_ranks = OtherRanks::kFirst});
  }

  std::vector<std::array<double, 2>> points;
  std::vector<int32_t> numbers;
  std::string text;
};

}  // namespace belay::golden

#endif  // BELAY_TESTS_GOLDEN_ROWS_H_
