// Saves the values of a step as another step: a part of them, partitioned
// differently, or converted.
//
//   CopyOptions options;
//   options.leave_out = {"optimizer/.*"};
//   options.save.file_layout = FileLayout::kPerTask;
//   auto copy = CopyCheckpoint(*comm, "run", kLatestStep, "small", {},
//   options);
//
// `belay copy` and `belay convert` do this; they may also run under mpirun.

#ifndef BELAY_READER_COPY_CHECKPOINT_H_
#define BELAY_READER_COPY_CHECKPOINT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/comm.h"
#include "belay/options.h"
#include "belay/reader/copy_options.h"
#include "belay/status.h"

namespace belay {

struct CopyResult {
  std::string from;        // the step directory that was read
  int64_t num_values = 0;  // copied unchanged
  int64_t num_made = 0;    // made by rules
  int64_t num_used = 0;    // arrays that rules read, in whole or in part
  int64_t num_left_out = 0;
  int64_t bytes = 0;  // of all arrays read into memory
  // The step has objects, but rules make arrays that belong to none of them.
  // The copy then stores only keys, by which objects find their values.
  bool without_objects = false;
  SaveResult saved;
};

// Reads rules from a JSON file, as docs/arguments.md describes. Local. `path`
// and `step` select the step they apply to, as for Restore: the file may refer
// to all keys that an expression matches.
// Errors: InvalidArgument - not JSON, or not rules; says where; those of
//   reading the file, and of ListVariables.
StatusOr<std::vector<ConversionRule>> ReadConversionRules(
    const std::string& file, const std::string& path,
    std::optional<int64_t> step);

// Saves values of a step of `from` as the step <dir>/step_<to_step>.
// Collective. `step` as for Restore. Without `to_step`, the copy has the number
// of the source. All arguments except `progress` must be equal on all ranks.
// Each rank reads and writes about an equal part and needs memory for it.
// Values with handlers keep their typestr and objects keep their graph,
// whatever their C++ types were; handlers are not called. Filters and chunks
// are those of options.save, not of the source. A StepPin keeps managers from
// deleting the source during the copy.
// Errors: those of Restore and Save; InvalidArgument - an expression that
//   matches nothing, rules that make a key twice, make a key that is also
//   copied, or compute from a part of a value, or a copy onto its source; those
//   of transforms; ResourceExhausted - not enough memory, or space in
//   `scratch`.
StatusOr<CopyResult> CopyCheckpoint(const Comm& comm, const std::string& from,
                                    std::optional<int64_t> step,
                                    const std::string& dir,
                                    std::optional<int64_t> to_step,
                                    const CopyOptions& options = {});

}  // namespace belay

#endif  // BELAY_READER_COPY_CHECKPOINT_H_
