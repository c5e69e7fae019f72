// A child process that answers requests, so that a crash, an endless loop or
// excessive memory use in the child becomes an error in the parent.
//
// For libraries that were not written for hostile input. The child is a program
// of its own, which calls ServeParent: it copies nothing of this process, which
// may have threads, and memory that a network card reads.

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

// Answers a request, and may write to the shared memory.
using Serve = std::function<StatusOr<std::string>(std::string_view request,
                                                  std::span<std::byte> shared)>;

// Answers all requests of the process that has started this program as a
// ChildProcess. Returns only if this program was not started as a ChildProcess,
// after a message.
void ServeParent(const Serve& serve);

struct ChildLimits {
  int64_t memory_bytes = int64_t{256} << 20;  // beside the program's own
  int64_t shared_bytes = 0;  // memory in which the child leaves large results
};

// A child that answers requests. Move only; for one thread at a time.
class ChildProcess {
 public:
  // Starts a program: its path and its arguments. It gets no open files but
  // standard error. `name` describes its work in errors, such as `read
  // "a.h5"`. Errors: those of ErrnoStatus.
  static StatusOr<ChildProcess> Start(std::string name,
                                      const std::vector<std::string>& command,
                                      const ChildLimits& limits);

  ChildProcess() = default;  // nothing runs
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  // Ends the child.
  ~ChildProcess();

  // Returns the answer. The child may have computed for `cpu_seconds` since it
  // was started, and has `deadline_seconds` for this answer. Fault points that
  // it passes are counted in this process. Any error but that of the answer
  // ends the child. Errors: that of the answer; ResourceExhausted - the child
  // took more memory
  //   or time to compute; DataLoss - it crashed; DeadlineExceeded; Unavailable
  //   - it has ended otherwise, or could not begin.
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
  bool has_begun_ = false;  // before it reads any file
  std::span<std::byte> shared_;
};

}  // namespace belay

#endif  // BELAY_CORE_CHILD_PROCESS_H_
