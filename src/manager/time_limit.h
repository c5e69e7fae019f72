// The time limit of a batch job, and the commands that report it.

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

// Runs a short command while an MPI program continues.
//
// Uses no shell, and does not fork this process, because memory that a network
// card reads must not be copied on write. The child inherits neither open
// files, which could hold our locks, nor the signal mask. It gets a new process
// group, so that it can be killed with all processes that it starts.

struct Command {
  std::vector<std::string> words;        // the first is searched in PATH
  std::vector<std::string> environment;  // "NAME=value"
  double seconds = 10;                   // killed after this time
  int cancel = -1;  // descriptor; once readable, the command is killed
};

// Returns this process's environment variables, except those that begin with
// `without`. Must not run while another thread changes variables.
std::vector<std::string> EnvironmentWithout(const std::string& without);

// Runs the command, and returns up to 64 KiB of its output if it succeeds.
// Leaves no process behind.
// Errors: NotFound - no such command; DeadlineExceeded - it took too long;
//   Cancelled; Internal - it failed, the message has its stderr output.
StatusOr<std::string> RunCommand(const Command& command);

// Parses the output of `squeue -o %L`: "3-04:05:06", "04:05:06", "05:06", or
// "UNLIMITED", which is infinity.
// Errors: InvalidArgument - any other text, such as "INVALID", "NOT_SET" or an
//   empty one.
StatusOr<double> ParseTimeLeft(std::string_view text);

// Returns the least time of several lines. For a heterogeneous job, squeue
// prints one line per component, and the job ends with the first component.
// Errors: those of ParseTimeLeft.
StatusOr<double> LeastTimeLeft(const std::string& text);

// Returns the command that prints the job's remaining time. The last task of a
// job array has the id of the array, so with that id squeue would answer for
// all tasks. The array variables may be inherited from a job that submitted
// this one.
std::vector<std::string> TimeLeftCommand(const JobEnvironment& job);

struct TimeLimitOptions {
  std::vector<std::string> command;
  double every_seconds = 60;  // asks again, because limits can change
  double command_seconds = 10;
  // The time left, if known before the first answer.
  std::optional<double> seconds_left = std::nullopt;
  // For tests.
  std::function<StatusOr<std::string>(const Command&)> run = RunCommand;
};

// Asks for the time left periodically, in a thread without MPI and signals, so
// that no step waits for the answer.
class TimeLimit {
 public:
  explicit TimeLimit(TimeLimitOptions options);
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;
  // Ends the thread and its command immediately.
  ~TimeLimit();

  // Returns the last answer minus the time since then, in which suspensions of
  // the job are not counted. Returns infinity if there is no limit, nullopt if
  // it is unknown. Never waits.
  std::optional<double> SecondsLeft() const;

  // Returns the seconds for which the job was suspended: gaps of more than
  // twice the command's time limit, while the thread sleeps between two
  // commands. Time while the command runs is never included, because a hanging
  // command looks the same.
  double SecondsSuspended() const;

  // Returns notes on failures since the last call. No note is returned twice.
  std::vector<std::string> TakeNotes();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace belay

#endif  // BELAY_MANAGER_TIME_LIMIT_H_
