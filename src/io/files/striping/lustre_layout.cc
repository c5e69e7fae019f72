#include "io/files/striping/lustre_layout.h"

#include <cstring>
#include <optional>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace belay {
namespace {

constexpr uint32_t kPlain = 0x0BD10BD0;
constexpr uint32_t kInPool = 0x0BD30BD0;
constexpr uint32_t kComposite = 0x0BD60BD0;

// A plain layout: magic, pattern, 16 bytes that name the object, stripe size at
// 24, count at 28, then the name of the pool, then the objects.
constexpr size_t kPlainBytes = 32;
constexpr size_t kInPoolBytes = 48;
constexpr size_t kObjectBytes = 24;
constexpr uint32_t kOnMetadataServer = 0x100;  // of a pattern
constexpr uint16_t kAllServers = 0xFFFF;
constexpr uint32_t kLeastStripe = uint32_t{64} << 10;  // and what it counts by

// A composite one: magic, its size at 4, number of components at 14, then one
// entry for each, which says at 24 where its plain layout is and at 28 how
// long.
constexpr size_t kCompositeBytes = 32;
constexpr size_t kEntryBytes = 48;

using Bytes = std::span<const std::byte>;

// Requires that it lies within the bytes.
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

// No value for what lies on the metadata server.
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
  // What is not written yet has no objects.
  const size_t objects = bytes.size() - header;
  if (objects != 0 && objects != count * kObjectBytes) {
    return NoLayout("its objects have a wrong length", count * kObjectBytes,
                    objects);
  }
  return LustreLayout{.stripe_bytes = size,
                      .stripe_count = count == kAllServers ? 0 : count};
}

int64_t WidthOf(const LustreLayout& layout) {
  return layout.stripe_bytes *
         (layout.stripe_count == 0 ? kAllServers : layout.stripe_count);
}

// Requires a whole header.
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
    if (one && (!widest || WidthOf(*one) > WidthOf(*widest))) widest = one;
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

}  // namespace belay
