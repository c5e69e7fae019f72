// Differences between the values of two arrays of one dtype and shape.

#ifndef BELAY_TOOLS_DIFFERENCE_H_
#define BELAY_TOOLS_DIFFERENCE_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "belay/arrays/tensor.h"
#include "belay/checkpoint_reader.h"

namespace belay::tools {

// Elements that differ, and one of them: without a tolerance the first, else
// the one with the largest difference.
struct Difference {
  int64_t elements = 0;
  Shape position;
  Tensor a, b;         // its values, of one element each
  double largest = 0;  // how much they differ; with a tolerance only
};

// Compares an array of two checkpoints piece by piece. Without a tolerance two
// elements differ if a bit does. With one, if they are farther apart than that;
// two NaN are equal, and nothing is near a NaN or an infinity but itself.
// `progress` gets the bytes of each piece.
// Errors: those of reading; then nothing is said about the values.
StatusOr<Difference> CompareArrays(
    const CheckpointReader& a, const CheckpointReader& b,
    const ArrayInfo& array, std::optional<double> tolerance,
    const std::function<void(int64_t)>& progress);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_DIFFERENCE_H_
