// Names on disk: directories, files, and objects inside files. No I/O.
//
// All names are defined here and nowhere else.

#ifndef BELAY_FORMAT_PATHS_H_
#define BELAY_FORMAT_PATHS_H_

#include <compare>

#include "belay/arrays/box.h"
#include "plan/plan.h"

namespace belay {

// The parts of a step's name.
struct StepLabel {
  std::string prefix;
  int64_t step = 0;

  friend auto operator<=>(const StepLabel&, const StepLabel&) = default;
};

// Returns the name of a committed step, such as "step_00000042".
std::string StepName(int64_t step, std::string_view prefix = "step");
// Parses a step's name; returns nothing for any other name.
std::optional<StepLabel> ParseStepName(std::string_view name);
// Checks that names of steps may begin with `prefix`.
// Errors: InvalidArgument - it is empty, too long, or has a character that is
//   neither a letter nor a digit nor one of "-_=".
Status CheckStepPrefix(std::string_view prefix);
// Returns the path of a checkpoint that is being written, such as
// "run/step_00000042.inprogress".
std::string InProgressPath(std::string_view path);
// The same for one of several writers, which must not share a path:
// "x.safetensors.00c0ffee00c0ffee.inprogress".
std::string InProgressPath(std::string_view path, uint64_t nonce);
// Removes the in-progress suffix of `path`, in either form. Returns true if
// `path` had one.
bool WithoutInProgress(std::string_view& path);
// Returns true if a path has an in-progress suffix, in either form.
bool IsInProgress(std::string_view path);
// Returns the temporary name of a committed step while it is replaced on a file
// system that cannot swap names: `path` and ".replaced".
std::string ReplacedName(std::string_view path);
// Returns true if a path is a name from ReplacedName.
bool IsReplaced(std::string_view path);
// Returns the name of a directory for steps set aside when training went back
// to an earlier step, such as "step.aside_0001". The number has at least four
// digits.
std::string AsideName(std::string_view prefix, int64_t number);
// Returns the directory that contains `path`; "." for a bare name.
std::string GetParent(std::string_view path);
// Returns the last part of `path`.
std::string GetLastName(std::string_view path);
// Returns `path` without slashes at its end.
std::string WithoutSlashes(std::string_view path);
// Returns the name of the file that proves that ranks see the same directory.
std::string MarkerName(uint64_t nonce);
// Returns true if `name` is the marker of any save.
bool IsMarker(std::string_view name);
// Returns "index.h5".
std::string IndexName();
// Returns "metadata.json".
std::string MetadataName();
// Returns `parent`/`name`.
std::string JoinPath(std::string_view parent, std::string_view name);

// Returns the HDF5 path of every array, by position: the key, in which each '/'
// separates groups. '%', '@', control bytes, and the first byte of the parts
// "." and ".." and of a first part ".belay" are percent-escaped. An empty part
// becomes "%". If a key is also a group of another key ("x" beside "x/y"), it
// becomes "x/%value". `arrays` must be ascending by key.
std::vector<std::string> ObjectPaths(const std::vector<StoredArray>& arrays);

// Returns the HDF5 path of a dataset in its data file: the array's path if the
// dataset holds the whole array, else the path, '@' and the box.
std::string DatasetPath(const std::string& object_path,
                        const StoredArray& array, const StoredDataset& dataset);

}  // namespace belay

#endif  // BELAY_FORMAT_PATHS_H_
