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
  int cancel = -1;  // a descriptor: when readable, the command is killed
};

// Returns the variables of this process except those that begin with `without`.
// Only the thread that changes variables may call it.
std::vector<std::string> EnvironmentWithout(const std::string& without);

// Returns the output of the command, up to 64 KiB, when it has succeeded.
// Leaves no process behind.
// Errors: NotFound - no such command;
// DeadlineExceeded - it took too long;
//   Cancelled; Internal - it failed, with what it wrote to stderr.
StatusOr<std::string> RunCommand(const Command& command);

// Reads what `squeue -o %L` prints: "3-04:05:06", "04:05:06", "05:06", and
// "UNLIMITED", which is infinity.
// Errors: InvalidArgument - anything else, such as "INVALID", "NOT_SET" and no
//   text at all.
StatusOr<double> ParseTimeLeft(std::string_view text);

// Returns the least of several lines: for a heterogeneous job squeue prints one
// for each component, and the job ends with the first.
// Errors: those of
// ParseTimeLeft.
StatusOr<double> LeastTimeLeft(const std::string& text);

// Returns the command that prints the time left of the job. The id of a job
// array is also that of its last task, so squeue would answer for all tasks.
// The array variables may be inherited from a job that submitted this one.
std::vector<std::string> TimeLeftCommand(const JobEnvironment& job);

struct TimeLimitOptions {
  std::vector<std::string> command;
  double every_seconds = 60;  // the limit of a running job can be changed
  double command_seconds = 10;
  // Known before the first answer.
  std::optional<double> seconds_left = std::nullopt;
  // For tests.
  std::function<StatusOr<std::string>(const Command&)> run = RunCommand;
};

// Asks periodically in a thread without MPI and signals, so that no step waits
// for the answer.
class TimeLimit {
 public:
  explicit TimeLimit(TimeLimitOptions options);
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  // Ends the thread and its command, at once.
  ~TimeLimit();

  // Returns the last answer less the time since then, without time in which the
  // job was suspended. Infinity: no limit; nothing: unknown. Never waits.
  std::optional<double> SecondsLeft() const;

  // Returns how long the job was suspended: gaps between two questions of more
  // than twice the limit of the command. Time while the command runs never
  // counts, because a command that hangs looks the same.
  double SecondsSuspended() const;

  // Returns notes on failures since the last call, each only once.
  std::vector<std::string> TakeNotes();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace belay

#endif  // BELAY_MANAGER_TIME_LIMIT_H_
