#include "hdf5_format/write/group_links.h"

#include <algorithm>
#include <utility>

#include "hdf5_format/metadata_bytes.h"
#include "hdf5_format/object_header.h"
#include "hdf5_format/write/write_link_heap.h"
#include "hdf5_format/write/write_name_index.h"

namespace belay::h5 {
namespace {

using Kind = HeaderMessage::Kind;

bool IsExternal(const Link& link) { return !link.file.empty(); }

int WidthOfName(const Link& link) { return link.name.size() < 256 ? 1 : 2; }

// What follows the length of what an external link says.
int64_t ExternalBytes(const Link& link) {
  return 1 + std::ssize(link.file) + 1 + std::ssize(link.target) + 1;
}

std::string EncodedLink(const Link& link) {
  constexpr int kHasType = 0x08, kHasCharacterSet = 0x10;
  constexpr int kExternal = 64;
  constexpr int kUtf8 = 1;
  const bool is_external = IsExternal(link);
  const int width = WidthOfName(link);
  std::string out;
  out.reserve(LinkBytes(link));
  PutNumber(out, 1, 1);  // version
  PutNumber(out, kHasCharacterSet | (width - 1) | (is_external ? kHasType : 0),
            1);
  if (is_external) PutNumber(out, kExternal, 1);
  PutNumber(out, kUtf8, 1);
  PutNumber(out, std::ssize(link.name), width);
  out += link.name;
  if (!is_external) {
    PutAddress(out, link.address);
    return out;
  }
  PutNumber(out, ExternalBytes(link), 2);
  PutNumber(out, 0, 1);  // version and flags
  out.append(link.file).append(1, '\0');
  out.append(link.target).append(1, '\0');
  return out;
}

std::string EncodedLinkInfo(int64_t heap, int64_t tree) {
  std::string out = {0, 0};  // version, no order of creation
  PutAddress(out, heap);
  PutAddress(out, tree);
  return out;
}

std::string EncodedGroupInfo() { return {0, 0}; }

// Returns the link info message.
std::string PutIndexedLinks(std::string& out, int64_t start,
                            const std::vector<Link>& links) {
  int64_t bytes = 0;
  int64_t longest = 0;
  for (const Link& link : links) {
    bytes += LinkBytes(link);
    longest = std::max(longest, LinkBytes(link));
  }
  LinkHeapWriter heap(std::ssize(links), bytes, longest);
  std::vector<NameRecord> records;
  records.reserve(links.size());
  for (const Link& link : links) {
    records.push_back(
        {MetadataChecksum(link.name), link.name, heap.Add(EncodedLink(link))});
  }
  const int64_t heap_address = heap.Put(out, start);
  const int64_t tree = PutNameIndex(out, start, std::move(records));
  return EncodedLinkInfo(heap_address, tree);
}

}  // namespace

int64_t LinkBytes(const Link& link) {
  const int64_t head = 1 + 1 + 1 + WidthOfName(link) + std::ssize(link.name);
  return IsExternal(link) ? head + 1 + 2 + ExternalBytes(link) : head + 8;
}

int64_t PutGroup(std::string& out, int64_t start,
                 const std::vector<Link>& links) {
  const bool indexed = links.size() > kMaxCompactLinks;
  std::vector<HeaderMessage> messages = {
      {Kind::kLinkInfo, indexed ? PutIndexedLinks(out, start, links)
                                : EncodedLinkInfo(kNoAddress, kNoAddress)},
      {Kind::kGroupInfo, EncodedGroupInfo()}};
  if (!indexed) {
    for (const Link& link : links) {
      messages.push_back({Kind::kLink, EncodedLink(link)});
    }
  }
  const int64_t header = start + std::ssize(out);
  PutObjectHeader(out, messages);
  return header;
}

}  // namespace belay::h5
