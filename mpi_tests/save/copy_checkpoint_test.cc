// Steps that are saved out of other steps.

#include "belay/reader/copy_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "belay/arrays/layout.h"
#include "belay/checkpoint_reader.h"
#include "belay/manager/metadata.h"
#include "belay/save_restore.h"
#include "values.h"

namespace belay::copy_checkpoint_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Ok;

constexpr int64_t kRows = 1501;  // of 1,200 bytes: more than are kept whole
constexpr int64_t kColumns = 300;

float At(int64_t row, int64_t column) {
  return static_cast<float>(row * 7 + column);
}

// A value that is stored in two arrays, by a handler that a copy does not know.
struct Sparse {
  std::vector<int64_t> places = {3, 5, 8};
  std::vector<double> values = {0.5, 0.25, 0.125};
};

class SparseHandler : public Handler<Sparse> {
 public:
  std::string typestr() const override { return "sparse"; }
  Status ListForSave(Sparse& value, State& parts) const override {
    parts.Add("places", value.places);
    parts.Add("values", value.values);
    return absl::OkStatus();
  }
  Status ListForRestore(Sparse& value, const StoredValue&,
                        State& parts) const override {
    return ListForSave(value, parts);
  }
};

// One value of each kind.
struct Values {
  std::vector<float> rows;
  std::vector<double> vector = {1, 2, 3};
  std::vector<int> nothing;
  std::string text = "some text";
  int64_t number = 42;
  bool flag = true;
  std::map<std::string, double> map = {{"a/b", 1}, {"c", 2}};
  std::vector<std::map<std::string, std::vector<int>>> nested = {
      {{"x", {1, 2}}}, {}, {{"y", {}}, {"z", {3}}}};
  std::optional<int> none;
  std::optional<int> some = 7;
  std::vector<std::string> names = {"one", "", "three"};
  std::vector<bool> flags = {true, false, true};
  Sparse sparse;
};

class CopyCheckpointTest : public testing::CheckpointTest {
 protected:
  CopyCheckpointTest() {
    EXPECT_EQ(handlers_.Add<Sparse>(std::make_shared<SparseHandler>()),
              absl::OkStatus());
  }

  Box MyRows() const {
    const int64_t begin = kRows * rank_ / size_;
    return {{begin, 0}, {kRows * (rank_ + 1) / size_ - begin, kColumns}};
  }

  State StateOf(Values& values) const {
    State state;
    values.rows.resize(static_cast<size_t>(NumElements(MyRows().shape)));
    state.AddPiece("rows", {kRows, kColumns}, MyRows(), values.rows);
    state.Add("vector", values.vector);
    state.Add("nothing", values.nothing);
    state.Add("text", values.text);
    state.Add("number", values.number);
    state.Add("flag", values.flag);
    state.Add("map", values.map);
    state.Add("nested", values.nested);
    state.Add("none", values.none);
    state.Add("some", values.some);
    state.Add("names", values.names);
    state.Add("flags", values.flags);
    state.Add("sparse", values.sparse);
    return state;
  }

  SaveOptions Saving() const { return {.handlers = &handlers_}; }
  RestoreOptions Restoring() const { return {.handlers = &handlers_}; }

  // Saves one value of each kind as step 3.
  void SaveValues(const std::string& dir) {
    Values values;
    const State state = StateOf(values);
    for (size_t i = 0; i < values.rows.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      values.rows[i] = At(MyRows().offset[0] + at / kColumns, at % kColumns);
    }
    SaveOptions options = Saving();
    options.metadata = {{"commit", "abc"}};
    Ok(Save(comm_, dir, 3, state, options));
  }

  void ExpectValues(const std::string& dir, int64_t step) {
    Values values;
    const Values expected;
    values.vector.clear();
    values.text.clear();
    values.number = 0;
    values.flag = false;
    values.map.clear();
    values.nested.clear();
    values.none = 3;
    values.some.reset();
    values.names.clear();
    values.flags.clear();
    values.sparse.values.assign(3, 0);
    values.sparse.places.assign(3, 0);
    const State state = StateOf(values);
    Ok(Restore(comm_, dir, step, state, Restoring()));
    for (size_t i = 0; i < values.rows.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      ASSERT_EQ(values.rows[i],
                At(MyRows().offset[0] + at / kColumns, at % kColumns));
    }
    EXPECT_EQ(values.vector, expected.vector);
    EXPECT_EQ(values.text, expected.text);
    EXPECT_EQ(values.number, expected.number);
    EXPECT_EQ(values.flag, expected.flag);
    EXPECT_EQ(values.map, expected.map);
    EXPECT_EQ(values.nested, expected.nested);
    EXPECT_EQ(values.none, expected.none);
    EXPECT_EQ(values.some, expected.some);
    EXPECT_EQ(values.names, expected.names);
    EXPECT_EQ(values.flags, expected.flags);
    EXPECT_EQ(values.sparse.places, expected.sparse.places);
    EXPECT_EQ(values.sparse.values, expected.sparse.values);
  }

  // The error of a copy, the same on all ranks; nothing is made.
  void ExpectError(const CopyOptions& options, absl::StatusCode code,
                   const std::string& text) {
    const Status status =
        CopyCheckpoint(comm_, run(), kLatestStep, dir_.File("to"), {}, options)
            .status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
    EXPECT_FALSE(ListSteps(dir_.File("to")).ok());
  }

  TypeHandlerRegistry handlers_ = Ok(CreateTypeHandlerRegistry({}));
};

TEST_F(CopyCheckpointTest, EveryKindOfValue) {
  SaveValues(run());
  for (const FileLayout files :
       {FileLayout::kShared, FileLayout::kPerNode, FileLayout::kPerTask}) {
    const std::string to = dir_.File(std::to_string(static_cast<int>(files)));
    CopyOptions options;
    options.save.file_layout = files;
    const CopyResult result =
        Ok(CopyCheckpoint(comm_, run(), kLatestStep, to, {}, options));
    EXPECT_EQ(result.num_values, 13);
    EXPECT_EQ(result.saved.path, StepPath(to, 3));
    ExpectValues(to, 3);
    const CheckpointReader copy = Ok(CheckpointReader::Open(to));
    const CheckpointReader source = Ok(CheckpointReader::Open(run()));
    EXPECT_EQ(copy.Values(), source.Values());
    EXPECT_EQ(Ok(ReadMetadata(to)), Ok(ReadMetadata(run())));
    EXPECT_TRUE(Ok(VerifyCheckpoint(copy.info().path)).damage.empty());
  }
}

TEST_F(CopyCheckpointTest, InAFileInsteadOfMemory) {
  SaveValues(run());
  const std::string to = dir_.File("to");
  CopyOptions options;
  options.scratch = dir_.path();
  int64_t seen = 0, total = -1;
  options.progress = [&](int64_t done, int64_t all) {
    EXPECT_GE(done, seen);
    seen = done;
    total = all;
  };
  const CopyResult result = Ok(CopyCheckpoint(comm_, run(), 3, to, 9, options));
  EXPECT_EQ(result.saved.step, 9);
  EXPECT_EQ(seen, total);
  ExpectValues(to, 9);
  options.scratch = dir_.File("absent");
  const Status status =
      CopyCheckpoint(comm_, run(), 3, to, 10, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("absent"));
  EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
}

TEST_F(CopyCheckpointTest, APartOfIt) {
  SaveValues(run());
  CopyOptions options;
  options.keys = {"rows|vec.*", "nested", "n.*"};
  options.leave_out = {"nothing|names"};
  options.save.args = {{"vector", {.dtype = DType::kF32}}};
  const std::string to = dir_.File("to");
  const CopyResult result =
      Ok(CopyCheckpoint(comm_, run(), kLatestStep, to, {}, options));
  EXPECT_EQ(result.num_left_out, 8);
  const CheckpointReader copy = Ok(CheckpointReader::Open(to));
  std::vector<std::string> keys;
  for (const ValueInfo& value : copy.Values()) {
    if (value.key.find('/') == value.key.npos) keys.push_back(value.key);
  }
  EXPECT_THAT(keys, ElementsAre("nested", "none", "number", "rows", "vector"));
  EXPECT_EQ(Ok(copy.Find("vector")).dtype, DType::kF32);
  EXPECT_EQ(
      Ok(copy.ReadTensor("rows", {{kRows - 1, 5}, {1, 1}})).values<float>()[0],
      At(kRows - 1, 5));
}

TEST_F(CopyCheckpointTest, Rules) {
  SaveValues(run());
  CopyOptions options;
  options.keys = {"text"};
  options.rules = {
      {.key = "columns", .value = Transform::Transpose("rows")},
      {.key = "upper", .value = Transform::Narrow("rows", 0, 0, 1000)},
      {.keys = "(ve)ctor", .key = "\\1", .value = "vector"},
      {.keys = "(ve)ctor",
       .key = "\\1s",
       .value = Transform::Stack({"\\1ctor", "\\1ctor"})}};
  const std::string to = dir_.File("to");
  const CopyResult result =
      Ok(CopyCheckpoint(comm_, run(), kLatestStep, to, {}, options));
  EXPECT_EQ(result.num_values, 1);
  EXPECT_EQ(result.num_made, 4);
  EXPECT_EQ(result.num_used, 2);
  const CheckpointReader copy = Ok(CheckpointReader::Open(to));
  EXPECT_EQ(copy.info().arrays.size(), 5u);
  EXPECT_EQ(Ok(copy.Find("columns")).shape, (Shape{kColumns, kRows}));
  const Tensor column = Ok(copy.ReadTensor("columns", {{7, 0}, {1, kRows}}));
  for (int64_t row = 0; row < kRows; ++row) {
    ASSERT_EQ(column.values<float>()[static_cast<size_t>(row)], At(row, 7));
  }
  EXPECT_EQ(Ok(copy.Find("upper")).shape, (Shape{1000, kColumns}));
  EXPECT_EQ(Ok(copy.Find("ve")).shape, (Shape{3}));
  EXPECT_EQ(Ok(copy.Find("ves")).shape, (Shape{2, 3}));
}

// An array below the key of a value that is no part of it comes along.
TEST_F(CopyCheckpointTest, AnArrayBelowAValue) {
  std::map<std::string, double> map = {{"a", 1}};
  std::vector<double> beside = {2, 3};
  State state;
  state.Add("m", map);
  state.Add("m/x", beside);
  Ok(Save(comm_, run(), 1, state));
  const std::string to = dir_.File("to");
  const CopyResult result =
      Ok(CopyCheckpoint(comm_, run(), kLatestStep, to, {}, {}));
  EXPECT_EQ(result.num_values, 2);
  EXPECT_EQ(result.num_left_out, 0);
  map.clear();
  beside.clear();
  Ok(Restore(comm_, to, kLatestStep, state,
             {.unexpected = MismatchPolicy::kError}));
  EXPECT_THAT(map, ElementsAre(std::pair("a", 1.0)));
  EXPECT_THAT(beside, ElementsAre(2, 3));
  State some;
  some.Add("m", map);
  const Status status = Restore(comm_, to, kLatestStep, some,
                                {.unexpected = MismatchPolicy::kError})
                            .status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"m/x\""));
}

TEST_F(CopyCheckpointTest, Mistakes) {
  using Code = absl::StatusCode;
  SaveValues(run());
  ExpectError({.keys = {"vectr"}}, Code::kInvalidArgument, "vectr");
  ExpectError({.keys = {"names/bytes"}}, Code::kInvalidArgument, "names/bytes");
  ExpectError({.keys = {"("}}, Code::kInvalidArgument, "(");
  ExpectError({.rules = {{.key = "x", .value = "names/bytes"}}},
              Code::kInvalidArgument, "is a part of another value");
  ExpectError({.rules = {{.key = "x", .value = "absent"}}}, Code::kNotFound,
              "no array is stored under \"absent\"");
  ExpectError({.rules = {{.key = "x", .value = "vector"},
                         {.key = "x", .value = "rows"}}},
              Code::kInvalidArgument, "the key is made twice");
  ExpectError({.rules = {{.key = "number", .value = "vector"}}},
              Code::kInvalidArgument, "copied as it is");
  ExpectError({.rules = {{.keys = "nix", .key = "x", .value = "vector"}}},
              Code::kInvalidArgument, "nix");
  ExpectError({.rules = {{.keys = "vector", .key = "\\1", .value = "vector"}}},
              Code::kInvalidArgument, "\\1");
  ExpectError({.rules = {{.key = "x", .value = {}}}}, Code::kInvalidArgument,
              "no value");
  const Status status =
      CopyCheckpoint(comm_, run(), kLatestStep, "", {}).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status;
  if (size_ > 1) {
    CopyOptions options;
    if (rank_ == 1) options.leave_out = {"text"};
    ExpectError(options, Code::kInvalidArgument,
                "the option keys or leave_out differs");
  }
}

// One array under several keys, and layouts that are kept.
TEST_F(CopyCheckpointTest, AliasesAndLayouts) {
  const Mesh mesh = Ok(Mesh::Create({{"x", size_}}));
  const Layout layout = Ok(Layout::Create(mesh, {{"x"}, {}}));
  const Shape shape = {4 * size_, 3};
  std::vector<int32_t> mine(12, rank_);
  State state;
  state.AddLaidOut("laid", layout, shape, rank_, mine);
  Ok(Save(comm_, run(), 1, state));
  CopyOptions options;
  options.rules = {{.key = "one", .value = "laid"},
                   {.key = "two", .value = "laid"},
                   {.key = "laid", .value = "laid"}};
  Ok(CopyCheckpoint(comm_, run(), kLatestStep, dir_.File("aliases"), {},
                    options));
  const CheckpointReader aliases =
      Ok(CheckpointReader::Open(dir_.File("aliases")));
  for (const char* key : {"one", "two", "laid"}) {
    const Tensor all = Ok(aliases.ReadTensor(key));
    ASSERT_EQ(all.shape(), shape);
    EXPECT_EQ(all.values<int32_t>()[0], 0);
    EXPECT_EQ(all.values<int32_t>().back(), size_ - 1);
  }
  Ok(CopyCheckpoint(comm_, run(), kLatestStep, dir_.File("to"), {}));
  EXPECT_EQ(Ok(Ok(CheckpointReader::Open(dir_.File("to"))).Find("laid")).layout,
            layout.ToString());
}

}  // namespace
}  // namespace belay::copy_checkpoint_test
