// Checkpoints of every format version that was ever released stay readable.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "belay/save_restore.h"
#include "format/paths.h"
#include "golden/handled.h"
#include "golden/objects.h"
#include "golden/rows.h"
#include "golden/structs.h"
#include "golden/values.h"
#include "h5_testing.h"

namespace belay::golden_test {
namespace {

using nlohmann::json;

// One golden checkpoint.
struct Golden {
  int64_t step;
  FileLayout file_layout;
  int64_t files;
  std::string w;  // how "w" is stored
};

const Golden kAll[] = {
    {golden::kSharedStep, FileLayout::kShared, 1, "2 chunks of [6, 6]"},
    {golden::kGroupsStep, FileLayout::kShared, 3, "3 pieces"},
    {golden::kPerTaskStep, FileLayout::kPerTask, 2, "2 pieces"}};

std::string GoldenDir() {
  return std::filesystem::path(__FILE__)
      .replace_filename("../golden/format_1_0")
      .string();
}

class GoldenTest : public ::testing::TestWithParam<Golden> {
 protected:
  std::string Dir() const {
    return JoinPath(GoldenDir(), StepName(GetParam().step));
  }
};

TEST(GoldenStepsTest, AllStepsAreListed) {
  EXPECT_EQ(h5::Value(ListSteps(GoldenDir())),
            std::vector<int64_t>({golden::kSharedStep, golden::kGroupsStep,
                                  golden::kGraphStep, golden::kValuesStep,
                                  golden::kFiltersStep, golden::kRowsStep,
                                  golden::kStructsStep, golden::kPerTaskStep}));
}

TEST_P(GoldenTest, EveryChecksumMatches) {
  const VerifyResult result = h5::Value(VerifyCheckpoint(Dir()));
  EXPECT_EQ(result.damage, std::vector<std::string>());
  EXPECT_EQ(result.blocks, 21);
  EXPECT_EQ(result.bytes, 414);
}

TEST_P(GoldenTest, TheIndexListsEveryArray) {
  const CheckpointInfo info = h5::Value(ReadCheckpointInfo(Dir()));
  EXPECT_EQ(info.step, GetParam().step);
  EXPECT_EQ(info.time, golden::kTime);
  EXPECT_EQ(info.format_major, 1);
  EXPECT_EQ(info.format_minor, 0);
  EXPECT_EQ(info.file_layout, GetParam().file_layout);
  EXPECT_EQ(info.num_files, GetParam().files);
  golden::Values values;
  State state;
  values.AddTo(state);
  ASSERT_EQ(info.arrays.size(), state.shards().size() + 1);
  for (const Shard& shard : state.shards()) {
    const auto array =
        std::find_if(info.arrays.begin(), info.arrays.end(),
                     [&](const ArrayInfo& a) { return a.key == shard.key; });
    ASSERT_NE(array, info.arrays.end()) << shard.key;
    EXPECT_EQ(array->dtype, shard.dtype) << shard.key;
    EXPECT_EQ(array->shape, shard.global_shape) << shard.key;
  }
  EXPECT_EQ(info.arrays.back().key, "w");
  EXPECT_EQ(info.arrays.back().cut, GetParam().w);
}

TEST_P(GoldenTest, TheIndexSaysWhoWroteWhat) {
  const CheckpointInfo info = h5::Value(ReadCheckpointInfo(Dir()));
  for (const StoredPiece& piece : info.pieces) {
    // Where several ranks have written one dataset, none of them is named.
    EXPECT_EQ(piece.task.has_value(),
              piece.key != "w" || GetParam().step != golden::kSharedStep)
        << piece.key;
    if (GetParam().file_layout == FileLayout::kPerTask) {
      EXPECT_EQ(piece.group, 0) << piece.key;
      EXPECT_EQ(piece.file, absl::StrFormat("data_%05d_of_00002.h5",
                                            piece.task.value_or(-1)));
    } else {  // file i has group i
      EXPECT_EQ(piece.file, absl::StrFormat("data_%05d_of_%05d.h5", piece.group,
                                            GetParam().files));
    }
  }
}

TEST_P(GoldenTest, TheReaderReadsEveryValue) {
  const CheckpointReader reader = h5::Value(CheckpointReader::Open(Dir()));
  golden::Values values;
  State state;
  values.AddTo(state);
  for (const Shard& shard : state.shards()) {
    if (shard.dtype == DType::kString) {
      EXPECT_EQ(h5::Value(reader.ReadText(shard.key)), *shard.text);
      continue;
    }
    const Tensor tensor = h5::Value(reader.ReadTensor(shard.key));
    EXPECT_EQ(tensor.dtype(), shard.dtype);
    ASSERT_EQ(tensor.shape(), shard.global_shape);
    EXPECT_EQ(std::memcmp(tensor.data(), shard.data, tensor.num_bytes()), 0)
        << shard.key;
  }
  // Over both pieces and both chunks of "w".
  const Box box{{2, 3}, {3, 5}};
  const Tensor part = h5::Value(reader.ReadTensor("w", box));
  EXPECT_EQ(std::vector<int32_t>(part.values<int32_t>().begin(),
                                 part.values<int32_t>().end()),
            golden::ValuesOfW(box));
}

// What h5py shows of each path.
json Expected() {
  return {{"none", json::array({json::array(), json::array(), json::array()})},
          {"odd/100%25/a%40b", -5},
          {"text", "gr\xc3\xbc\xc3\x9f dich, belay"},
          {"empty text", nullptr},
          {"types/%value", 17},
          {"types/f16", {1, -2, 65504}},
          {"types/bf16", json::array({{1}, {3.140625}})},
          {"types/f32",
           json::array({{0.5, -1.25, double{3e38f}}, {double{1e-40f}, 0, 0}})},
          {"types/f64", 0.1},
          {"types/f8e4m3", {0x38, 0xfe}},
          {"types/f8e5m2", {0x3c, 0xc0}},
          {"types/i8", {-128, 0, 127}},
          {"types/i16", json::array({json::array({{-32768}, {32767}})})},
          {"types/i32", {INT32_MIN, -1, INT32_MAX}},
          {"types/i64", INT64_MIN},
          {"types/u8", {0, 255}},
          {"types/u16", 65535},
          {"types/u32", {1, UINT32_MAX}},
          {"types/u64", {UINT64_MAX, 2}},
          {"types/bool", {true, false, true}},
          {"types/c64", {1.5, -2}},
          {"types/c128", json::array({{0, 1}, {-3.25, 1e300}})}};
}

TEST_P(GoldenTest, PythonReadsEveryValue) {
  json expected = Expected();
  for (int64_t row = 0; row < golden::kRows; ++row) {
    const Box box{{row, 0}, {1, golden::kColumns}};
    expected["w"].push_back(golden::ValuesOfW(box));
  }
  std::vector<std::string> paths;
  for (const auto& item : expected.items()) paths.push_back(item.key());
  ASSERT_EQ(paths.size(), 23);
  const json found = h5::Python(JoinPath(Dir(), IndexName()), paths);
  for (const std::string& path : paths) {
    EXPECT_EQ(found[path]["values"], expected[path]) << path;
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, ::testing::ValuesIn(kAll),
                         [](const auto& test) {
                           return absl::StrFormat("Step%d", test.param.step);
                         });

}  // namespace
}  // namespace belay::golden_test
