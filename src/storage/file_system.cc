#include "storage/file_system.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <fstream>
#include <sstream>
#include <utility>

#include "core/strided_copy.h"
#include "core/text.h"
#include "format/paths.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace belay {
namespace {

// Measured: targets that are less than this ahead of the source are slow.
constexpr int64_t kSlowBytes = 32;

#ifdef __x86_64__
// AMD's Zen 3 and Zen 4.
bool IsOfFamily25() {
  constexpr unsigned kFamily = 25;
  constexpr unsigned kFastShortRepMov = 1U << 4;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__builtin_cpu_is("amd") || __get_cpuid(1, &a, &b, &c, &d) == 0 ||
      (a >> 8 & 0xF) + (a >> 20 & 0xFF) != kFamily) {
    return false;
  }
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
         (d & kFastShortRepMov) != 0;
}
#endif

}  // namespace

bool HasSlowTargets() {
#ifdef __x86_64__
  static const bool is_one = IsOfFamily25();
  return is_one;
#else
  return false;
#endif
}

bool IsSlowTarget(const ShardMemory& memory, const Box& box,
                  const Extent& extent) {
  const Run run = FirstRun(box, memory.box, extent.box);
  const int64_t size = memory.element_size;
  // The copy of less than a page is soon over.
  if (run.length * size < kPlaces) return false;
  const auto address = reinterpret_cast<uintptr_t>(memory.data + run.a * size);
  const int64_t offset = extent.offset + run.b * size;
  const int64_t ahead =
      static_cast<int64_t>(address % kPlaces) - offset % kPlaces;
  const int64_t further = (ahead + kPlaces) % kPlaces;
  return further > 0 && further < kSlowBytes;
}

// --- File system ---

namespace {

// linux/magic.h has the file systems of the kernel's own tree, and of those
// only what its release knew.
constexpr int64_t kLustreMagic = 0x0BD00BD0;
constexpr int64_t kGpfsMagic = 0x47504653;
constexpr int64_t kBeeGfsMagic = 0x19830326;
constexpr int64_t kCephMagic = 0x00C36400;
constexpr int64_t kFuseMagic = 0x65735546;

// Asks `path`, or the nearest directory above it that answers.
template <typename Found>
std::optional<Found> NearestAbove(std::string path,
                                  int (*call)(const char*, Found*)) {
  while (true) {
    Found found{};
    if (call(path.c_str(), &found) == 0) return found;
    std::string parent = ParentOf(path);
    if (parent == path) return std::nullopt;
    path = std::move(parent);
  }
}

// Returns the kernel's number of the file system, or 0 if it is unknown.
int64_t FindMagic(const std::string& path) {
  const auto found = NearestAbove<struct statfs>(path, ::statfs);
  return found ? static_cast<int64_t>(found->f_type) : 0;
}

// A file system in user space has no number of its own.
FileSystem InUserSpace(const std::string& path) {
  const auto found = NearestAbove<struct stat>(path, ::stat);
  if (!found) return FileSystem::kOther;
  std::ostringstream text;
  text << std::ifstream("/proc/self/mountinfo").rdbuf();
  return MountedType(text.str(), found->st_dev) == "fuse.glusterfs"
             ? FileSystem::kGlusterFs
             : FileSystem::kOther;
}

}  // namespace

std::string_view MountedType(std::string_view mountinfo, dev_t device) {
  const std::string number = Cat(major(device), ":", minor(device));
  for (std::string_view line : Split(mountinfo, '\n')) {
    // ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAGS...] - TYPE SOURCE OPTIONS
    const size_t tail = line.find(" - ");
    if (tail == std::string_view::npos) continue;
    const auto head = Split(line.substr(0, tail), ' ');
    if (head.size() < 3 || head[2] != number) continue;
    line.remove_prefix(tail + 3);
    return line.substr(0, line.find(' '));
  }
  return "";
}

FileSystem FileSystemOf(const std::string& path) {
  switch (FindMagic(path)) {
    case NFS_SUPER_MAGIC:
      return FileSystem::kNfs;
    case TMPFS_MAGIC:
      return FileSystem::kMemory;
    case kLustreMagic:
      return FileSystem::kLustre;
    case kGpfsMagic:
      return FileSystem::kGpfs;
    case kBeeGfsMagic:
      return FileSystem::kBeeGfs;
    case kCephMagic:
      return FileSystem::kCeph;
    case kFuseMagic:
      return InUserSpace(path);
    default:
      return FileSystem::kOther;
  }
}

std::string_view FileSystemName(FileSystem file_system) {
  constexpr std::string_view kNames[] = {
      "", "NFS", "tmpfs", "Lustre", "GPFS", "BeeGFS", "CephFS", "GlusterFS"};
  static_assert(static_cast<size_t>(FileSystem::kGlusterFs) + 1 ==
                std::size(kNames));
  return kNames[static_cast<size_t>(file_system)];
}

bool IsOnNfs(const std::string& path) {
  return FindMagic(path) == NFS_SUPER_MAGIC;
}

bool IsInMemory(const std::string& path) {
  return FindMagic(path) == TMPFS_MAGIC;
}

}  // namespace belay
