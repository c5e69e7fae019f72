#include "io/files/whole_file.h"

#include "base/catch_bad_alloc.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "io/files/posix_file.h"

namespace belay {

StatusOr<std::string> ReadWhole(const std::string& path, int64_t most) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kRead));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  if (stat.size > most) {
    return absl::DataLossError(Cat("read \"", path,
                                   "\": too long (need at most ", most,
                                   " bytes, found ", stat.size, ")"));
  }
  std::string content;
  BELAY_RETURN_IF_ERROR(
      CatchBadAlloc(Cat(stat.size, " bytes of \"", path, "\""), [&] {
        content.resize(static_cast<size_t>(stat.size));
        return absl::OkStatus();
      }));
  BELAY_RETURN_IF_ERROR(file.PreadAll(0, content.data(), stat.size));
  return content;
}

Status WriteWhole(const std::string& path, std::string_view content,
                  bool durable) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kCreate));
  BELAY_RETURN_IF_ERROR(
      file.PwriteAll(0, content.data(), static_cast<int64_t>(content.size())));
  if (durable) BELAY_RETURN_IF_ERROR(file.Sync());
  return file.Close();
}

}  // namespace belay
