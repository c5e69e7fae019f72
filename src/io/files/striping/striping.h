// How a file is cut into stripes that lie on several servers.

#ifndef BELAY_IO_FILES_STRIPING_STRIPING_H_
#define BELAY_IO_FILES_STRIPING_STRIPING_H_

#include <cstdint>
#include <map>
#include <string>

#include "bytes/wire.h"
#include "io/files/file_system.h"

namespace belay {

struct Striping {
  FileSystem file_system = FileSystem::kOther;
  bool is_hinted = false;    // by the user, not by the file system
  int64_t stripe_bytes = 0;  // 0: there are no stripes, or none are known
  int32_t servers = 0;       // over which they go in turns; 0: unknown
};

// Finds out how a file is striped: what the file system tells (Lustre, BeeGFS,
// CephFS; of GPFS the block size) or, where that tells nothing, what the hints
// "striping_unit" and "striping_factor" of MPI-IO say. A unit that is no
// multiple of 4 KiB up to 4 GiB counts as none, and a factor beyond 4096 as
// unknown. Local. Never an error: what is not known is not used.
Striping StripingOf(const std::string& path,
                    const std::map<std::string, std::string>& hints);

// For messages between ranks. Local.
void PutStriping(WireWriter& out, const Striping& striping);
Striping GetStriping(WireReader& in);

}  // namespace belay

#endif  // BELAY_IO_FILES_STRIPING_STRIPING_H_
