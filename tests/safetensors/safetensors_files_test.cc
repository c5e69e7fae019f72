#include "safetensors/safetensors_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "directory_fixture.h"
#include "safetensors/plan/header.h"

namespace belay::safetensors_files_test {
namespace {

using ::testing::HasSubstr;

class SafetensorsFilesTest : public DirectoryTest {};

// One file may have many names.
TEST_F(SafetensorsFilesTest, HeadersOfAllFilesTogetherHaveALimit) {
  constexpr int64_t kBytes = safetensors::kMaxHeaderBytesOfAll / 3;
  std::string text(reinterpret_cast<const char*>(&kBytes), sizeof(kBytes));
  text += "{}" + std::string(kBytes - 2, ' ');
  Put("1.safetensors", text);
  for (const std::string name : {"2", "3", "4"}) {
    std::filesystem::create_hard_link(Path("1.safetensors"),
                                      Path(name + ".safetensors"));
  }
  const Status status = OpenSafetensors({dir_}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(
      std::string(status.message()),
      HasSubstr("4.safetensors\": the headers of all files together are "
                "above the limit (need at most 200000000 bytes"));
}

}  // namespace
}  // namespace belay::safetensors_files_test
