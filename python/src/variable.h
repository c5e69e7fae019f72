// A ShardedVariable with its communicator, and what its calls take.

#ifndef BELAY_PYTHON_VARIABLE_H_
#define BELAY_PYTHON_VARIABLE_H_

#include <pybind11/numpy.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "belay/arrays/indexing.h"
#include "belay/arrays/tensor.h"
#include "belay/sharded_variable.h"
#include "belay/variable/partitioner.h"
#include "belay/variable/update_op.h"

namespace belay::python {

namespace py = pybind11;

// What is in the brackets of x[...], and the masks that it refers to.
struct GivenIndex {
  Index index;
  std::deque<Tensor> masks;
};

// These read Python objects, and throw for what belay cannot take.

GivenIndex IndexOf(py::handle given);

// A copy of an array, or of what NumPy makes one of. Numbers and lists take
// `dtype` if it is set.
Tensor TensorOf(py::handle given, std::optional<DType> dtype = std::nullopt);

// The same for whole numbers, as i32 or i64.
Tensor IndicesOf(py::handle given);

// belay.FixedShards, MinSize or MaxSize, or a function of the program.
Partitioner PartitionerOf(py::handle given);

UpdateOp UpdateOpNamed(py::handle name);

// The variable of a belay.ShardedVariable; null if it is something else.
ShardedVariable* VariableIn(py::handle value);

}  // namespace belay::python

#endif  // BELAY_PYTHON_VARIABLE_H_
