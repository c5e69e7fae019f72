// A child process that answers requests, so that a crash, an endless loop or
// excessive memory use in the child becomes an error in the parent.
//
// For libraries that were not written for hostile input. The child runs a
// separate program that calls ServeParent. The child copies nothing of this
// process, which may have threads and memory registered with a network card.

#ifndef BELAY_CORE_CHILD_PROCESS_H_
#define BELAY_CORE_CHILD_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"

namespace belay {

// Answers a request. May write to the shared memory.
using Serve = std::function<StatusOr<std::string>(std::string_view request,
                                                  std::span<std::byte> shared)>;

// Answers the requests of the process that started this program as a
// ChildProcess, and exits when there are no more. If this program was not
// started as a ChildProcess, prints a message and returns.
void ServeParent(const Serve& serve);

struct ChildLimits {
  int64_t memory_bytes = int64_t{256} << 20;  // beyond the program's own
  int64_t shared_bytes = 0;  // memory for large results of the child
};

// A child that answers requests. Move only; for one thread at a time.
class ChildProcess {
 public:
  // Starts a program: its path and its arguments. It inherits no open files
  // except standard error. `name` describes its work in errors, such as `read
  // "a.h5"`.
  // Errors: those of ErrnoStatus.
  static StatusOr<ChildProcess> Start(std::string name,
                                      const std::vector<std::string>& command,
                                      const ChildLimits& limits);

  ChildProcess() = default;  // nothing runs
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  // Ends the child.
  ~ChildProcess();

  // Returns the child's answer. `cpu_seconds` limits the child's CPU time since
  // its start, and `deadline_seconds` the wait for this answer. Fault points
  // that the child passes are counted in this process. Any error except one
  // that the child answers ends the child.
  // Errors: that of the answer; ResourceExhausted - the child took more memory
  //   or CPU time; DataLoss - it crashed; DeadlineExceeded; Unavailable - it
  //   ended otherwise, or could not start.
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
  bool has_begun_ = false;  // set before the child reads any file
  std::span<std::byte> shared_;
};

}  // namespace belay

#endif  // BELAY_CORE_CHILD_PROCESS_H_
