// How many bytes a rank has sent.

#ifndef BELAY_MPI_TESTS_SENT_BYTES_H_
#define BELAY_MPI_TESTS_SENT_BYTES_H_

#include <gmock/gmock.h>

#include <cstdint>

namespace belay::testing {

// Some bytes, of which there are at most so many; 0: none at all.
inline ::testing::Matcher<int64_t> SentAtMost(int64_t most) {
  if (most == 0) return ::testing::Eq(0);
  return ::testing::AllOf(::testing::Gt(0), ::testing::Le(most));
}

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_SENT_BYTES_H_
