// Exports a checkpoint to safetensors files, in stages: list, open, plan,
// reserve, write, verify, commit.

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "belay/safetensors.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/flat_buffer.h"
#include "core/keys.h"
#include "core/process.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "format/paths.h"
#include "mpi/collective.h"
#include "pipeline/save_options.h"
#include "pipeline/stages.h"
#include "plan/plan.h"
#include "plan/restore_planner.h"
#include "plan/stored_arrays.h"
#include "restore/array_reading.h"
#include "restore/restore_stages.h"
#include "safetensors/export_lock.h"
#include "safetensors/export_options.h"
#include "safetensors/export_plan.h"
#include "storage/commit.h"
#include "storage/filtered_reader.h"
#include "storage/index_file.h"
#include "storage/posix_file.h"
#include "storage/reader.h"

namespace belay {
namespace {

using safetensors::FilePlan;
using safetensors::kFileEnd;
using safetensors::RankExport;
using safetensors::Window;

// --- Files ---

// The files of one export, such as DIRECTORY/STEM.safetensors. They are created
// under temporary names, and renamed once all are complete. Rank 0 only.
struct ExportFiles {
  std::string directory = {};
  std::string stem = {};
  bool makes_directory = false;  // if it does not exist
  uint64_t nonce = 0;            // distinguishes files of concurrent exports
  bool overwrite = false;
  bool durable = true;
  double lock_seconds = 0;  // maximum wait for other exports
  // In the order in which they are renamed. The index is last.
  std::vector<std::string> names = {};
  std::vector<std::string> old = {};  // of the export that is replaced
  size_t num_set_aside = 0;           // of `old`
  size_t num_named = 0;               // of `names`, already renamed
  ExportLock lock = {};               // held from NameExport on

  std::string TemporaryPath(const std::string& name) const {
    return InProgressPath(FinalPath(name), nonce);
  }
  std::string FinalPath(const std::string& name) const {
    return directory == "." ? name : JoinPath(directory, name);
  }
};

Status SyncPlace(const ExportFiles& files) {
  if (!files.durable) return absl::OkStatus();
  return SyncDirectory(files.directory);
}

// Removes `end` from the end of `name`. Returns false if `name` does not end
// with it.
bool RemoveEnd(std::string_view& name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  name.remove_suffix(end.size());
  return true;
}

// Fails if `path` is a directory, because directories must not be removed or
// renamed.
Status CheckIsFile(const std::string& path) {
  const Status listed = ListDirectory(path).status();
  if (absl::IsInvalidArgument(listed) || absl::IsNotFound(listed)) {
    return absl::OkStatus();  // a file, or a link to nothing
  }
  BELAY_RETURN_IF_ERROR(listed);
  return absl::FailedPreconditionError(absl::StrFormat(
      "export \"%s\": there is a directory of that name", path));
}

// Renames the files of the old export, the index first. The new index is
// renamed last, so an index never names files of another export.
Status SetAside(ExportFiles& files) {
  std::stable_partition(files.old.begin(), files.old.end(),
                        [](const std::string& name) {
                          return name.ends_with(safetensors::kIndexEnd);
                        });
  for (const std::string& name : files.old) {
    const std::string path = files.FinalPath(name);
    BELAY_RETURN_IF_ERROR(Rename(path, ReplacedName(path)));
    ++files.num_set_aside;
  }
  return files.old.empty() ? absl::OkStatus() : SyncPlace(files);
}

// An export that begins removes the temporary files of earlier exports of the
// same name, so this checks that ours still exist.
Status CheckStillOurs(const ExportFiles& files) {
  for (const std::string& name : files.names) {
    const std::string path = files.TemporaryPath(name);
    BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(path));
    if (exists) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "export \"%s\": another export of this name has taken over", path));
  }
  return absl::OkStatus();
}

// Paths of files of other exports of this name.
struct Found {
  std::vector<std::string> debris;  // of exports that were killed or still run
  std::string set_aside;            // of a replaced export; or ""
};

// Sets `files.old` to the file names of a complete export, and returns the
// paths of other files.
StatusOr<Found> Look(ExportFiles& files) {
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                         ListDirectory(files.directory));
  Found found;
  files.old.clear();
  for (std::string_view name : all) {
    const std::string path = files.FinalPath(std::string(name));
    const bool is_set_aside = RemoveEnd(name, ReplacedName(""));
    const bool is_debris = WithoutInProgress(name);
    if (!safetensors::IsNameOfExport(name, files.stem)) continue;
    if (is_set_aside) {
      found.set_aside = path;
      continue;
    }
    BELAY_RETURN_IF_ERROR(CheckIsFile(path));
    if (is_debris) {
      found.debris.push_back(path);
    } else {
      files.old.emplace_back(name);
    }
  }
  return found;
}

std::string LockPath(const ExportFiles& files) {
  return files.FinalPath(Cat(".", files.stem, kFileEnd, ".lock"));
}

Status CheckReplaceable(const ExportFiles& files) {
  if (files.old.empty() || files.overwrite) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrFormat(
      "export \"%s\": the file is there already; choose another name or %s",
      files.FinalPath(files.old[0]), SetOption(&ExportOptions::overwrite)));
}

// Extracts the directory and the stem from the argument `out` of
// ExportSafetensors.
// Errors: InvalidArgument - `out` has no file name.
Status ParsePlace(const std::string& out, ExportFiles& files) {
  const std::string path = WithoutSlashes(out);
  const std::string name = GetLastName(path);
  if (!std::string_view(name).ends_with(kFileEnd) && !path.empty()) {
    files.directory = path;
    files.stem = "model";
    files.makes_directory = true;
    return absl::OkStatus();
  }
  if (name.size() <= kFileEnd.size()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "export to \"%s\": there is no name (need a directory, or a file such "
        "as \"model.safetensors\")",
        out));
  }
  files.directory = GetParent(path);
  files.stem = name.substr(0, name.size() - kFileEnd.size());
  return absl::OkStatus();
}

// Fails if the directory is a step or has steps, because such directories must
// not have other files.
Status CheckHasNoSteps(const std::string& directory) {
  BELAY_ASSIGN_OR_RETURN(const bool is_step, IsStep(directory));
  bool has_steps = false;
  if (!is_step) {
    BELAY_ASSIGN_OR_RETURN(const std::vector<StepLabel> steps,
                           CommittedLabels(directory));
    has_steps = !steps.empty();
  }
  if (!is_step && !has_steps) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("export to \"%s\": it is a %s; choose another directory",
                      directory, is_step ? "step" : "directory of steps"));
}

Status PrepareDirectory(const ExportFiles& files) {
  const std::string& directory = files.directory;
  if (files.makes_directory) {
    BELAY_RETURN_IF_ERROR(EnsureDirectory(directory, files.durable));
  }
  BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(directory));
  if (!exists) {
    return absl::NotFoundError(absl::StrFormat(
        "export to \"%s\": no such directory; make it first", directory));
  }
  return CheckHasNoSteps(directory);
}

// Checks the directory, creates it if its parent exists, and removes debris of
// exports of this name. Of two concurrent exports, the later one takes over.
// Errors: AlreadyExists - there is an export of this name, and `overwrite` is
//   false; FailedPrecondition - a directory has one of the names.
Status BeginExport(ExportFiles& files) {
  BELAY_RETURN_IF_ERROR(PrepareDirectory(files));
  // Locked, because files that another export is renaming now are not debris.
  BELAY_ASSIGN_OR_RETURN(const ExportLock lock,
                         ExportLock::Take(LockPath(files), files.lock_seconds));
  BELAY_ASSIGN_OR_RETURN(const Found found, Look(files));
  BELAY_RETURN_IF_ERROR(CheckReplaceable(files));
  // In this case, it is unknown which files are complete.
  if (!found.debris.empty() && !found.set_aside.empty()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "export \"%s\": an earlier export was killed while it replaced this "
        "one: rename such files without that ending, or remove them",
        found.set_aside));
  }
  for (const std::string& path : found.debris) {
    BELAY_RETURN_IF_ERROR(RemoveTree(path));
  }
  return absl::OkStatus();
}

// Creates a file of `bytes` bytes that begins with `head`.
Status MakeExportFile(ExportFiles& files, const std::string& name,
                      const std::string& head, int64_t bytes) {
  BELAY_ASSIGN_OR_RETURN(
      PosixFile file,
      PosixFile::Open(files.TemporaryPath(name), PosixFile::Mode::kCreate));
  files.names.push_back(name);
  BELAY_RETURN_IF_ERROR(file.Fallocate(bytes));
  BELAY_RETURN_IF_ERROR(file.PwriteAll(0, head.data(), std::ssize(head)));
  if (files.durable) BELAY_RETURN_IF_ERROR(file.Sync());
  return file.Close();
}

// Renames all files. Replaced files are set aside. Other exports of this name
// wait until FinishExport or UndoExport, one of which must be called next.
// Errors: FailedPrecondition - another export of this name has taken over;
//   AlreadyExists - as for BeginExport.
Status NameExport(ExportFiles& files) {
  BELAY_ASSIGN_OR_RETURN(files.lock,
                         ExportLock::Take(LockPath(files), files.lock_seconds));
  BELAY_RETURN_IF_ERROR(CheckStillOurs(files));
  // Another export may have renamed its files since BeginExport.
  BELAY_RETURN_IF_ERROR(Look(files).status());
  BELAY_RETURN_IF_ERROR(CheckReplaceable(files));
  BELAY_RETURN_IF_ERROR(SetAside(files));
  for (const std::string& name : files.names) {
    const bool is_index =
        std::string_view(name).ends_with(safetensors::kIndexEnd);
    if (is_index) BELAY_RETURN_IF_ERROR(SyncPlace(files));
    BELAY_RETURN_IF_ERROR(
        Rename(files.TemporaryPath(name), files.FinalPath(name)));
    ++files.num_named;
  }
  return SyncPlace(files);
}

// Removes the files of this export, and restores the files that were set aside.
// Ignores errors, so that the original error is not hidden.
void UndoExport(ExportFiles& files) {
  // The index, which is last, is removed first.
  for (size_t i = files.names.size(); i-- > 0;) {
    const std::string& name = files.names[i];
    const std::string path =
        i < files.num_named ? files.FinalPath(name) : files.TemporaryPath(name);
    RemoveTree(path).IgnoreError();
  }
  for (size_t i = files.num_set_aside; i-- > 0;) {
    const std::string path = files.FinalPath(files.old[i]);
    Rename(ReplacedName(path), path).IgnoreError();
  }
  files.lock = {};
}

// Removes files that were set aside by this export or by one that was killed.
// Ignores errors.
void FinishExport(ExportFiles& files) {
  const ExportLock lock = std::move(files.lock);
  const StatusOr<std::vector<std::string>> names =
      ListDirectory(files.directory);
  if (!names.ok()) return;
  for (std::string_view name : *names) {
    const std::string path = files.FinalPath(std::string(name));
    if (RemoveEnd(name, ReplacedName("")) &&
        safetensors::IsNameOfExport(name, files.stem) &&
        CheckIsFile(path).ok()) {
      RemoveTree(path).IgnoreError();
    }
  }
}

// --- Stages ---

struct ExportFrame {
  CommContext& context;
  Stages& stages;
  const std::string& dir;
  std::optional<int64_t> step;  // unset: the newest
  const std::string& out;
  const ExportOptions& options;
};

// The checkpoint to export. Rank 0 only.
struct OpenedExport {
  std::string path;
  SavedCheckpoint saved;
  uint64_t identity = 0;  // of the save
};

struct PlannedExport {
  // Equal on all ranks.
  ExportResult result;                       // without counters
  std::vector<std::string> temporary_paths;  // of all files
  std::vector<std::string> file_names;       // of the checkpoint
  std::vector<FilteredDataset> filtered;
  bool checks = false;
  int64_t num_blocks = 0;
  // This rank's part.
  RankExport part;
  RankReads reads;
  // Rank 0 only.
  FilePlan plan;
  RestorePlan reading;
};
// The members that are equal on all ranks, except `filtered`.
template <typename Archive>
void Fields(Archive& archive, PlannedExport& planned) {
  ExportResult& result = planned.result;
  archive(result.path, result.step, result.index, result.num_tensors,
          result.bytes, result.files, result.left_out, planned.temporary_paths,
          planned.file_names, planned.checks, planned.num_blocks);
}

// --- List and open stages ---

Status CheckArguments(const ExportFrame& frame, ExportFiles& files) {
  const std::string start = absl::StrFormat("export \"%s\"", frame.dir);
  if (frame.step.value_or(0) < 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: step is out of range (need 0 to %d, found %d)",
                        start, INT64_MAX, *frame.step));
  }
  BELAY_RETURN_IF_ERROR(CheckRanges(start, frame.options));
  return ParsePlace(frame.out, files);
}

// Returns everything that must be equal on all ranks.
std::vector<CommonOption> CommonArguments(const ExportFrame& frame) {
  std::vector<CommonOption> common = {
      {"the directory", frame.dir},
      {"the step", frame.step ? absl::StrFormat("%d", *frame.step) : ""},
      {"the destination", frame.out}};
  for (CommonOption& option : CommonOptions(frame.options)) {
    common.push_back({Cat("the option ", option.name), option.bytes});
  }
  return common;
}

// Rank 0 only.
StatusOr<OpenedExport> OpenOnRoot(const ExportFrame& frame) {
  OpenedExport opened;
  if (frame.step) {
    opened.path = StepPath(frame.dir, *frame.step);
  } else {
    BELAY_ASSIGN_OR_RETURN(opened.path, ResolveStep(frame.dir));
  }
  const StatusOr<uint64_t> identity = IndexIdentity(opened.path);  // read
                                                                   // before the
                                                                   // index
  StatusOr<SavedCheckpoint> saved = ReadIndex(opened.path);
  if (absl::IsNotFound(saved.status())) {
    return NoSuchStep("export", opened.path);
  }
  BELAY_RETURN_IF_ERROR(saved.status());
  BELAY_RETURN_IF_ERROR(identity.status());
  opened.saved = *std::move(saved);
  opened.identity = *identity;
  BELAY_RETURN_IF_ERROR(CheckDataFiles(opened.path, opened.saved));
  BELAY_RETURN_IF_ERROR(CheckStoredChunks(opened.path, opened.saved));
  BELAY_RETURN_IF_ERROR(CheckChunksFit("export", opened.path, opened.saved));
  return opened;
}

// Collective; agreed.
Agreed<OpenedExport> Open(const ExportFrame& frame) {
  frame.stages.Enter("open");
  StatusOr<OpenedExport> opened = OpenedExport();
  BELAY_RETURN_IF_AGREED(OnRoot(frame.context, [&] {
    opened = OpenOnRoot(frame);
    return opened.status();
  }));
  return *std::move(opened);
}

// --- Plan stage ---

// Larger windows are not faster.
constexpr int64_t kMaxWindowBytes = int64_t{16} << 20;

struct ExportSelection {
  std::vector<safetensors::FileTensor> tensors;
  safetensors::Metadata metadata;
  std::vector<LeftOut> left_out;
};

bool IsMetadata(const StoredArray& array) {
  return array.dtype == DType::kString &&
         std::string_view(array.key).starts_with(kSafetensorsMetadata);
}

// Reads a string from the checkpoint.
StatusOr<std::string> ReadStoredText(const std::string& path,
                                     const SavedCheckpoint& saved,
                                     const ArrayEntry& entry, size_t number,
                                     bool checksums) {
  const StoredArray& array = saved.arrays[number];
  return CatchBadAlloc(
      absl::StrFormat("the text \"%s\"", array.key),
      [&]() -> StatusOr<std::string> {
        std::string text(array.string_bytes, '\0');
        ArrayReading reading(IndexOfArray(saved, static_cast<int32_t>(number),
                                          entry, WholeBox(IoShape(array))),
                             path);
        BELAY_RETURN_IF_ERROR(reading.Read(
            {.key = array.key, .dtype = DType::kString, .text = &text}));
        if (checksums) BELAY_RETURN_IF_ERROR(reading.CheckBlocks());
        return text;
      });
}

// Returns the arrays whose keys match the expressions, without metadata.
StatusOr<std::vector<const StoredArray*>> ChooseArrays(
    const SavedCheckpoint& saved, const ExportOptions& options) {
  BELAY_ASSIGN_OR_RETURN(const KeyPatterns patterns,
                         KeyPatterns::Compile(options.keys));
  std::vector<std::string_view> keys;
  std::vector<const StoredArray*> chosen;
  for (const StoredArray& array : saved.arrays) {
    if (IsMetadata(array)) continue;
    keys.push_back(array.key);
    if (options.keys.empty() || patterns.Find(array.key) >= 0) {
      chosen.push_back(&array);
    }
  }
  BELAY_RETURN_IF_ERROR(patterns.CheckAllMatch(keys));
  return chosen;
}

// Selects tensors according to the options, and reads the metadata from the
// step directory `path`. Rank 0 only.
StatusOr<ExportSelection> SelectForExport(const std::string& path,
                                          const SavedCheckpoint& saved,
                                          const ExportOptions& options) {
  ExportSelection selection{.metadata = options.metadata};
  BELAY_ASSIGN_OR_RETURN(const std::vector<const StoredArray*> chosen,
                         ChooseArrays(saved, options));
  for (const StoredArray* array : chosen) {
    if (!safetensors::FormatName(array->dtype)) {
      selection.left_out.push_back(
          {array->key,
           Cat("safetensors has no form for ", DTypeName(array->dtype))});
      continue;
    }
    selection.tensors.push_back({.name = array->key,
                                 .dtype = array->dtype,
                                 .shape = array->shape,
                                 .begin = 0,
                                 .end = ArrayBytes(*array)});
  }
  if (!selection.left_out.empty() && !options.leave_out_others) {
    const auto& [name, reason] = selection.left_out[0];
    return absl::FailedPreconditionError(absl::StrFormat(
        "key \"%s\": %s; choose others with keys, or leave such values out "
        "with leave_out_others (%d of them)",
        name, reason, selection.left_out.size()));
  }
  const std::vector<ArrayEntry> entries = ArrayEntries(saved);
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    const StoredArray& array = saved.arrays[i];
    const std::string name =
        IsMetadata(array) ? array.key.substr(kSafetensorsMetadata.size()) : "";
    if (!IsMetadata(array) || selection.metadata.contains(name)) continue;
    BELAY_ASSIGN_OR_RETURN(
        selection.metadata[name],
        ReadStoredText(path, saved, entries[i], i, options.checksums));
  }
  return selection;
}

// Sets the members that rank 0 sends to all ranks.
void Describe(const ExportFrame& frame, const OpenedExport& opened,
              const ExportFiles& files, PlannedExport& planned) {
  ExportResult& result = planned.result;
  result.path = opened.path;
  result.step = opened.saved.step;
  for (const safetensors::PlannedFile& file : planned.plan.files) {
    const int64_t num_tensors = std::ssize(file.tensors);
    result.files.push_back({.path = files.FinalPath(file.name),
                            .num_tensors = num_tensors,
                            .bytes = file.bytes});
    result.num_tensors += num_tensors;
    result.bytes += file.bytes - std::ssize(file.head);
    planned.temporary_paths.push_back(files.TemporaryPath(file.name));
  }
  if (!planned.plan.index_name.empty()) {
    result.index = files.FinalPath(planned.plan.index_name);
  }
  for (const StoredFile& file : opened.saved.files) {
    planned.file_names.push_back(file.name);
  }
  planned.checks = opened.saved.has_checksums && frame.options.checksums;
  planned.num_blocks = planned.reading.num_blocks;
}

// Plans the files, and what each rank reads and writes. Returns each rank's
// part. Rank 0 only.
StatusOr<std::vector<RankExport>> PlanOnRoot(const ExportFrame& frame,
                                             const OpenedExport& opened,
                                             const ExportFiles& files,
                                             PlannedExport& planned) {
  BELAY_ASSIGN_OR_RETURN(
      ExportSelection selection,
      SelectForExport(opened.path, opened.saved, frame.options));
  planned.result.left_out = std::move(selection.left_out);
  BELAY_ASSIGN_OR_RETURN(
      planned.plan,
      safetensors::PlanFiles(std::move(selection.tensors), selection.metadata,
                             files.stem, frame.options.max_file_bytes));
  BELAY_ASSIGN_OR_RETURN(
      std::vector<RankExport> parts,
      safetensors::PlanExport(
          planned.plan, frame.context.size(),
          std::min(frame.options.max_bytes_in_flight, kMaxWindowBytes)));
  std::vector<RankShards> wanted;
  for (const RankExport& part : parts) {
    wanted.push_back({.node = 0, .shards = part.shards});
  }
  BELAY_ASSIGN_OR_RETURN(planned.reading, PlanRestore(opened.saved, wanted));
  Describe(frame, opened, files, planned);
  return parts;
}

// Rank 0 plans, and each rank gets its part. Only the names of `files` are
// used. Collective; agreed.
Agreed<PlannedExport> PlanTogether(const ExportFrame& frame,
                                   const OpenedExport& opened,
                                   const ExportFiles& files) {
  frame.stages.Enter("plan");
  PlannedExport planned;
  const auto plan = [&]() -> StatusOr<RootMessages> {
    const StatusOr<std::vector<RankExport>> parts =
        PlanOnRoot(frame, opened, files, planned);
    if (!parts.ok()) {
      return Status(parts.status().code(),
                    absl::StrFormat("export \"%s\": %s", opened.path,
                                    parts.status().message()));
    }
    WireWriter common;
    common(planned);
    common(planned.reading.filtered);
    RootMessages messages{.common = common.Take()};
    for (size_t rank = 0; rank < parts->size(); ++rank) {
      messages.parts.push_back(Encode((*parts)[rank]) +
                               Encode(planned.reading.ranks[rank]));
    }
    return messages;
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const RootMessage message, FromRootInParts(frame.context, [&] {
        return CatchBadAlloc("the plan of the export", plan);
      }));
  WireReader common(message.common);
  common(planned);
  common(planned.filtered);
  WireReader part(message.part);
  part(planned.part, planned.reads);
  return planned;
}

// --- Write stage ---

// The result of reading and writing on this rank.
struct ExportedData {
  std::vector<uint32_t> registers;
  std::vector<int64_t> covered;
  int64_t bytes = 0;
  int64_t io_calls = 0;
};

// Writes this rank's parts of files, one file after another.
class FileToFill {
 public:
  FileToFill(const ExportOptions& options, const PlannedExport& planned)
      : options_(options), planned_(planned) {}

  Status Write(const Window& window, const char* data) {
    if (!file_ || window.file != index_) BELAY_RETURN_IF_ERROR(Open(window));
    BELAY_RETURN_IF_ERROR(file_->PwriteAll(window.offset, data, window.bytes));
    if (options_.durable) {
      file_->StartWriteback(window.offset, window.bytes);
    }
    return absl::OkStatus();
  }

  Status Close() {
    if (!file_) return absl::OkStatus();
    calls_ += file_->write_calls();
    if (options_.durable) BELAY_RETURN_IF_ERROR(file_->Sync());
    BELAY_RETURN_IF_ERROR(file_->Close());
    file_.reset();
    return absl::OkStatus();
  }

  int64_t calls() const { return calls_; }

 private:
  Status Open(const Window& window) {
    BELAY_RETURN_IF_ERROR(Close());
    index_ = window.file;
    const std::string& path = planned_.temporary_paths[index_];
    StatusOr<PosixFile> file = PosixFile::Open(path, PosixFile::Mode::kWrite);
    if (absl::IsNotFound(file.status())) return NotShared(path);
    BELAY_RETURN_IF_ERROR(file.status());
    file_ = *std::move(file);
    BELAY_ASSIGN_OR_RETURN(const FileStat stat, file_->Stat());
    const int64_t bytes = planned_.result.files[index_].bytes;
    return stat.size == bytes ? absl::OkStatus() : NotShared(path);
  }

  static Status NotShared(const std::string& path) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "export \"%s\": this rank does not see the file that rank 0 has made; "
        "all ranks need the same file system, and no other job may export to "
        "this name",
        path));
  }

  const ExportOptions& options_;
  const PlannedExport& planned_;
  std::optional<PosixFile> file_;
  int32_t index_ = -1;
  int64_t calls_ = 0;
};

std::vector<RankReads> GroupByWindow(const PlannedExport& planned) {
  const std::vector<Window>& windows = planned.part.windows;
  std::vector<size_t> window_of(planned.part.shards.size());
  for (size_t i = 0; i < windows.size(); ++i) {
    for (int32_t s = windows[i].begin_shard; s < windows[i].end_shard; ++s) {
      window_of[s] = i;
    }
  }
  std::vector<RankReads> reads(windows.size());
  for (const ReadOrder& order : planned.reads.orders) {
    reads[window_of[order.shard]].orders.push_back(order);
  }
  return reads;
}

// Assigns contiguous memory to the shards of a window, in the order of the
// file.
Status PlaceShards(const Window& window, ReusableBytes& memory,
                   std::vector<Shard>& shards) {
  BELAY_RETURN_IF_ERROR(
      CatchBadAlloc(absl::StrFormat("%d bytes to export", window.bytes), [&] {
        if (memory.size < window.bytes) Reserve(memory, window.bytes);
        return absl::OkStatus();
      }));
  std::byte* next = memory.bytes.get();
  for (int32_t s = window.begin_shard; s < window.end_shard; ++s) {
    Shard& shard = shards[s];
    shard.data = next;
    next += NumElements(shard.box.shape) * DTypeSize(shard.dtype);
  }
  return absl::OkStatus();
}

// Reads this rank's windows, and writes each into its file.
// Errors: FailedPrecondition - this rank does not see the files that rank 0 has
//   created.
StatusOr<ExportedData> WriteWindows(const ExportOptions& options,
                                    const PlannedExport& planned) {
  const std::vector<Window>& windows = planned.part.windows;
  const std::vector<RankReads> reads = GroupByWindow(planned);
  std::vector<Shard> shards;
  for (const ShardInfo& info : planned.part.shards) {
    shards.push_back({.key = info.key,
                      .dtype = info.dtype,
                      .global_shape = info.global_shape,
                      .box = info.box});
  }
  int64_t total = 0, largest = 0;
  for (const Window& window : windows) {
    total += window.bytes;
    largest = std::max(largest, window.bytes);
  }
  ReusableBytes memory;
  ReadCounts counts;
  ExportedData data;
  BELAY_RETURN_IF_ERROR(CatchBadAlloc("the checksums of all blocks", [&] {
    data.registers.assign(planned.checks ? planned.num_blocks : 0, 0);
    data.covered.assign(planned.checks ? planned.num_blocks : 0, 0);
    return absl::OkStatus();
  }));
  // Files stay open, because the next windows may need the same chunks.
  OpenFiles kept(options.max_bytes_in_flight - largest);
  FileToFill file(options, planned);
  int64_t done = 0;
  for (size_t i = 0; i < reads.size(); ++i) {
    const Window& window = windows[i];
    BELAY_RETURN_IF_ERROR(PlaceShards(window, memory, shards));
    BELAY_RETURN_IF_ERROR(ReadAll({.shards = shards,
                                   .reads = reads[i],
                                   .directory = planned.result.path,
                                   .file_names = planned.file_names,
                                   .filtered = planned.filtered,
                                   .registers = data.registers,
                                   .covered = data.covered,
                                   .stages_slow_targets = false,
                                   .kept = &kept},
                                  counts));
    BELAY_RETURN_IF_ERROR(
        file.Write(window, reinterpret_cast<const char*>(memory.bytes.get())));
    done += window.bytes;
    if (!options.progress) continue;
    BELAY_RETURN_IF_ERROR(CatchExceptions([&] {
      options.progress(done, total);
      return absl::OkStatus();
    }));
  }
  BELAY_RETURN_IF_ERROR(file.Close());
  data.bytes = counts.bytes;
  data.io_calls = counts.io_calls + file.calls();
  return data;
}

// --- All stages ---

// Returns the longest wait for a lock. It ends before the deadline, so that a
// process that waits in vain gets an error.
double LockSeconds(double deadline_seconds) {
  constexpr double kMax = 30;
  return deadline_seconds > 0 ? std::min(kMax, deadline_seconds / 2) : kMax;
}

// Rank 0 only.
Status ReserveOnRoot(const FilePlan& plan, ExportFiles& files) {
  BELAY_RETURN_IF_ERROR(BeginExport(files));
  for (const safetensors::PlannedFile& file : plan.files) {
    BELAY_RETURN_IF_ERROR(
        MakeExportFile(files, file.name, file.head, file.bytes));
  }
  if (plan.index_name.empty()) return absl::OkStatus();
  return MakeExportFile(files, plan.index_name, plan.index_text,
                        std::ssize(plan.index_text));
}

// Runs the stages from reserve on, which create files. Collective; agreed.
Agreed<> WriteFiles(const ExportFrame& frame, const OpenedExport& opened,
                    PlannedExport& planned, ExportFiles& files) {
  frame.stages.Enter("reserve");
  BELAY_RETURN_IF_AGREED(OnRoot(
      frame.context, [&] { return ReserveOnRoot(planned.plan, files); }));
  frame.stages.Enter("write");
  StatusOr<ExportedData> data = WriteWindows(frame.options, planned);
  BELAY_RETURN_IF_AGREED(Agree(frame.context, data.status()));
  if (planned.checks) {
    frame.stages.Enter("verify");
    BELAY_ASSIGN_OR_RETURN_AGREED(
        const BlockCounts blocks,
        CompareTogether(
            frame.context,
            absl::StrFormat("export \"%s\"", planned.result.path),
            {opened.saved, planned.reading, data->registers, data->covered}));
    planned.result.blocks_verified = blocks.verified;
    planned.result.blocks_partial = blocks.partial;
  }
  planned.result.counters.bytes = data->bytes;
  planned.result.counters.io_calls = data->io_calls;
  frame.stages.Enter("commit");
  return OnRoot(frame.context, [&]() -> Status {
    BELAY_RETURN_IF_ERROR(
        CheckSameStep("export", opened.path, opened.identity));
    return NameExport(files);
  });
}

// Completes the result. Errors are ignored after the commit: if combining the
// counters fails, the result has this rank's counters. Collective.
void Report(const ExportFrame& frame, ExportResult& result) {
  TransferCounters& counters = result.counters;
  counters.files = std::ssize(result.files);
  counters.peak_memory_bytes = PeakMemoryBytes();
  counters.stages = frame.stages.Finish();
  static_cast<void>(CombineCounters(frame.context, counters));
}

// Runs all stages. Collective; agreed.
Agreed<ExportResult> RunExport(const ExportFrame& frame) {
  ExportFiles files{
      .nonce = NewNonce(),
      .overwrite = frame.options.overwrite,
      .durable = frame.options.durable,
      .lock_seconds = LockSeconds(frame.options.deadline_seconds)};
  frame.stages.Enter("list");
  BELAY_RETURN_IF_AGREED(Agree(frame.context, CheckArguments(frame, files)));
  BELAY_RETURN_IF_AGREED(
      AgreeOnArguments(frame.context, "export", CommonArguments(frame)));
  BELAY_ASSIGN_OR_RETURN_AGREED(const OpenedExport opened, Open(frame));
  BELAY_ASSIGN_OR_RETURN_AGREED(PlannedExport planned,
                                PlanTogether(frame, opened, files));
  Agreed<> written = WriteFiles(frame, opened, planned, files);
  // Either all files have their final names, or none remains.
  if (frame.context.is_root()) {
    written.status().ok() ? FinishExport(files) : UndoExport(files);
  }
  BELAY_RETURN_IF_AGREED(std::move(written));
  Report(frame, planned.result);
  return std::move(planned.result);
}

}  // namespace

StatusOr<ExportResult> ExportSafetensors(const Comm& comm,
                                         const std::string& dir,
                                         std::optional<int64_t> step,
                                         const std::string& out,
                                         const ExportOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "export", dir));
  CommContext context{comm, Deadline(comm, options.deadline_seconds,
                                     absl::StrFormat("export \"%s\"", dir))};
  Stages stages(context);
  return RunExport({context, stages, dir, step, out, options});
}

}  // namespace belay
