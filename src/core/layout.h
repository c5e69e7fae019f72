// Checks of layouts against a number of ranks.

#ifndef BELAY_CORE_LAYOUT_H_
#define BELAY_CORE_LAYOUT_H_

#include "belay/arrays/layout.h"

namespace belay {

// Checks that the layout's mesh has `num_ranks` ranks. The error begins with
// `start`, such as "keys \"w\"".
// Errors: InvalidArgument.
Status CheckMeshSize(std::string_view start, const Layout& layout,
                     int num_ranks);

// Like CheckMeshSize, for the layout of a value that a program saves or
// restores.
Status CheckLayoutOfKey(std::string_view key, const Layout& layout,
                        int num_ranks);

}  // namespace belay

#endif  // BELAY_CORE_LAYOUT_H_
