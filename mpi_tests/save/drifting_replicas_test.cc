// Replicas that were equal when they were first saved, and no longer are.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/async_saver.h"
#include "values.h"

namespace belay::drifting_replicas_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::Ok;

class DriftingReplicasTest : public testing::CheckpointTest {};

// One element in a thousand that drifts after the first save, of several sizes
// and dtypes, with plans that are used again, in the foreground and in the
// background: found within some saves, and named.
template <typename T>
void ExpectDriftIsFound(const Comm& comm, const std::string& run,
                        int64_t length, bool in_background, int64_t saves) {
  const int rank = comm.rank(), last = comm.size() - 1;
  std::vector<T> drifting(static_cast<size_t>(length), T(1));
  std::vector<T> steady(static_cast<size_t>(length), T(2));
  State state;
  state.Add("drifting", drifting);
  state.Add("steady", steady);
  PlanCache cache;
  AsyncSaver saver(comm);
  const SaveOptions options{
      .overwrite = true, .durable = false, .cache = &cache};
  const auto save = [&]() -> Status {
    if (!in_background) return Save(comm, run, 1, state, options).status();
    return saver.Save(run, 1, state, options).status();
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(save(), absl::OkStatus());
  if (rank == last) {
    for (size_t i = 777; i < drifting.size(); i += 1000) drifting[i] += T(1);
  }
  Status found;
  int64_t number = 0;
  while (found.ok() && number < saves) {
    found = save();
    ++number;
  }
  EXPECT_THAT(std::string(found.message()),
              AllOf(HasSubstr("replicas of \"drifting\""),
                    HasSubstr(absl::StrCat("found others on rank ", last)),
                    HasSubstr("may hold a mix")))
      << length << " elements, " << number << " saves";
  saver.Close().IgnoreError();
}

TEST_F(DriftingReplicasTest, OneElementInAThousandIsFoundWithinSomeSaves) {
  if (size_ == 1) return;
  for (const bool in_background : {false, true}) {
    for (const int64_t length : {1000, 20'000, 500'000}) {
      ExpectDriftIsFound<double>(comm_, run(), length, in_background, 5);
      ExpectDriftIsFound<float>(comm_, run(), length, in_background, 5);
      ExpectDriftIsFound<int16_t>(comm_, run(), length, in_background, 5);
      ExpectDriftIsFound<uint8_t>(comm_, run(), length, in_background, 5);
    }
  }
}

// One element of a large array, in its turn: 4 MB are 62 saves.
TEST_F(DriftingReplicasTest, OneElementIsFoundInItsTurn) {
  if (size_ == 1) return;
  std::vector<float> weights(1'000'000, 1);
  State state;
  state.Add("weights", weights);
  PlanCache cache;
  const SaveOptions options{
      .overwrite = true, .durable = false, .cache = &cache};
  Ok(Save(comm_, run(), 1, state, options));
  Ok(Save(comm_, run(), 1, state, options));
  if (rank_ == size_ - 1) weights[654'321] += 1;
  Status found;
  int number = 0;
  for (; found.ok() && number < 62; ++number) {
    found = Save(comm_, run(), 1, state, options).status();
  }
  EXPECT_THAT(std::string(found.message()),
              HasSubstr("replicas of \"weights\""))
      << number;
}

}  // namespace
}  // namespace belay::drifting_replicas_test
