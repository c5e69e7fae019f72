#include "hdf5/program.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <mutex>
#include <optional>
#include <set>

#include "belay/version.h"
#include "core/integers.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "hdf5/guarded_file.h"

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
  FileRequest request = {.kind = FileRequest::Kind::kCanRead};
  std::vector<int32_t>& asked = request.filters;
  for (const Filter& filter : filters) {
    if (!known.contains(filter.id)) asked.push_back(filter.id);
  }
  if (asked.empty()) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> command,
                         ProgramFor(kReadsFile));
  BELAY_ASSIGN_OR_RETURN(
      ChildProcess child,
      ChildProcess::Start("look for filters", command,
                          {.memory_bytes = kMemory, .shared_bytes = 0}));
  BELAY_RETURN_IF_ERROR(
      child.Ask(Encode(request), kCpuSeconds, kSeconds).status());
  known.insert(asked.begin(), asked.end());
  return absl::OkStatus();
}

// --- Program ---

namespace {

constexpr char kName[] = "/belay/read-hdf5";

// Returns the folder of the file that contains this function: the library, or a
// program. Takes it from the kernel, so it does not matter how the file was
// loaded.
std::string FindLibraryFolder() {
  const auto here = reinterpret_cast<uintptr_t>(&FindLibraryFolder);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    const size_t path = line.find('/');
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2 ||
        here < begin || here >= end || path == line.npos) {
      continue;
    }
    return line.substr(path, line.rfind('/') - path);
  }
  return {};
}

// Returns the kinds of plugins that this process loads, and their folders.
StatusOr<std::vector<std::string>> PluginUse() {
  InitLibrary();
  unsigned kinds = 0;
  BELAY_RETURN_IF_ERROR(
      Check(H5PLget_loading_state(&kinds), "ask for", "the use of plugins"));
  unsigned count = 0;
  BELAY_RETURN_IF_ERROR(Check(H5PLsize(&count), "count", "folders of plugins"));
  std::vector<std::string> use = {absl::StrCat(kinds)};
  for (unsigned i = 0; i < count; ++i) {
    BELAY_ASSIGN_OR_RETURN(
        use.emplace_back(),
        ReadName(
            [&](char* name, size_t size) { return H5PLget(i, name, size); },
            "name", "folders of plugins"));
  }
  return use;
}

}  // namespace

StatusOr<std::vector<std::string>> ProgramFor(const std::string& work) {
  const std::string beside = Cat(FindLibraryFolder(), kName);
  const std::string installed = Cat(BELAY_LIBRARY_DIR, kName);
  const bool is_beside = ::access(beside.c_str(), X_OK) == 0;
  if (!is_beside && ::access(installed.c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError(
        Cat("the program that reads files by HDF5 is missing (need \"", beside,
            "\" or \"", installed,
            "\"): copy belay/read-hdf5 there, from the folder in which "
            "libbelay is installed"));
  }
  std::vector<std::string> command = {is_beside ? beside : installed,
                                      BELAY_VERSION, work};
  static std::mutex turn;  // lets one thread at a time use HDF5
  const std::lock_guard<std::mutex> lock(turn);
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> use, PluginUse());
  command.insert(command.end(), use.begin(), use.end());
  return command;
}

Status UsePlugins(std::string_view kinds,
                  std::span<const char* const> folders) {
  const std::optional<int64_t> mask =
      ParseDigits(kinds, std::numeric_limits<unsigned>::max());
  if (!mask) return absl::InvalidArgumentError("no kinds of plugins");
  // Otherwise HDF5 would load what the environment names before the limits are
  // set.
  constexpr char kPreload[] = "HDF5_PLUGIN_PRELOAD";
  if (*mask == 0) ::setenv(kPreload, H5PL_NO_PLUGIN, 1);
  constexpr int64_t kConnectors = 2, kDrivers = 4;  // since HDF5 1.12 and 1.14
  if ((*mask & kConnectors) == 0) ::unsetenv("HDF5_VOL_CONNECTOR");
  if ((*mask & kDrivers) == 0) ::unsetenv("HDF5_DRIVER");
  InitLibrary();
  BELAY_RETURN_IF_ERROR(
      Check(H5PLset_loading_state(static_cast<unsigned>(*mask)), "limit",
            "the use of plugins"));
  unsigned count = 0;
  BELAY_RETURN_IF_ERROR(Check(H5PLsize(&count), "count", "folders of plugins"));
  while (count > 0) {
    BELAY_RETURN_IF_ERROR(
        Check(H5PLremove(--count), "forget", "folders of plugins"));
  }
  for (const char* const folder : folders) {
    BELAY_RETURN_IF_ERROR(Check(H5PLappend(folder), "look in", folder));
  }
  return absl::OkStatus();
}

}  // namespace belay::h5
