// What the tests of safetensors share: a state of every dtype, and the reader
// and writer that know nothing of belay.

#ifndef BELAY_MPI_TESTS_SAFETENSORS_TESTING_H_
#define BELAY_MPI_TESTS_SAFETENSORS_TESTING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "belay/safetensors.h"
#include "values.h"

namespace belay::testing {

struct NamedTensor {
  std::string name;
  DType dtype;
  Shape shape;
  int axis = -1;  // along which it is cut when it is saved; -1: it is not
};

// One of each dtype that the format has, of shapes that cut unevenly.
inline std::vector<NamedTensor> TestTensors() {
  return {{"model/rows", DType::kF32, {37, 11}, 0},
          {"model/columns", DType::kBF16, {5, 29}, 1},
          {"model/cube", DType::kF64, {3, 7, 5}, 1},
          {"model/large", DType::kF16, {3, 700'001}, 0},
          {"adam/step", DType::kI64, {}},
          {"adam/flags", DType::kBool, {13}, 0},
          {"bytes", DType::kU8, {1, 1, 17}, 2},
          {"i8", DType::kI8, {3}},
          {"i16", DType::kI16, {2, 3}, 0},
          {"u16", DType::kU16, {9}, 0},
          {"i32", DType::kI32, {4, 4}, 1},
          {"u32", DType::kU32, {1}},
          {"u64", DType::kU64, {6}, 0},
          {"c64", DType::kC64, {2, 5}, 0},
          {"f8/e4m3", DType::kF8E4M3, {31}, 0},
          {"f8/e5m2", DType::kF8E5M2, {4, 4}, 0},
          {"none", DType::kF32, {0, 4}},
          {"none either", DType::kU8, {3, 0, 2}},
          {"quoted \"\\ \xc3\xa9", DType::kF32, {3}}};
}

inline Values PiecesOf(const std::vector<NamedTensor>& tensors, int rank,
                       int size) {
  Values values;
  for (const NamedTensor& tensor : tensors) {
    if (tensor.axis < 0) {
      values.AddWhole(tensor.name, tensor.dtype, tensor.shape);
    } else {
      values.AddCut(tensor.name, tensor.dtype, tensor.shape, tensor.axis, rank,
                    size);
    }
  }
  return values;
}

// One line per tensor, for safetensors_format.py.
inline std::string Listing(const std::vector<NamedTensor>& tensors) {
  std::string text;
  for (const NamedTensor& tensor : tensors) {
    absl::StrAppend(
        &text, tensor.name, "\t", std::string(DTypeName(tensor.dtype)), "\t",
        tensor.shape.empty() ? "-" : absl::StrJoin(tensor.shape, ","), "\n");
  }
  return text;
}

class SafetensorsTest : public ::testing::Test {
 protected:
  void SetUp() override { comm_ = Ok(Comm::Duplicate(MPI_COMM_WORLD)); }
  void TearDown() override { EXPECT_TRUE(comm_.Close().ok()); }

  // Saves the tensors as a step, with the seed of its number.
  void SaveTensors(int64_t step, const SaveOptions& options = {}) {
    Values values = PiecesOf(tensors_, rank_, size_);
    values.Fill(step);
    Ok(Save(comm_, run(), step, values.MakeState(), options));
  }

  // Restores the step, which must have the values of `seed`.
  void ExpectStep(int64_t step, int64_t seed) {
    Values values = PiecesOf(tensors_, rank_, size_);
    values.Spoil(seed);
    const auto restored = Restore(comm_, run(), step, values.MakeState());
    EXPECT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(values.CountWrong(seed), 0);
  }

  // The independent reader finds all tensors in a file, or an index, and
  // nothing else.
  void ExpectFile(const std::string& path, int64_t seed,
                  const std::string& metadata = "") {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) {
      EXPECT_EQ(RunPython(absl::StrCat("check '", path, "' ", seed, " '",
                                       PutListing(), "' ", metadata)),
                "");
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // The independent writer makes plain.safetensors, odd.safetensors and
  // indexed/.
  void WriteFiles(int64_t seed) {
    if (rank_ == 0) {
      EXPECT_EQ(RunPython(absl::StrCat("write '", dir_.path(), "' ", seed, " '",
                                       PutListing(), "'")),
                "");
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  std::string run() const { return dir_.File("run"); }
  std::string File(const std::string& name) const { return dir_.File(name); }

  ScratchDir dir_;
  Comm comm_;
  int rank_ = WorldRank();
  int size_ = WorldSize();
  std::vector<NamedTensor> tensors_ = TestTensors();

 private:
  std::string PutListing() const {
    PutFile(dir_.File("list"), Listing(tensors_));
    return dir_.File("list");
  }

  // What it printed, and a line if it failed.
  static std::string RunPython(const std::string& arguments) {
    const std::string command = "/usr/bin/python3 -B '" BELAY_TEST_SAFETENSORS
                                "' " +
                                arguments + " 2>&1";
    FILE* const pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return "no pipe";
    std::string output;
    std::array<char, 4096> part;
    while (fgets(part.data(), part.size(), pipe) != nullptr) {
      output += part.data();
    }
    if (pclose(pipe) != 0) output += "exit code";
    return output == "\n" ? "" : output;
  }
};

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_SAFETENSORS_TESTING_H_
