#include "base/process/serve_parent.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "base/catch_exceptions.h"
#include "base/fault.h"
#include "base/process/child_messages.h"

namespace belay {
namespace {

constexpr auto kNever = std::chrono::steady_clock::time_point::max();

// Bytes of address space that this process has, with its libraries.
int64_t AddressSpace() {
  FILE* file = ::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  long pages = 0;
  const int read = ::fscanf(file, "%ld", &pages);
  ::fclose(file);
  return read == 1 ? int64_t{pages} * ::sysconf(_SC_PAGESIZE) : 0;
}

void LimitMemory(int64_t bytes) {
  rlimit limit = {};
  const int64_t used = AddressSpace();
  if (used == 0 || bytes > INT64_MAX - used) return;
  if (::getrlimit(RLIMIT_AS, &limit) != 0) return;
  const auto most = static_cast<rlim_t>(used + bytes);
  limit.rlim_cur = std::min(most, limit.rlim_max);
  ::setrlimit(RLIMIT_AS, &limit);
}

// Since the child began.
void LimitCpu(double seconds) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_CPU, &limit) != 0) return;
  const double most = std::ceil(std::min(seconds, 1e9)) + 1;
  limit.rlim_cur = std::min(static_cast<rlim_t>(most), limit.rlim_max);
  ::setrlimit(RLIMIT_CPU, &limit);
}

// Ends with the parent, leaves no core behind, and takes no more than it may.
// Returns the shared memory.
std::span<std::byte> BeginAsChild() {
  ChildBegin begin;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!ReceiveAll(kChildSocket, &begin, sizeof(begin), kNever) ||
      ::getppid() != begin.parent) {
    ::_exit(0);
  }
  const rlimit no_core = {};
  ::setrlimit(RLIMIT_CORE, &no_core);
  std::span<std::byte> shared;
  if (begin.shared_bytes > 0) {
    const auto bytes = static_cast<size_t>(begin.shared_bytes);
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                          kChildMemory, 0);
    if (memory == MAP_FAILED) ::_exit(1);
    shared = {static_cast<std::byte*>(memory), bytes};
    ::close(kChildMemory);
  }
  LimitMemory(begin.memory_bytes);
  return shared;
}

// Whether there is a next request, and it has been answered.
bool AnswerNext(const Serve& serve, std::span<std::byte> shared) {
  ChildHead head;
  if (!ReceiveAll(kChildSocket, &head, sizeof(head), kNever)) return false;
  std::string request(head.bytes, '\0');
  if (!ReceiveAll(kChildSocket, request.data(), request.size(), kNever)) {
    return false;
  }
  LimitCpu(head.cpu_seconds);
  fault::Arm(head.fault_number);
  fault::SkipTo(head.fault_count);
  const StatusOr<std::string> answer =
      CatchExceptions([&] { return serve(request, shared); });
  const std::string_view text =
      answer.ok() ? std::string_view(*answer)
                  : std::string_view(answer.status().message().data(),
                                     answer.status().message().size());
  const ChildHead back = {.bytes = text.size(),
                          .fault_count = fault::Count(),
                          .code = static_cast<int32_t>(answer.status().code())};
  return SendAll(kChildSocket, &back, sizeof(back)) &&
         SendAll(kChildSocket, text.data(), text.size());
}

}  // namespace

void ServeParent(const Serve& serve) {
  struct stat socket = {};
  if (::fstat(kChildSocket, &socket) != 0 || !S_ISSOCK(socket.st_mode)) {
    ::fputs("belay starts this program itself, to read files by HDF5\n",
            stderr);
    return;
  }
  const std::span<std::byte> shared = BeginAsChild();
  while (AnswerNext(serve, shared)) {
  }
  ::_exit(0);
}

}  // namespace belay
