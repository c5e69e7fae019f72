// Making fault points fail on one rank, one at a time. BELAY_SWEEP_STRIDE=1
// takes every point where a plain run takes a sample, BELAY_SWEEP_STRIDE=N
// every N-th.

#ifndef BELAY_MPI_TESTS_FAULT_POINTS_H_
#define BELAY_MPI_TESTS_FAULT_POINTS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/status.h"
#include "core/fault.h"
#include "small_state.h"

namespace belay::testing {

// From the commit on every point of a save counts: these are always taken.
inline constexpr int64_t kLastPoints = 24;

// A plain run takes half of the points that a stride above 1 says.
inline int64_t StrideOr(int64_t stride) {
  const char* wanted = std::getenv("BELAY_SWEEP_STRIDE");
  if (wanted != nullptr) return std::atoll(wanted);
  return stride == 1 ? 1 : 2 * stride;
}

// Fast and in memory where there is such a place.
inline void UseMemory() {
  if (access("/dev/shm", W_OK) == 0) setenv("TMPDIR", "/dev/shm", 1);
}

inline std::set<std::string> NamesIn(const std::string& dir) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    names.insert(entry.path().filename().string());
  }
  return names;
}

inline std::vector<int64_t> CountOfEachRank(int64_t mine) {
  std::vector<int64_t> counts(WorldSize());
  MPI_Allgather(&mine, 1, MPI_INT64_T, counts.data(), 1, MPI_INT64_T,
                MPI_COMM_WORLD);
  return counts;
}

inline std::vector<int64_t> PointsToTake(int64_t count, int64_t stride,
                                         int64_t last = kLastPoints) {
  std::vector<int64_t> points;
  for (int64_t n = 1; n <= count; ++n) {
    if (n % stride == 0 || n > count - last) points.push_back(n);
  }
  return points;
}

// Calls `operation` with the n-th point of `rank` failing. Collective.
template <typename Operation>
Status WithFault(int rank, int64_t n, Operation operation) {
  if (WorldRank() == rank) fault::Arm(n);
  const Status status = operation();
  fault::Disarm();
  return status;
}

// All ranks have the same Status, and if it is an error it is the injected one.
inline void ExpectAgreed(const Status& status, int rank) {
  const std::vector<std::string> all = GatherStatus(status);
  for (const std::string& text : all) EXPECT_EQ(text, all[0]);
  if (status.ok()) return;
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("injected fault"));
  const std::string text(status.message());
  // Closing the communicator of one file's ranks counts those only.
  if (text == "MPI_Comm_free: injected fault [rank 0 of 1]" ||
      text == "agree: injected fault [rank 0 of 1]") {
    return;
  }
  EXPECT_THAT(text, ::testing::EndsWith(absl::StrCat(" [rank ", rank, " of ",
                                                     WorldSize(), "]")));
}

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_FAULT_POINTS_H_
