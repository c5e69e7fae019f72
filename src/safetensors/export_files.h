// The files of an export: their names, and the lock on them.

#ifndef BELAY_SAFETENSORS_EXPORT_FILES_H_
#define BELAY_SAFETENSORS_EXPORT_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "belay/status.h"
#include "safetensors/export_plan.h"
#include "storage/file_lock.h"

namespace belay {

// One export of a name at a time looks at its files and gives them names.
//
// The lock is on a hidden file beside them, which only those who may write to
// the directory can open: who may only read cannot hold up an export. The
// kernel frees it when its holder ends, however it ends.

// Move only. The destructor removes the file and frees the lock.
class ExportLock {
 public:
  // Takes the lock on a file, which is made, and waits for it so many seconds.
  // On a file system that has no locks nothing is held, and the result is OK.
  // Passes the fault points "open" and "lock".
  // Errors: FailedPrecondition - another one holds it all that time; those of
  //   FileLock.
  static StatusOr<ExportLock> Take(const std::string& path, double seconds);

  ExportLock() = default;
  // Moves, frees.
  ExportLock(ExportLock&& other) noexcept;
  ExportLock& operator=(ExportLock&& other) noexcept;
  ~ExportLock();

  bool is_held() const { return file_.is_open(); }

 private:
  ExportLock(std::string path, FileLock file);

  std::string path_;
  FileLock file_;
};

// The files of an export to safetensors: made under temporary names, and named
// together once all of them are complete.

// What an export is called: <directory>/<stem>.safetensors and so on.
struct ExportPlace {
  std::string directory;
  std::string stem;
  bool makes_directory = false;  // if there is none
};

// What `out` means, as ExportSafetensors says.
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

  // Where a file is until it gets its name.
  std::string TemporaryPath(const std::string& name) const;
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
