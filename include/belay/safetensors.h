// Exports checkpoints to safetensors files, for example for PyTorch, and
// imports such files.
//
//   auto exported = belay::ExportSafetensors(*comm, "run", belay::kLatestStep,
//                                            "model.safetensors");
//   auto imported = belay::ImportSafetensors(*comm, {"model.safetensors"},
//                                            "run", /*step=*/0);
//
// Both move every tensor bit for bit, on any number of ranks; each rank
// transfers about the same number of bytes. The name of a tensor is its key.

#ifndef BELAY_SAFETENSORS_H_
#define BELAY_SAFETENSORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/comm.h"
#include "belay/options.h"
#include "belay/save_restore.h"
#include "belay/status.h"

namespace belay {

// The metadata of a safetensors file, pairs of strings, becomes strings of the
// checkpoint. The key of each is this prefix and its name:
// "__metadata__/format".
inline constexpr std::string_view kSafetensorsMetadata = "__metadata__/";

// A key or a tensor that was omitted, and why.
struct LeftOut {
  std::string name;
  std::string reason;

  friend bool operator==(const LeftOut&, const LeftOut&) = default;
};

struct ExportOptions {
  // --- What is exported ---
  // Regular expressions for whole keys: exports the keys that match one of
  // them. Each must match at least one key. Empty: everything. Metadata is
  // always exported.
  std::vector<std::string> keys = {};
  // Pairs of strings for the metadata of every file, in addition to those of
  // the checkpoint, which they override. The Transformers library needs
  // {"format", "pt"}.
  std::map<std::string, std::string> metadata = {};
  // Omit values that the format cannot represent (strings and c128) instead of
  // returning an error.
  bool leave_out_others = false;

  // --- How it is written ---
  // Split the export into files of at most this many bytes, with an index. A
  // larger tensor gets its own file, but a header with one tensor must fit. 0:
  // one file.
  int64_t max_file_bytes = 0;
  // Replace an existing export of that name.
  bool overwrite = false;
  // Verify the checksums of the blocks that are read.
  bool checksums = true;
  // As in SaveOptions.
  bool durable = true;
  // Upper limit of one rank's memory for values in transfer: 4 KiB to 1 GiB,
  // and at least 1/4194304 of the export. Up to 16 MiB are written at a time.
  // The rest of the memory holds chunks of filtered arrays until each is
  // completely written; if it is too small for a row of chunks, they are read
  // again.
  int64_t max_bytes_in_flight = int64_t{256} << 20;
  double deadline_seconds = 600;
  // Called with the bytes that this rank has written, and the total that it
  // will write. May be empty.
  std::function<void(int64_t done, int64_t total)> progress = nullptr;
};

// A file that was written or read.
struct SafetensorsInfo {
  std::string path;
  int64_t num_tensors = 0;  // transferred
  int64_t bytes = 0;        // of the whole file
};

// Equal on all ranks.
struct ExportResult {
  std::string path;  // of the step
  int64_t step = 0;
  std::vector<SafetensorsInfo> files;
  std::string index;  // path of the index; "": there is one file
  int64_t num_tensors = 0;
  int64_t bytes = 0;  // of all tensors
  std::vector<LeftOut> left_out;
  // Number of blocks verified against their checksums, and of blocks that were
  // read only in part.
  int64_t blocks_verified = 0;
  int64_t blocks_partial = 0;
  TransferCounters counters;
};

// Writes the arrays of a committed step as safetensors. Collective. Same on all
// ranks: all arguments except `progress` and `deadline_seconds`.
// `dir` is a directory of steps or, with kLatestStep, also a step. `out` is
// either a file "X.safetensors" in a directory that exists, or a directory,
// which is created if its parent exists and in which X is "model". With
// max_file_bytes, the export may instead be "X-00001-of-00003.safetensors" and
// so on, with "X.safetensors.index.json", as Hugging Face names them. Files are
// written under names that end with ".inprogress" and are renamed when all of
// them are complete, the index last. On an error, nothing of this export
// remains except a directory that it created, and an export that it should
// replace is unchanged.
// Errors: NotFound - no such step, or the parent of `out` is missing;
//   InvalidArgument - `out` is in a step or in a directory of steps, ranks
//   disagree, an expression matches nothing, a number is out of range, a name
//   is not UTF-8; FailedPrecondition - a value that the format cannot
//   represent, names the first of them; ranks do not see the same files; an
//   earlier export was killed while it replaced an export of that name; a later
//   export of that name has taken over; AlreadyExists - there is an export of
//   that name; DataLoss - a damaged checkpoint; ResourceExhausted - no space,
//   or more chunks than the data files can hold; and PermissionDenied, Internal
//   as in status.h.
// Cost: about 20 small collectives; each rank reads and writes its part.
StatusOr<ExportResult> ExportSafetensors(const Comm& comm,
                                         const std::string& dir,
                                         std::optional<int64_t> step,
                                         const std::string& out,
                                         const ExportOptions& options = {});

struct ImportOptions {
  // Regular expressions for whole tensor names, as in ExportOptions.
  std::vector<std::string> keys = {};
  // Import the metadata of the files.
  bool metadata = true;
  // Omit tensors with a dtype that belay does not support, such as F4, instead
  // of returning an error.
  bool leave_out_others = false;
  // How the step is saved.
  SaveOptions save = {};
  // As in ExportOptions.
  std::function<void(int64_t done, int64_t total)> progress = nullptr;
};

// Equal on all ranks.
struct ImportResult {
  std::vector<SafetensorsInfo> files;
  int64_t num_tensors = 0;
  int64_t num_texts = 0;  // metadata strings
  int64_t bytes = 0;      // of all tensors
  std::vector<LeftOut> left_out;
  SaveResult saved;
};

// Saves the tensors of safetensors files as the step <dir>/step_<step>.
// Collective. Same on all ranks: all arguments except `progress` and what Save
// lets differ in options.save.
// Each of `in` is a safetensors file, an index (a name that ends with ".json")
// or a directory. A directory stands for its only index or, if it has none, for
// all of its safetensors files. Headers are checked before anything is written.
// The files are mapped into memory, which may be smaller than the files; the
// files must not shrink during the import. On an error no step is committed.
// Errors: those of Save; NotFound - no such file, or none in the directory;
//   DataLoss - a file is cut off or has a bad header, or a file or a tensor
//   that the index names is missing; InvalidArgument - a name is in two files,
//   the metadata of two files differ, an index names files elsewhere, an
//   expression matches nothing; Unimplemented - a dtype that belay does not
//   support.
// Cost: that of Save, and about 5 small collectives; rank 0 reads all headers.
StatusOr<ImportResult> ImportSafetensors(const Comm& comm,
                                         const std::vector<std::string>& in,
                                         const std::string& dir, int64_t step,
                                         const ImportOptions& options = {});

}  // namespace belay

#endif  // BELAY_SAFETENSORS_H_
