#include "workload/simulate.h"

#include <gtest/gtest.h>

#include <string>

#include "workload_testing.h"

namespace belay::simulate_test {
namespace {

SimulatedSave SavedAs(const ModelSpec& model, const std::string& parallelism,
                      const StateOptions& options = {}) {
  return SimulateSave(TestStates(model, parallelism, options),
                      FileLayout::kShared)
      .value();
}

TEST(SimulateTest, CountsOfASave) {
  const auto states = TestStates(TestModel("gpt2-small.hf"), "dp=4");
  const SimulatedSave save = SimulateSave(states, FileLayout::kPerTask).value();
  EXPECT_EQ(save.num_arrays, 148 * 3 + 1);
  EXPECT_EQ(save.num_listed, 4 * save.num_arrays);
  EXPECT_EQ(save.bytes, 12 * 124439808 + 8);
  EXPECT_EQ(save.num_files, 4);
  EXPECT_EQ(save.num_datasets, Sum(save.requests));
  EXPECT_EQ(save.written_bytes.size(), 4u);
  EXPECT_EQ(save.planning_messages, 3 * 4);
  EXPECT_GT(save.planning_bytes, 445 * 40);
  EXPECT_GT(save.plan_seconds, 0);
}

TEST(SimulateTest, CountsOfARestore) {
  const ModelSpec model = TestModel("gpt2-small.hf");
  const SimulatedSave save = SavedAs(model, "fsdp=4", {.adamw = false});
  const StateOptions options = {.adamw = false, .ranks_per_node = 2};
  const SimulatedRestore restore =
      SimulateRestore(save.saved, TestStates(model, "dp=4", options),
                      {.sharing = ReadSharing::kOnce})
          .value();
  EXPECT_EQ(restore.num_arrays, 148);
  EXPECT_EQ(restore.needed_bytes, 4 * 124439808);
  EXPECT_EQ(Sum(restore.wanted_bytes), 4 * restore.needed_bytes);
  EXPECT_EQ(Sum(restore.read_bytes), restore.needed_bytes);
  EXPECT_EQ(Sum(restore.delivered_bytes), 3 * restore.needed_bytes);
  // Each of two nodes gets from the other what that one has read.
  EXPECT_EQ(restore.message_bytes, restore.needed_bytes);
  EXPECT_GT(restore.rounds, 1);
  EXPECT_EQ(restore.sharing, ReadSharing::kOnce);
}

TEST(SimulateTest, OnlyWhatBothVocabulariesHave) {
  const ModelSpec model = TestModel("gpt2-small.mcore");
  const StateOptions padded = {.pad_vocabulary = 128};
  const SimulatedSave save = SavedAs(model, "tp=4", padded);
  const auto restore =
      SimulateRestore(save.saved, TestStates(model, "tp=2", padded), {});
  ASSERT_TRUE(restore.ok()) << restore.status();
  // 50688 words are stored, and 50432 are wanted.
  EXPECT_EQ(save.bytes - restore->needed_bytes, 256 * 768 * 14);
}

TEST(SimulateTest, Balance) {
  EXPECT_EQ(Balance({3, 1, 2}), 1.5);
  EXPECT_EQ(Balance({0, 0}), 1);
  EXPECT_EQ(Balance({}), 1);
}

}  // namespace
}  // namespace belay::simulate_test
