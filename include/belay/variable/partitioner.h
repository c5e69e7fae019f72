// Partitioners choose how many parts an array is split into.
//
// A partitioner is a function from (shape, dtype, axis) to the number of parts
// on every axis: 1 everywhere except on `axis`, and also 1 there if the array
// has no elements. The three below follow TensorFlow's of the same names;
// programs may define others as lambdas.

#ifndef BELAY_VARIABLE_PARTITIONER_H_
#define BELAY_VARIABLE_PARTITIONER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/status.h"

namespace belay {

// Pure, and equal on all ranks for equal arguments.
using Partitioner =
    std::function<StatusOr<Shape>(const Shape& shape, DType dtype, int axis)>;

// Splits into `num_shards` parts, or fewer if the axis is shorter. Local.
// Errors, when called: InvalidArgument - num_shards below 1, no such axis.
Partitioner FixedShards(int64_t num_shards);

// Splits into the largest number of parts, at most `max_shards`, that all have
// at least `min_shard_bytes` bytes; into one part if the array has fewer bytes.
// A string counts as `bytes_per_string`. Local.
// Errors, when called: InvalidArgument - an argument below 1, no such axis.
Partitioner MinSize(int64_t min_shard_bytes = int64_t{256} << 10,
                    int64_t max_shards = 1, int64_t bytes_per_string = 16);

// Splits into the smallest number of parts that have at most `max_shard_bytes`
// bytes each. Parts are larger if `max_shards` allows too few of them, or if a
// single row is larger. If `max_shards` is unset, there is no such limit.
// Local.
// Errors, when called: InvalidArgument - an argument below 1, no such axis.
Partitioner MaxSize(int64_t max_shard_bytes,
                    std::optional<int64_t> max_shards = std::nullopt,
                    int64_t bytes_per_string = 16);

// Returns the boxes of the parts, in row-major order. Each axis is split
// evenly; if the parts cannot be equal, the first ones are longer by one.
// Local.
// Errors: InvalidArgument - different numbers of axes, or a number of parts
//   below 1 or above the length of its axis (an axis of length 0 has 1 part);
//   more than 2^22 boxes.
StatusOr<std::vector<Box>> PartitionBoxes(const Shape& shape,
                                          const Shape& parts);

}  // namespace belay

#endif  // BELAY_VARIABLE_PARTITIONER_H_
