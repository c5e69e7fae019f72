// Differences between the values of two arrays of one dtype and shape.

#ifndef BELAY_TOOLS_DIFFERENCE_H_
#define BELAY_TOOLS_DIFFERENCE_H_

#include <cstdint>
#include <functional>
#include <optional>

#include "belay/arrays/tensor.h"
#include "belay/checkpoint_reader.h"

namespace belay::tools {

// Number of elements that differ, and one of them: without a tolerance the
// first, else the one with the largest difference.
struct Difference {
  int64_t elements = 0;
  Shape position;
  Tensor a, b;         // its values, of one element each
  double largest = 0;  // difference of `a` and `b`; only with a tolerance
};

// Compares an array of two checkpoints piece by piece. Without a tolerance, two
// elements differ if any bit differs. With one, they differ if their distance
// exceeds it; two NaNs are equal, and a NaN or an infinity is near only itself.
// `progress` gets the number of bytes of each piece.
// Errors: those of reading; then the values may or may not differ.
StatusOr<Difference> CompareArrays(
    const CheckpointReader& a, const CheckpointReader& b,
    const ArrayInfo& array, std::optional<double> tolerance,
    const std::function<void(int64_t)>& progress);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_DIFFERENCE_H_
