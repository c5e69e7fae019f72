// Names on disk: directories, files, and objects inside files. No I/O.
//
// The only place that knows how anything is called.

#ifndef BELAY_FORMAT_PATHS_H_
#define BELAY_FORMAT_PATHS_H_

#include <compare>

#include "belay/arrays/box.h"
#include "plan/plan.h"

namespace belay {

// The parts of the name of a step.
struct StepLabel {
  std::string prefix;
  int64_t step = 0;

  friend auto operator<=>(const StepLabel&, const StepLabel&) = default;
};

// "step_00000042": a committed step.
std::string StepName(int64_t step, std::string_view prefix = "step");
// Parses such a name; nothing for any other name.
std::optional<StepLabel> ParseStepName(std::string_view name);
// Checks that names of steps may begin with it.
// Errors: InvalidArgument - it is empty, too long, or has a character that is
//   neither a letter nor a digit nor one of "-_=".
Status CheckStepPrefix(std::string_view prefix);
// "run/step_00000042.inprogress": a checkpoint that is being written.
std::string InProgressPath(std::string_view path);
// "x.safetensors.00c0ffee00c0ffee.inprogress": the same, for one of several
// writers, which must not share a path.
std::string InProgressPath(std::string_view path, uint64_t nonce);
// Takes the end of such a name off, of either form, and returns whether it was
// there.
bool WithoutInProgress(std::string_view& path);
// Returns whether a path is such a name, of either form.
bool IsInProgress(std::string_view path);
// The name that a committed step has for a moment while it is replaced on a
// file system that cannot swap names: `path` and ".replaced".
std::string ReplacedName(std::string_view path);
// Returns whether a path is such a name.
bool IsReplaced(std::string_view path);
// "step.aside_0001": a directory with steps that a training went back behind. A
// number has four digits or more.
std::string AsideName(std::string_view prefix, int64_t number);
// The directory that holds `path`; "." for a bare name.
std::string GetParent(std::string_view path);
// The last name of `path`.
std::string GetLastName(std::string_view path);
// `path` without slashes at its end.
std::string WithoutSlashes(std::string_view path);
// The file whose presence proves that ranks see the same directory.
std::string MarkerName(uint64_t nonce);
// Returns whether this is the marker of any save.
bool IsMarker(std::string_view name);
// "index.h5".
std::string IndexName();
// "metadata.json".
std::string MetadataName();
// `parent`/`name`.
std::string JoinPath(std::string_view parent, std::string_view name);

// The HDF5 path of every array, by position: the key with its '/' as groups.
// '%', '@', control bytes, empty parts and the parts "." and "..", and a first
// part ".belay", are percent-escaped; a key that is also the beginning of
// another one ("x" beside "x/y") becomes "x/%value". `arrays` is ascending by
// key.
std::vector<std::string> ObjectPaths(const std::vector<StoredArray>& arrays);

// The HDF5 path of a dataset in its data file: the array's path if it holds
// the whole array, else the path, '@' and the box.
std::string DatasetPath(const std::string& object_path,
                        const StoredArray& array, const StoredDataset& dataset);

}  // namespace belay

#endif  // BELAY_FORMAT_PATHS_H_
