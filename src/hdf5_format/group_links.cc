#include "hdf5_format/group_links.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "hdf5_format/metadata_bytes.h"
#include "hdf5_format/object_header.h"

namespace belay::h5 {
namespace {

using Kind = HeaderMessage::Kind;

// Of the heap. A link is found by its place in the heap and its size.
constexpr int64_t kMinBlockBytes = 512;
constexpr int64_t kMaxBlockBytes = 65536;
constexpr int kOffsetBytes = 4;
constexpr int kSizeBytes = 2;
constexpr int kIdBytes = 1 + kOffsetBytes + kSizeBytes;
constexpr int64_t kMaxObjectBytes = 4096;
constexpr int64_t kBlockOverhead = 4 + 1 + 8 + kOffsetBytes + 4;

// Of the B-tree.
constexpr int kTreeOfNames = 5;
constexpr int kRecordBytes = 4 + kIdBytes;
constexpr int64_t kNodeOverhead = 4 + 1 + 1 + 4;
constexpr int64_t kNodeStep = 512;

static_assert(kMaxLinks + kNodeStep / kRecordBytes < 65536,
              "HDF5 counts the records of a node in 16 bits");
static_assert(kMaxNameBytes + 64 < kMaxObjectBytes);

// Where a link lies in the heap, under the checksum of its name.
struct Record {
  uint32_t hash;
  std::string_view name;
  int64_t offset;
  int64_t size;
};

std::string EncodedLink(const Link& link) {
  constexpr int kHasCharacterSet = 0x10;
  constexpr int kUtf8 = 1;
  const int width = link.name.size() < 256 ? 1 : 2;
  std::string out;
  PutNumber(out, 1, 1);  // version
  PutNumber(out, kHasCharacterSet | (width - 1), 1);
  PutNumber(out, kUtf8, 1);
  PutNumber(out, std::ssize(link.name), width);
  out += link.name;
  PutAddress(out, link.address);
  return out;
}

std::string EncodedLinkInfo(int64_t heap, int64_t tree) {
  std::string out = {0, 0};  // version, no order of creation
  PutAddress(out, heap);
  PutAddress(out, tree);
  return out;
}

std::string EncodedGroupInfo() { return {0, 0}; }

void PutHeapHeader(std::string& out, int64_t block, int64_t block_bytes,
                   int64_t used_bytes, int64_t num_links) {
  constexpr int kBlocksHaveChecksums = 0x02;
  const size_t begin = out.size();
  out += "FRHP";
  PutNumber(out, 0, 1);  // version
  PutNumber(out, kIdBytes, 2);
  PutNumber(out, 0, 2);  // no filters
  PutNumber(out, kBlocksHaveChecksums, 1);
  PutNumber(out, kMaxObjectBytes, 4);
  PutAddress(out, 0);           // next number of a huge object
  PutAddress(out, kNoAddress);  // huge objects
  PutAddress(out, block_bytes - kBlockOverhead - used_bytes);
  PutAddress(out, kNoAddress);   // list of what is free
  PutAddress(out, block_bytes);  // of the heap
  PutAddress(out, block_bytes);  // of those, allocated
  PutAddress(out, 0);            // where the next block goes
  PutAddress(out, num_links);
  for (int i = 0; i < 4; ++i) PutAddress(out, 0);  // huge and tiny objects
  PutNumber(out, 4, 2);                            // blocks in a row
  PutAddress(out, block_bytes);                    // of the first row
  PutAddress(out, std::max(block_bytes, kMaxBlockBytes));
  PutNumber(out, 8 * kOffsetBytes, 2);
  PutNumber(out, 1, 2);  // rows to begin with
  PutAddress(out, block);
  PutNumber(out, 0, 2);  // rows: there is one block only
  PutChecksum(out, begin);
}

// The checksum stands before the objects and counts as zero in itself.
void PutHeapBlock(std::string& out, int64_t heap, int64_t block_bytes,
                  const std::string& objects) {
  std::string block = "FHDB";
  PutNumber(block, 0, 1);  // version
  PutAddress(block, heap);
  PutNumber(block, 0, kOffsetBytes);
  const size_t checksum_at = block.size();
  PutNumber(block, 0, 4);
  block += objects;
  block.resize(block_bytes, '\0');
  std::string checksum;
  PutNumber(checksum, MetadataChecksum(block), 4);
  out += block.replace(checksum_at, checksum.size(), checksum);
}

void PutTreeHeader(std::string& out, int64_t leaf, int64_t node_bytes,
                   int64_t num_records) {
  const size_t begin = out.size();
  out += "BTHD";
  PutNumber(out, 0, 1);  // version
  PutNumber(out, kTreeOfNames, 1);
  PutNumber(out, node_bytes, 4);
  PutNumber(out, kRecordBytes, 2);
  PutNumber(out, 0, 2);    // depth
  PutNumber(out, 100, 1);  // per cent, where a node is split
  PutNumber(out, 40, 1);   // and merged
  PutAddress(out, leaf);
  PutNumber(out, num_records, 2);
  PutAddress(out, num_records);
  PutChecksum(out, begin);
}

void PutTreeLeaf(std::string& out, int64_t node_bytes,
                 const std::vector<Record>& records) {
  const size_t begin = out.size();
  out += "BTLF";
  PutNumber(out, 0, 1);  // version
  PutNumber(out, kTreeOfNames, 1);
  for (const Record& record : records) {
    PutNumber(out, record.hash, 4);
    PutNumber(out, 0, 1);  // an object in a block
    PutNumber(out, record.offset, kOffsetBytes);
    PutNumber(out, record.size, kSizeBytes);
  }
  PutChecksum(out, begin);
  out.resize(begin + node_bytes, '\0');
}

// Returns the link info message.
std::string PutIndexedLinks(std::string& out, int64_t start,
                            const std::vector<Link>& links) {
  std::string objects;
  std::vector<Record> records;
  for (const Link& link : links) {
    const std::string bytes = EncodedLink(link);
    records.push_back({MetadataChecksum(link.name), link.name,
                       kBlockOverhead + std::ssize(objects),
                       std::ssize(bytes)});
    objects += bytes;
  }
  std::sort(records.begin(), records.end(),
            [](const Record& a, const Record& b) {
              return std::tie(a.hash, a.name) < std::tie(b.hash, b.name);
            });
  const auto block_bytes = static_cast<int64_t>(std::bit_ceil<uint64_t>(
      std::max(kMinBlockBytes, kBlockOverhead + std::ssize(objects))));
  const int64_t record_bytes = kNodeOverhead + kRecordBytes * std::ssize(links);
  const int64_t node_bytes =
      (record_bytes + kNodeStep - 1) / kNodeStep * kNodeStep;

  const int64_t block = start + std::ssize(out);
  const int64_t heap = block + block_bytes;
  PutHeapBlock(out, heap, block_bytes, objects);
  PutHeapHeader(out, block, block_bytes, std::ssize(objects),
                std::ssize(links));
  const int64_t leaf = start + std::ssize(out);
  PutTreeLeaf(out, node_bytes, records);
  const int64_t tree = start + std::ssize(out);
  PutTreeHeader(out, leaf, node_bytes, std::ssize(links));
  return EncodedLinkInfo(heap, tree);
}

}  // namespace

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
