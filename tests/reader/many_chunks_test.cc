// Checkpoints with more chunks than one plan should know of.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "belay/checkpoint_reader.h"
#include "belay/values/restore_preview.h"
#include "directory_fixture.h"
#include "h5_testing.h"
#include "restore/array_reading.h"
#include "storage/posix_file.h"
#include "store_testing.h"

namespace belay::many_chunks_test {
namespace {

class ManyChunksTest : public DirectoryTest {
 protected:
  // An array u8 [rows, columns] in chunks of one element, of which the data
  // file has `content`, from its start on; it may be shorter, as a hole.
  void Write(const Shape& shape, const std::string& content) {
    const int64_t bytes = NumElements(shape);
    SavedCheckpoint saved{.step = 1,
                          .has_checksums = !content.empty(),
                          .arrays = {{"w", DType::kU8, shape}},
                          .datasets = {{.box = WholeBox(shape),
                                        .chunk = Shape(shape.size(), 1),
                                        .offset = 0}},
                          .files = {{.name = "data.h5", .bytes = bytes}}};
    PosixFile file =
        h5::Value(PosixFile::Open(Path("data.h5"), PosixFile::Mode::kCreate));
    h5::Ok(file.PwriteAll(0, content.data(), std::ssize(content)));
    h5::Ok(file.Extend(bytes));
    h5::Ok(file.Close());
    std::vector<uint32_t> checksums;
    if (!content.empty()) checksums = {PlainCrc(content)};
    const std::string index = Path("index.h5");
    h5::Ok(FinishIndex(index, h5::Value(CreateIndex(index, saved)), 1, 0,
                       checksums, false));
  }
};

TEST_F(ManyChunksTest, BoxesAreReadInParts) {
  constexpr int64_t kRows = 500, kColumns = 999;
  constexpr int64_t kChunks = kRows * kColumns;
  EXPECT_GT(ArrayReading::NumParts(kChunks), 3);
  std::string content(kChunks, '\0');
  for (size_t i = 0; i < content.size(); ++i) {
    content[i] = static_cast<char>(i * 7 + i / 251);
  }
  Write({kRows, kColumns}, content);
  const CheckpointReader reader = h5::Value(CheckpointReader::Open(dir_));
  const Tensor whole = h5::Value(reader.ReadTensor("w"));
  EXPECT_EQ(std::memcmp(whole.data(), content.data(), content.size()), 0);
  const Box box{{3, 100}, {400, 800}};
  const Tensor part = h5::Value(reader.ReadTensor("w", box));
  for (int64_t row = 0; row < 400; ++row) {
    ASSERT_EQ(std::memcmp(part.data() + row * 800,
                          content.data() + (row + 3) * kColumns + 100, 800),
              0)
        << row;
  }
  // All parts together are compared with the checksum.
  h5::PatchBytes(Path("data.h5"), 400000, "#", 1);
  EXPECT_EQ(reader.ReadTensor("w").status().code(),
            absl::StatusCode::kDataLoss);
}

// Chunks that are not there take no memory.
TEST_F(ManyChunksTest, APlanOfThemIsRefusedIfTheFilesDoNotHoldThem) {
  Write({1 << 20}, "");
  const auto whole = [](const ArrayInfo& array) {
    return Layout::Replicated(*Mesh::Create({{"replica", 2}}),
                              static_cast<int>(array.shape.size()));
  };
  const Status refused = PreviewRestore(dir_, 2, whole).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("too many chunks"), refused.message().npos)
      << refused;
}

}  // namespace
}  // namespace belay::many_chunks_test
