// Which symbolic links are followed.

#ifndef BELAY_CORE_SYMBOLIC_LINKS_H_
#define BELAY_CORE_SYMBOLIC_LINKS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "belay/status.h"

namespace belay {

// Whether a file may be a symbolic link: one that the user has named may; one
// whose name was found in a directory, or in another file, would let whoever
// made these choose what is read.
enum class Links : uint8_t { kRefused, kFollowed };

// Whether such a link is followed: also refused ones if BELAY_FOLLOW_LINKS is 1
// in the environment.
bool AreFollowed(Links links);

// The error for one that is not.
Status IsSymbolicLink(std::string_view operation, const std::string& path);

}  // namespace belay

#endif  // BELAY_CORE_SYMBOLIC_LINKS_H_
