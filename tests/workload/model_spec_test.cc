#include "workload/model_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "workload_testing.h"

namespace belay::model_spec_test {
namespace {

using ::testing::ElementsAre;

TEST(ModelSpecTest, ParametersAreThoseThatArePublished) {
  for (const char* flavour : {".hf", ".mcore"}) {
    const auto parameters = [&](const std::string& name) {
      return NumParameters(TestModel(name + flavour));
    };
    EXPECT_EQ(parameters("gpt2-small"), 124439808);
    EXPECT_EQ(parameters("gpt2-xl"), 1557611200);
    EXPECT_EQ(parameters("llama3-8b"), 8030261248);
    EXPECT_EQ(parameters("llama3-70b"), 70553706496);
  }
}

TEST(ModelSpecTest, ALineIsATensor) {
  const ModelSpec model = TestModel("llama3-70b.mcore");
  EXPECT_EQ(model.name, "llama3-70b.mcore");
  EXPECT_EQ(model.num_layers, 80);
  EXPECT_EQ(model.num_experts, 0);
  ASSERT_EQ(model.tensors.size(), 483u);
  const TensorSpec& fc1 = model.tensors[5];
  EXPECT_EQ(fc1.name, "decoder.layers.0.mlp.linear_fc1.weight");
  EXPECT_EQ(fc1.dtype, DType::kBF16);
  EXPECT_EQ(fc1.shape, Shape({57344, 8192}));
  EXPECT_EQ(fc1.tp_axis, 0);
  EXPECT_THAT(fc1.tp_segments, ElementsAre(28672, 28672));
  EXPECT_EQ(fc1.stage, StageOf::kLayer);
  EXPECT_EQ(fc1.layer, 0);
  EXPECT_EQ(fc1.ep_axis, -1);
  EXPECT_EQ(fc1.fsdp_axis, 0);
  EXPECT_TRUE(fc1.has_optimizer);
  EXPECT_EQ(model.tensors[2].tp_unit, 1280);
  EXPECT_EQ(model.tensors[2].tp_max, 8);
  EXPECT_TRUE(model.tensors[0].is_vocabulary);
  EXPECT_EQ(model.tensors[0].stage, StageOf::kFirst);
  EXPECT_EQ(model.tensors[1].tp_axis, -1);
  EXPECT_EQ(TestModel("gpt2-small.hf").tensors.back().tied_to,
            "transformer.wte.weight");
  EXPECT_EQ(TestModel("moe-small").num_experts, 8);
}

TEST(ModelSpecTest, ASmallerModelHasAsManyUnits) {
  const ModelSpec model = Divided(TestModel("llama3-8b.mcore"), 32);
  const TensorSpec& qkv = model.tensors[2];
  EXPECT_EQ(qkv.shape, Shape({8 * 24, 128}));
  EXPECT_EQ(qkv.tp_unit, 24);
  const TensorSpec& fc1 = model.tensors[5];
  EXPECT_EQ(fc1.shape, Shape({896, 128}));
  EXPECT_THAT(fc1.tp_segments, ElementsAre(448, 448));
  // Lengths that the divisor does not divide; none becomes 0.
  const ModelSpec odd = Divided(TestModel("gpt2-small.hf"), 100);
  EXPECT_EQ(odd.tensors[4].shape, Shape({7, 36}));
  EXPECT_THAT(odd.tensors[4].tp_segments, ElementsAre(12, 12, 12));
  EXPECT_EQ(odd.tensors[4].tp_unit, 1);
  EXPECT_EQ(Divided(TestModel("moe-small"), 64).tensors[5].shape,
            Shape({8, 1, 1}));
}

constexpr char kHead[] =
    "name\tdtype\tglobal_shape\ttp_axis\ttp_unit\ttp_segments\tpp\tlayer\t"
    "tied_to\n";

Status ErrorOf(const std::string& text) {
  return ParseModel("m.tsv", text).status();
}

// A table of two tensors, the second of which is tied to the first.
Status TiedWith(const std::string& first, const std::string& second) {
  const std::string head =
      "name\tdtype\tglobal_shape\ttp_axis\ttp_unit\ttp_max\ttp_segments\tpp\t"
      "ep_axis\texpert\ttied_to\n";
  return ErrorOf(head + "a\tf32\t8,4\t" + first + "\t-\nb\tf32\t8,4\t" +
                 second + "\ta\n");
}

TEST(ModelSpecTest, TiedTensorsAreCutAlike) {
  const std::string first = "0\t2\t2\t4,4\tfirst\t1\t-";
  EXPECT_EQ(TiedWith(first, "0\t2\t2\t4,4\tlast\t1\t-"), absl::OkStatus());
  for (const char* other :
       {"1\t2\t2\t-\tlast\t0\t-", "0\t4\t2\t4,4\tlast\t1\t-",
        "0\t2\t4\t4,4\tlast\t1\t-", "0\t2\t2\t-\tlast\t1\t-",
        "0\t2\t2\t4,4\tlast\t-\t-", "0\t2\t2\t4,4\tlast\t-\t3"}) {
    EXPECT_THAT(
        std::string(TiedWith(first, other).message()),
        ::testing::HasSubstr("line 3, column \"tied_to\": need a tensor "
                             "of this dtype, shape and cut"))
        << other;
  }
}

TEST(ModelSpecTest, LinesMayEndAsOnWindows) {
  std::string text = "name\tdtype\tglobal_shape\tpp\r\nw\tf32\t4\tfirst\r\n";
  const StatusOr<ModelSpec> model = ParseModel("m.tsv", text);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->tensors.size(), 1u);
  EXPECT_EQ(model->tensors[0].stage, StageOf::kFirst);
}

TEST(ModelSpecTest, MistakesNameLineAndColumn) {
  const std::string head = kHead;
  const std::pair<std::string, std::string> mistakes[] = {
      {"", "line 1: no column names"},
      {"name\tdtype\tglobal_shape\tpp\tcolour\n",
       "line 1, column \"colour\": unknown column (need some of name, dtype, "},
      {"name\tdtype\tpp\n", "line 1, column \"global_shape\": is missing"},
      {"name\tname\n", "line 1, column \"name\": appears twice"},
      {head, "line 2: no tensors"},
      {head + "w\tf32\t4,4\n", "line 2: need 9 fields, found 3"},
      {head + "w\tf33\t4\t-\t-\t-\tlayer\t0\t-\n",
       "line 2, column \"dtype\": need a dtype such as f32 or bf16, found "
       "\"f33\""},
      {head + "w\tf32\t4,x\t-\t-\t-\tlayer\t0\t-\n",
       "line 2, column \"global_shape\": need positive numbers with ',' "
       "between them, found \"4,x\""},
      {head + "w\tf32\t4,0\t-\t-\t-\tlayer\t0\t-\n", "\"global_shape\""},
      {head + "w\tf32\t4\tx\t-\t-\tlayer\t0\t-\n",
       "line 2, column \"tp_axis\": need a number or \"-\", found \"x\""},
      {head + "w\tf32\t4\t-1\t-\t-\tlayer\t0\t-\n", "\"tp_axis\""},
      {head + "w\tf32\t4\t1\t-\t-\tlayer\t0\t-\n",
       "line 2, column \"tp_axis\": no such axis (need less than 1, found 1)"},
      {head + "w\tf32\t4\t0\t3\t-\tlayer\t0\t-\n",
       "line 2, column \"tp_unit\": axis 0 is not whole units (need a divisor "
       "of 4, found 3)"},
      {head + "w\tf32\t4\t0\t1\t1,2\tlayer\t0\t-\n",
       "line 2, column \"tp_segments\": do not make up axis 0 (need 4, found "
       "3)"},
      {head + "w\tf32\t4\t-\t1\t2,2\tlayer\t0\t-\n",
       "line 2, column \"tp_segments\": no axis is cut (tp_axis is \"-\")"},
      {head + "w\tf32\t4\t-\t-\t-\tmiddle\t0\t-\n",
       "line 2, column \"pp\": need first, layer or last, found \"middle\""},
      {head + "w\tf32\t4\t-\t-\t-\tlayer\t0\t-\nw\tf32\t4\t-\t-\t-\tlayer\t1"
              "\t-\n",
       "line 3, column \"name\": \"w\" is in line 2 already"},
      {head + "w\tf32\t4\t-\t-\t-\tlayer\t0\tx\n",
       "line 2, column \"tied_to\": need a tensor of this dtype, shape and cut "
       "that is not tied itself, found \"x\""},
      // Together they would be -2.
      {head + "w\tf32\t4\t0\t-\t9223372036854775807,9223372036854775807"
              "\tfirst\t0\t-\n",
       "line 2, column \"tp_segments\": do not make up axis 0 (need 4, found "
       "9223372036854775807)"},
      {"name\tdtype\tglobal_shape\tkind\ttp_axis\ttp_segments\tpp\n"
       "w\tf32\t4\tvocab\t0\t2,2\tfirst\n",
       "line 2, column \"tp_segments\": a vocabulary, which may be padded, has "
       "none"},
      {"name\tdtype\tglobal_shape\tparams\tpp\nw\tf32\t4,3\t13\tfirst\n",
       "line 2, column \"params\": need the elements of shape [4, 3], found "
       "\"13\""}};
  for (const auto& [text, message] : mistakes) {
    const Status status = ErrorOf(text);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()),
                ::testing::AllOf(::testing::StartsWith("read \"m.tsv\": line "),
                                 ::testing::HasSubstr(message)));
  }
  EXPECT_EQ(ReadModel("none.tsv").status(),
            absl::NotFoundError("read \"none.tsv\": no such model file"));
}

}  // namespace
}  // namespace belay::model_spec_test
