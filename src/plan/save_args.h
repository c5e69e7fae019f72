// Arguments of values: found by key, checked, and applied to the datasets of a
// plan.

#ifndef BELAY_PLAN_SAVE_ARGS_H_
#define BELAY_PLAN_SAVE_ARGS_H_

#include "core/keys.h"
#include "plan/choose_ranks.h"

namespace belay {

// The most bytes of chunks with filters if no size is requested: those of the
// chunk cache of HDF5.
inline constexpr int64_t kFilteredChunkBytes = int64_t{1} << 20;

// Arguments with their expressions, in the order in which they are tried.
struct ArgsByKey {
  KeyPatterns patterns;
  std::vector<SaveArgs> args;
  std::vector<std::string> keys;  // the expressions
};

// Errors: InvalidArgument - not a regular expression, or an unknown dtype,
//   chooser or filter.
StatusOr<ArgsByKey> CompileArgs(const std::vector<SaveArgsFor>& args);

// Returns the arguments of the first expression that matches, or the defaults.
const SaveArgs& ArgsOf(const ArgsByKey& args, std::string_view key);

// Returns the dtype to store a value as. `f32_dtype` is for f32 values whose
// arguments name none. An expression that is the key itself converts any value;
// a pattern only values of its kind: floating, integer, complex or bool.
// Errors: InvalidArgument - no such conversion; names the key.
StatusOr<DType> DTypeToStore(const ArgsByKey& args, DType f32_dtype,
                             std::string_view key, DType dtype);

// Returns the arguments that are no defaults, "dtype=bf16
// chunk_byte_size=1024".
std::string ArgsText(const SaveArgs& args);

bool AskForChunks(const SaveArgs& args);

// Records the arguments in the arrays, and gives datasets the chunks and
// filters that they request. Datasets and `arrays` are those of the plan.
// Errors: InvalidArgument - those of GivenChunkShapes and MaxChunkElements;
//   arguments that match no key of the plan; chunks under
//   ArrayLayout::kCanonical.
Status ChunkAsAsked(const std::vector<SaveArgsFor>& args, ArrayLayout layout,
                    const std::vector<ArrayBoxes>& arrays, SavePlan& plan);

// Returns the arguments as bytes, to compare them.
std::string EncodeArgs(const std::vector<SaveArgsFor>& args);

}  // namespace belay

#endif  // BELAY_PLAN_SAVE_ARGS_H_
