// The time limit of a batch job, and the commands that are asked for it.

#ifndef BELAY_MANAGER_TIME_LIMIT_H_
#define BELAY_MANAGER_TIME_LIMIT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/manager/job.h"
#include "belay/status.h"

namespace belay {

// Runs a short command beside an MPI program.
//
// No shell, and no fork of this process: memory that a network card reads must
// not be copied on write. The child gets no open file but its own output, so it
// cannot hold a lock of ours, no signal mask, and a process group of its own,
// so that all that it starts ends with it.

struct Command {
  std::vector<std::string> words;        // looked for in PATH
  std::vector<std::string> environment;  // "NAME=value"
  double seconds = 10;                   // then it is killed
  int cancel = -1;  // a descriptor: once it can be read, the command is killed
};

// The variables of this process but for those whose name begins with `without`.
// For the thread that changes them.
std::vector<std::string> EnvironmentWithout(const std::string& without);

// Returns what the command prints, up to 64 KiB, once it has ended well. Leaves
// no process behind.
// Errors: NotFound - no such command; DeadlineExceeded - it took too long;
//   Cancelled; Internal - it failed, with what it wrote to stderr.
StatusOr<std::string> RunCommand(const Command& command);

// How long the job may still run, as its batch system says.

// Reads what `squeue -o %L` prints: "3-04:05:06", "04:05:06", "05:06", and
// "UNLIMITED", which is infinity.
// Errors: InvalidArgument - anything else, such as "INVALID", "NOT_SET" and no
//   text at all.
StatusOr<double> ParseTimeLeft(std::string_view text);

// The least of several lines: of a heterogeneous job squeue prints one for each
// component, and the whole job ends with the first.
// Errors: those of ParseTimeLeft.
StatusOr<double> LeastTimeLeft(const std::string& text);

// The command that asks for the time left of the job, whose id is known. The
// number of an array is also the number of its last task: asked for by that
// alone, squeue would answer for all of them. The variables of an array may
// also be those of a job that submitted this one.
std::vector<std::string> TimeLeftCommand(const JobEnvironment& job);

struct TimeLimitOptions {
  std::vector<std::string> command;
  double every_seconds = 60;  // the limit of a running job can be changed
  double command_seconds = 10;
  // What is known before the first answer.
  std::optional<double> seconds_left = std::nullopt;
  // For tests.
  std::function<StatusOr<std::string>(const Command&)> run = RunCommand;
};

// Asks again and again, in a thread of its own that makes no call of MPI and
// gets no signals, so that no step waits for the answer.
class TimeLimit {
 public:
  explicit TimeLimit(TimeLimitOptions options);
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  // Ends the thread and its command, at once.
  ~TimeLimit();

  // Since the last answer the time has gone on, but for that in which the job
  // was suspended. Infinity: there is no limit; nothing: none is known. Never
  // waits.
  std::optional<double> SecondsLeft() const;

  // How long the job was suspended in all: between two questions no thread ran
  // for twice the time that the command may take, and the job's limit did not
  // come nearer. While the command runs all time counts: one that hangs, and
  // the thread with it, looks just the same.
  double SecondsSuspended() const;

  // What went wrong since the last call. The same thing is said once only.
  std::vector<std::string> TakeNotes();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace belay

#endif  // BELAY_MANAGER_TIME_LIMIT_H_
