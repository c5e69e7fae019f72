// The files of a manager: its state, its lease, its steps, and the steps that
// were set aside.

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

// Returns the first name that AsideName generates and that is unused in `dir`.
// Errors: those of ListDirectory; ResourceExhausted - no number is left.
StatusOr<std::string> NextAside(const std::string& dir,
                                std::string_view prefix);

// How to move or delete newer steps.
struct AsideOrder {
  std::string dir;
  std::string prefix;
  std::string aside;  // from NextAside; created if a step is moved there
  NewerSteps how = NewerSteps::kSetAside;
  // Steps that may be deleted, ascending. Other steps are moved.
  std::vector<int64_t> deletable = {};
  bool durable = true;
};

// Result of SetAside. Steps are in ascending order.
struct AsideOutcome {
  std::vector<int64_t> moved;
  std::vector<int64_t> deleted;
  std::vector<std::string> notes;  // on steps that were moved instead of
                                   // deleted
};

// Moves or deletes committed steps, newest first, so that a failure never
// leaves a gap between the remaining steps. A step with a file in it that belay
// has not written is moved. `steps` must be ascending. Rank 0 only.
// Errors: InvalidArgument - `aside` is not a name of NextAside;
//   FailedPrecondition - it is a symbolic link or not a directory; those of
//   MakeDirectory, Rename, RemoveStep and SyncDirectory, after which some steps
//   may be gone.
StatusOr<AsideOutcome> SetAside(const AsideOrder& order,
                                const std::vector<int64_t>& steps);

// Return "<dir>/<prefix>.manager.json" and "<dir>/<prefix>.lease".
std::string StatePath(const std::string& dir, std::string_view prefix);
std::string LeasePath(const std::string& dir, std::string_view prefix);

// Creates the directory if its parent exists, and checks that `dir` is a
// directory. Rank 0 only.
// Errors: those of MakeDirectory and ListDirectory.
Status EnsureRunDirectory(const std::string& dir, bool durable);

// Reads the state. Returns nullopt if there is no file.
// Errors: those of ParseState and PosixFile.
StatusOr<std::optional<ManagerState>> ReadState(const std::string& dir,
                                                std::string_view prefix);

// Replaces the state atomically. Rank 0 only.
// Errors: those of StateText and PosixFile.
Status WriteState(const std::string& dir, std::string_view prefix,
                  const ManagerState& state, bool durable);

// Checks that the index is readable, and that all data files exist and have the
// right sizes.
// Errors: those of ReadIndex and CheckDataFiles.
Status CheckStepOpens(const std::string& step_directory);

// Renames a committed step before its removal, so that a crash during the
// removal leaves debris but never part of a step. Returns the new path. Removes
// debris of killed saves of this step. The caller must sync the directory. Rank
// 0 only.
// Errors: FailedPrecondition - it contains files that are not belay's, or a
//   program has pinned it; those of RemoveAllDebris and Rename.
StatusOr<std::string> TakeName(const std::string& step_directory);

// Removes a committed step with TakeName and RemoveTree. Rank 0 only.
// Errors: those of TakeName, after which nothing is removed, SyncDirectory and
//   RemoveTree.
Status RemoveStep(const std::string& step_directory, bool durable);

// Brings back steps whose replacement a crash interrupted. With `remove`,
// removes leftovers of crashed saves and removals with this prefix, except
// files that are not belay's. Returns notes on what was done and what failed.
// Rank 0 only.
// Errors: those of ListDirectory.
StatusOr<std::vector<std::string>> CleanRunDirectory(const std::string& dir,
                                                     std::string_view prefix,
                                                     bool remove);

// Runs file operations in a thread while the program continues. Failures are
// logged, and kept for notes. Move only; one caller at a time.
class FileWork {
 public:
  FileWork() = default;
  FileWork(FileWork&&) = default;
  // Waits for the work, but no longer than `most_seconds`.
  ~FileWork();

  // Waits for earlier work, and begins `work`. The work must own what it uses,
  // because the destructor waits for at most `most_seconds` (0: no limit).
  void Begin(std::function<Status()> work, double most_seconds);

  // Waits for the work. Does nothing in a child process.
  void Finish();

  // Returns the failures of work that has finished since the last call.
  std::vector<std::string> TakeFailures() {
    return std::exchange(failures_, {});
  }

 private:
  bool IsUnderWay() const;

  std::unique_ptr<WorkerThread> thread_;  // set on first use
  pid_t process_ = 0;                     // process that the thread belongs to
  double most_seconds_ = 0;
  bool is_told_ = true;
  std::vector<std::string> failures_;
};

}  // namespace belay

#endif  // BELAY_MANAGER_MANAGER_FILES_H_
