// How much memory this process has, as the system counts it.

#ifndef BELAY_MPI_TESTS_PROCESS_MEMORY_H_
#define BELAY_MPI_TESTS_PROCESS_MEMORY_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>

namespace belay::testing {

// A line of /proc/self/status, in bytes.
inline int64_t MemoryOf(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == name + ":" && status >> kilobytes) return kilobytes << 10;
  }
  ADD_FAILURE() << name;
  return 0;
}

// The most memory that the work takes on this rank beside what there is.
template <typename Work>
int64_t PeakOf(Work work) {
  std::ofstream("/proc/self/clear_refs") << "5";  // forgets the last peak
  const int64_t before = MemoryOf("VmRSS");
  work();
  return MemoryOf("VmHWM") - before;
}

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_PROCESS_MEMORY_H_
