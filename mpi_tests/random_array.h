// A random array of several checkpoints.

#ifndef BELAY_MPI_TESTS_RANDOM_ARRAY_H_
#define BELAY_MPI_TESTS_RANDOM_ARRAY_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/tensor.h"
#include "belay/checkpoint_reader.h"
#include "belay/state.h"
#include "belay/status.h"
#include "random_piece.h"
#include "random_restore.h"
#include "random_wants.h"

namespace belay::testing {

// An array of some steps. All ranks draw the same from `same`.
class RandomArray {
 public:
  virtual ~RandomArray() = default;

  const std::string& key() const { return key_; }
  // Whether all numbers are the same in every dtype with at least 8 bits of
  // precision.
  bool is_small() const { return is_small_; }
  virtual std::string ToString() const = 0;

  // Draws what the next step has.
  virtual void DrawStep(Random& same) = 0;
  // Draws a mistake of the next save. Returns whether there can be one.
  virtual bool DrawMistake(Random& same) = 0;
  // The next save has none.
  void EndMistake() { mistake_ = 0; }
  // Adds what this rank saves.
  virtual void AddTo(State& state) = 0;
  // Writes what the next step has to the memory of this rank.
  virtual void Fill() = 0;
  // Writes other numbers to the memory of this rank, before the state that has
  // saved it restores a step.
  virtual void Spoil(size_t step, Random& own) = 0;
  // What is wrong with what such a restore of a step left; "" if nothing is.
  virtual std::string CheckOwn(size_t step) const = 0;

  // Adds what this rank restores of a step.
  virtual Checker Want(size_t step, Wanted& wanted) const = 0;
  // Adds pieces, which this rank restores whatever others do.
  virtual Checker WantPieces(size_t step, Wanted& wanted) const = 0;
  // What is wrong with what is stored as a step; "" if nothing is.
  virtual std::string CheckStored(const CheckpointReader& reader) const = 0;

 protected:
  RandomArray(std::string key, int rank, int ranks, bool is_small)
      : key_(std::move(key)), rank_(rank), ranks_(ranks), is_small_(is_small) {}

  // A rank that saves.
  int DrawRank(Random& same) const {
    return static_cast<int>(Uniform(0, ranks_ - 1, same));
  }

  const std::string key_;
  const int rank_;   // of this one among those that save; -1: none of them
  const int ranks_;  // that save
  const bool is_small_;
  int64_t mistake_ = 0;  // 0: none
  int victim_ = 0;       // the rank that makes it
};

template <typename T>
class ArrayOf : public RandomArray {
 public:
  std::string ToString() const override {
    const auto text = [](const auto& numbers) {
      return "[" + absl::StrJoin(numbers, ",") + "]";
    };
    std::string steps;
    for (const Dense<T>& step : steps_) {
      steps += " " + text(step.shape);
      if (!step.first.empty()) steps += " first " + text(step.first);
    }
    return absl::StrFormat("%s %s %s%s%s", key_, how_,
                           std::string(DTypeName(DTypeOf<T>())),
                           is_small_ ? " small" : "", steps);
  }

  Checker Want(size_t step, Wanted& wanted) const override {
    return WantAny(steps_[step], wanted);
  }
  Checker WantPieces(size_t step, Wanted& wanted) const override {
    return WantPiecesOf(steps_[step], false, wanted);
  }

  std::string CheckStored(const CheckpointReader& reader) const override {
    const StatusOr<Tensor> found = reader.ReadTensor(key_);
    if (!found.ok()) return found.status().ToString();
    if (found->shape() != steps_.back().shape) return "another shape";
    if (found->dtype() != DTypeOf<T>()) return "";  // as the options said
    const auto values = found->template values<T>();
    return Difference(steps_.back().values,
                      std::vector<T>(values.begin(), values.end()));
  }

 protected:
  using RandomArray::RandomArray;

  // A step with numbers for a shape.
  Dense<T> DrawDense(const Shape& shape, Random& same) const {
    Dense<T> dense{.shape = shape};
    dense.values.resize(NumElements(shape));
    for (T& value : dense.values) {
      const uint64_t low = same(), bits = low | uint64_t{same()} << 32;
      if (is_small_) {
        value = static_cast<T>(bits % 256);
      } else {
        std::memcpy(&value, &bits, sizeof(T));
      }
    }
    return dense;
  }

  std::string how_;
  std::vector<Dense<T>> steps_;
};

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_RANDOM_ARRAY_H_
