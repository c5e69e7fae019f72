// Work in a process of its own: what crashes there, does not end or takes too
// much memory is an error here.
//
// For libraries that were not written for hostile input. The child is a program
// of its own, which calls ServeParent: nothing of this process is copied, which
// may have threads, and memory that a network card reads.

#ifndef BELAY_BASE_PROCESS_CHILD_PROCESS_H_
#define BELAY_BASE_PROCESS_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"

namespace belay {

struct ChildLimits {
  int64_t memory_bytes = int64_t{256} << 20;  // beside what the program has
  int64_t shared_bytes = 0;  // memory in which the child leaves large results
};

// A child that answers requests. Move only; for one thread at a time.
class ChildProcess {
 public:
  // Starts a program: its path and its arguments. It has no open files but
  // those that it opens, and this process's standard error. `name` is that of
  // its work in errors, such as `read "a.h5"`. Local. Errors: what the system
  // says.
  static StatusOr<ChildProcess> Start(std::string name,
                                      const std::vector<std::string>& command,
                                      const ChildLimits& limits);

  // Nothing runs.
  ChildProcess() = default;
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  // Ends the child.
  ~ChildProcess();

  // Returns the answer. The child may have computed for `cpu_seconds` since it
  // was started, and may take so much time for this answer. Fault points that
  // it passes count here. Local.
  // Errors: that of the answer; ResourceExhausted - the child took more memory
  //   or time to compute; DataLoss - it crashed; DeadlineExceeded; Unavailable
  //   - it has ended otherwise. There is no child any more but after an answer.
  StatusOr<std::string> Ask(std::string_view request, double cpu_seconds,
                            double deadline_seconds);

  bool is_running() const { return pid_ > 0; }
  std::span<const std::byte> shared() const { return shared_; }

 private:
  Status Lost(double deadline_seconds);
  void End();

  std::string name_;
  pid_t pid_ = -1;
  int socket_ = -1;
  std::span<std::byte> shared_;
};

}  // namespace belay

#endif  // BELAY_BASE_PROCESS_CHILD_PROCESS_H_
