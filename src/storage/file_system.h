// The kind of a file system, and memory that files are slow to be read into.

#ifndef BELAY_STORAGE_FILE_SYSTEM_H_
#define BELAY_STORAGE_FILE_SYSTEM_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"
#include "core/wire.h"
#include "plan/plan.h"
#include "plan/shards.h"

namespace belay {

// Memory that files are slow to be read into.
//
// The kernel copies what it holds of a file with `rep movsb` where the
// processor calls that fast. AMD's family 25 (Zen 3, where it was measured, and
// Zen 4) does, but takes two to three times as long where the target lies 1 to
// 31 bytes further in its page than the source in its own. Large memory of
// glibc's malloc starts 16 bytes into a page, so that is what an array is often
// restored to whose bytes start with a page of its file. Reading them to memory
// that lies as they do first, and copying that by other instructions, takes
// half as long.

// Addresses and offsets that are equal modulo this lie in pages alike.
inline constexpr int64_t kPlaces = 4096;

// True on such a processor.
bool HasSlowTargets();

// Returns whether `box`, which lies in a file as `extent` says, is better read
// elsewhere first on such a processor. Its first run stands for all.
// Requires a box that is not empty.
bool IsSlowTarget(const ShardMemory& memory, const Box& box,
                  const Extent& extent);

// The file systems that belay treats specially.
enum class FileSystem : uint8_t {
  kOther,
  kNfs,
  kMemory,  // a tmpfs
  kLustre,
  kGpfs,
  kBeeGfs,
  kCeph,
  kGlusterFs,
};

// Returns the file system of `path`, or of what is nearest above it; kOther if
// that cannot be found out.
FileSystem FindFileSystem(const std::string& path);

// Returns the name that users know it by; "" for kOther.
std::string_view FileSystemName(FileSystem file_system);

// Returns whether `path`, or the nearest directory above it, lies on a tmpfs;
// false if that is unknown.
bool IsInMemory(const std::string& path);

// Returns the type of the file system that is mounted as `device`, such as
// "fuse.glusterfs", by the text of /proc/self/mountinfo; "" if it does not say.
std::string_view MountedType(std::string_view mountinfo, dev_t device);

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
Striping FindStriping(const std::string& path,
                      const std::map<std::string, std::string>& hints);

template <typename Archive>
void Fields(Archive& archive, Striping& striping) {
  archive(striping.file_system, striping.is_hinted, striping.stripe_bytes,
          striping.servers);
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

#endif  // BELAY_STORAGE_FILE_SYSTEM_H_
