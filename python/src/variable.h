// A ShardedVariable with its communicator, and the conversion of its arguments.

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

// The index in x[...], and the masks that it refers to.
struct GivenIndex {
  Index index;
  std::deque<Tensor> masks;
};

// These convert Python objects, and throw for objects that belay cannot use.

GivenIndex IndexOf(py::handle given);

// Returns a copy of an array, or of an object that NumPy converts to one.
// Numbers and lists take `dtype` if it is set.
Tensor TensorOf(py::handle given, std::optional<DType> dtype = std::nullopt);

// The same for integers, as i32 or i64.
Tensor IndicesOf(py::handle given);

// Converts belay.FixedShards, MinSize or MaxSize, or a function of the program.
Partitioner PartitionerOf(py::handle given);

UpdateOp UpdateOpNamed(py::handle name);

// Returns the variable of a belay.ShardedVariable; null for any other object.
ShardedVariable* VariableIn(py::handle value);

}  // namespace belay::python

#endif  // BELAY_PYTHON_VARIABLE_H_
