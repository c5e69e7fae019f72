// The fields of arrays of structs, each as an array.

#ifndef BELAY_TOOLS_STRUCT_FIELDS_H_
#define BELAY_TOOLS_STRUCT_FIELDS_H_

#include <vector>

#include "belay/checkpoint_reader.h"
#include "belay/status.h"

namespace belay::tools {

// Returns the fields of an array in their order, as CheckpointReader::Find
// finds them; none for an array of numbers.
// Errors: those of Find.
StatusOr<std::vector<ArrayInfo>> FieldsOf(const CheckpointReader& reader,
                                          const ArrayInfo& array);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_STRUCT_FIELDS_H_
