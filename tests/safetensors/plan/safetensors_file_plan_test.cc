#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "safetensors/export_plan.h"

namespace belay::safetensors::safetensors_file_plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

FileTensor Tensor(const std::string& name, DType dtype, const Shape& shape) {
  return {.name = name,
          .dtype = dtype,
          .shape = shape,
          .begin = 0,
          .end = NumElements(shape) * DTypeSize(dtype)};
}

std::vector<std::string> NamesOf(const PlannedFile& file) {
  std::vector<std::string> names;
  for (const FileTensor& tensor : file.tensors) names.push_back(tensor.name);
  return names;
}

TEST(FilePlanTest, OneFileIsOrderedByAlignmentThenName) {
  const StatusOr<FilePlan> plan = PlanFiles(
      {Tensor("c", DType::kU8, {3}), Tensor("b", DType::kF64, {}),
       Tensor("e", DType::kF32, {2}), Tensor("a", DType::kF32, {0, 4}),
       Tensor("d", DType::kBF16, {1})},
      {{"format", "pt"}}, "model", 0);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->files.size(), 1);
  const PlannedFile& file = plan->files[0];
  EXPECT_EQ(file.name, "model.safetensors");
  EXPECT_EQ(plan->index_name, "");
  EXPECT_THAT(NamesOf(file), ElementsAre("b", "a", "e", "d", "c"));
  EXPECT_EQ(file.bytes, std::ssize(file.head) + 8 + 0 + 8 + 2 + 3);
  const StatusOr<FileHeader> header =
      ParseHeader(std::string_view(file.head).substr(8), 21);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->metadata.at("format"), "pt");
  EXPECT_EQ(header->tensors[4].begin, 18);
}

TEST(FilePlanTest, NoTensorsAreOneFile) {
  const StatusOr<FilePlan> plan = PlanFiles({}, {}, "x", 40);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->files.size(), 1);
  EXPECT_EQ(plan->files[0].bytes, 16);
}

// Otherwise every file would be longer than what was asked for.
TEST(FilePlanTest, AFileHoldsItsHeader) {
  const auto plan = [](int64_t most) {
    return PlanFiles({Tensor("a", DType::kF32, {100})}, {{"by", "me"}}, "x",
                     most);
  };
  EXPECT_EQ(plan(1).status(),
            absl::InvalidArgumentError(
                "max_file_bytes is too small for a header with metadata (need "
                "at least 64, found 1)"));
  EXPECT_EQ(plan(64).status(),
            absl::InvalidArgumentError(
                "max_file_bytes is too small for a header with tensor \"a\" "
                "(need at least 123, found 64)"));
  ASSERT_TRUE(plan(123).ok()) << plan(123).status();
  EXPECT_LE(std::ssize(plan(123)->files[0].head), 123);
}

TEST(FilePlanTest, NoFileIsLongerUnlessOneTensorIs) {
  std::vector<FileTensor> tensors;
  for (int i = 0; i < 40; ++i) {
    tensors.push_back(
        Tensor(absl::StrCat("layer.", 100 + i), DType::kF32, {i * 37 % 500}));
  }
  tensors.push_back(Tensor("large", DType::kU8, {5000}));
  const StatusOr<FilePlan> plan = PlanFiles(tensors, {}, "model", 3000);
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_GT(plan->files.size(), 10);
  std::vector<std::string> all;
  for (size_t i = 0; i < plan->files.size(); ++i) {
    const PlannedFile& file = plan->files[i];
    EXPECT_EQ(file.name, absl::StrFormat("model-%05d-of-%05d.safetensors",
                                         i + 1, plan->files.size()));
    const std::vector<std::string> names = NamesOf(file);
    if (names[0] == "large") {
      EXPECT_EQ(names.size(), 1);
    } else {
      EXPECT_LE(file.bytes, 3000);
    }
    all.insert(all.end(), names.begin(), names.end());
  }
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all.size(), 41);
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

TEST(FilePlanTest, TheIndexSaysWhatIsWhere) {
  const StatusOr<FilePlan> plan = PlanFiles(
      {Tensor("b\"", DType::kU8, {300}), Tensor("a", DType::kF32, {100})}, {},
      "m", 500);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->index_name, "m.safetensors.index.json");
  EXPECT_EQ(plan->index_text, R"({
  "metadata": {
    "total_size": 700
  },
  "weight_map": {
    "a": "m-00001-of-00002.safetensors",
    "b\"": "m-00002-of-00002.safetensors"
  }
}
)");
  const StatusOr<FileOfTensor> index = ParseIndex(plan->index_text);
  ASSERT_TRUE(index.ok()) << index.status();
  EXPECT_THAT(*index, ElementsAre(Pair("a", "m-00001-of-00002.safetensors"),
                                  Pair("b\"", "m-00002-of-00002.safetensors")));
}

TEST(FilePlanTest, KnowsTheNamesOfAnExport) {
  EXPECT_TRUE(IsNameOfExport("m.safetensors", "m"));
  EXPECT_TRUE(IsNameOfExport("m.safetensors.index.json", "m"));
  EXPECT_TRUE(IsNameOfExport("m-00002-of-00003.safetensors", "m"));
  EXPECT_TRUE(IsNameOfExport("m-100000-of-100003.safetensors", "m"));
  EXPECT_FALSE(IsNameOfExport("m2.safetensors", "m"));
  EXPECT_FALSE(IsNameOfExport("m-2-00002-of-00003.safetensors", "m"));
  EXPECT_FALSE(IsNameOfExport("m-00002-of-00003.bin", "m"));
  EXPECT_FALSE(IsNameOfExport("m--of-00003.safetensors", "m"));
  EXPECT_FALSE(IsNameOfExport("m-1x-of-3.safetensors", "m"));
  EXPECT_FALSE(IsNameOfExport("config.json", "m"));
  const auto parsed = ParseNumberedName("a-b-00002-of-00003.safetensors");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_EQ(parsed->stem, "a-b");
  EXPECT_EQ(parsed->number, 2);
  EXPECT_EQ(parsed->count, 3);
  for (const char* name : {"", "-of-", ".safetensors", "-of-.safetensors",
                           "1-of-2.safetensors", "-1-of-.safetensors"}) {
    EXPECT_FALSE(ParseNumberedName(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace belay::safetensors::safetensors_file_plan_test
