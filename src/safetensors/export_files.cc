#include "safetensors/export_files.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/paths.h"
#include "storage/commit.h"
#include "storage/directory.h"
#include "storage/posix_file.h"

namespace belay {

StatusOr<ExportLock> ExportLock::Take(const std::string& path, double seconds) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    BELAY_ASSIGN_OR_RETURN(FileLock file, FileLock::Open(path, ""));
    const StatusOr<LockResult> result = file.Try();
    if (result.value_or(LockResult::kUnsupported) == LockResult::kUnsupported) {
      // Another process may hold the lock of a file that was there.
      if (file.is_new()) ::unlink(path.c_str());
      BELAY_RETURN_IF_ERROR(result.status());
      return ExportLock();
    }
    // Who held it before may have removed the file that was opened.
    if (*result == LockResult::kTaken && file.HasItsName()) {
      return ExportLock(path, std::move(file));
    }
    const std::chrono::duration<double> waited =
        std::chrono::steady_clock::now() - start;
    if (waited.count() >= seconds) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "lock \"%s\": another process exports to this name (waited %g s); "
          "try again when it has ended",
          path, seconds));
    }
    if (*result == LockResult::kHeld) absl::SleepFor(absl::Milliseconds(5));
  }
}

ExportLock::ExportLock(std::string path, FileLock file)
    : path_(std::move(path)), file_(std::move(file)) {}

ExportLock::ExportLock(ExportLock&& other) noexcept = default;

ExportLock& ExportLock::operator=(ExportLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  return *this;
}

// While it is locked, so that nobody else's file is removed.
ExportLock::~ExportLock() {
  if (is_held() && file_.HasItsName()) ::unlink(path_.c_str());
}

// --- Export files ---

namespace {

using safetensors::kFileEnd;

Status SyncPlace(const ExportFiles& files) {
  if (!files.durable) return absl::OkStatus();
  return SyncDirectory(files.place.directory);
}

// Takes `end` off the name, and returns whether it was there.
bool WithoutEnd(std::string_view& name, std::string_view end) {
  if (!name.ends_with(end)) return false;
  name.remove_suffix(end.size());
  return true;
}

// Nothing that is removed or renamed may be a directory.
Status CheckIsFile(const std::string& path) {
  const Status listed = ListDirectory(path).status();
  if (absl::IsInvalidArgument(listed) || absl::IsNotFound(listed)) {
    return absl::OkStatus();  // a file, or a link to nothing
  }
  BELAY_RETURN_IF_ERROR(listed);
  return absl::FailedPreconditionError(absl::StrFormat(
      "export \"%s\": there is a directory of that name", path));
}

// The old index first, and the new one last: whatever happens in between, no
// index speaks of files of another export.
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

// Whoever begins an export of a name removes the files of those before it.
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

// What there is of exports of this name, by path.
struct Found {
  std::vector<std::string> debris;  // of those that were killed, or still run
  std::string set_aside;            // "": nothing
};

// Looks at what is there; `files.old` becomes the names of an export that is
// whole.
StatusOr<Found> Look(ExportFiles& files) {
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                         ListDirectory(files.place.directory));
  Found found;
  files.old.clear();
  for (std::string_view name : all) {
    const std::string path = files.FinalPath(std::string(name));
    const bool is_set_aside = WithoutEnd(name, ReplacedName(""));
    const bool is_debris = WithoutInProgress(name);
    if (!safetensors::IsNameOfExport(name, files.place.stem)) continue;
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

// Hidden, so that nobody takes it for a file of the export.
std::string LockPath(const ExportFiles& files) {
  return files.FinalPath(Cat(".", files.place.stem, kFileEnd, ".lock"));
}

Status CheckReplaceable(const ExportFiles& files) {
  if (files.old.empty() || files.overwrite) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrFormat(
      "export \"%s\": the file is there already; choose another name or set "
      "ExportOptions.overwrite",
      files.FinalPath(files.old[0])));
}

}  // namespace

StatusOr<ExportPlace> PlaceOfExport(const std::string& out) {
  const std::string path = WithoutSlashes(out);
  const std::string name = NameOf(path);
  if (!std::string_view(name).ends_with(kFileEnd) && !path.empty()) {
    return ExportPlace{
        .directory = path, .stem = "model", .makes_directory = true};
  }
  if (name.size() <= kFileEnd.size()) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "export to \"%s\": there is no name (need a directory, or a file such "
        "as \"model.safetensors\")",
        out));
  }
  return ExportPlace{.directory = ParentOf(path),
                     .stem = name.substr(0, name.size() - kFileEnd.size())};
}

std::string ExportFiles::TemporaryPath(const std::string& name) const {
  return InProgressPath(FinalPath(name), nonce);
}

std::string ExportFiles::FinalPath(const std::string& name) const {
  return place.directory == "." ? name : JoinPath(place.directory, name);
}

namespace {

// A directory of steps, or a step, has no other files.
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
  const std::string& directory = files.place.directory;
  if (files.place.makes_directory) {
    BELAY_RETURN_IF_ERROR(EnsureDirectory(directory, files.durable));
  }
  BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(directory));
  if (!exists) {
    return absl::NotFoundError(absl::StrFormat(
        "export to \"%s\": no such directory; make it first", directory));
  }
  return CheckHasNoSteps(directory);
}

}  // namespace

Status BeginExport(ExportFiles& files) {
  BELAY_RETURN_IF_ERROR(PrepareDirectory(files));
  // So that files of an export that gets its names now are not taken for those
  // of one that was killed.
  BELAY_ASSIGN_OR_RETURN(const ExportLock lock,
                         ExportLock::Take(LockPath(files), files.lock_seconds));
  BELAY_ASSIGN_OR_RETURN(const Found found, Look(files));
  BELAY_RETURN_IF_ERROR(CheckReplaceable(files));
  // Of the files without that end it cannot be told which are whole.
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

Status NameExport(ExportFiles& files) {
  BELAY_ASSIGN_OR_RETURN(files.lock,
                         ExportLock::Take(LockPath(files), files.lock_seconds));
  BELAY_RETURN_IF_ERROR(CheckStillOurs(files));
  // Another export may have got its names meanwhile.
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

void UndoExport(ExportFiles& files) {
  // The index, which is the last one, goes first.
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

void FinishExport(ExportFiles& files) {
  const ExportLock lock = std::move(files.lock);
  const StatusOr<std::vector<std::string>> names =
      ListDirectory(files.place.directory);
  if (!names.ok()) return;
  for (std::string_view name : *names) {
    const std::string path = files.FinalPath(std::string(name));
    if (WithoutEnd(name, ReplacedName("")) &&
        safetensors::IsNameOfExport(name, files.place.stem) &&
        CheckIsFile(path).ok()) {
      RemoveTree(path).IgnoreError();
    }
  }
}

}  // namespace belay
