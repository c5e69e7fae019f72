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

// Steps that a training went back behind: in a directory of their own, out of
// the way.

// Returns the first name of AsideName that nothing in `dir` has.
// Errors: those of ListDirectory; ResourceExhausted - no number is left.
StatusOr<std::string> NextAside(const std::string& dir,
                                std::string_view prefix);

// What is to be done with newer steps.
struct AsideOrder {
  std::string dir;
  std::string prefix;
  std::string aside;  // as NextAside chooses; made if something is moved there
  NewerSteps how = NewerSteps::kSetAside;
  // Of those that may be deleted, ascending. Others are moved.
  std::vector<int64_t> deletable = {};
  bool durable = true;
};

// What was done with them; ascending.
struct AsideOutcome {
  std::vector<int64_t> moved;
  std::vector<int64_t> deleted;
  std::vector<std::string> notes;  // on steps that were moved, not deleted
};

// Moves or deletes steps, the newest first: wherever it ends, what is left goes
// up to some step. A step with somebody else's file in it is moved, too. Rank 0
// only. `steps` are committed, ascending.
// Errors: InvalidArgument - `aside` is no such name; FailedPrecondition - it is
//   a symbolic link or no directory; those of MakeDirectory, Rename,
//   RemoveStep and SyncDirectory; some steps may be gone then.
StatusOr<AsideOutcome> SetAside(const AsideOrder& order,
                                const std::vector<int64_t>& steps);

// What a manager does in its directory besides saving: its state, the removal
// of steps, and what crashes left.

// "<dir>/<prefix>.manager.json" and "<dir>/<prefix>.lease".
std::string StatePath(const std::string& dir, std::string_view prefix);
std::string LeasePath(const std::string& dir, std::string_view prefix);

// Makes the directory if its parent exists, and checks that it is one. Rank 0
// only.
// Errors: those of MakeDirectory and ListDirectory.
Status EnsureRunDirectory(const std::string& dir, bool durable);

// Reads the state; nothing if there is no file.
// Errors: those of ParseState and PosixFile.
StatusOr<std::optional<ManagerState>> ReadState(const std::string& dir,
                                                std::string_view prefix);

// Writes the state: the file has the old content or the new one, whatever
// happens. Rank 0 only.
// Errors: those of StateText and PosixFile.
Status WriteState(const std::string& dir, std::string_view prefix,
                  const ManagerState& state, bool durable);

// Checks that the step can be opened: the index is readable, the data files are
// there and have their size.
// Errors: those of ReadIndex and CheckDataFiles.
Status CheckStepOpens(const std::string& step_directory);

// Renames a committed step to a name that only RemoveTree is for, and returns
// it: a crash leaves debris then, but never a part of a step. Removes what a
// killed save of this step has left. Rank 0 only. The caller syncs the
// directory.
// Errors: FailedPrecondition - something in it is not belay's, or a program has
//   pinned it; those of RemoveAllDebris and Rename.
StatusOr<std::string> TakeName(const std::string& step_directory);

// Removes a committed step. It loses its name first, so that a crash leaves
// debris but never a part of a step. Rank 0 only.
// Errors: those of TakeName, after which nothing is removed, SyncDirectory and
//   RemoveTree.
Status RemoveStep(const std::string& step_directory, bool durable);

// Brings steps back whose replacement a crash interrupted and, with `remove`,
// removes what crashed saves and removals of this prefix left, but for what is
// not belay's. Returns what was done and what could not be. Rank 0 only.
// Errors: those of ListDirectory.
StatusOr<std::vector<std::string>> CleanRunDirectory(const std::string& dir,
                                                     std::string_view prefix,
                                                     bool remove);

// Works on files in a thread while the program goes on. What goes wrong is
// logged, and kept for a note. Move only; for one caller at a time.
class FileWork {
 public:
  FileWork() = default;
  FileWork(FileWork&&) = default;
  // Waits until it is done, no longer than `most_seconds`.
  ~FileWork();

  // Begins. Waits for what was begun before. The work must own what it
  // uses: the object may not wait for its end. With 0 `most_seconds`, it does.
  void Begin(std::function<Status()> work, double most_seconds);

  // Waits until it is done. In a child process, nothing is under way.
  void Finish();

  // Returns what went wrong since the last call, of work that is finished.
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
