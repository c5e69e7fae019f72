// A network cable with a delay, in user space: what goes into one of two TAP
// devices comes out of the other after a while, or is lost. For kernels that
// have no netem.
//
// usage: wire TAP TAP MICROSECONDS LOSS_PERCENT
//
// Makes both devices in its own network namespace; they are gone when it ends.

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Frame {
  Clock::time_point due;
  std::vector<char> bytes;
};

// One direction: frames on their way from one device to the other.
struct Lane {
  int from = -1;
  int to = -1;
  std::deque<Frame> frames;
};

// As many as a switch could hold; what comes on top is lost.
constexpr size_t kMaxFrames = 65536;
constexpr size_t kMaxFrameBytes = 70000;

int MakeTap(const char* name) {
  const int file = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ifreq request = {};
  std::snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  if (file < 0 || ioctl(file, TUNSETIFF, &request) != 0) {
    std::fprintf(stderr, "wire: device %s: %s\n", name, std::strerror(errno));
    std::exit(1);
  }
  return file;
}

void Receive(Lane& lane, Clock::duration delay, double loss) {
  static std::mt19937 random;
  std::array<char, kMaxFrameBytes> buffer;
  // Not for ever: the other direction has frames that are due.
  for (int n = 0; n < 64; ++n) {
    const ssize_t size = read(lane.from, buffer.data(), buffer.size());
    if (size <= 0) return;
    const bool lost = std::generate_canonical<double, 32>(random) < loss;
    if (lost || lane.frames.size() == kMaxFrames) continue;
    lane.frames.push_back({.due = Clock::now() + delay,
                           .bytes = {buffer.data(), buffer.data() + size}});
  }
}

void Deliver(Lane& lane) {
  while (!lane.frames.empty() && lane.frames.front().due <= Clock::now()) {
    const std::vector<char>& bytes = lane.frames.front().bytes;
    // A device that takes no frame loses it, as a cable would.
    if (write(lane.to, bytes.data(), bytes.size()) < 0 && errno == EBADF) {
      std::exit(1);
    }
    lane.frames.pop_front();
  }
}

// Sleeps until a frame comes or is due.
void Wait(std::array<Lane, 2>& lanes) {
  Clock::duration left = std::chrono::seconds(1);
  for (const Lane& lane : lanes) {
    if (lane.frames.empty()) continue;
    left = std::min(left, lane.frames.front().due - Clock::now());
  }
  left = std::max(left, Clock::duration::zero());
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec timeout = {.tv_sec = seconds.count(),
                            .tv_nsec = (left - seconds).count()};
  std::array<pollfd, 2> files = {pollfd{lanes[0].from, POLLIN, 0},
                                 pollfd{lanes[1].from, POLLIN, 0}};
  ppoll(files.data(), files.size(), &timeout, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: wire TAP TAP MICROSECONDS LOSS_PERCENT\n");
    return 2;
  }
  const int left = MakeTap(argv[1]);
  const int right = MakeTap(argv[2]);
  const auto delay = std::chrono::microseconds(std::atoll(argv[3]));
  const double loss = std::atof(argv[4]) / 100;
  std::array<Lane, 2> lanes = {Lane{.from = left, .to = right, .frames = {}},
                               Lane{.from = right, .to = left, .frames = {}}};
  while (true) {
    for (Lane& lane : lanes) Deliver(lane);
    Wait(lanes);
    for (Lane& lane : lanes) Receive(lane, delay, loss);
  }
}
