// The files of a manager: its state, its lease, its steps, and those that were
// set aside.

#ifndef BELAY_MANAGER_MANAGER_FILES_H_
#define BELAY_MANAGER_MANAGER_FILES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "belay/manager/newer_steps.h"
#include "belay/status.h"
#include "core/threads.h"
#include "manager/manager_state.h"

namespace belay {

// Returns the first name of AsideName that nothing in `dir` has.
// Errors: those of ListDirectory; ResourceExhausted - no number is left.
StatusOr<std::string> NextAside(const std::string& dir,
                                std::string_view prefix);

// How to move or delete newer steps.
struct AsideOrder {
  std::string dir;
  std::string prefix;
  std::string aside;  // from NextAside; created if a step is moved there
  NewerSteps how = NewerSteps::kSetAside;
  // Steps that may be deleted, ascending. Others are moved.
  std::vector<int64_t> deletable = {};
  bool durable = true;
};

// Result of SetAside; ascending.
struct AsideOutcome {
  std::vector<int64_t> moved;
  std::vector<int64_t> deleted;
  std::vector<std::string> notes;  // on steps that were moved, not deleted
};

// Moves or deletes committed steps, the newest first: wherever it fails, the
// rest ends with some step. A step with a foreign file in it is moved. Rank 0
// only. `steps` ascend.
// Errors: InvalidArgument - `aside` is no such name;
// FailedPrecondition - it is
//   a symbolic link or no directory; those of MakeDirectory, Rename,
//   RemoveStep and SyncDirectory; some steps may be gone then.
StatusOr<AsideOutcome> SetAside(const AsideOrder& order,
                                const std::vector<int64_t>& steps);

// "<dir>/<prefix>.manager.json" and "<dir>/<prefix>.lease".
std::string StatePath(const std::string& dir, std::string_view prefix);
std::string LeasePath(const std::string& dir, std::string_view prefix);

// Creates the directory if its parent exists, and checks that it is one. Rank 0
// only.
// Errors: those of MakeDirectory and ListDirectory.
Status EnsureRunDirectory(const std::string& dir, bool durable);

// Reads the state; returns nothing if there is no file.
// Errors: those of ParseState and PosixFile.
StatusOr<std::optional<ManagerState>> ReadState(const std::string& dir,
                                                std::string_view prefix);

// Replaces the state atomically. Rank 0 only.
// Errors: those of StateText and PosixFile.
Status WriteState(const std::string& dir, std::string_view prefix,
                  const ManagerState& state, bool durable);

// Checks that the index is readable, and the data files exist and have their
// sizes.
// Errors: those of ReadIndex and CheckDataFiles.
Status CheckStepOpens(const std::string& step_directory);

// Renames a committed step, so that a crash while it is removed leaves debris
// but never a part of a step, and returns its new path. Removes debris of
// killed saves of this step. Rank 0 only. The caller syncs the directory.
// Errors: FailedPrecondition - something in it is not belay's, or a program has
//   pinned it; those of RemoveAllDebris and Rename.
StatusOr<std::string> TakeName(const std::string& step_directory);

// Removes a committed step by TakeName and RemoveTree. Rank 0 only.
// Errors: those of TakeName, after which nothing is removed, SyncDirectory and
//   RemoveTree.
Status RemoveStep(const std::string& step_directory, bool durable);

// Restores steps whose replacement a crash interrupted and, with `remove`,
// removes leftovers of crashed saves and removals of this prefix, except
// foreign files. Returns notes on what was done and what failed. Rank 0 only.
// Errors: those of ListDirectory.
StatusOr<std::vector<std::string>> CleanRunDirectory(const std::string& dir,
                                                     std::string_view prefix,
                                                     bool remove);

// Works on files in a thread while the program continues. Failures are logged,
// and kept for notes. Move only; one caller at a time.
class FileWork {
 public:
  FileWork() = default;
  FileWork(FileWork&&) = default;
  // Waits until it is done, no longer than `most_seconds`.
  ~FileWork();

  // Begins work after the work before has ended. The work must own what it
  // uses, because the destructor waits only for `most_seconds`; 0: no limit.
  void Begin(std::function<Status()> work, double most_seconds);

  // Waits for the work. Does nothing in a child process.
  void Finish();

  // Returns failures of finished work since the last call.
  std::vector<std::string> TakeFailures() {
    return std::exchange(failures_, {});
  }

 private:
  bool IsUnderWay() const;

  std::unique_ptr<WorkerThread> thread_;  // from the first use on
  pid_t process_ = 0;                     // that the thread is in
  double most_seconds_ = 0;
  bool is_told_ = true;
  std::vector<std::string> failures_;
};

}  // namespace belay

#endif  // BELAY_MANAGER_MANAGER_FILES_H_
