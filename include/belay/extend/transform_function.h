// Functions of stored arrays that a program defines: Transform::Apply.

#ifndef BELAY_EXTEND_TRANSFORM_FUNCTION_H_
#define BELAY_EXTEND_TRANSFORM_FUNCTION_H_

#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/tensor.h"
#include "belay/status.h"

namespace belay {

// The dtype and the shape of a whole array.
struct ArrayForm {
  DType dtype = DType::kU8;
  Shape shape;

  friend bool operator==(const ArrayForm&, const ArrayForm&) = default;
};

// A function of arrays that a program defines. It must be pure: no element may
// depend on which boxes ranks request or how the array is partitioned. Its
// functions may be called on only some ranks, and from several threads. An
// error that they return, or an exception that they throw, becomes the error of
// the restore, on all ranks.
class TransformFunction {
 public:
  virtual ~TransformFunction() = default;

  // Returns a name and the parameters; must be equal on all ranks. Local.
  virtual std::string description() const = 0;

  // Returns the dtype and the shape of the result. Local.
  virtual StatusOr<ArrayForm> Result(
      const std::vector<ArrayForm>& inputs) const = 0;

  // Returns the box of each input that is needed to compute the box `wanted` of
  // the result. An empty box is not read. A function that needs two boxes of
  // one array takes the array as two inputs. Local.
  virtual StatusOr<std::vector<Box>> Needs(const std::vector<ArrayForm>& inputs,
                                           const Box& wanted) const = 0;

  // Computes the box `wanted`; `result` has the shape of the box and the dtype
  // that Result returned. inputs[i] holds the elements of boxes[i], as returned
  // by Needs, with the stored dtype. Local.
  virtual Status Compute(const std::vector<Tensor>& inputs,
                         const std::vector<Box>& boxes, const Box& wanted,
                         Tensor& result) const = 0;
};

}  // namespace belay

#endif  // BELAY_EXTEND_TRANSFORM_FUNCTION_H_
