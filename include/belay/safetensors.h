// Safetensors: how a state leaves for PyTorch, and how one comes from there.
//
//   auto exported = belay::ExportSafetensors(*comm, "run", belay::kLatestStep,
//                                            "model.safetensors");
//   auto imported = belay::ImportSafetensors(*comm, {"model.safetensors"},
//                                            "run", /*step=*/0);
//
// Both move every tensor bit for bit, on any number of ranks, each of which
// carries about the same number of bytes. A tensor's name is its key.

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

// The metadata of a safetensors file, pairs of texts, are strings of the
// checkpoint. This and the name of one is its key: "__metadata__/format".
inline constexpr std::string_view kSafetensorsMetadata = "__metadata__/";

// A key or a tensor that did not come along, and why.
struct LeftOut {
  std::string name;
  std::string reason;

  friend bool operator==(const LeftOut&, const LeftOut&) = default;
};

struct ExportOptions {
  // --- What is exported ---
  // Regular expressions for whole keys; what one of them matches is exported,
  // and each has to match some key. None: everything. Metadata comes along in
  // any case.
  std::vector<std::string> keys = {};
  // Pairs of texts for the metadata of every file, added to those of the
  // checkpoint and stronger. Transformers wants {"format", "pt"}.
  std::map<std::string, std::string> metadata = {};
  // Leave out what the format has no form for, strings and c128, instead of
  // refusing.
  bool leave_out_others = false;

  // --- How it is written ---
  // Cut the export into files of at most so many bytes, with an index. A tensor
  // that is larger has a file to itself, but a header with one tensor has to
  // fit. 0: one file.
  int64_t max_file_bytes = 0;
  // Replace an export of that name.
  bool overwrite = false;
  // Check the blocks that are read.
  bool checksums = true;
  // As in SaveOptions.
  bool durable = true;
  // Upper limit of the memory of one rank for values on their way. From 4 KiB
  // to 1 GiB, and at least 1/4194304 of the export. Up to 16 MiB are written at
  // a time; the rest keeps chunks of arrays with filters, until all of a chunk
  // is written: where it is too small for a row of chunks, they are read again.
  int64_t max_bytes_in_flight = int64_t{256} << 20;
  double deadline_seconds = 600;
  // Is called with the bytes that this rank has written, and those that it is
  // to write. May be empty.
  std::function<void(int64_t done, int64_t total)> progress = nullptr;
};

// A file that was written or read.
struct SafetensorsInfo {
  std::string path;
  int64_t num_tensors = 0;  // that came along
  int64_t bytes = 0;        // of the whole file
};

// Equal on all ranks.
struct ExportResult {
  std::string path;  // of the step
  int64_t step = 0;
  std::vector<SafetensorsInfo> files;
  std::string index;  // the path of the index; "": there is one file
  int64_t num_tensors = 0;
  int64_t bytes = 0;  // of all tensors
  std::vector<LeftOut> left_out;
  // Blocks compared with their checksum, and blocks that were not read whole.
  int64_t blocks_verified = 0;
  int64_t blocks_partial = 0;
  TransferCounters counters;
};

// Writes the arrays of a committed step as safetensors. Collective. Same on all
// ranks: all arguments but `progress` and `deadline_seconds`.
// `dir` is a directory of steps or, with kLatestStep, also a step. `out` is the
// file "X.safetensors"; any other name is a directory, which is made if its
// parent exists, and X is "model" in it. With max_file_bytes there may be
// "X-00001-of-00003.safetensors" and so on instead, and
// "X.safetensors.index.json", as Hugging Face has them.
// Files are written under names that end with ".inprogress" and get their own
// when all of them are complete, the index last. On an error nothing of this
// export is left but a directory that it made, and one that it was to replace
// is as before.
// Errors: NotFound - no such step, or the parent of `out` is missing;
//   InvalidArgument - ranks disagree, an expression that matches nothing, a
//   number out of its range, a name that is not UTF-8; FailedPrecondition - a
//   value that the format has no form for, names the first of them; ranks do
//   not see the same files; an earlier export was killed while it replaced
//   this one; a later one of that name has taken over; AlreadyExists - there
//   is an export of that name;
//   DataLoss - a damaged checkpoint; ResourceExhausted - no space; and
//   PermissionDenied, Internal as in status.h.
// Cost: some 20 small collectives; each rank reads and writes its share.
StatusOr<ExportResult> ExportSafetensors(const Comm& comm,
                                         const std::string& dir,
                                         std::optional<int64_t> step,
                                         const std::string& out,
                                         const ExportOptions& options = {});

struct ImportOptions {
  // Regular expressions for whole names of tensors, as in ExportOptions.
  std::vector<std::string> keys = {};
  // Take the metadata of the files along.
  bool metadata = true;
  // Leave out tensors of a dtype that belay does not have, such as F4, instead
  // of refusing.
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
  int64_t num_texts = 0;  // of metadata
  int64_t bytes = 0;      // of all tensors
  std::vector<LeftOut> left_out;
  SaveResult saved;
};

// Saves the tensors of safetensors files as the step <dir>/step_<step>.
// Collective. Same on all ranks: all arguments but `progress`, and of
// options.save what Save lets differ.
// Each of `in` is a safetensors file, an index (a name that ends with ".json")
// or a directory: its only index or, if it has none, all of its safetensors
// files. Headers are checked before anything is written; the files are mapped
// into memory, which they need not fit into, and must not become shorter
// meanwhile. On an error no step is committed.
// Errors: those of Save; NotFound - no such file, or none in the directory;
//   DataLoss - a file that is cut off or has a bad header, or a file or a
//   tensor that the index names is missing; InvalidArgument - a name is in two
//   files, metadata of two files differ, an index names files elsewhere, an
//   expression that matches nothing; Unimplemented - a dtype that belay does
//   not have.
// Cost: that of Save, and some 5 small collectives; rank 0 reads all headers.
StatusOr<ImportResult> ImportSafetensors(const Comm& comm,
                                         const std::vector<std::string>& in,
                                         const std::string& dir, int64_t step,
                                         const ImportOptions& options = {});

}  // namespace belay

#endif  // BELAY_SAFETENSORS_H_
