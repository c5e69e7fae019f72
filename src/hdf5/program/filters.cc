#include "hdf5/program/filters.h"

#include <cstdint>
#include <mutex>
#include <set>
#include <string>

#include "base/process/child_process.h"
#include "base/status_macros.h"
#include "bytes/wire.h"
#include "hdf5/program/file_requests.h"
#include "hdf5/program/program.h"

namespace belay::h5 {
namespace {

constexpr int64_t kMemory = int64_t{512} << 20;
constexpr double kCpuSeconds = 10;
constexpr double kSeconds = 60;

}  // namespace

Status CheckProgramCanRead(const std::vector<Filter>& filters) {
  static std::mutex mutex;
  static std::set<int32_t> known;
  const std::lock_guard<std::mutex> lock(mutex);
  WireWriter request;
  request.Put(FileRequest::kCanRead);
  std::vector<int32_t> asked;
  for (const Filter& filter : filters) {
    if (!known.contains(filter.id)) asked.push_back(filter.id);
  }
  if (asked.empty()) return absl::OkStatus();
  request.Put<uint64_t>(asked.size());
  for (const int32_t id : asked) request.Put(id);
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> command,
                         ProgramFor(kReadsFile));
  BELAY_ASSIGN_OR_RETURN(
      ChildProcess child,
      ChildProcess::Start("look for filters", command,
                          {.memory_bytes = kMemory, .shared_bytes = 0}));
  BELAY_RETURN_IF_ERROR(
      child.Ask(request.bytes(), kCpuSeconds, kSeconds).status());
  known.insert(asked.begin(), asked.end());
  return absl::OkStatus();
}

}  // namespace belay::h5
