#include "hdf5_format/read/read_links.h"

#include <string>

#include "base/status_macros.h"
#include "base/text.h"
#include "hdf5_format/metadata_bytes.h"
#include "hdf5_format/object_header.h"
#include "hdf5_format/read/link_heap.h"
#include "hdf5_format/read/metadata_reader.h"
#include "hdf5_format/read/name_index.h"

namespace belay::h5 {
namespace {

constexpr auto kLinkMessage = static_cast<uint8_t>(HeaderMessage::Kind::kLink);
constexpr auto kLinkInfoMessage =
    static_cast<uint8_t>(HeaderMessage::Kind::kLinkInfo);

struct ParsedLink {
  std::string_view name;
  int type = 0;  // 0 is a hard one
  int64_t address = kNoAddress;
};

std::optional<ParsedLink> ParseLink(std::string_view bytes) {
  enum Flags {
    kLengthWidth = 0x03,
    kCreationOrder = 0x04,
    kType = 0x08,
    kCharacterSet = 0x10
  };
  MetadataReader in(bytes);
  const uint64_t version = in.Number(1);
  const auto flags = static_cast<int>(in.Number(1));
  ParsedLink link;
  if ((flags & kType) != 0) link.type = static_cast<int>(in.Number(1));
  if ((flags & kCreationOrder) != 0) in.Number(8);
  if ((flags & kCharacterSet) != 0) in.Number(1);
  link.name = in.Bytes(in.Number(1 << (flags & kLengthWidth)));
  if (link.type == 0) link.address = in.Address();
  if (!in.ok() || version != 1) return std::nullopt;
  return link;
}

// The object of a link that has the name.
StatusOr<int64_t> TargetOf(const BoundedFile& file, const ParsedLink& link) {
  if (link.type == 0) return link.address;
  const char* kind = link.type == 1    ? "a soft link"
                     : link.type == 64 ? "a link into another file"
                                       : "a link of its own kind";
  return absl::UnimplementedError(Cat("read \"", file.name(), "\": \"",
                                      link.name, "\" is ", kind,
                                      ", which is not followed here"));
}

// Of a group whose links lie in a heap.
StatusOr<std::optional<int64_t>> FindInHeap(BoundedFile& file,
                                            int64_t heap_address,
                                            int64_t index_address,
                                            std::string_view name) {
  BELAY_ASSIGN_OR_RETURN(const LinkHeap heap, OpenLinkHeap(file, heap_address));
  const uint32_t hash = MetadataChecksum(name);
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> candidates,
                         FindByHash(file, index_address, hash));
  for (const std::string& id : candidates) {
    BELAY_ASSIGN_OR_RETURN(const std::string_view bytes,
                           ReadFromHeap(file, heap, id));
    const std::optional<ParsedLink> link = ParseLink(bytes);
    if (!link || MetadataChecksum(link->name) != hash) {
      return file.Damaged(heap_address, "a link is damaged");
    }
    if (link->name == name) return TargetOf(file, *link);
  }
  return std::nullopt;
}

}  // namespace

StatusOr<std::optional<int64_t>> FindLink(
    BoundedFile& file, const std::vector<StoredMessage>& messages,
    std::string_view name) {
  enum Flags { kTracksOrder = 0x01 };
  const StoredMessage* info = FindMessage(messages, kLinkInfoMessage);
  if (info == nullptr) {
    return absl::DataLossError(Cat("read \"", file.name(),
                                   "\": the parent of \"", name,
                                   "\" is not a group"));
  }
  for (const StoredMessage& message : messages) {
    if (message.kind != kLinkMessage) continue;
    const std::optional<ParsedLink> link = ParseLink(message.bytes);
    if (!link) return file.Damaged(0, "a link is damaged");
    if (link->name == name) return TargetOf(file, *link);
  }
  MetadataReader in(info->bytes);
  const uint64_t version = in.Number(1);
  const auto flags = static_cast<int>(in.Number(1));
  if ((flags & kTracksOrder) != 0) in.Number(8);
  const int64_t heap = in.Address();
  const int64_t index = in.Address();
  if (!in.ok() || version != 0) {
    return file.Damaged(0, "the link info of a group is damaged");
  }
  if (heap == kNoAddress) return std::nullopt;
  return FindInHeap(file, heap, index, name);
}

}  // namespace belay::h5
