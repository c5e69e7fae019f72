// Model specs: the tensors of a model and how each may be partitioned, without
// values.
//
// In:  a table with one line per tensor, tab-separated, with column names in
//      the first line (tests/data/models).
// Out: a ModelSpec. rank_state.h distributes its tensors over ranks.

#ifndef BELAY_WORKLOAD_MODEL_SPEC_H_
#define BELAY_WORKLOAD_MODEL_SPEC_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/status.h"

namespace belay {

// The pipeline stage of a tensor: the first, the last, or that of its layer.
enum class StageOf : uint8_t { kFirst, kLayer, kLast };

// One line of the table. An axis of -1: none.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  bool is_vocabulary = false;  // tp_axis is the vocabulary; may be padded
  int32_t tp_axis = -1;        // split by tensor parallelism; none: copies
  int64_t tp_unit = 1;         // at multiples of this
  int64_t tp_max = 0;          // into at most this many parts; 0: any number
  // Lengths of parts of tp_axis that are split separately, such as gate and up.
  std::vector<int64_t> tp_segments;
  StageOf stage = StageOf::kLayer;
  int64_t layer = 0;
  int32_t ep_axis = -1;    // split by expert parallelism
  int64_t expert = -1;     // the expert that it belongs to; -1: none
  int32_t fsdp_axis = -1;  // split by FSDP
  std::string tied_to;     // the tensor that it shares; "": none
  bool has_optimizer = true;
};

struct ModelSpec {
  std::string name;
  std::vector<TensorSpec> tensors;
  int64_t num_layers = 0;
  int64_t num_experts = 0;  // with their own tensors
};

// Parses a table; errors call it `file`.
// Errors: InvalidArgument - names line and column.
StatusOr<ModelSpec> ParseModel(std::string_view file, std::string_view text);

// The same from a file; the model gets the name of the file without ".tsv".
// Errors: also NotFound, Internal - the file cannot be read.
StatusOr<ModelSpec> ReadModel(const std::string& path);

// Returns the number of elements of all tensors; tied tensors are counted once.
int64_t NumParameters(const ModelSpec& model);

// Returns a smaller model of the same structure: axes are shorter by the factor
// `divisor`, which is at least 1, but have the same numbers of units to split,
// layers and experts.
ModelSpec Divided(ModelSpec model, int64_t divisor);

}  // namespace belay

#endif  // BELAY_WORKLOAD_MODEL_SPEC_H_
