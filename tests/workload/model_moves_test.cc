// Real models at full size, planned for the ranks that train them: who writes
// how much, and what restoring on other ranks reads. Counts only, no times.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "workload/rank_state.h"
#include "workload/simulate.h"
#include "workload_testing.h"

namespace belay::model_moves_test {
namespace {

struct SaveCase {
  const char* model;
  const char* parallelism;
};

// The most that a rank writes over the mean, at best: ranks of a stage have
// nobody else to write what is theirs.
double BestBalance(const ModelSpec& model, const Parallelism& parallelism) {
  PerRank stages(parallelism.pp, 0);
  for (const TensorSpec& tensor : model.tensors) {
    if (!tensor.tied_to.empty()) continue;
    stages[StageOfTensor(model, tensor, parallelism)] +=
        NumElements(tensor.shape);
  }
  return Balance(stages);
}

class ModelBalanceTest : public ::testing::TestWithParam<SaveCase> {};

TEST_P(ModelBalanceTest, WritersHaveTheSameBytes) {
  const auto& [name, text] = GetParam();
  const ModelSpec model = TestModel(name);
  const double best = BestBalance(model, Parallel(text));
  const auto states = TestStates(model, text);
  for (const FileLayout layout : {FileLayout::kShared, FileLayout::kPerTask}) {
    const SimulatedSave save = SimulateSave(states, layout).value();
    EXPECT_LE(Balance(save.written_bytes), 1.02 * best);
    EXPECT_EQ(Sum(save.written_bytes), save.bytes);  // written once
  }
  EXPECT_LE(best, Parallel(text).pp == 1 ? 1 : 1.03);
}

INSTANTIATE_TEST_SUITE_P(
    Models, ModelBalanceTest,
    testing::Values(
        SaveCase{"gpt2-small.hf", "dp=4"}, SaveCase{"gpt2-small.hf", "dp=8"},
        SaveCase{"gpt2-small.mcore", "dp=8"}, SaveCase{"gpt2-xl.hf", "dp=64"},
        SaveCase{"llama3-8b.hf", "dp=8"}, SaveCase{"llama3-8b.hf", "dp=64"},
        SaveCase{"llama3-8b.mcore", "dp=2"},
        // Its first and last stage have an embedding more.
        SaveCase{"llama3-70b.hf", "tp=8,pp=4,dp=16"},
        SaveCase{"llama3-70b.mcore", "tp=8,pp=4,dp=4,zero=1"}));

struct MoveCase {
  const char* model;
  const char* from;
  const char* to;
  double needed_gb;  // of weights, each byte once
};

class ModelMoveTest : public ::testing::TestWithParam<MoveCase> {};

TEST_P(ModelMoveTest, ReadsEachByteOnceInFewRequests) {
  const auto& [name, from, to, needed_gb] = GetParam();
  const ModelSpec model = TestModel(name);
  for (const bool adamw : {false, true}) {
    SCOPED_TRACE(adamw);
    const auto saved = TestStates(model, from, {.adamw = adamw});
    const auto wanted =
        TestStates(model, to, {.adamw = adamw, .all_copies = true});
    const int64_t pieces = CountPieces(saved, wanted);
    const SimulatedSave save = SimulateSave(saved, FileLayout::kShared).value();
    const SimulatedRestore restore =
        SimulateRestore(save.saved, wanted, {.sharing = ReadSharing::kAuto})
            .value();
    EXPECT_EQ(restore.needed_bytes, save.bytes);
    EXPECT_LE(static_cast<double>(Sum(restore.read_bytes)),
              1.05 * static_cast<double>(restore.needed_bytes));
    EXPECT_LE(Sum(restore.requests), pieces);
    EXPECT_LE(Sum(restore.delivered_bytes), Sum(restore.wanted_bytes));
    if (!adamw) {
      EXPECT_NEAR(static_cast<double>(restore.needed_bytes) / 1e9, needed_gb,
                  0.01);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, ModelMoveTest,
    testing::Values(MoveCase{"gpt2-small.hf", "fsdp=4", "tp=2", 0.50},
                    MoveCase{"gpt2-xl.hf", "fsdp=8", "tp=2,dp=2", 6.23},
                    MoveCase{"llama3-8b.hf", "fsdp=64", "fsdp=128", 16.06},
                    MoveCase{"llama3-8b.hf", "fsdp=64", "tp=8", 16.06},
                    MoveCase{"llama3-8b.hf", "fsdp=64", "tp=8,dp=8", 16.06},
                    MoveCase{"llama3-8b.hf", "tp=8,dp=8", "fsdp=64", 16.06},
                    MoveCase{"llama3-8b.hf", "tp=4,pp=2", "fsdp=6", 16.06},
                    MoveCase{"llama3-8b.hf", "tp=8", "tp=4,pp=2", 16.06},
                    MoveCase{"llama3-70b.hf", "tp=8,pp=4", "tp=4,pp=2",
                             141.11}));

// As many as others count for this move.
TEST(ModelPiecesTest, AreCountedForEachRank) {
  const ModelSpec model = TestModel("llama3-8b.hf");
  EXPECT_EQ(CountPieces(TestStates(model, "fsdp=64", {.adamw = false}),
                        TestStates(model, "tp=8", {.adamw = false})),
            76416);
}

// Every copy of a tensor that ZeRO-1 cuts elsewhere is restored as well.
TEST(ModelRangesTest, OptimizerRangesIntoOtherRanges) {
  const ModelSpec model = TestModel("gpt2-small.mcore");
  const SimulatedSave save =
      SimulateSave(TestStates(model, "tp=2,dp=4,zero=1"), FileLayout::kShared)
          .value();
  const SimulatedRestore restore =
      SimulateRestore(
          save.saved,
          TestStates(model, "tp=3,pp=2,dp=3,zero=1", {.all_copies = true}),
          {.sharing = ReadSharing::kAuto})
          .value();
  EXPECT_EQ(restore.needed_bytes, save.bytes);
  EXPECT_EQ(Sum(restore.read_bytes), save.bytes);
}

}  // namespace
}  // namespace belay::model_moves_test
