// A child process that answers requests: how it is started and asked, how it
// answers, and the messages between both.

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

// How a process and the child that it has started talk over a socket.

// The descriptors that a child has beside the standard ones.
inline constexpr int kChildSocket = 3;
inline constexpr int kChildMemory = 4;  // if there is shared memory

// What a child gets first.
struct ChildBegin {
  int64_t parent = 0;
  int64_t memory_bytes = 0;
  int64_t shared_bytes = 0;
};

// What goes before the bytes of a request and of an answer.
struct ChildHead {
  uint64_t bytes = 0;
  int64_t fault_count = 0;
  int64_t fault_number = 0;  // of a request
  double cpu_seconds = 0;    // of a request
  int32_t code = 0;          // of an answer
};

// Whether all bytes were sent. Waits for room.
bool SendAll(int socket, const void* data, size_t bytes);

// Whether all bytes came before `until`.
bool ReceiveAll(int socket, void* data, size_t bytes,
                std::chrono::steady_clock::time_point until);

// The other end of a ChildProcess: what the program does that was started.

// Answers a request, and may write to the shared memory.
using Serve = std::function<StatusOr<std::string>(std::string_view request,
                                                  std::span<std::byte> shared)>;

// Answers all requests of the process that has started this program as a
// ChildProcess. Returns only where none has: then it prints that it is no
// program to be started by hand.
void ServeParent(const Serve& serve);

// Work in a process of its own: what crashes there, does not end or takes too
// much memory is an error here.
//
// For libraries that were not written for hostile input. The child is a program
// of its own, which calls ServeParent: nothing of this process is copied, which
// may have threads, and memory that a network card reads.

struct ChildLimits {
  int64_t memory_bytes = int64_t{256} << 20;  // beside what the program has
  int64_t shared_bytes = 0;  // memory in which the child leaves large results
};

// A child that answers requests. Move only; for one thread at a time.
class ChildProcess {
 public:
  // Starts a program: its path and its arguments. It has no open files but
  // those that it opens, and this process's standard error. `name` is that of
  // its work in errors, such as `read "a.h5"`. Errors: what the system
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
  // it passes count here.
  // Errors: that of the answer; ResourceExhausted - the child took more memory
  //   or time to compute; DataLoss - it crashed; DeadlineExceeded; Unavailable
  //   - it has ended otherwise, or could not begin. There is no child any more but after an answer.
  StatusOr<std::string> Ask(std::string_view request, double cpu_seconds,
                            double deadline_seconds);

  bool is_running() const { return pid_ > 0; }
  std::span<const std::byte> shared() const { return shared_; }

 private:
  bool HasBegun(std::chrono::steady_clock::time_point until);
  Status Lost(double deadline_seconds);
  void End();

  std::string name_;
  pid_t pid_ = -1;
  int socket_ = -1;
  bool has_begun_ = false;  // no file was looked at before
  std::span<std::byte> shared_;
};

}  // namespace belay

#endif  // BELAY_CORE_CHILD_PROCESS_H_
