#include "format/write_links.h"

#include <algorithm>
#include <bit>
#include <span>
#include <tuple>

#include "core/integers.h"
#include "format/object_header.h"
#include "format/read_links.h"

namespace belay::h5 {
namespace {

// The heap in which the links of a large group lie, as bytes.
//
// One block holds them up to a mebibyte; more lie in blocks of a mebibyte each,
// below one block of blocks. HDF5 makes more and smaller ones; it reads any of
// them, and can add to them.

// The most bytes of a heap, with what is left over at the end of each block.
constexpr int64_t kMaxHeapBytes = int64_t{1} << 31;
constexpr int64_t kMinBlockBytes = 512;
constexpr int64_t kMaxBlockBytes = int64_t{1} << 20;
// The limits that HDF5 uses for the links of a group, unless it needs more.
constexpr int64_t kUsualLinkBytes = 4096;
constexpr int64_t kUsualBlockBytes = 65536;
constexpr int64_t kMostWidth = 1024;
// A link is found by its place in the heap and its size.
constexpr int kOffsetBytes = 4;
constexpr int kSizeBytes = 2;
static_assert(kHeapIdBytes == 1 + kOffsetBytes + kSizeBytes);
constexpr int64_t kBlockOverhead = 4 + 1 + 8 + kOffsetBytes + 4;

static_assert(2 * kMostWidth * kMaxBlockBytes == kMaxHeapBytes);
static_assert(kMaxLinkBytes + kBlockOverhead < kMaxBlockBytes);

int64_t CeilPowerOfTwo(int64_t number) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(number)));
}

// The checksum stands before the links and counts as zero in itself.
void PutBlock(std::string& out, int64_t heap, int64_t offset,
              int64_t block_bytes, const std::string& links) {
  std::string block = "FHDB";
  PutNumber(block, 0, 1);  // version
  PutAddress(block, heap);
  PutNumber(block, offset, kOffsetBytes);
  const size_t checksum_at = block.size();
  PutNumber(block, 0, 4);
  block += links;
  block.resize(block_bytes, '\0');
  std::string checksum;
  PutNumber(checksum, MetadataChecksum(block), 4);
  out += block.replace(checksum_at, checksum.size(), checksum);
}

// A block of blocks.
void PutBlockOfBlocks(std::string& out, int64_t heap, int64_t first_block,
                      int64_t num_blocks, int64_t block_bytes,
                      int64_t num_entries) {
  const size_t begin = out.size();
  out += "FHIB";
  PutNumber(out, 0, 1);  // version
  PutAddress(out, heap);
  PutNumber(out, 0, kOffsetBytes);
  for (int64_t i = 0; i < num_entries; ++i) {
    PutAddress(out,
               i < num_blocks ? first_block + i * block_bytes : kNoAddress);
  }
  PutChecksum(out, begin);
}

// The place of a link in the heap.
struct HeapPlace {
  int64_t offset;
  int64_t bytes;
};

// Puts links into blocks as they come.
class LinkHeapWriter {
 public:
  // `num_links` and `link_bytes` are of all links, `longest` of one.
  LinkHeapWriter(int64_t num_links, int64_t link_bytes, int64_t longest)
      : num_links_(num_links),
        block_bytes_(std::clamp(CeilPowerOfTwo(kBlockOverhead + link_bytes),
                                kMinBlockBytes, kMaxBlockBytes)),
        most_link_bytes_(longest <= kUsualLinkBytes ? kUsualLinkBytes
                                                    : kMaxLinkBytes) {}

  // Adds a link. Returns its place.
  HeapPlace Add(const std::string& link) {
    const int64_t room = block_bytes_ - kBlockOverhead;
    if (blocks_.empty() ||
        std::ssize(blocks_.back()) + std::ssize(link) > room) {
      blocks_.emplace_back();
    }
    const HeapPlace place = {(std::ssize(blocks_) - 1) * block_bytes_ +
                                 kBlockOverhead + std::ssize(blocks_.back()),
                             std::ssize(link)};
    blocks_.back() += link;
    used_bytes_ += std::ssize(link);
    return place;
  }

  // Appends the heap; `start` is the address of the first byte of `out`.
  // Returns its address.
  int64_t Put(std::string& out, int64_t start) {
    const int64_t num_blocks = std::ssize(blocks_);
    if (num_blocks > 1) {
      width_ = std::max(width_, CeilPowerOfTwo(CeilDivide(num_blocks, 2)));
    }
    const int64_t num_entries = NumRows() * width_;
    const int64_t first_block = start + std::ssize(out);
    const int64_t above = first_block + num_blocks * block_bytes_;
    const int64_t above_bytes =
        num_entries == 0 ? 0 : 4 + 1 + 8 + kOffsetBytes + 8 * num_entries + 4;
    const int64_t heap = above + above_bytes;
    for (int64_t i = 0; i < num_blocks; ++i) {
      PutBlock(out, heap, i * block_bytes_, block_bytes_, blocks_[i]);
      blocks_[i] = std::string();  // with its memory
    }
    if (num_entries > 0) {
      PutBlockOfBlocks(out, heap, first_block, num_blocks, block_bytes_,
                       num_entries);
    }
    PutHeader(out, num_entries > 0 ? above : first_block);
    return heap;
  }

 private:
  // Returns the rows of the block of blocks; 0 if there is only one block.
  int64_t NumRows() const {
    const int64_t num_blocks = std::ssize(blocks_);
    return num_blocks == 1 ? 0 : CeilDivide(num_blocks, width_);
  }

  void PutHeader(std::string& out, int64_t root) const {
    constexpr int kBlocksHaveChecksums = 0x02;
    const int64_t num_blocks = std::ssize(blocks_);
    const int64_t allocated = num_blocks * block_bytes_;
    const size_t begin = out.size();
    out += "FRHP";
    PutNumber(out, 0, 1);  // version
    PutNumber(out, kHeapIdBytes, 2);
    PutNumber(out, 0, 2);  // no filters
    PutNumber(out, kBlocksHaveChecksums, 1);
    PutNumber(out, most_link_bytes_, 4);
    PutAddress(out, 0);           // next number of a huge object
    PutAddress(out, kNoAddress);  // huge objects
    PutAddress(out, allocated - num_blocks * kBlockOverhead - used_bytes_);
    PutAddress(out, kNoAddress);  // list of what is free
    PutAddress(out,
               num_blocks == 1 ? allocated : NumRows() * width_ * block_bytes_);
    PutAddress(out, allocated);
    PutAddress(out,
               num_blocks == 1 ? 0 : allocated);  // where the next one goes
    PutAddress(out, num_links_);
    for (int i = 0; i < 4; ++i) PutAddress(out, 0);  // huge and tiny objects
    PutNumber(out, width_, 2);
    PutAddress(out, block_bytes_);  // of the first row
    // HDF5 may add a link as long as it says above, and blocks of blocks whose
    // first row it takes for twice as large as the first row here.
    const int64_t for_links = most_link_bytes_ == kUsualLinkBytes
                                  ? kUsualBlockBytes
                                  : 2 * kUsualBlockBytes;
    PutAddress(out, std::max(for_links, width_ * block_bytes_ / 2));
    PutNumber(out, 8 * kOffsetBytes, 2);
    PutNumber(out, 1, 2);  // rows to begin with
    PutAddress(out, root);
    PutNumber(out, NumRows(), 2);
    PutChecksum(out, begin);
  }

  int64_t num_links_;
  int64_t block_bytes_;
  int64_t most_link_bytes_;  // that HDF5 may add
  int64_t width_ = 4;        // blocks in a row
  int64_t used_bytes_ = 0;
  std::vector<std::string> blocks_;  // without what stands before the links
};

}  // namespace

bool FitsHeap(int64_t link_bytes, int64_t longest) {
  const int64_t of_block = kMaxBlockBytes - kBlockOverhead - longest;
  return CeilDivide(link_bytes, of_block) <= 2 * kMostWidth;
}

// --- Write name index ---

namespace {

constexpr int kTreeOfNames = 5;
constexpr int kRecordBytes = 4 + kHeapIdBytes;
constexpr int64_t kNodeOverhead = 4 + 1 + 1 + 4;
constexpr int64_t kNodeStep = 512;
// The bytes of nodes, unless there is only one.
constexpr int64_t kNodeBytes = 65536;
constexpr int64_t kLargeNodeBytes = 524288;
constexpr int kCountBytes = 2;
constexpr int kPointerBytes = 8 + kCountBytes;

constexpr int64_t MostOfLeaf(int64_t node_bytes) {
  return (node_bytes - kNodeOverhead) / kRecordBytes;
}
constexpr int64_t MostOfRoot(int64_t node_bytes) {
  return (node_bytes - kNodeOverhead - kPointerBytes) /
         (kRecordBytes + kPointerBytes);
}
// The links below a root whose leaves are all full.
constexpr int64_t MostBelow(int64_t node_bytes) {
  const int64_t root = MostOfRoot(node_bytes);
  return root + (root + 1) * MostOfLeaf(node_bytes);
}

static_assert(kMaxLinksOfLeaf + kNodeStep / kRecordBytes < 65536);
static_assert(MostOfLeaf(kNodeBytes) > 255, "kCountBytes");
static_assert(MostOfLeaf(kLargeNodeBytes) < 65536, "kCountBytes");
static_assert(MostBelow(kLargeNodeBytes) > kMaxLinks);

// The index of the links of a large group, as bytes: a B-tree of one leaf, or
// of one node with leaves below it.

// The place of a link in the heap, under the checksum of its name.
struct NameRecord {
  uint32_t hash;
  std::string_view name;
  HeapPlace place;
};

using Records = std::span<const NameRecord>;

struct Root {
  int64_t address;
  int64_t records;
  int depth;
  int64_t node_bytes;
};

void PutRecord(std::string& out, const NameRecord& record) {
  PutNumber(out, record.hash, 4);
  PutNumber(out, 0, 1);  // the link lies in a block of the heap
  PutNumber(out, record.place.offset, kOffsetBytes);
  PutNumber(out, record.place.bytes, kSizeBytes);
}

void PutHeader(std::string& out, const Root& root, int64_t num_records) {
  const size_t begin = out.size();
  out += "BTHD";
  PutNumber(out, 0, 1);  // version
  PutNumber(out, kTreeOfNames, 1);
  PutNumber(out, root.node_bytes, 4);
  PutNumber(out, kRecordBytes, 2);
  PutNumber(out, root.depth, 2);
  PutNumber(out, 100, 1);  // per cent, where a node is split
  PutNumber(out, 40, 1);   // and merged
  PutAddress(out, root.address);
  PutNumber(out, root.records, 2);
  PutAddress(out, num_records);
  PutChecksum(out, begin);
}

// Appends the beginning of a node.
void BeginNode(std::string& out, std::string_view signature) {
  out += signature;
  PutNumber(out, 0, 1);  // version
  PutNumber(out, kTreeOfNames, 1);
}

void EndNode(std::string& out, size_t begin, int64_t node_bytes) {
  PutChecksum(out, begin);
  out.resize(begin + node_bytes, '\0');
}

int64_t PutLeaf(std::string& out, int64_t start, int64_t node_bytes,
                Records records) {
  const size_t begin = out.size();
  BeginNode(out, "BTLF");
  for (const NameRecord& record : records) PutRecord(out, record);
  EndNode(out, begin, node_bytes);
  return start + static_cast<int64_t>(begin);
}

Root PutOneLeaf(std::string& out, int64_t start, Records records) {
  const int64_t bytes = kNodeOverhead + kRecordBytes * std::ssize(records);
  const int64_t node_bytes = CeilDivide(bytes, kNodeStep) * kNodeStep;
  return {.address = PutLeaf(out, start, node_bytes, records),
          .records = std::ssize(records),
          .depth = 0,
          .node_bytes = node_bytes};
}

// Leaves of about the same size, with a record of the root between each two.
Root PutLeaves(std::string& out, int64_t start, Records records) {
  const int64_t count = std::ssize(records);
  const int64_t node_bytes =
      count <= MostBelow(kNodeBytes) ? kNodeBytes : kLargeNodeBytes;
  const int64_t num_leaves = CeilDivide(count + 1, MostOfLeaf(node_bytes) + 1);
  std::string between;
  std::string pointers;
  int64_t begin = 0;
  for (int64_t leaf = 0; leaf < num_leaves; ++leaf) {
    // The end counts as a record that follows the last leaf.
    const int64_t end = (count + 1) * (leaf + 1) / num_leaves - 1;
    PutAddress(pointers, PutLeaf(out, start, node_bytes,
                                 records.subspan(begin, end - begin)));
    PutNumber(pointers, end - begin, kCountBytes);
    if (end < count) PutRecord(between, records[end]);
    begin = end + 1;
  }
  const size_t root = out.size();
  BeginNode(out, "BTIN");
  out += between + pointers;
  EndNode(out, root, node_bytes);
  return {.address = start + static_cast<int64_t>(root),
          .records = num_leaves - 1,
          .depth = 1,
          .node_bytes = node_bytes};
}

// Appends the index of at least one link. Returns its address.
int64_t PutNameIndex(std::string& out, int64_t start,
                     std::vector<NameRecord> records) {
  std::sort(records.begin(), records.end(),
            [](const NameRecord& a, const NameRecord& b) {
              return std::tie(a.hash, a.name) < std::tie(b.hash, b.name);
            });
  const int64_t count = std::ssize(records);
  const Root root = count <= kMaxLinksOfLeaf ? PutOneLeaf(out, start, records)
                                             : PutLeaves(out, start, records);
  const int64_t header = start + std::ssize(out);
  PutHeader(out, root, count);
  return header;
}

// --- Group links ---

using Kind = HeaderMessage::Kind;

bool IsExternal(const Link& link) { return !link.file.empty(); }

int WidthOfName(const Link& link) { return link.name.size() < 256 ? 1 : 2; }

// Returns the bytes of the target of an external link.
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
      {Kind::kGroupInfo, {0, 0}}};
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
