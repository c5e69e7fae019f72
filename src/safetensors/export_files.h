// The files of an export to safetensors: made under temporary names, and named
// together once all of them are complete.

#ifndef BELAY_SAFETENSORS_EXPORT_FILES_H_
#define BELAY_SAFETENSORS_EXPORT_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "belay/status.h"
#include "safetensors/export_lock.h"
#include "safetensors/plan/file_plan.h"

namespace belay {

// What an export is called: <directory>/<stem>.safetensors and so on.
struct ExportPlace {
  std::string directory;
  std::string stem;
  bool makes_directory = false;  // if there is none
};

// What `out` means, as ExportSafetensors says. Local.
// Errors: InvalidArgument - there is no name in it.
StatusOr<ExportPlace> PlaceOfExport(const std::string& out);

// The files of one export, as far as they are made. For rank 0.
struct ExportFiles {
  ExportPlace place;
  uint64_t nonce = 0;  // tells its files from those of another export
  bool overwrite = false;
  bool durable = true;
  double lock_seconds = 0;  // how long to wait for others that give names
  // In the order in which they get their names: the index is the last.
  std::vector<std::string> names = {};
  std::vector<std::string> old = {};  // of the export that is replaced
  size_t num_set_aside = 0;           // of `old`
  size_t num_named = 0;               // of `names`
  ExportLock lock = {};               // from NameExport on

  // Where a file is until it gets its name. Local.
  std::string TemporaryPath(const std::string& name) const;
  // Local.
  std::string FinalPath(const std::string& name) const;
};

// Looks at what is there, makes the directory if its parent exists, and removes
// debris of an export of this name: of two that run at the same time the later
// one takes over. Rank 0 only.
// Errors: AlreadyExists - there is an export of this name, and `overwrite` is
//   false; FailedPrecondition - a directory has one of its names; those of
//   MakeDirectory, ExportLock, ListDirectory and RemoveTree.
Status BeginExport(ExportFiles& files);

// Makes a file of so many bytes that begins with `head`, with its space
// reserved. Rank 0 only.
// Errors: those of PosixFile.
Status MakeExportFile(ExportFiles& files, const std::string& name,
                      const std::string& head, int64_t bytes);

// Gives all files their names, and no other export does so in this directory
// until FinishExport or UndoExport, one of which has to follow. What is
// replaced is set aside. Rank 0 only.
// Errors: FailedPrecondition - another export of this name has taken over;
//   AlreadyExists - as BeginExport; those of ExportLock, Rename and
//   SyncDirectory. Then UndoExport has to follow.
Status NameExport(ExportFiles& files);

// Removes what this export has made, and gives what was set aside its names
// again; best effort, so that no other result is hidden. Rank 0 only.
void UndoExport(ExportFiles& files);

// Removes what was set aside, by this export or by one that a crash ended; best
// effort. Rank 0 only.
void FinishExport(ExportFiles& files);

}  // namespace belay

#endif  // BELAY_SAFETENSORS_EXPORT_FILES_H_
