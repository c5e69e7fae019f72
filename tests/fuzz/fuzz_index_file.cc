// Fed: the bytes of an index.h5, with the right checksums and digests. What can
// be read holds as for the target index_columns.
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "format/paths.h"
#include "fuzz_target.h"
#include "index_bytes.h"
#include "storage/index_file.h"

namespace belay::fuzz_index_file {
namespace {

// A directory for as long as the process runs.
class StepDirectory {
 public:
  StepDirectory()
      : path_(std::filesystem::temp_directory_path() / "fuzz_index.XXXXXX") {
    Require(::mkdtemp(path_.data()) != nullptr, "a directory can be made");
  }
  ~StepDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void Run(std::string_view input) {
  static const StepDirectory directory;
  const std::string path = JoinPath(directory.path(), IndexName());
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  Require(fd >= 0, "a file can be made");
  const ssize_t written = ::write(fd, input.data(), input.size());
  Require(written == std::ssize(input), "a file can be written");
  ::close(fd);
  const StatusOr<SavedCheckpoint> saved = ReadIndex(directory.path());
  if (saved.ok()) CheckIndex(*saved);
}

const RegisterFuzzTarget kTarget({"index_file", Run, RepairIndex});

}  // namespace
}  // namespace belay::fuzz_index_file
