#include "io/index/verify_hdf5.h"

#include "absl/strings/str_format.h"
#include "base/process/child_process.h"
#include "base/status_macros.h"
#include "bytes/wire.h"
#include "hdf5/program/program.h"

namespace belay {
namespace {

// What libhdf5 may take for what the index says is there.
constexpr int64_t kLeastMemory = int64_t{512} << 20;
constexpr int64_t kMemoryPerObject = 8192;
constexpr int64_t kMemoryPerChecksum = 16;  // of the index, which is read anew
constexpr double kLeastCpuSeconds = 2;
constexpr double kCpuSecondsPerObject = 0.002;
constexpr double kLeastSeconds = 60;
constexpr double kSecondsPerObject = 0.02;

}  // namespace

StatusOr<std::vector<std::string>> FindHdf5Damage(
    const std::string& directory, const SavedCheckpoint& saved) {
  const auto objects =
      static_cast<int64_t>(saved.datasets.size() + saved.arrays.size());
  const auto checksums = static_cast<int64_t>(saved.checksums.size());
  const ChildLimits limits = {.memory_bytes = kLeastMemory +
                                              kMemoryPerObject * objects +
                                              kMemoryPerChecksum * checksums};
  const double cpu =
      kLeastCpuSeconds + kCpuSecondsPerObject * static_cast<double>(objects);
  const double seconds =
      kLeastSeconds + kSecondsPerObject * static_cast<double>(objects);
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> command,
                         h5::ProgramFor(h5::kReadsStep));
  BELAY_ASSIGN_OR_RETURN(
      ChildProcess child,
      ChildProcess::Start(absl::StrFormat("read \"%s\" by HDF5", directory),
                          command, limits));
  const StatusOr<std::string> answer = child.Ask(directory, cpu, seconds);
  if (absl::IsDataLoss(answer.status()) && !child.is_running()) {
    return std::vector<std::string>{
        absl::StrFormat("\"%s\": other programs cannot read it: %s", directory,
                        answer.status().message())};
  }
  BELAY_RETURN_IF_ERROR(answer.status());
  return WireReader(*answer).GetTexts();
}

}  // namespace belay
