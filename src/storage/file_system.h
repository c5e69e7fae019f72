// The kind of a file system, and memory that files are slow to be read into.

#ifndef BELAY_STORAGE_FILE_SYSTEM_H_
#define BELAY_STORAGE_FILE_SYSTEM_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

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
FileSystem FileSystemOf(const std::string& path);

// Returns the name that users know it by; "" for kOther.
std::string_view FileSystemName(FileSystem file_system);

// Returns whether `path`, or the nearest directory above it, lies on NFS; false
// if that is unknown.
bool IsOnNfs(const std::string& path);

// The same for a tmpfs.
bool IsInMemory(const std::string& path);

// Returns the type of the file system that is mounted as `device`, such as
// "fuse.glusterfs", by the text of /proc/self/mountinfo; "" if it does not say.
std::string_view MountedType(std::string_view mountinfo, dev_t device);

}  // namespace belay

#endif  // BELAY_STORAGE_FILE_SYSTEM_H_
