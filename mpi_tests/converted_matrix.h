// A matrix of floats that is saved and restored in other forms.

#ifndef BELAY_MPI_TESTS_CONVERTED_MATRIX_H_
#define BELAY_MPI_TESTS_CONVERTED_MATRIX_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "belay/save_restore.h"
#include "values.h"

namespace belay::testing {

// Not a bf16, and told from its neighbours by one.
inline float ValueAt(int64_t index) {
  return static_cast<float>(index % 251) + 0.3f +
         1e-4f * static_cast<float>(index % 7);
}

// To 8 bits of mantissa.
inline float AsBF16(float value) {
  int exponent = 0;
  const double mantissa = std::frexp(static_cast<double>(value), &exponent);
  return static_cast<float>(
      std::ldexp(std::nearbyint(std::ldexp(mantissa, 8)), exponent - 8));
}

inline constexpr float kUntouched = -7;

// This rank's piece of a matrix of T, cut along an axis.
template <typename T>
struct Piece {
  Piece(const Shape& array, int axis, int rank, int size)
      : shape(array), box(WholeBox(array)) {
    box.offset[axis] = shape[axis] * rank / size;
    box.shape[axis] = shape[axis] * (rank + 1) / size - box.offset[axis];
    values.resize(NumElements(box.shape));
  }

  // Calls `visit(row, column, value)` for every element.
  template <typename Visit>
  void ForEach(Visit visit) {
    size_t i = 0;
    for (int64_t row = 0; row < box.shape[0]; ++row) {
      for (int64_t column = 0; column < box.shape[1]; ++column) {
        visit(box.offset[0] + row, box.offset[1] + column, values[i++]);
      }
    }
  }

  void Fill(int64_t seed) {
    ForEach([&](int64_t row, int64_t column, T& value) {
      value = static_cast<T>(ValueAt(seed + row * shape[1] + column));
    });
  }
  void Spoil() {
    ForEach([](int64_t, int64_t, T& value) { value = T{kUntouched}; });
  }

  State state() {
    State state;
    state.AddPiece("w", shape, box, AtAddress(values.data()));
    return state;
  }

  Shape shape;
  Box box;
  std::vector<T> values;
};

class ConversionTest : public CheckpointTest {
 protected:
  static constexpr int64_t kRows = 24;
  static constexpr int64_t kColumns = 10;

  Piece<float> Matrix(int axis, const Shape& shape = {kRows, kColumns}) {
    return Piece<float>(shape, axis, rank_, size_);
  }

  // Saves the values of `seed` as step 1, cut by rows.
  SaveResult SaveMatrix(int64_t seed, SaveOptions options) {
    Piece<float> matrix = Matrix(0);
    matrix.Fill(seed);
    options.durable = false;
    options.overwrite = true;
    const auto saved = Save(comm_, run(), 1, matrix.state(), options);
    EXPECT_TRUE(saved.ok()) << saved.status();
    return saved.ok() ? *saved : SaveResult{};
  }

  RestoreResult RestoreStep(const State& state, const RestoreOptions& options) {
    const auto restored = Restore(comm_, run(), 1, state, options);
    EXPECT_TRUE(restored.ok()) << restored.status();
    return restored.ok() ? *restored : RestoreResult{};
  }

  // Restores into `piece` and compares: `stored` rounds as the file does.
  template <typename T>
  RestoreResult ExpectRestored(Piece<T> piece, int64_t seed,
                               const RestoreOptions& options,
                               float (*stored)(float)) {
    piece.Spoil();
    const RestoreResult result = RestoreStep(piece.state(), options);
    int64_t wrong = 0;
    piece.ForEach([&](int64_t row, int64_t column, T& value) {
      const bool is_stored = row < kRows && column < kColumns;
      const float need = is_stored
                             ? stored(ValueAt(seed + row * kColumns + column))
                             : kUntouched;
      wrong += value == static_cast<T>(need) ? 0 : 1;
    });
    EXPECT_EQ(wrong, 0);
    return result;
  }

  // The same error on all ranks.
  void ExpectRefused(const State& state, const RestoreOptions& options,
                     absl::StatusCode code, const std::string& text) {
    const Status status = Restore(comm_, run(), 1, state, options).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(text));
    EXPECT_TRUE(IsSameEverywhere(status.ToString()));
  }
};

inline const RestoreOptions kCast = {.allow_dtype_cast = true};
inline const RestoreOptions kOtherShape = {.allow_shape_mismatch = true};
inline const RestoreOptions kBoth = {.allow_dtype_cast = true,
                                     .allow_shape_mismatch = true};

inline float AsItIs(float value) { return value; }

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_CONVERTED_MATRIX_H_
