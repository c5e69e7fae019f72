// How a process and the child that it has started talk over a socket.

#ifndef BELAY_BASE_PROCESS_CHILD_MESSAGES_H_
#define BELAY_BASE_PROCESS_CHILD_MESSAGES_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace belay {

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

// Whether all bytes were sent. Waits for room. Local.
bool SendAll(int socket, const void* data, size_t bytes);

// Whether all bytes came before `until`. Local.
bool ReceiveAll(int socket, void* data, size_t bytes,
                std::chrono::steady_clock::time_point until);

}  // namespace belay

#endif  // BELAY_BASE_PROCESS_CHILD_MESSAGES_H_
