// Saves what a step holds as another one: less of it, cut otherwise, or
// converted.
//
//   CopyOptions options;
//   options.leave_out = {"optimizer/.*"};
//   options.save.file_layout = FileLayout::kPerTask;
//   auto copy = CopyCheckpoint(*comm, "run", kLatestStep, "small", {},
//   options);
//
// `belay copy` and `belay convert` do it, also under mpirun.

#ifndef BELAY_COPY_CHECKPOINT_H_
#define BELAY_COPY_CHECKPOINT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/comm.h"
#include "belay/copy_options.h"
#include "belay/options.h"
#include "belay/status.h"

namespace belay {

struct CopyResult {
  std::string from;        // the directory of the step that was read
  int64_t num_values = 0;  // that were copied as they are
  int64_t num_made = 0;    // by rules
  int64_t num_used = 0;    // arrays that rules read, in whole or in part
  int64_t num_left_out = 0;
  int64_t bytes = 0;  // of all arrays that were read into memory
  // The step has objects, and rules make arrays that are no value of any of
  // them: the copy has keys only, by which objects find their values.
  bool without_objects = false;
  SaveResult saved;
};

// Reads rules from a JSON file, as docs/arguments.md describes it. Local.
// `path` and `step` are the step that they are for, as for Restore: the file
// may ask for all keys that an expression matches. Errors: InvalidArgument - no
// JSON, or no rules: says where; those of reading
//   the file, and of ListVariables.
StatusOr<std::vector<ConversionRule>> ReadConversionRules(
    const std::string& file, const std::string& path,
    std::optional<int64_t> step);

// Saves values of a step of `from`, `step` as for Restore, as the step
// <dir>/step_<to_step>. Collective. Without `to_step` it has the number of the
// source. Same on all ranks: everything but `progress`.
// Each rank reads and writes about an equal part, which it needs memory for.
// Values with handlers keep their typestr, and objects their graph, whatever
// C++ types they were saved from; handlers are not called. Filters and chunks
// are those of options.save, not those of the source. No manager deletes the
// source meanwhile (StepPin).
// Errors: those of Restore and Save; InvalidArgument - an expression that
//   matches nothing, rules that make one key twice or one that is copied as
//   well, or compute from a part of a value, or that the step is the one that
//   is read; those of transforms;
//   ResourceExhausted - not enough memory, or space in `scratch`.
StatusOr<CopyResult> CopyCheckpoint(const Comm& comm, const std::string& from,
                                    std::optional<int64_t> step,
                                    const std::string& dir,
                                    std::optional<int64_t> to_step,
                                    const CopyOptions& options = {});

}  // namespace belay

#endif  // BELAY_COPY_CHECKPOINT_H_
