// File system types, and memory into which reading a file is slow.

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

// Memory into which reading a file is slow.
//
// The kernel copies cached file data with `rep movsb` if the processor declares
// that fast. AMD's family 25 (Zen 3, where this was measured, and Zen 4) does,
// but the copy takes two to three times as long if the target starts 1 to 31
// bytes further into its page than the source into its page. Large blocks of
// glibc's malloc start 16 bytes into a page, so restoring an array whose bytes
// start at a page border of the file often hits this case. Reading first into
// memory with the same offset in its page, and copying from there with other
// instructions, takes half as long.

// Addresses and offsets that are equal modulo this are aligned alike in pages.
inline constexpr int64_t kPlaces = 4096;

// True on a processor of this kind.
bool HasSlowTargets();

// Returns true if `box`, stored in a file as `extent` says, is read faster
// through other memory on such a processor. Judges by the first run of the box.
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

// Returns the file system of `path`, or of its nearest existing parent; kOther
// if it cannot be determined.
FileSystem FindFileSystem(const std::string& path);

// Returns the usual name of the file system; "" for kOther.
std::string_view FileSystemName(FileSystem file_system);

// Returns true if `path`, or its nearest existing parent directory, is on a
// tmpfs; false if that is unknown.
bool IsInMemory(const std::string& path);

// Returns the type of the file system mounted from `device`, such as
// "fuse.glusterfs", according to the text of /proc/self/mountinfo; "" if it is
// not listed.
std::string_view MountedType(std::string_view mountinfo, dev_t device);

struct Striping {
  FileSystem file_system = FileSystem::kOther;
  bool is_hinted = false;    // by the user, not by the file system
  int64_t stripe_bytes = 0;  // 0: no stripes, or unknown
  int32_t servers = 0;       // that hold the stripes in turn; 0: unknown
};

// Determines the striping of a file from the file system (Lustre, BeeGFS,
// CephFS; for GPFS the block size) or, if that reports nothing, from the MPI-IO
// hints "striping_unit" and "striping_factor". Ignores a unit that is not a
// multiple of 4 KiB of at most 4 GiB, and a factor above 4096. Never fails:
// unknown values stay 0.
Striping FindStriping(const std::string& path,
                      const std::map<std::string, std::string>& hints);

template <typename Archive>
void Fields(Archive& archive, Striping& striping) {
  archive(striping.file_system, striping.is_hinted, striping.stripe_bytes,
          striping.servers);
}

// The stripes to which one rank has written, in all files.
struct StripeCounts {
  int64_t stripes = 0;   // each counted once
  int64_t requests = 0;  // writes, cut at the borders of stripes
  std::vector<int64_t> server_requests;  // per server; empty: unknown
};

// For one file and one rank. Memory: one bit per stripe, up to the last stripe
// that was written.
class StripeCounter {
 public:
  explicit StripeCounter(const Striping& striping) : striping_(striping) {}

  // Counts a write of `bytes` bytes at `offset`; ignored without stripes.
  void Add(int64_t offset, int64_t bytes);

  // Adds the counts to `counts`.
  void AddTo(StripeCounts& counts) const;

 private:
  Striping striping_;
  StripeCounts counts_;
  std::vector<bool> is_written_;  // per stripe
};

// The layout in Lustre's extended attribute "lustre.lov".
struct LustreLayout {
  int64_t stripe_bytes = 0;
  int32_t stripe_count = 0;  // 0: unspecified, for example all servers
};

// Parses the attribute: a plain layout (version 1, or 3 with a pool), or a
// composite one. Of a composite layout, returns the component with the widest
// striping, which usually holds most of a large file. Ignores components on the
// metadata server, which have no stripes.
// Errors: InvalidArgument - the layout is of an unknown kind, ends early, or
//   has impossible numbers.
StatusOr<LustreLayout> ParseLustreLayout(std::span<const std::byte> bytes);

}  // namespace belay

#endif  // BELAY_STORAGE_FILE_SYSTEM_H_
