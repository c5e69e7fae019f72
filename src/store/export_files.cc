#include "store/export_files.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "store/paths.h"
#include "store/posix_file.h"

namespace belay {
namespace {

using safetensors::kFileEnd;

StatusOr<uint64_t> FileNumber(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kRead));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  BELAY_RETURN_IF_ERROR(file.Close());
  return stat.number;
}

Status SyncPlace(const ExportFiles& files) {
  if (!files.durable) return absl::OkStatus();
  return SyncDirectory(files.place.directory);
}

Status EnsureDirectory(const ExportFiles& files) {
  const std::string& path = files.place.directory;
  BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(path));
  if (exists) return absl::OkStatus();
  BELAY_RETURN_IF_ERROR(MakeDirectory(path));
  if (!files.durable) return absl::OkStatus();
  return SyncDirectory(ParentOf(path));
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

Status CheckStillOurs(const ExportFiles& files) {
  for (size_t i = 0; i < files.names.size(); ++i) {
    const std::string path = files.TemporaryPath(files.names[i]);
    const StatusOr<uint64_t> number = FileNumber(path);
    if (!number.ok() && !absl::IsNotFound(number.status())) {
      return number.status();
    }
    if (number.ok() && *number == files.numbers[i]) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "export \"%s\": another export of this name has taken the file over",
        path));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<ExportPlace> PlaceOfExport(const std::string& out) {
  const std::string path = WithoutSlashes(out);
  const std::string name = NameOf(path);
  if (!std::string_view(name).ends_with(kFileEnd) && !path.empty()) {
    return ExportPlace{.directory = path, .stem = "model"};
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
  return InProgressPath(FinalPath(name));
}

std::string ExportFiles::FinalPath(const std::string& name) const {
  return place.directory == "." ? name : JoinPath(place.directory, name);
}

Status BeginExport(ExportFiles& files, bool overwrite) {
  BELAY_RETURN_IF_ERROR(EnsureDirectory(files));
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                         ListDirectory(files.place.directory));
  std::vector<std::string> debris;
  std::string set_aside;
  for (std::string_view name : all) {
    const std::string replaced = files.FinalPath(std::string(name));
    if (WithoutEnd(name, ReplacedName("")) &&
        safetensors::IsNameOfExport(name, files.place.stem)) {
      set_aside = replaced;
      continue;
    }
    const std::string path = files.FinalPath(std::string(name));
    const bool is_debris = WithoutEnd(name, InProgressPath(""));
    if (!safetensors::IsNameOfExport(name, files.place.stem)) continue;
    BELAY_RETURN_IF_ERROR(CheckIsFile(path));
    if (is_debris) {
      debris.push_back(path);
    } else {
      files.old.emplace_back(name);
    }
  }
  if (!files.old.empty() && !overwrite) {
    return absl::AlreadyExistsError(absl::StrFormat(
        "export \"%s\": the file is there already; choose another name or set "
        "ExportOptions.overwrite",
        files.FinalPath(files.old[0])));
  }
  // Of the files without that end it cannot be told which are whole.
  if (!debris.empty() && !set_aside.empty()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "export \"%s\": an earlier export was killed while it replaced this "
        "one: take the end off such names, or remove these files",
        set_aside));
  }
  for (const std::string& path : debris) {
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
  files.numbers.push_back(0);
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  files.numbers.back() = stat.number;
  BELAY_RETURN_IF_ERROR(file.Fallocate(bytes));
  BELAY_RETURN_IF_ERROR(file.PwriteAll(0, head.data(), std::ssize(head)));
  if (files.durable) BELAY_RETURN_IF_ERROR(file.Sync());
  return file.Close();
}

Status NameExport(ExportFiles& files) {
  BELAY_RETURN_IF_ERROR(CheckStillOurs(files));
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
    const StatusOr<uint64_t> number = FileNumber(path);
    const bool is_other =
        number.ok() && files.numbers[i] != 0 && *number != files.numbers[i];
    if (!is_other) RemoveTree(path).IgnoreError();
  }
  for (size_t i = files.num_set_aside; i-- > 0;) {
    const std::string path = files.FinalPath(files.old[i]);
    Rename(ReplacedName(path), path).IgnoreError();
  }
}

void FinishExport(const ExportFiles& files) {
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
