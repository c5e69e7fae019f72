#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "directory_fixture.h"
#include "safetensors/header.h"
#include "safetensors/import_safetensors.h"

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

// Not after the headers of all of them have been read.
TEST_F(SafetensorsFilesTest, ATensorOfASecondNameIsRefusedAtThatFile) {
  const std::string header =
      R"({"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  const auto bytes = static_cast<int64_t>(header.size());
  Put("1.safetensors",
      std::string(reinterpret_cast<const char*>(&bytes), 8) + header);
  std::filesystem::create_hard_link(Path("1.safetensors"),
                                    Path("2.safetensors"));
  Put("3.safetensors", "no header");
  const Status status = OpenSafetensors({dir_}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("2.safetensors\": tensor \"w\" is in \"" +
                        Path("1.safetensors") + "\", too"));
}

}  // namespace
}  // namespace belay::safetensors_files_test
