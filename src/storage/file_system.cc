#include "storage/file_system.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/text.h"
#include "format/paths.h"
#include "storage/posix_file.h"

#ifdef __x86_64__
#include <cpuid.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/xattr.h>
#endif

namespace belay {
namespace {

// Measured: copies are slow if the target is ahead by less than this.
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
  const ElementRun run = FirstRun(box, memory.box, extent.box);
  const int64_t size = memory.element_size;
  // A copy of less than a page is short.
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

// linux/magic.h lists only file systems in the kernel's own tree, and depends
// on the kernel release.
constexpr int64_t kLustreMagic = 0x0BD00BD0;
constexpr int64_t kGpfsMagic = 0x47504653;
constexpr int64_t kBeeGfsMagic = 0x19830326;
constexpr int64_t kCephMagic = 0x00C36400;
constexpr int64_t kFuseMagic = 0x65735546;

// Calls `call` for `path`, then for each parent until it succeeds.
template <typename Found>
std::optional<Found> NearestAbove(std::string path,
                                  int (*call)(const char*, Found*)) {
  while (true) {
    Found found{};
    if (call(path.c_str(), &found) == 0) return found;
    std::string parent = GetParent(path);
    if (parent == path) return std::nullopt;
    path = std::move(parent);
  }
}

// FUSE file systems all share one magic number.
FileSystem FindInUserSpace(const std::string& path) {
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

FileSystem FindFileSystem(const std::string& path) {
  const auto found = NearestAbove<struct statfs>(path, ::statfs);
  switch (found ? static_cast<int64_t>(found->f_type) : 0) {
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
      return FindInUserSpace(path);
    default:
      return FileSystem::kOther;
  }
}

bool IsInMemory(const std::string& path) {
  const auto found = NearestAbove<struct statfs>(path, ::statfs);
  return found && found->f_type == TMPFS_MAGIC;
}

std::string_view FileSystemName(FileSystem file_system) {
  constexpr std::string_view kNames[] = {
      "", "NFS", "tmpfs", "Lustre", "GPFS", "BeeGFS", "CephFS", "GlusterFS"};
  static_assert(static_cast<size_t>(FileSystem::kGlusterFs) + 1 ==
                std::size(kNames));
  return kNames[static_cast<size_t>(file_system)];
}

void StripeCounter::Add(int64_t offset, int64_t bytes) {
  if (striping_.stripe_bytes == 0 || bytes <= 0) return;
  const int64_t first = offset / striping_.stripe_bytes;
  const int64_t last = (offset + bytes - 1) / striping_.stripe_bytes;
  if (last >= std::ssize(is_written_)) is_written_.resize(last + 1);
  counts_.server_requests.resize(striping_.servers);
  counts_.requests += last - first + 1;
  for (int64_t stripe = first; stripe <= last; ++stripe) {
    if (!is_written_[stripe]) ++counts_.stripes;
    is_written_[stripe] = true;
    if (striping_.servers == 0) continue;
    ++counts_.server_requests[stripe % striping_.servers];
  }
}

void StripeCounter::AddTo(StripeCounts& counts) const {
  counts.stripes += counts_.stripes;
  counts.requests += counts_.requests;
  const size_t servers = counts_.server_requests.size();
  if (counts.server_requests.size() < servers) {
    counts.server_requests.resize(servers);
  }
  for (size_t i = 0; i < servers; ++i) {
    counts.server_requests[i] += counts_.server_requests[i];
  }
}

// --- Lustre layout ---

namespace {

constexpr uint32_t kPlain = 0x0BD10BD0;
constexpr uint32_t kInPool = 0x0BD30BD0;
constexpr uint32_t kComposite = 0x0BD60BD0;

// A plain layout: magic, pattern, 16 bytes that name the object, stripe size at
// byte 24, count at byte 28, then the name of the pool, then the objects.
constexpr size_t kPlainBytes = 32;
constexpr size_t kInPoolBytes = 48;
constexpr size_t kObjectBytes = 24;
constexpr uint32_t kOnMetadataServer = 0x100;  // a bit of the pattern
constexpr uint16_t kAllServers = 0xFFFF;
constexpr uint32_t kLeastStripe = uint32_t{64} << 10;  // and the unit of sizes

// A composite layout: magic, its size at byte 4, the number of components at
// byte 14, then one entry per component. Bytes 24 and 28 of an entry are the
// offset and the length of the component's plain layout.
constexpr size_t kCompositeBytes = 32;
constexpr size_t kEntryBytes = 48;

using Bytes = std::span<const std::byte>;

// Requires that the value is within the bytes.
template <typename T>
T At(Bytes bytes, size_t offset) {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

Status NoLayout(const char* what, uint64_t need, uint64_t found) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "parse layout of Lustre: %s (need %u, found %u)", what, need, found));
}

Status CheckLength(const char* what, uint64_t need, Bytes bytes) {
  if (bytes.size() >= need) return absl::OkStatus();
  return NoLayout(what, need, bytes.size());
}

// Returns nothing if the data is on the metadata server.
StatusOr<std::optional<LustreLayout>> ParsePlain(Bytes bytes) {
  BELAY_RETURN_IF_ERROR(CheckLength("it ends early", kPlainBytes, bytes));
  const auto magic = At<uint32_t>(bytes, 0);
  if (magic != kPlain && magic != kInPool) {
    return NoLayout("its kind is not known", kPlain, magic);
  }
  const size_t header = magic == kPlain ? kPlainBytes : kInPoolBytes;
  BELAY_RETURN_IF_ERROR(CheckLength("it ends early", header, bytes));
  if ((At<uint32_t>(bytes, 4) & kOnMetadataServer) != 0) return std::nullopt;
  const auto size = At<uint32_t>(bytes, 24);
  const auto count = At<uint16_t>(bytes, 28);
  if (size == 0 || size % kLeastStripe != 0) {
    return NoLayout("its stripe size is not a multiple", kLeastStripe, size);
  }
  // A file that has not been written yet has no objects.
  const size_t objects = bytes.size() - header;
  if (objects != 0 && objects != count * kObjectBytes) {
    return NoLayout("its objects have a wrong length", count * kObjectBytes,
                    objects);
  }
  return LustreLayout{.stripe_bytes = size,
                      .stripe_count = count == kAllServers ? 0 : count};
}

int64_t StripeWidth(const LustreLayout& layout) {
  return layout.stripe_bytes *
         (layout.stripe_count == 0 ? kAllServers : layout.stripe_count);
}

// Requires a complete header.
StatusOr<std::optional<LustreLayout>> ParseComposite(Bytes bytes) {
  const auto size = At<uint32_t>(bytes, 4);
  if (size != bytes.size()) {
    return NoLayout("it has another length", size, bytes.size());
  }
  const auto count = At<uint16_t>(bytes, 14);
  const size_t header = kCompositeBytes + count * kEntryBytes;
  BELAY_RETURN_IF_ERROR(CheckLength("its entries end early", header, bytes));
  std::optional<LustreLayout> widest;
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = kCompositeBytes + i * kEntryBytes;
    const uint64_t begin = At<uint32_t>(bytes, entry + 24);
    const uint64_t length = At<uint32_t>(bytes, entry + 28);
    if (begin < header) {
      return NoLayout("a component lies among the entries", header, begin);
    }
    BELAY_RETURN_IF_ERROR(
        CheckLength("a component ends early", begin + length, bytes));
    BELAY_ASSIGN_OR_RETURN(const std::optional<LustreLayout> one,
                           ParsePlain(bytes.subspan(begin, length)));
    if (one && (!widest || StripeWidth(*one) > StripeWidth(*widest)))
      widest = one;
  }
  return widest;
}

}  // namespace

StatusOr<LustreLayout> ParseLustreLayout(Bytes bytes) {
  BELAY_RETURN_IF_ERROR(CheckLength("it ends early", kPlainBytes, bytes));
  const bool is_composite = At<uint32_t>(bytes, 0) == kComposite;
  BELAY_ASSIGN_OR_RETURN(
      const std::optional<LustreLayout> found,
      is_composite ? ParseComposite(bytes) : ParsePlain(bytes));
  if (found) return *found;
  return absl::InvalidArgumentError(
      "parse layout of Lustre: it has no component with stripes");
}

// --- Striping ---

namespace {

constexpr int64_t kStripeGranule = int64_t{4} << 10;
constexpr int64_t kMaxStripeBytes = int64_t{4} << 30;
constexpr int64_t kMaxServers = 4096;
constexpr size_t kMaxAttributeBytes = size_t{64} << 10;  // the kernel's limit

// Returns an extended attribute; empty if there is none.
std::vector<std::byte> ReadAttribute(const std::string& path,
                                     const char* name) {
  std::vector<std::byte> value(kMaxAttributeBytes);
  const ssize_t size =
      ::getxattr(path.c_str(), name, value.data(), value.size());
  value.resize(size < 0 ? 0 : static_cast<size_t>(size));
  return value;
}

// Returns a positive whole number; 0 if the text is not one.
int64_t NumberIn(std::string_view text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && next == end && number > 0 ? number : 0;
}

int64_t AttributeNumber(const std::string& path, const char* name) {
  const std::vector<std::byte> value = ReadAttribute(path, name);
  return NumberIn({reinterpret_cast<const char*>(value.data()), value.size()});
}

// Ignores impossible values.
void Set(int64_t stripe_bytes, int64_t servers, Striping& striping) {
  if (stripe_bytes < kStripeGranule || stripe_bytes > kMaxStripeBytes ||
      stripe_bytes % kStripeGranule != 0) {
    return;
  }
  striping.stripe_bytes = stripe_bytes;
  if (servers < 1 || servers > kMaxServers) return;
  striping.servers = static_cast<int32_t>(servers);
}

void AskLustre(const std::string& path, Striping& striping) {
  const auto layout = ParseLustreLayout(ReadAttribute(path, "lustre.lov"));
  if (layout.ok()) Set(layout->stripe_bytes, layout->stripe_count, striping);
}

// GPFS does not report the number of servers of a file.
void AskGpfs(const std::string& path, Striping& striping) {
  struct stat found {};
  if (::stat(path.c_str(), &found) == 0) Set(found.st_blksize, 0, striping);
}

void AskBeeGfs(const std::string& path, Striping& striping) {
  struct StripeInfo {
    uint32_t pattern;
    uint32_t chunk_bytes;
    uint16_t targets;
  };
  StripeInfo info{};
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return;
  const int code = ::ioctl(file.fd(), _IOR('f', 25, StripeInfo), &info);
  if (code == 0) Set(info.chunk_bytes, info.targets, striping);
}

void AskCeph(const std::string& path, Striping& striping) {
  const int64_t count = AttributeNumber(path, "ceph.file.layout.stripe_count");
  // A stripe count of 1 still uses many servers: a hash assigns the objects.
  Set(AttributeNumber(path, "ceph.file.layout.stripe_unit"),
      count > 1 ? count : 0, striping);
}

void AskHints(const std::map<std::string, std::string>& hints,
              Striping& striping) {
  const auto unit = hints.find("striping_unit");
  if (unit == hints.end()) return;
  const auto factor = hints.find("striping_factor");
  Set(NumberIn(unit->second),
      factor == hints.end() ? 0 : NumberIn(factor->second), striping);
  striping.is_hinted = striping.stripe_bytes > 0;
}

}  // namespace

Striping FindStriping(const std::string& path,
                      const std::map<std::string, std::string>& hints) {
  Striping striping{.file_system = FindFileSystem(path)};
  const FileSystem kind = striping.file_system;
  if (kind == FileSystem::kLustre) AskLustre(path, striping);
  if (kind == FileSystem::kGpfs) AskGpfs(path, striping);
  if (kind == FileSystem::kBeeGfs) AskBeeGfs(path, striping);
  if (kind == FileSystem::kCeph) AskCeph(path, striping);
  if (striping.stripe_bytes == 0) AskHints(hints, striping);
  return striping;
}

}  // namespace belay
