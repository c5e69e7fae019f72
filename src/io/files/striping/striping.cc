#include "io/files/striping/striping.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <charconv>
#include <span>
#include <string_view>
#include <vector>

#include "io/files/striping/lustre_layout.h"

namespace belay {
namespace {

constexpr int64_t kStripeGranule = int64_t{4} << 10;
constexpr int64_t kMostStripeBytes = int64_t{4} << 30;
constexpr int64_t kMostServers = 4096;
constexpr size_t kMostAttributeBytes = size_t{64} << 10;  // as the kernel's

// An extended attribute; empty if there is none.
std::vector<std::byte> AttributeOf(const std::string& path, const char* name) {
  std::vector<std::byte> value(kMostAttributeBytes);
  const ssize_t size =
      ::getxattr(path.c_str(), name, value.data(), value.size());
  value.resize(size < 0 ? 0 : static_cast<size_t>(size));
  return value;
}

// A whole number; 0 if it is none.
int64_t NumberIn(std::string_view text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && next == end && number > 0 ? number : 0;
}

int64_t AttributeNumber(const std::string& path, const char* name) {
  const std::vector<std::byte> value = AttributeOf(path, name);
  return NumberIn({reinterpret_cast<const char*>(value.data()), value.size()});
}

// Takes what makes sense.
void Set(int64_t stripe_bytes, int64_t servers, Striping& striping) {
  if (stripe_bytes < kStripeGranule || stripe_bytes > kMostStripeBytes ||
      stripe_bytes % kStripeGranule != 0) {
    return;
  }
  striping.stripe_bytes = stripe_bytes;
  if (servers < 1 || servers > kMostServers) return;
  striping.servers = static_cast<int32_t>(servers);
}

void AskLustre(const std::string& path, Striping& striping) {
  const auto layout = ParseLustreLayout(AttributeOf(path, "lustre.lov"));
  if (layout.ok()) Set(layout->stripe_bytes, layout->stripe_count, striping);
}

// How many servers share a file, GPFS does not tell.
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
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const int code = ::ioctl(fd, _IOR('f', 25, StripeInfo), &info);
  ::close(fd);
  if (code == 0) Set(info.chunk_bytes, info.targets, striping);
}

void AskCeph(const std::string& path, Striping& striping) {
  const int64_t count = AttributeNumber(path, "ceph.file.layout.stripe_count");
  // Objects of one stripe each go to servers as a hash says.
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

Striping StripingOf(const std::string& path,
                    const std::map<std::string, std::string>& hints) {
  Striping striping{.file_system = FileSystemOf(path)};
  switch (striping.file_system) {
    case FileSystem::kLustre:
      AskLustre(path, striping);
      break;
    case FileSystem::kGpfs:
      AskGpfs(path, striping);
      break;
    case FileSystem::kBeeGfs:
      AskBeeGfs(path, striping);
      break;
    case FileSystem::kCeph:
      AskCeph(path, striping);
      break;
    default:
      break;
  }
  if (striping.stripe_bytes == 0) AskHints(hints, striping);
  return striping;
}

void PutStriping(WireWriter& out, const Striping& striping) {
  out.Put(striping.file_system);
  out.Put(striping.is_hinted);
  out.Put(striping.stripe_bytes);
  out.Put(striping.servers);
}

Striping GetStriping(WireReader& in) {
  Striping striping;
  striping.file_system = in.Get<FileSystem>();
  striping.is_hinted = in.Get<bool>();
  striping.stripe_bytes = in.Get<int64_t>();
  striping.servers = in.Get<int32_t>();
  return striping;
}

}  // namespace belay
