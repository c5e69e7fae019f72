// Runs a short command beside an MPI program.
//
// No shell, and no fork of this process: memory that a network card reads must
// not be copied on write. The child gets no open file but its own output, so it
// cannot hold a lock of ours, no signal mask, and a process group of its own,
// so that all that it starts ends with it.

#ifndef BELAY_JOB_RUN_COMMAND_H_
#define BELAY_JOB_RUN_COMMAND_H_

#include <string>
#include <vector>

#include "belay/status.h"

namespace belay {

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

}  // namespace belay

#endif  // BELAY_JOB_RUN_COMMAND_H_
