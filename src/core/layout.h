// Layouts on a mesh of ranks.

#ifndef BELAY_CORE_LAYOUT_H_
#define BELAY_CORE_LAYOUT_H_

#include "belay/arrays/layout.h"

namespace belay {

// Checks that the mesh has so many ranks. The error begins with `start`, such
// as "keys \"w\"". Errors: InvalidArgument.
Status CheckMeshSize(std::string_view start, const Layout& layout,
                     int num_ranks);

// The same for the layout of a value that a program saves or restores.
Status CheckLayoutOfKey(std::string_view key, const Layout& layout,
                        int num_ranks);

}  // namespace belay

#endif  // BELAY_CORE_LAYOUT_H_
