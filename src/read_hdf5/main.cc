// read-hdf5 VERSION file|step KINDS FOLDER...: reads files with HDF5 for the
// process that started it. Loads plugins of these kinds, as in
// H5PLset_loading_state, from these folders.
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "belay/status.h"
#include "belay/version.h"
#include "core/child_process.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "hdf5/guarded_file.h"
#include "hdf5/program.h"
#include "storage/verify.h"

namespace belay {
namespace {

constexpr int kKinds = 3;
constexpr int kFirstFolder = 4;

// The library may have been replaced since the calling program started.
Status CheckVersion(std::string_view library) {
  if (library == BELAY_VERSION) return absl::OkStatus();
  return absl::FailedPreconditionError(
      Cat("the program that reads files by HDF5 is of another version than the "
          "library: install both together (need ",
          library, ", found ", BELAY_VERSION, ")"));
}

Status Begin(std::span<char* const> arguments) {
  if (std::ssize(arguments) < kFirstFolder) {
    return absl::InvalidArgumentError("no version, or no work");
  }
  BELAY_RETURN_IF_ERROR(CheckVersion(arguments[1]));
  return h5::UsePlugins(arguments[kKinds], arguments.subspan(kFirstFolder));
}

}  // namespace
}  // namespace belay

int main(int argc, char** argv) {
  const std::span<char* const> arguments(argv, static_cast<size_t>(argc));
  bool has_begun = false;
  belay::h5::FileServer files;
  belay::ServeParent(
      [&](std::string_view request,
          std::span<std::byte> shared) -> belay::StatusOr<std::string> {
        if (!std::exchange(has_begun, true)) {
          BELAY_RETURN_IF_ERROR(belay::Begin(arguments));
        }
        if (std::string_view(arguments[2]) == belay::h5::kReadsFile) {
          return files.Answer(request, shared);
        }
        return belay::FindDamageHere(std::string(request));
      });
  return 2;
}
