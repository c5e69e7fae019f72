// Restores arrays and strings that the program has not allocated.
//
//   auto values = belay::RestoreValues(*comm, "run", belay::kLatestStep,
//       {{.keys = "model/.*", .args = {.layout = rows}},
//        {.keys = ".*", .args = {.skip = true}}});
//   belay::Tensor& kernel = values->arrays.at("model/kernel").tensor;
//
// Restore (save_restore.h) fills existing values; this creates tensors for
// stored ones. (Orbax's deserialize with ArrayRestoreArgs.)

#ifndef BELAY_VALUES_RESTORE_VALUES_H_
#define BELAY_VALUES_RESTORE_VALUES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/layout.h"
#include "belay/arrays/tensor.h"
#include "belay/comm.h"
#include "belay/handlers/value_tree.h"
#include "belay/options.h"
#include "belay/status.h"
#include "belay/values/restore_args.h"

namespace belay {

// The part of an array that a rank holds.
struct RestoredArray {
  Shape global_shape;
  Box box;
  Tensor tensor;  // of the box
  // The layout that partitions it. Unset: this rank holds the whole array.
  std::optional<Layout> layout;
};

struct RestoredValues {
  std::map<std::string, RestoredArray> arrays;
  std::map<std::string, std::string> texts;
  RestoreResult result;
};

// Allocates memory for the values of a step and reads them. Collective. `dir`
// and `step` as for Restore. All arguments must be equal on all ranks. For each
// key, the first entry of `args` that matches applies; a key that none matches
// is restored in full, as stored. In `options`, allow_dtype_cast and
// allow_shape_mismatch are ignored; `args`, `selects`, `missing`, `unexpected`
// and `mismatched` are refused.
// Errors: those of Restore; InvalidArgument - an entry that matches no key, or
//   contradicts itself, a layout for another number of ranks or axes, a dtype
//   that the stored one cannot be converted to; FailedPrecondition - a
//   different shape, and `strict` is true; ResourceExhausted - not enough
//   memory.
StatusOr<RestoredValues> RestoreValues(
    const Comm& comm, const std::string& dir, std::optional<int64_t> step,
    const std::vector<ArrayRestoreArgsFor>& args = {},
    const RestoreOptions& options = {});

// Restores all values of a step, each in full on every rank. Collective. `dir`
// and `step` as for Restore; the same arguments must be equal on all ranks.
// Options for individual values are refused, as by RestoreValues.
// Errors: those of RestoreValues.
StatusOr<ValueTree> RestoreTree(const Comm& comm, const std::string& dir,
                                std::optional<int64_t> step,
                                const RestoreOptions& options = {});

}  // namespace belay

#endif  // BELAY_VALUES_RESTORE_VALUES_H_
