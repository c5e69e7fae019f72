#include "core/symbolic_links.h"

#include <cstdlib>

#include "core/text.h"

namespace belay {

bool AreFollowed(Links links) {
  if (links == Links::kFollowed) return true;
  const char* const value = std::getenv("BELAY_FOLLOW_LINKS");
  return value != nullptr && std::string_view(value) == "1";
}

Status IsSymbolicLink(std::string_view operation, const std::string& path) {
  return absl::InvalidArgumentError(
      Cat(operation, " \"", path, "\": a symbolic link, which may lead out of ",
          "the directory (need a regular file); copy the file to its place, ",
          "or set BELAY_FOLLOW_LINKS=1 if you trust whoever made the link"));
}

}  // namespace belay
