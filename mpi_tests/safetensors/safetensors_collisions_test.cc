// Two exports to one name at the same time: whoever wins, what is there is one
// of them, whole.

#include <filesystem>
#include <map>

#include "safetensors_testing.h"

namespace belay::safetensors_collisions_test {
namespace {

using testing::FileBytes;
using testing::Ok;
using testing::SafetensorsTest;

class CollisionsTest : public SafetensorsTest {
 protected:
  void SetUp() override {
    SafetensorsTest::SetUp();
    MPI_Comm_split(MPI_COMM_WORLD, side_, rank_, &raw_);
    mine_ = Ok(Comm::Duplicate(raw_));
  }
  void TearDown() override {
    EXPECT_TRUE(mine_.Close().ok());
    MPI_Comm_free(&raw_);
    SafetensorsTest::TearDown();
  }

  // The bytes of all files in a directory.
  static std::map<std::string, std::string> Content(const std::string& path) {
    std::map<std::string, std::string> content;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      content[entry.path().filename().string()] =
          FileBytes(entry.path().string());
    }
    return content;
  }

  // Both sides export, each its step, to "hf". Returns the code of each side.
  std::array<int, 2> ExportTogether(const ExportOptions& options) {
    MPI_Barrier(MPI_COMM_WORLD);
    const Status status =
        ExportSafetensors(mine_, run(), 1 + side_, File("hf"), options)
            .status();
    std::array<int, 2> codes = {-1, -1};
    codes[side_] = static_cast<int>(status.code());
    MPI_Allreduce(MPI_IN_PLACE, codes.data(), 2, MPI_INT, MPI_MAX,
                  MPI_COMM_WORLD);
    return codes;
  }

  const int side_ = rank_ % 2;
  MPI_Comm raw_ = MPI_COMM_NULL;
  Comm mine_;
};

TEST_F(CollisionsTest, OneOfTwoExportsIsThere) {
  if (size_ == 1) GTEST_SKIP() << "needs two jobs";
  for (const char* name : {"model/small", "model/other", "model/third"}) {
    tensors_.push_back({name, DType::kF32, {500, 1000}, 0});
  }
  ExportOptions options = {.max_file_bytes = 1 << 20,
                           .overwrite = true,
                           .durable = false,
                           .max_bytes_in_flight = 4096,
                           .deadline_seconds = 60};
  std::array<std::map<std::string, std::string>, 2> whole;
  for (int64_t step : {1, 2}) {
    SaveTensors(step);
    Ok(ExportSafetensors(comm_, run(), step, File("alone"), options));
    if (rank_ == 0) whole[step - 1] = Content(File("alone"));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  constexpr int kOk = static_cast<int>(absl::StatusCode::kOk);
  constexpr int kTaken =
      static_cast<int>(absl::StatusCode::kFailedPrecondition);
  int lost = 0;
  for (int round = 0; round < 20 && !HasFailure(); ++round) {
    SCOPED_TRACE(round);
    const std::array<int, 2> codes = ExportTogether(options);
    EXPECT_TRUE(codes[0] == kOk || codes[0] == kTaken) << codes[0];
    EXPECT_TRUE(codes[1] == kOk || codes[1] == kTaken) << codes[1];
    EXPECT_TRUE(codes[0] == kOk || codes[1] == kOk);
    lost += codes[0] == codes[1] ? 0 : 1;
    if (rank_ != 0) continue;
    const auto content = Content(File("hf"));
    EXPECT_TRUE((codes[0] == kOk && content == whole[0]) ||
                (codes[1] == kOk && content == whole[1]));
  }
  if (rank_ == 0) printf("%d of 20 exports were taken over\n", lost);
}

// Without `overwrite` there is only one.
TEST_F(CollisionsTest, TheFirstOneStays) {
  SaveTensors(1);
  SaveTensors(2);
  const ExportOptions options = {.max_file_bytes = 3000, .durable = false};
  const std::array<int, 2> codes = ExportTogether(options);
  int won = 0;
  for (const int code : codes) {
    won += code == static_cast<int>(absl::StatusCode::kOk) ? 1 : 0;
  }
  EXPECT_EQ(won, 1);
  const int winner =
      codes[0] == static_cast<int>(absl::StatusCode::kOk) ? 1 : 2;
  ExpectFile(File("hf/model.safetensors.index.json"), winner);
}

}  // namespace
}  // namespace belay::safetensors_collisions_test
