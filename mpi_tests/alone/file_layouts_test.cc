// The three file layouts as other programs see them: h5py finds every array by
// its key with the right values, h5dump reads all headers.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "belay/checkpoint_reader.h"
#include "values.h"

namespace belay {
namespace {

using testing::FileBytes;
using testing::Values;

constexpr int kNoH5py = 77;

// How a test array is named in the file.
struct Line {
  std::string key;
  std::string path;
  DType dtype;
  Shape shape;
};

class FileLayoutsTest : public testing::CheckpointTest {
 protected:
  // Lists an array and how this rank holds it: cut along `axis`, or whole.
  void Add(const std::string& key, DType dtype, const Shape& shape, int axis,
           const std::string& path = "") {
    lines_.push_back({key, path.empty() ? key : path, dtype, shape});
    if (axis < 0) {
      values_.AddWhole(key, dtype, shape);
    } else {
      values_.AddCut(key, dtype, shape, axis, rank_, size_);
    }
  }

  void AddText(const std::string& key, int64_t bytes) {
    lines_.push_back({key, key, DType::kString, {bytes}});
    values_.AddText(key, bytes);
  }

  void SetUp() override {
    for (uint8_t code = 1; code < static_cast<uint8_t>(DType::kString);
         ++code) {
      const DType dtype{code};
      const std::string name(DTypeName(dtype));
      Add("scalar/" + name, dtype, {}, -1);
      Add("rows/" + name, dtype, {13, 5}, 0);
      Add("columns/" + name, dtype, {4, 11}, 1);
      Add("empty/" + name, dtype, {3, 0}, -1);
    }
    Add("x", DType::kF32, {8, 3}, 0, "x/%value");
    Add("x/y", DType::kF32, {8, 3}, 1);
    Add("50%", DType::kI32, {9}, 0, "50%25");
    Add("a@b", DType::kI32, {9}, 0, "a%40b");
    Add("a//b", DType::kI32, {9}, 0, "a/%/b");
    Add("./z", DType::kI32, {9}, 0, "%2E/z");
    Add(".belay/z", DType::kI32, {9}, 0, "%2Ebelay/z");
    Add("k\xc3\xa9y", DType::kI32, {9}, 0);
    Add("copies", DType::kF32, {300, 401}, -1);
    AddText("text/short", 11);
    AddText("text/empty", 0);
    AddText("text/long", 70000);
  }

  SaveResult SaveIn(FileLayout layout, ArrayLayout arrays, int64_t step) {
    values_.Fill(step);
    const auto saved = Save(comm_, run(), step, values_.MakeState(),
                            {.file_layout = layout,
                             .array_layout = arrays,
                             .sharding_policy = policy_,
                             .durable = false});
    EXPECT_TRUE(saved.ok()) << saved.status();
    MPI_Barrier(MPI_COMM_WORLD);
    return saved.ok() ? *saved : SaveResult{};
  }

  // The list that h5py_read.py takes.
  std::string Listing() {
    std::string text;
    for (const Line& line : lines_) {
      absl::StrAppend(&text, line.key, "\t", line.path, "\t",
                      std::string(DTypeName(line.dtype)), "\t",
                      line.shape.empty() ? "-" : absl::StrJoin(line.shape, ","),
                      "\n");
    }
    return text;
  }

  // Runs a command; its exit code, and its output in `output`.
  int Run(const std::string& command, std::string& output) {
    const std::string file = dir_.File("output");
    const int status =
        std::system(absl::StrCat(command, " > ", file, " 2>&1").c_str());
    output = FileBytes(file);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // Rank 0 only. Whether there is an h5py.
  bool ExpectH5pyReads(int64_t step) {
    testing::PutFile(dir_.File("list"), Listing());
    std::string output;
    const int code =
        Run(absl::StrCat(BELAY_TEST_PYTHON, " ", BELAY_TEST_H5PY_READ, " ",
                         StepFile(step, ""), " ", step, " ", dir_.File("list")),
            output);
    if (code == kNoH5py) return false;
    EXPECT_EQ(code, 0) << output;
    return true;
  }

  // Rank 0 only.
  void ExpectH5dumpReads(int64_t step) {
    std::string output;
    if (Run("h5dump --version", output) != 0) return;
    EXPECT_EQ(Run("h5dump -H " + StepFile(step, "index.h5"), output), 0);
    EXPECT_NE(output.find("GROUP \"rows\""), output.npos);
    EXPECT_EQ(output.find("error"), output.npos);
    std::string all = "h5dump -H";
    for (const auto& entry :
         std::filesystem::directory_iterator(StepFile(step, ""))) {
      absl::StrAppend(&all, " ", entry.path().string());
    }
    EXPECT_EQ(Run(all, output), 0) << output;
  }

  void ExpectReadable(FileLayout layout, ArrayLayout arrays, int64_t files) {
    const SaveResult saved = SaveIn(layout, arrays, 3);
    EXPECT_EQ(saved.counters.files, files);
    ExpectReadable(layout, saved);
  }

  // With groups of at most so many bytes there are at least so many files.
  void ExpectGroupsReadable(FileLayout layout, ArrayLayout arrays,
                            int64_t max_bytes, int64_t files) {
    policy_ = MaxShardSize(max_bytes);
    const SaveResult saved = SaveIn(layout, arrays, 3);
    EXPECT_GE(saved.counters.files, files);
    ExpectReadable(layout, saved);
  }

  void ExpectReadable(FileLayout layout, const SaveResult& saved) {
    const int64_t files = saved.counters.files;
    EXPECT_EQ(saved.num_arrays, lines_.size());
    ExpectRestores(values_, 3, 3);
    bool has_h5py = true;
    if (rank_ == 0) {
      std::string names;
      for (int64_t i = 0; i < files; ++i) {
        absl::StrAppendFormat(&names, "data_%05d_of_%05d.h5 ", i, files);
      }
      EXPECT_EQ(testing::Names(StepFile(3, "")), names + "index.h5");
      const auto info = ReadCheckpointInfo(StepFile(3, ""));
      ASSERT_TRUE(info.ok()) << info.status();
      EXPECT_EQ(info->num_files, files);
      EXPECT_EQ(info->file_layout, layout);
      EXPECT_EQ(info->arrays.size(), lines_.size());
      ExpectH5dumpReads(3);
      has_h5py = ExpectH5pyReads(3);
    }
    if (!has_h5py) GTEST_SKIP() << "no h5py";
  }

  Values values_;
  std::vector<Line> lines_;
  ShardingPolicy policy_ = ShardByTask();
};

TEST_F(FileLayoutsTest, Shared) {
  ExpectReadable(FileLayout::kShared, ArrayLayout::kAuto, 1);
}

TEST_F(FileLayoutsTest, SharedCanonical) {
  ExpectReadable(FileLayout::kShared, ArrayLayout::kCanonical, 1);
}

TEST_F(FileLayoutsTest, PerNode) {
  ExpectReadable(FileLayout::kPerNode, ArrayLayout::kAuto, 1);
}

TEST_F(FileLayoutsTest, PerTask) {
  ExpectReadable(FileLayout::kPerTask, ArrayLayout::kAuto, size_);
}

// Some 560,000 bytes on all ranks together, most of them copies.
TEST_F(FileLayoutsTest, SharedInGroups) {
  ExpectGroupsReadable(FileLayout::kShared, ArrayLayout::kAuto, 10000,
                       50 / size_);
}

TEST_F(FileLayoutsTest, SharedCanonicalInGroups) {
  ExpectGroupsReadable(FileLayout::kShared, ArrayLayout::kCanonical, 3000,
                       150 / size_);
}

TEST_F(FileLayoutsTest, PerNodeInGroups) {
  ExpectGroupsReadable(FileLayout::kPerNode, ArrayLayout::kAuto, 10000,
                       50 / size_);
}

TEST_F(FileLayoutsTest, PerTaskInGroups) {
  ExpectGroupsReadable(FileLayout::kPerTask, ArrayLayout::kAuto, 10000, 50);
}

}  // namespace
}  // namespace belay
