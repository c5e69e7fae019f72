// A small program with a Checkpoint, and with a State.

#ifndef BELAY_MPI_TESTS_MANAGER_PROGRAM_H_
#define BELAY_MPI_TESTS_MANAGER_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/checkpoint.h"
#include "belay/comm.h"
#include "belay/objects/trackable.h"
#include "belay/state.h"
#include "mpi_test.h"
#include "small_state.h"

namespace belay::testing {

// Two values: an array that is cut over the ranks, and a number.
class Program {
 public:
  Program()
      : comm_(*Comm::Duplicate(MPI_COMM_WORLD)),
        rows_(kRows),
        checkpoint_(comm_, *this) {
    state_.AddPiece("rows", {kRows * WorldSize()}, Place(), rows_);
    state_.Add("number", number_);
    Set(0);
  }
  ~Program() { comm_.Close().IgnoreError(); }
  Program(const Program&) = delete;

  void Track(Tracker& tracker) {
    if (on_track) on_track();
    tracker.Value("rows", TrackedValue({kRows * WorldSize()}, Place(), rows_));
    tracker.Value("number", number_);
  }

  void Set(int64_t value) {
    number_ = value;
    for (int i = 0; i < kRows; ++i) rows_[i] = static_cast<double>(value + i);
  }

  // Whether the values are those of `value` on all ranks. Collective.
  bool Is(int64_t value) const {
    bool same = number_ == value;
    for (int i = 0; i < kRows; ++i) {
      same = same && rows_[i] == static_cast<double>(value + i);
    }
    return OnAllRanks(same);
  }

  const Comm& comm() const { return comm_; }
  Checkpoint& checkpoint() { return checkpoint_; }
  // The same values, without objects.
  State& state() { return state_; }

  // Called by each save and restore, before it looks at any file.
  std::function<void()> on_track;

 private:
  static constexpr int kRows = 1000;
  static Box Place() {
    return {.offset = {kRows * WorldRank()}, .shape = {kRows}};
  }
  Comm comm_;
  std::vector<double> rows_;
  int64_t number_ = 0;
  Checkpoint checkpoint_;
  State state_;
};

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_MANAGER_PROGRAM_H_
