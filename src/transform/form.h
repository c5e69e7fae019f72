// The forms of the arrays in a transform. Pure.

#ifndef BELAY_TRANSFORM_FORM_H_
#define BELAY_TRANSFORM_FORM_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/status.h"
#include "belay/values/transform.h"

namespace belay {

// The form of a stored array, or null.
using FindForm = absl::FunctionRef<const ArrayForm*(const std::string& key)>;

// The form of the result. Of parts with several dtypes it has the first one.
// Errors: InvalidArgument - an axis, a part or an index that the arrays do not
//   have, shapes that do not go together; NotFound - an array is not stored;
//   FailedPrecondition - a text is; and those of the function of a program.
StatusOr<ArrayForm> FormOf(const Transform& transform, FindForm find);

// The forms of its inputs.
StatusOr<std::vector<ArrayForm>> InputForms(const TransformNode& node,
                                            FindForm find);

}  // namespace belay

#endif  // BELAY_TRANSFORM_FORM_H_
