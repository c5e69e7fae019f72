// What Lustre tells of a file in its extended attribute "lustre.lov".

#ifndef BELAY_IO_FILES_STRIPING_LUSTRE_LAYOUT_H_
#define BELAY_IO_FILES_STRIPING_LUSTRE_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "belay/status.h"

namespace belay {

struct LustreLayout {
  int64_t stripe_bytes = 0;
  int32_t stripe_count = 0;  // 0: not said, such as of all servers
};

// Parses the attribute: a plain layout (version 1, or 3 with a pool), or a
// composite one, of which the component that is striped the widest counts, as
// large files lie mostly there. Components on the metadata server have no
// stripes and do not count. Local.
// Errors: InvalidArgument - no such layout: its kind is not known, it ends
//   early, or its numbers make no sense.
StatusOr<LustreLayout> ParseLustreLayout(std::span<const std::byte> bytes);

}  // namespace belay

#endif  // BELAY_IO_FILES_STRIPING_LUSTRE_LAYOUT_H_
