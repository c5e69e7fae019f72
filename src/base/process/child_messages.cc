#include "base/process/child_messages.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

namespace belay {
namespace {

using Clock = std::chrono::steady_clock;

int MillisecondsUntil(Clock::time_point until) {
  const std::chrono::duration<double, std::milli> left = until - Clock::now();
  return static_cast<int>(std::ceil(std::clamp(left.count(), 0.0, 1e6)));
}

}  // namespace

bool SendAll(int socket, const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    from += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool ReceiveAll(int socket, void* data, size_t bytes, Clock::time_point until) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    pollfd wait = {socket, POLLIN, 0};
    const int ready = ::poll(&wait, 1, MillisecondsUntil(until));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && Clock::now() < until) continue;
    if (ready <= 0) return false;
    const ssize_t got = ::recv(socket, to, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace belay
