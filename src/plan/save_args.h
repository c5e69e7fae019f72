// The arguments of single values: found by key, checked, and applied to the
// datasets of a plan.

#ifndef BELAY_PLAN_SAVE_ARGS_H_
#define BELAY_PLAN_SAVE_ARGS_H_

#include <string>
#include <string_view>
#include <vector>

#include "belay/options.h"
#include "belay/status.h"
#include "belay/values/save_args.h"
#include "core/keys.h"
#include "plan/choose_ranks.h"
#include "plan/plan.h"

namespace belay {

// Chunks with filters have at most so many bytes where no chunk is asked for:
// those of HDF5's cache of chunks.
inline constexpr int64_t kFilteredChunkBytes = int64_t{1} << 20;

// Arguments with their expressions, in the order in which they are tried.
struct ArgsByKey {
  KeyPatterns patterns;
  std::vector<SaveArgs> args;
  std::vector<std::string> keys;  // the expressions
};

// Errors: InvalidArgument - not a regular expression, or a number that is no
//   dtype, chooser or filter.
StatusOr<ArgsByKey> CompileArgs(const std::vector<SaveArgsFor>& args);

// Returns those of the first expression that matches, or the defaults.
const SaveArgs& ArgsOf(const ArgsByKey& args, std::string_view key);

// Returns the dtype that a value is stored as: `f32_dtype` is that of those f32
// whose arguments name none. An expression that is the key itself says it of
// this value; a pattern only of values of its kind: a floating dtype of
// floating values, an integer of integers, a complex of complex ones. Errors:
// InvalidArgument - one does not convert to the other; names the key.
StatusOr<DType> DTypeToStore(const ArgsByKey& args, DType f32_dtype,
                             std::string_view key, DType dtype);

// Those that are not the defaults, as in "dtype=bf16 chunk_byte_size=1024".
std::string ArgsText(const SaveArgs& args);

// Returns whether the arguments ask for chunks.
bool AskForChunks(const SaveArgs& args);

// Notes in the arrays what is asked for them, and gives the datasets of those
// arrays whose arguments ask for it their chunks and filters. Datasets and
// `arrays` are those of the plan. Errors: InvalidArgument - as GivenChunkShapes
// and MaxChunkElements;
//   arguments that match no key of the plan; chunks under
//   ArrayLayout::kCanonical.
Status ChunkAsAsked(const std::vector<SaveArgsFor>& args, ArrayLayout layout,
                    const std::vector<ArrayBoxes>& arrays, SavePlan& plan);

// The arguments as bytes, to compare them.
std::string EncodeArgs(const std::vector<SaveArgsFor>& args);

}  // namespace belay

#endif  // BELAY_PLAN_SAVE_ARGS_H_
