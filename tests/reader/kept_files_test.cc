// A reader whose files stay open from one array to the next.

#include <gmock/gmock.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "belay/checkpoint_reader.h"
#include "core/fault.h"
#include "create_index.h"
#include "directory_fixture.h"
#include "h5_testing.h"
#include "storage/index_file.h"
#include "storage/posix_file.h"

namespace belay::kept_files_test {
namespace {

using h5::Ok;
using h5::Value;

class KeptFilesTest : public DirectoryTest {
 protected:
  // Makes a step of arrays of one byte, "0" on, of which every file has two.
  void Write(const std::string& step, int arrays, char content) const {
    std::filesystem::create_directory(Path(step));
    SavedCheckpoint saved{.step = 1, .has_checksums = false};
    for (int i = 0; i < arrays; ++i) {
      saved.arrays.push_back({.key = std::string(1, static_cast<char>('0' + i)),
                              .dtype = DType::kU8,
                              .shape = {1}});
      saved.datasets.push_back(
          {.array = i, .file = i / 2, .box = WholeBox({1}), .offset = i % 2});
      if (i % 2 != 0) continue;
      const std::string name = absl::StrCat("data_", i / 2, ".h5");
      saved.files.push_back({.name = name, .bytes = 2});
      Put(step + "/" + name, std::string(2, content));
    }
    const std::string index = Path(step + "/index.h5");
    Ok(FinishIndex(index, Value(CreateIndex(index, saved)), 1, 0, {}, false));
  }
  // The fault points that reading all of them passes.
  static int64_t Points(const CheckpointReader& reader, int arrays) {
    fault::Arm(int64_t{1} << 40);
    for (int i = 0; i < arrays; ++i) {
      Value(reader.ReadTensor(std::string(1, static_cast<char>('0' + i))));
    }
    const int64_t points = fault::Count();
    fault::Disarm();
    return points;
  }
};

TEST_F(KeptFilesTest, AnOpenFileIsOnlyRead) {
  Write("s", 8, 'a');
  const CheckpointReader reader = Value(CheckpointReader::Open(Path("s")));
  const CheckpointReader kept = reader.KeepingFilesOpen();
  EXPECT_GE(Points(reader, 8), 40);
  Points(kept, 8);
  EXPECT_EQ(Points(kept, 8), 8);  // one read each
}

// A file that is open is of the save that was opened; another is not.
TEST_F(KeptFilesTest, AStepThatIsReplaced) {
  Write("s", 4, 'a');
  Write("other", 4, 'b');
  const CheckpointReader kept =
      Value(CheckpointReader::Open(Path("s"))).KeepingFilesOpen();
  const auto read = [&](const std::string& key) -> StatusOr<char> {
    const StatusOr<Tensor> tensor = kept.ReadTensor(key);
    if (!tensor.ok()) return tensor.status();
    return static_cast<char>(*tensor->data());
  };
  EXPECT_EQ(Value(read("0")), 'a');
  std::filesystem::rename(Path("s"), Path("old"));
  std::filesystem::rename(Path("other"), Path("s"));
  EXPECT_EQ(Value(read("1")), 'a');
  EXPECT_EQ(read("2").status().code(), absl::StatusCode::kFailedPrecondition);
  // What was open may have been that of the other save.
  EXPECT_EQ(read("0").status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace belay::kept_files_test
