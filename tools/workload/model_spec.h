// Model specs: the tensors of a model and how each may be cut, without values.
//
// In:  a table with one line per tensor, tab-separated, with column names in
//      the first line (tests/data/models).
// Out: a ModelSpec. How its tensors lie on ranks is up to rank_state.h.

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
  bool is_vocabulary = false;  // axis tp_axis counts words, and may be padded
  int32_t tp_axis = -1;        // cut by tensor parallelism; none: copies
  int64_t tp_unit = 1;         // between multiples of this
  int64_t tp_max = 0;          // into at most so many parts; 0: any number
  // Parts of tp_axis of which each is cut for itself, such as gate and up.
  std::vector<int64_t> tp_segments;
  StageOf stage = StageOf::kLayer;
  int64_t layer = 0;
  int32_t ep_axis = -1;    // cut by expert parallelism
  int64_t expert = -1;     // all of it belongs to this one; -1: to none
  int32_t fsdp_axis = -1;  // cut by FSDP
  std::string tied_to;     // the tensor that it is; "": none
  bool has_optimizer = true;
};

struct ModelSpec {
  std::string name;
  std::vector<TensorSpec> tensors;
  int64_t num_layers = 0;
  int64_t num_experts = 0;  // that have tensors of their own
};

// Reads a table; `file` is what errors call it.
// Errors: InvalidArgument - names line and column.
StatusOr<ModelSpec> ParseModel(std::string_view file, std::string_view text);

// The same from a file; the model is called as the file is, without ".tsv".
// Errors: also NotFound, Internal - the file cannot be read.
StatusOr<ModelSpec> ReadModel(const std::string& path);

// The elements of all tensors; what is tied counts once.
int64_t NumParameters(const ModelSpec& model);

// A smaller model of the same structure: axes are shorter by `divisor`, which
// is at least 1, but have as many units to cut, layers and experts.
ModelSpec Divided(ModelSpec model, int64_t divisor);

}  // namespace belay

#endif  // BELAY_WORKLOAD_MODEL_SPEC_H_
