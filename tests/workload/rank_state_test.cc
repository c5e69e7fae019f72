#include "workload/rank_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "box_oracle.h"
#include "workload/parallelism.h"
#include "workload/simulate.h"
#include "workload_testing.h"

namespace belay::rank_state_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// The boxes that a rank has of a key, each with its replica number.
using Pieces = std::vector<std::pair<Box, int64_t>>;
Pieces PiecesOf(const RankShards& state, const std::string& key) {
  Pieces pieces;
  for (const ShardInfo& shard : state.shards) {
    if (shard.key == key) pieces.emplace_back(shard.box, shard.replica);
  }
  return pieces;
}

RankShards StateOf(const ModelSpec& model, const std::string& parallelism,
                   int64_t rank) {
  return RankState(model, Parallel(parallelism), rank).value();
}

TEST(RankStateTest, EveryCutCoversEveryTensorExactly) {
  const std::pair<const char*, std::vector<const char*>> cuts[] = {
      {"gpt2-small.hf",
       {"dp=1", "dp=4", "tp=2", "tp=12,pp=3", "tp=5,dp=2,zero=1",
        "pp=12,zero=1", "fsdp=7", "fsdp=1000", "fsdp=4,dp=2",
        "tp=2,fsdp=3,pp=2,dp=2", "tp=3,pp=2,dp=5,zero=1"}},
      {"gpt2-small.mcore",
       {"tp=2,dp=4,zero=1", "tp=12", "tp=4,pp=5,dp=3,zero=1", "fsdp=9,tp=2"}},
      {"gpt2-xl.hf", {"tp=2,dp=2", "tp=25,dp=2,zero=1"}},
      {"llama3-8b.hf", {"tp=16,dp=2", "tp=32,zero=1,dp=3", "fsdp=64,pp=2"}},
      {"llama3-8b.mcore", {"tp=16,pp=3,dp=2,zero=1", "tp=8,fsdp=5"}},
      {"moe-small",
       {"dp=8,ep=8", "dp=8,ep=2", "tp=2,pp=2,dp=4,ep=4",
        "tp=8,dp=2,ep=2,zero=1", "pp=4,dp=8,ep=4,zero=1",
        "fsdp=3,dp=4,ep=2,tp=2"}}};
  for (const auto& [name, parallelisms] : cuts) {
    const ModelSpec model = TestModel(name);
    int64_t bytes = 8;  // the counter of steps
    for (const TensorSpec& tensor : model.tensors) {
      const int64_t each = tensor.dtype == DType::kBF16 ? 14 : 12;
      if (tensor.tied_to.empty()) bytes += each * NumElements(tensor.shape);
    }
    for (const char* parallelism : parallelisms) {
      SCOPED_TRACE(::testing::Message() << name << " " << parallelism);
      // PlanSave checks that shards tile, and that replicas differ.
      const auto save =
          SimulateSave(TestStates(model, parallelism), FileLayout::kShared);
      ASSERT_TRUE(save.ok()) << save.status();
      EXPECT_EQ(save->bytes, bytes);
      EXPECT_EQ(Sum(save->written_bytes), bytes);
    }
  }
}

TEST(RankStateTest, TensorParallel) {
  const ModelSpec model = TestModel("llama3-8b.hf");
  const RankShards state = StateOf(model, "tp=8,dp=8", 11);  // tp 3, dp 1
  EXPECT_EQ(state.node, 1);
  const std::string layer = "model/model.layers.0.";
  EXPECT_THAT(PiecesOf(state, layer + "self_attn.q_proj.weight"),
              ElementsAre(std::pair(Box{{1536, 0}, {512, 4096}}, 1)));
  EXPECT_THAT(PiecesOf(state, layer + "self_attn.o_proj.weight"),
              ElementsAre(std::pair(Box{{0, 1536}, {4096, 512}}, 1)));
  EXPECT_THAT(PiecesOf(state, layer + "input_layernorm.weight"),
              ElementsAre(std::pair(Box{{0}, {4096}}, 3 * 8 + 1)));
  EXPECT_THAT(PiecesOf(state, "model/model.embed_tokens.weight"),
              ElementsAre(std::pair(Box{{48096, 0}, {16032, 4096}}, 1)));
  EXPECT_THAT(PiecesOf(state, "optimizer/step"),
              ElementsAre(std::pair(Box{}, 11)));
  // 8 heads of keys on 16 ranks: neighbours hold copies.
  for (const int64_t rank : {6, 7}) {
    const RankShards copy = StateOf(model, "tp=16", rank);
    EXPECT_THAT(PiecesOf(copy, layer + "self_attn.k_proj.weight"),
                ElementsAre(std::pair(Box{{384, 0}, {128, 4096}}, rank - 6)));
    EXPECT_THAT(PiecesOf(copy, layer + "self_attn.q_proj.weight"),
                ElementsAre(std::pair(Box{{256 * rank, 0}, {256, 4096}}, 0)));
  }
}

TEST(RankStateTest, SegmentsAndUnits) {
  EXPECT_THAT(PiecesOf(StateOf(TestModel("gpt2-small.hf"), "tp=2", 1),
                       "model/transformer.h.3.attn.c_attn.weight"),
              ElementsAre(std::pair(Box{{0, 384}, {768, 384}}, 0),
                          std::pair(Box{{0, 1152}, {768, 384}}, 0),
                          std::pair(Box{{0, 1920}, {768, 384}}, 0)));
  EXPECT_THAT(PiecesOf(StateOf(TestModel("llama3-8b.mcore"), "tp=8", 2),
                       "model/decoder.layers.0.mlp.linear_fc1.weight"),
              ElementsAre(std::pair(Box{{3584, 0}, {1792, 4096}}, 0),
                          std::pair(Box{{17920, 0}, {1792, 4096}}, 0)));
  // 25 heads of 64 on 2 ranks.
  EXPECT_THAT(PiecesOf(StateOf(TestModel("gpt2-xl.hf"), "tp=2", 1),
                       "model/transformer.h.0.attn.c_proj.weight"),
              ElementsAre(std::pair(Box{{768, 0}, {832, 1600}}, 0)));
}

TEST(RankStateTest, Fsdp) {
  const ModelSpec model = TestModel("llama3-8b.hf");
  const std::string norm = "optimizer/exp_avg/model.norm.weight";
  EXPECT_THAT(PiecesOf(StateOf(model, "fsdp=6", 5), norm),
              ElementsAre(std::pair(Box{{3415}, {681}}, 0)));
  EXPECT_THAT(PiecesOf(StateOf(model, "fsdp=64,dp=2", 64 + 5),
                       "model/model.embed_tokens.weight"),
              ElementsAre(std::pair(Box{{10020, 0}, {2004, 4096}}, 1)));
  // Of what TP leaves: 8 columns of 512, and rows of these.
  EXPECT_THAT(PiecesOf(StateOf(model, "tp=8,fsdp=4", 8 + 3),
                       "model/model.layers.0.self_attn.o_proj.weight"),
              ElementsAre(std::pair(Box{{1024, 1536}, {1024, 512}}, 0)));
  // Rows of gate and up together: those of rank 2 lie in both.
  EXPECT_THAT(PiecesOf(StateOf(TestModel("llama3-8b.mcore"), "fsdp=5,tp=8", 16),
                       "model/decoder.layers.0.mlp.linear_fc1.weight"),
              ElementsAre(std::pair(Box{{1434, 0}, {358, 4096}}, 0),
                          std::pair(Box{{14336, 0}, {359, 4096}}, 0)));
  // 12 heads have no rows for the last of many ranks.
  EXPECT_THAT(PiecesOf(StateOf(TestModel("gpt2-small.hf"), "fsdp=500", 499),
                       "model/transformer.ln_f.weight"),
              IsEmpty());
}

TEST(RankStateTest, Pipeline) {
  const ModelSpec llama = TestModel("llama3-8b.hf");
  const RankShards first = StateOf(llama, "pp=2", 0);
  const RankShards last = StateOf(llama, "pp=2", 1);
  const std::string layer = "model/model.layers.";
  EXPECT_EQ(PiecesOf(first, layer + "15.input_layernorm.weight").size(), 1u);
  EXPECT_EQ(PiecesOf(first, layer + "16.input_layernorm.weight").size(), 0u);
  EXPECT_EQ(PiecesOf(last, layer + "16.input_layernorm.weight").size(), 1u);
  EXPECT_EQ(PiecesOf(first, "model/model.embed_tokens.weight").size(), 1u);
  EXPECT_EQ(PiecesOf(last, "model/lm_head.weight").size(), 1u);
  // A tied head is a copy of the embedding, under its name.
  const ModelSpec gpt2 = TestModel("gpt2-small.hf");
  const std::string embedding = "model/transformer.wte.weight";
  const Box whole = WholeBox({50257, 768});
  EXPECT_THAT(PiecesOf(StateOf(gpt2, "pp=2", 0), embedding),
              ElementsAre(std::pair(whole, 0)));
  EXPECT_THAT(PiecesOf(StateOf(gpt2, "pp=2", 1), embedding),
              ElementsAre(std::pair(whole, 1)));
  EXPECT_THAT(PiecesOf(StateOf(gpt2, "pp=2", 1), "model/lm_head.weight"),
              IsEmpty());
  EXPECT_EQ(PiecesOf(StateOf(gpt2, "dp=1", 0), embedding).size(), 1u);
}

TEST(RankStateTest, Experts) {
  const ModelSpec model = TestModel("moe-small");
  const RankShards state = StateOf(model, "dp=8,ep=4", 6);  // ep 2
  EXPECT_THAT(PiecesOf(state, "model/layers.0.experts.fc1"),
              ElementsAre(std::pair(Box{{4, 0, 0}, {2, 96, 64}}, 1)));
  for (int64_t expert = 0; expert < 8; ++expert) {
    const std::string key =
        "model/layers.1.experts." + std::to_string(expert) + ".fc2";
    EXPECT_EQ(PiecesOf(state, key),
              expert / 2 == 2 ? (Pieces{{WholeBox({64, 96}), 1}}) : Pieces{});
  }
  EXPECT_THAT(PiecesOf(state, "model/layers.1.router"),
              ElementsAre(std::pair(WholeBox({8, 64}), 6)));
}

ModelSpec TwoTensors() {
  return ParseModel("two.tsv",
                    "name\tdtype\tglobal_shape\ttp_axis\tpp\n"
                    "w\tbf16\t3,4\t0\tfirst\n"
                    "b\tbf16\t5\t-\tlast\n")
      .value();
}

TEST(RankStateTest, ZeroCutsInTheMiddleOfRows) {
  const ModelSpec model = TwoTensors();
  for (const char* kept : {"master", "exp_avg", "exp_avg_sq"}) {
    const std::string key = std::string("optimizer/") + kept + "/";
    const RankShards first = StateOf(model, "dp=2,zero=1", 0);
    EXPECT_THAT(PiecesOf(first, key + "w"),
                ElementsAre(std::pair(Box{{0, 0}, {2, 4}}, 0),
                            std::pair(Box{{2, 0}, {1, 1}}, 0)));
    EXPECT_THAT(PiecesOf(first, key + "b"), IsEmpty());
    const RankShards last = StateOf(model, "dp=2,zero=1", 1);
    EXPECT_THAT(PiecesOf(last, key + "w"),
                ElementsAre(std::pair(Box{{2, 1}, {1, 3}}, 0)));
    EXPECT_THAT(PiecesOf(last, key + "b"),
                ElementsAre(std::pair(Box{{0}, {5}}, 0)));
  }
  EXPECT_THAT(PiecesOf(StateOf(model, "dp=2,zero=1", 1), "model/w"),
              ElementsAre(std::pair(WholeBox({3, 4}), 1)));
}

// TP ranks 0 and 1 have 1 and 2 rows of "w", so that their buffers of 9 and 13
// elements are cut after 5 and 7, and the copies of "b" after 1 and not at all.
TEST(RankStateTest, CopiesThatAreCutApartAreListedOnce) {
  const ModelSpec model = TwoTensors();
  const auto pieces = [&](bool all_copies) {
    std::vector<Pieces> found;
    for (const RankShards& state :
         TestStates(model, "tp=2,dp=2,zero=1", {.all_copies = all_copies})) {
      found.push_back(PiecesOf(state, "optimizer/exp_avg/b"));
    }
    return found;
  };
  const Pieces head = {{{{0}, {1}}, 0}}, rest = {{{{1}, {4}}, 0}};
  EXPECT_THAT(pieces(false), ElementsAre(head, Pieces{}, rest, Pieces{}));
  EXPECT_THAT(pieces(true),
              ElementsAre(head, Pieces{}, rest, Pieces{{WholeBox({5}), 1}}));
}

// As many as others count for this cut, and the counters of steps.
TEST(RankStateTest, BoxesOfALargeModelUnderZero) {
  int64_t boxes = 0;
  const auto states =
      TestStates(TestModel("llama3-70b.mcore"), "tp=8,pp=4,dp=4,zero=1");
  for (const RankShards& state : states) {
    boxes += static_cast<int64_t>(state.shards.size());
  }
  EXPECT_EQ(boxes, 31816 + 128);
}

TEST(RankStateTest, PaddedVocabularies) {
  const ModelSpec model = TestModel("gpt2-small.mcore");
  const auto states = TestStates(model, "tp=2", {.pad_vocabulary = 128});
  const ShardInfo& embedding = states[1].shards[0];
  EXPECT_EQ(embedding.key, "model/embedding.word_embeddings.weight");
  EXPECT_EQ(embedding.global_shape, Shape({50432, 768}));
  EXPECT_EQ(embedding.box, Box({{25216, 0}, {25216, 768}}));
}

TEST(RankStateTest, WeightsOnly) {
  const auto states = TestStates(TwoTensors(), "dp=1", {.adamw = false});
  for (const ShardInfo& shard : states[0].shards) {
    EXPECT_TRUE(shard.key.starts_with("model/")) << shard.key;
  }
  EXPECT_EQ(states[0].shards.size(), 2u);
  EXPECT_EQ(StateOf(TwoTensors(), "dp=1", 0).shards.size(), 2u * 4 + 1);
}

TEST(FitTest, MistakesNameTheTensor) {
  const auto error = [](const char* model, const char* parallelism) {
    return std::string(
        CheckFit(TestModel(model), Parallel(parallelism)).message());
  };
  EXPECT_EQ(error("gpt2-small.hf", "tp=16"),
            "cut model \"gpt2-small.hf\" by tp=16: "
            "\"transformer.h.0.attn.c_attn.weight\" has fewer units along axis "
            "1 than there are TP ranks (need tp=12 or less, found tp=16)");
  EXPECT_EQ(error("llama3-8b.hf", "tp=12"),
            "cut model \"llama3-8b.hf\" by tp=12: "
            "\"model.layers.0.self_attn.k_proj.weight\" has 8 parts, of which "
            "TP ranks hold copies (need a multiple of 8, found tp=12)");
  EXPECT_EQ(error("gpt2-small.hf", "pp=13"),
            "cut model \"gpt2-small.hf\" by pp=13: fewer layers than stages "
            "(need pp=12 or less, found pp=13)");
  EXPECT_EQ(error("gpt2-small.hf", "dp=2,ep=2"),
            "cut model \"gpt2-small.hf\" by dp=2,ep=2: the model has no "
            "experts");
  EXPECT_EQ(
      error("moe-small", "dp=6,ep=6"),
      "cut model \"moe-small\" by dp=6,ep=6: \"layers.0.experts.fc1\" has "
      "a number of experts that EP ranks do not divide (need a divisor "
      "of 8, found ep=6)");
  EXPECT_EQ(RankState(TestModel("moe-small"), Parallel("dp=2"), 2).status(),
            absl::OutOfRangeError("cut model \"moe-small\" by dp=2: no such "
                                  "rank (need 0 to 1, found 2)"));
}

}  // namespace
}  // namespace belay::rank_state_test
