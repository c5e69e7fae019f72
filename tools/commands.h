// The sub-commands of `belay`. Each prints to stdout and returns an exit code:
// 0 on success, 1 if damage or a difference was found, 2 if the command failed.
// With `json` it prints one object (docs/command.md) instead of lines.

#ifndef BELAY_TOOLS_COMMANDS_H_
#define BELAY_TOOLS_COMMANDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/options.h"
#include "belay/status.h"

namespace belay {

struct ExportOptions;
struct ImportOptions;

namespace tools {

struct ListOptions {
  bool shards = false;
  bool json = false;
};

// Prints a table of the arrays of a checkpoint or, with `shards`, of the
// contents of each data file.
int List(const std::string& path, const ListOptions& options);

// Prints a table of the steps of a directory.
int ListStepsOf(const std::string& path, bool json);

struct VerifyOptions {
  bool all = false;    // all steps of a directory, not only the newest
  bool quiet = false;  // print damage only
  bool json = false;
  std::optional<int64_t> step = std::nullopt;  // that was asked for
};

// Reads every byte of a checkpoint and compares checksums.
int Verify(const std::string& path, const VerifyOptions& options);

struct ShowOptions {
  std::string box;  // as in BoxText; an axis may be "-"; empty: all
  bool statistics = false;
  int64_t max = 1000;  // abbreviate if there are more elements or bytes
  bool json = false;
};

// Prints the values of one array, by its key or by its path in the objects.
int Show(const std::string& path, const std::string& key,
         const ShowOptions& options);

struct GraphOptions {
  std::optional<int64_t> depth;  // number of levels below the root; unset: all
  bool values = true;            // false: only objects that hold something
  bool json = false;
};

// Prints the objects of a checkpoint as a tree.
int Graph(const std::string& path, const GraphOptions& options);

struct DiffOptions {
  bool keys_only = false;  // keys, dtypes and shapes, not the values
  // Maximum difference of numbers; unset: all bits must be equal.
  std::optional<double> tolerance;
  bool json = false;
};

// Compares two checkpoints.
int Diff(const std::string& a, const std::string& b,
         const DiffOptions& options);

struct PlanOptions {
  int ranks = 1;
  std::optional<int64_t> replicas;  // unset: every rank wants everything
  std::string layout;               // as in Layout::ToString; empty: by rows
  std::string read = "auto";        // or "each", or "once"
  std::optional<int64_t> primary_replica;
  int64_t max_bytes_in_flight = int64_t{256} << 20;
  bool json = false;
};

// Prints what a restore on the given number of ranks would read.
int Plan(const std::string& path, const PlanOptions& options);

// Writes a step (unset: the newest) as safetensors. `metadata` has entries
// "NAME=TEXT". All ranks of an mpirun take part; rank 0 prints.
int Export(const std::string& path, std::optional<int64_t> step,
           const std::string& out, const std::vector<std::string>& metadata,
           ExportOptions options, bool json = false);

// Saves safetensors files as a step of a directory. Runs on all ranks, as
// above.
int Import(const std::string& in, const std::string& dir, int64_t step,
           ImportOptions options, bool json = false);

struct CopyArguments {
  std::string from, to;
  std::optional<int64_t> step;     // of `from`; unset: the newest
  std::optional<int64_t> to_step;  // unset: the same
  std::vector<std::string> keys, leave_out;
  std::vector<std::string> dtypes;  // "KEYS=DTYPE"
  std::string rules;                // a file; empty: none
  std::string files = "shared";     // or "node", or "task"
  std::string scratch;
  bool strict_dtype = false;
  std::optional<int> deflate;
  bool overwrite = false;
  bool json = false;
};

// Saves the values of a step as another step. Runs on all ranks, as above.
int Copy(const CopyArguments& arguments);

struct SimulateOptions {
  std::string model;  // name, or path of its table
  std::string from;   // a parallelism, as in ParseParallelism
  std::string to;     // another one; empty: only the save
  int64_t divide = 1;
  bool weights = false;          // without the state of an optimizer
  std::string files = "shared";  // or "node", or "task"
  std::string read = "auto";     // as in PlanOptions
  int64_t ranks_per_node = 8;
  int64_t pad_vocabulary = 0;
  bool json = false;
};

// Prints what a save of a model, and a restore of it with another parallelism,
// would do.
int Simulate(const SimulateOptions& options);

// Parses who reads: "auto", "each" or "once". Error messages begin with
// `command`.
StatusOr<ReadSharing> SharingOf(const std::string& command,
                                const std::string& name);

// The part of an array that a command holds in memory at a time.
inline constexpr int64_t kPieceBytes = int64_t{8} << 20;

// Prints an error to stderr and returns 2.
int Fail(const Status& status);

}  // namespace tools
}  // namespace belay

#endif  // BELAY_TOOLS_COMMANDS_H_
