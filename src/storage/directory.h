// Directories: their identity, their creation, their entries.

#ifndef BELAY_STORAGE_DIRECTORY_H_
#define BELAY_STORAGE_DIRECTORY_H_

#include <sys/stat.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "belay/status.h"

namespace belay {

// Identifies the directory that has this name now; nothing if there is none.
inline std::optional<std::pair<dev_t, ino_t>> DirectoryId(
    const std::string& path) {
  struct stat stat = {};
  if (::stat(path.c_str(), &stat) != 0) return std::nullopt;
  return std::pair(stat.st_dev, stat.st_ino);
}

// Repeats `look` until it finds something, or until the same directory had the
// name before and after it: otherwise it may have seen a replaced directory
// while that was removed. Returns the last result.
template <typename Look>
auto LookWhileReplaced(const std::string& path, Look look) {
  constexpr int kMostLooks = 100;
  const auto is_found = [](const auto& result) {
    using Result = std::decay_t<decltype(result)>;
    if constexpr (std::is_same_v<Result, StatusOr<bool>>) {
      return result.ok() && *result;
    } else {
      return result.ok();
    }
  };
  for (int looks = 1;; ++looks) {
    const auto before = DirectoryId(path);
    auto result = look();
    if (is_found(result) || looks == kMostLooks ||
        before == DirectoryId(path)) {
      return result;
    }
  }
}

// Opens the path that `resolve` returns. Resolves again if that was deleted or
// replaced before it was open.
template <typename Resolve, typename Open>
auto OpenResolved(Resolve resolve, Open open) -> decltype(open(std::string())) {
  constexpr int kMostTries = 10, kMostAbsent = 2;
  for (int tries = 1, absent = 0;; ++tries) {
    const StatusOr<std::string> path = resolve();
    if (!path.ok()) return path.status();
    const auto before = DirectoryId(*path);
    auto result = open(*path);
    const bool is_same = before == DirectoryId(*path);
    if (is_same && !before) ++absent;  // a name that is swapped comes back
    if (result.ok() || tries == kMostTries || absent == kMostAbsent ||
        (is_same && before)) {
      return result;
    }
  }
}

// Makes the directory `path` if that name is free, and with `durable` makes it
// stay. Its parent must exist. OK if another program is quicker, and for
// whatever has the name already.
// Errors: NotFound - no parent, which is named; those of MakeDirectory and
//   SyncDirectory.
Status EnsureDirectory(const std::string& path, bool durable);

}  // namespace belay

#endif  // BELAY_STORAGE_DIRECTORY_H_
