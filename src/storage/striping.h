// The stripes of a file on several servers.

#ifndef BELAY_STORAGE_STRIPING_H_
#define BELAY_STORAGE_STRIPING_H_

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "belay/status.h"
#include "core/wire.h"
#include "storage/file_system.h"

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
// unknown. Never an error: what is not known is not used.
Striping StripingOf(const std::string& path,
                    const std::map<std::string, std::string>& hints);

template <typename Archive>
void Fields(Archive& archive, Striping& striping) {
  archive(striping.file_system, striping.is_hinted, striping.stripe_bytes,
          striping.servers);
}

inline void PutStriping(WireWriter& out, const Striping& striping) {
  out(striping);
}
inline Striping GetStriping(WireReader& in) {
  Striping striping;
  in(striping);
  return striping;
}

// The stripes that one rank has written to, in all files.
struct StripeCounts {
  int64_t stripes = 0;   // that it has written to, each counted once
  int64_t requests = 0;  // writes, cut at the borders of stripes
  std::vector<int64_t> server_requests;  // of them, by server; empty: unknown
};

// For one file and one rank. Memory: one bit for each stripe of the file, but
// those behind the last that was written to.
class StripeCounter {
 public:
  explicit StripeCounter(const Striping& striping) : striping_(striping) {}

  // Counts a write of `bytes` bytes at `offset`; nothing without stripes.
  void Add(int64_t offset, int64_t bytes);

  // Adds what was counted.
  void AddTo(StripeCounts& counts) const;

 private:
  Striping striping_;
  StripeCounts counts_;
  std::vector<bool> is_written_;  // by stripe
};

// The layout in Lustre's extended attribute "lustre.lov".
struct LustreLayout {
  int64_t stripe_bytes = 0;
  int32_t stripe_count = 0;  // 0: not said, such as of all servers
};

// Parses the attribute: a plain layout (version 1, or 3 with a pool), or a
// composite one, of which the component that is striped the widest counts, as
// large files lie mostly there. Components on the metadata server have no
// stripes and do not count.
// Errors: InvalidArgument - no such layout: its kind is not known, it ends
//   early, or its numbers make no sense.
StatusOr<LustreLayout> ParseLustreLayout(std::span<const std::byte> bytes);

}  // namespace belay

#endif  // BELAY_STORAGE_STRIPING_H_
