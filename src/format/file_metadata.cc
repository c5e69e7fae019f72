#include "format/file_metadata.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <span>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/integers.h"
#include "core/status_macros.h"
#include "format/file_reader.h"

namespace belay::h5 {

namespace {

using Words = std::array<uint32_t, 3>;

static_assert(std::endian::native == std::endian::little);

void AddTwelveBytes(Words& words, const char* bytes) {
  Words read;
  std::memcpy(read.data(), bytes, sizeof(read));
  for (size_t i = 0; i < words.size(); ++i) words[i] += read[i];
}

void Mix(Words& words) {
  auto& [a, b, c] = words;
  a = (a - c) ^ std::rotl(c, 4), c += b;
  b = (b - a) ^ std::rotl(a, 6), a += c;
  c = (c - b) ^ std::rotl(b, 8), b += a;
  a = (a - c) ^ std::rotl(c, 16), c += b;
  b = (b - a) ^ std::rotl(a, 19), a += c;
  c = (c - b) ^ std::rotl(b, 4), b += a;
}

void MixAtEnd(Words& words) {
  auto& [a, b, c] = words;
  c = (c ^ b) - std::rotl(b, 14);
  a = (a ^ c) - std::rotl(c, 11);
  b = (b ^ a) - std::rotl(a, 25);
  c = (c ^ b) - std::rotl(b, 16);
  a = (a ^ c) - std::rotl(c, 4);
  b = (b ^ a) - std::rotl(a, 14);
  c = (c ^ b) - std::rotl(b, 24);
}

}  // namespace

void PutNumber(std::string& out, int64_t value, int width) {
  out.append(reinterpret_cast<const char*>(&value), width);
}

uint32_t MetadataChecksum(std::string_view bytes) {
  constexpr size_t kStep = sizeof(Words);
  Words words;
  words.fill(0xdeadbeef + static_cast<uint32_t>(bytes.size()));
  if (bytes.empty()) return words[2];
  for (; bytes.size() > kStep; bytes.remove_prefix(kStep)) {
    AddTwelveBytes(words, bytes.data());
    Mix(words);
  }
  char last[kStep] = {};
  bytes.copy(last, kStep);
  AddTwelveBytes(words, last);
  MixAtEnd(words);
  return words[2];
}

// --- Object header ---

namespace {

using Kind = HeaderMessage::Kind;

constexpr int kFourByteSize = 0x02;  // flag: width of the header's size

// Returns the flags that HDF5 sets for a message.
int MessageFlags(Kind kind) {
  constexpr int kConstant = 0x01;
  constexpr int kNotShared = 0x04;
  switch (kind) {
    case Kind::kDatatype:
    case Kind::kFillValue:
    case Kind::kGroupInfo:
      return kConstant;
    case Kind::kAttributeInfo:
      return kNotShared;
    default:
      return 0;
  }
}

std::string EncodedSpace(const DatasetSpec& spec) {
  constexpr int kVersion = 2;
  enum Class { kScalar = 0, kSimple = 1, kNull = 2 };
  const bool is_null = spec.dtype == DType::kString && spec.string_bytes == 0;
  const Shape axes = DatasetAxes(GetElementType(spec), spec.shape);
  const bool has_axes = !is_null && !axes.empty();
  std::string out;
  PutNumber(out, kVersion, 1);
  PutNumber(out, has_axes ? std::ssize(axes) : 0, 1);
  PutNumber(out, has_axes ? 1 : 0, 1);  // maximum lengths follow
  PutNumber(out, is_null ? kNull : has_axes ? kSimple : kScalar, 1);
  if (!has_axes) return out;
  for (int times = 0; times < 2; ++times) {
    for (const int64_t length : axes) PutAddress(out, length);
  }
  return out;
}

int NumberWidth(uint64_t number) { return (std::bit_width(number) + 7) / 8; }

std::string EncodedChunks(const DatasetSpec& spec, int64_t offset) {
  constexpr int kOneChunk = 1, kInARow = 2;
  const ElementType type = GetElementType(spec);
  const Shape chunk = DatasetAxes(type, spec.chunk);
  std::vector<int64_t> lengths(chunk.begin(), chunk.end());
  lengths.push_back(ElementBytes(type));
  const int width =
      NumberWidth(*std::max_element(lengths.begin(), lengths.end()));
  std::string out = {4, 2, 0};  // version, chunked, no flags
  PutNumber(out, std::ssize(lengths), 1);
  PutNumber(out, width, 1);
  for (const int64_t length : lengths) PutNumber(out, length, width);
  PutNumber(out, spec.chunk == spec.shape ? kOneChunk : kInARow, 1);
  PutAddress(out, offset);
  return out;
}

std::string EncodedLayout(const DatasetSpec& spec, int64_t offset) {
  const int64_t bytes = StoredBytes(spec);
  if (!spec.chunk.empty() && bytes > 0) return EncodedChunks(spec, offset);
  std::string out = {4, 1};  // version, contiguous
  PutAddress(out, bytes > 0 ? offset : kNoAddress);
  PutAddress(out, bytes);
  return out;
}

}  // namespace

void PutObjectHeader(std::string& out,
                     const std::vector<HeaderMessage>& messages) {
  const size_t begin = out.size();
  int64_t size = 0;
  for (const HeaderMessage& message : messages) {
    size += 4 + std::ssize(message.bytes);
  }
  out += "OHDR";
  PutNumber(out, 2, 1);  // version
  PutNumber(out, kFourByteSize, 1);
  PutNumber(out, size, 4);
  for (const HeaderMessage& message : messages) {
    PutNumber(out, static_cast<int64_t>(message.kind), 1);
    PutNumber(out, std::ssize(message.bytes), 2);
    PutNumber(out, MessageFlags(message.kind), 1);
    out += message.bytes;
  }
  PutChecksum(out, begin);
}

StatusOr<std::string> EncodedDTypeAttribute(DType dtype) {
  const std::string text(DTypeName(dtype));
  const std::string name = kDTypeAttribute;
  const DatasetSpec scalar{.dtype = DType::kString,
                           .string_bytes = std::ssize(text)};
  BELAY_ASSIGN_OR_RETURN(const std::string type,
                         EncodedType({DType::kString, std::ssize(text)}));
  const std::string space = EncodedSpace(scalar);
  std::string out = {3, 0};  // version, no flags
  PutNumber(out, std::ssize(name) + 1, 2);
  PutNumber(out, std::ssize(type), 2);
  PutNumber(out, std::ssize(space), 2);
  PutNumber(out, 0, 1);  // the name is ASCII
  out.append(name.c_str(), name.size() + 1);
  return out + type + space + text;
}

void PutDatasetHeader(std::string& out, const DatasetSpec& spec,
                      const std::string& type, const std::string& attribute,
                      int64_t offset, const GlobalHeapPlace& place) {
  // Early allocation, never filled, no fill value. For virtual datasets: late
  // allocation, and zero as the fill value.
  std::string fill = {3, 1 | 1 << 2};
  std::string layout;
  if (spec.pieces.empty()) {
    layout = EncodedLayout(spec, offset);
  } else {
    fill = {3, 2 | 2 << 2};
    layout = {4, 3};  // version, virtual
    PutAddress(layout, place.address);
    PutNumber(layout, place.number, 4);
  }
  std::vector<HeaderMessage> messages = {{Kind::kDataspace, EncodedSpace(spec)},
                                         {Kind::kDatatype, type},
                                         {Kind::kFillValue, std::move(fill)},
                                         {Kind::kLayout, std::move(layout)}};
  if (!attribute.empty()) {
    std::string info = {0, 0};  // attributes are in the header itself
    PutAddress(info, kNoAddress);
    PutAddress(info, kNoAddress);
    messages.push_back({Kind::kAttributeInfo, std::move(info)});
    messages.push_back({Kind::kAttribute, attribute});
  }
  PutObjectHeader(out, messages);
}

// --- Virtual mappings ---

namespace {

// HDF5 reads this many bytes of a collection before it knows the size.
constexpr size_t kMinCollectionBytes = 4096;
constexpr size_t kFullCollectionBytes = 65536;
constexpr size_t kObjectHeadBytes = 2 + 2 + 4 + 8;

enum SelectionType { kHyperslab = 2, kAll = 3 };

void PutAll(std::string& out) {
  PutNumber(out, kAll, 4);
  PutNumber(out, 1, 4);  // version
  PutNumber(out, 0, 4);
  PutNumber(out, 0, 4);  // bytes that follow
}

// Encodes a box as HDF5 does: as two corners if these fit 32 bits.
void PutBox(std::string& out, const Box& box) {
  constexpr int kTwoCorners = 1, kRegular = 2;
  const auto axes = std::ssize(box.shape);
  bool is_small = true;
  for (int64_t axis = 0; axis < axes; ++axis) {
    is_small = is_small && box.offset[axis] + box.shape[axis] - 1 <
                               std::numeric_limits<uint32_t>::max();
  }
  PutNumber(out, kHyperslab, 4);
  if (is_small) {
    PutNumber(out, kTwoCorners, 4);
    PutNumber(out, 0, 4);
    PutNumber(out, 4 + 4 + 2 * 4 * axes, 4);  // bytes that follow
    PutNumber(out, axes, 4);
    PutNumber(out, 1, 4);  // number of boxes
    for (const int64_t begin : box.offset) PutNumber(out, begin, 4);
    for (int64_t axis = 0; axis < axes; ++axis) {
      PutNumber(out, box.offset[axis] + box.shape[axis] - 1, 4);
    }
    return;
  }
  PutNumber(out, kRegular, 4);
  PutNumber(out, 1, 1);  // flags: start, stride, count and block
  PutNumber(out, 4 + 4 * 8 * axes, 4);
  PutNumber(out, axes, 4);
  for (int64_t axis = 0; axis < axes; ++axis) {
    PutNumber(out, box.offset[axis], 8);
    PutNumber(out, 1, 8);  // stride
    PutNumber(out, 1, 8);  // count
    PutNumber(out, box.shape[axis], 8);
  }
}

// HDF5 treats the name of a source as a format, in which "%%" is a "%".
void PutName(std::string& out, std::string_view name) {
  for (const char c : name) out.append(c == '%' ? 2 : 1, c);
  out.push_back('\0');
}

// Returns the encoded pieces of a virtual dataset.
// Errors: Internal - a box has parts of structs.
StatusOr<std::string> EncodedMappings(const DatasetSpec& dataset) {
  std::string mappings;
  int64_t count = 0;
  for (const VirtualPiece& piece : dataset.pieces) {
    if (IsEmpty(piece.box)) continue;
    BELAY_ASSIGN_OR_RETURN(const Box box,
                           DatasetBox(GetElementType(dataset), piece.box));
    PutName(mappings, piece.file);
    PutName(mappings, piece.path);
    PutAll(mappings);
    PutBox(mappings, box);
    ++count;
  }
  std::string out = {0};  // version
  PutNumber(out, count, 8);
  out += mappings;
  PutChecksum(out, 0);
  return out;
}

// Collects objects of at least one byte each into a few collections.
class GlobalHeapWriter {
 public:
  // `start` is the address of the first byte of `out`.
  GlobalHeapWriter(std::string& out, int64_t start)
      : out_(out), start_(start) {}

  // Appends an object to `out`. Returns its place. Do not append anything else
  // to `out` until End.
  GlobalHeapPlace Add(std::string_view text) {
    constexpr int64_t kMaxNumber = 65000;  // of 16 bits
    const size_t used = out_.size() - begin_;
    if (count_ == kMaxNumber ||
        (count_ > 0 && used + text.size() > kFullCollectionBytes)) {
      End();
    }
    if (count_ == 0) {
      begin_ = out_.size();
      out_ += "GCOL";
      PutNumber(out_, 1, 4);  // version
      PutNumber(out_, 0, 8);  // size, set by End
    }
    ++count_;
    PutNumber(out_, count_, 2);
    PutNumber(out_, 0, 2);  // reference count
    PutNumber(out_, 0, 4);
    PutNumber(out_, std::ssize(text), 8);
    out_ += text;
    out_.resize(begin_ + (out_.size() - begin_ + 7) / 8 * 8, '\0');
    return {start_ + static_cast<int64_t>(begin_), count_};
  }

  // Ends the last collection. Add may be called again.
  void End() {
    if (count_ == 0) return;
    const size_t used = out_.size() - begin_;
    const size_t bytes = std::max(used + kObjectHeadBytes, kMinCollectionBytes);
    PutNumber(out_, 0, 8);  // object 0 is the free space
    PutNumber(out_, static_cast<int64_t>(bytes - used), 8);
    out_.resize(begin_ + bytes, '\0');
    std::string size;
    PutNumber(size, static_cast<int64_t>(bytes), 8);
    out_.replace(begin_ + 8, size.size(), size);
    count_ = 0;
  }

 private:
  std::string& out_;
  int64_t start_;
  size_t begin_ = 0;  // of the collection
  int64_t count_ = 0;
};

}  // namespace

// --- Links ---

namespace {

// The heap that holds the links of a large group, as bytes.
//
// A single block holds up to a mebibyte of links. More links are stored in
// blocks of a mebibyte each, below one indirect block. HDF5 itself makes more
// and smaller blocks, but it can read blocks of any size and add to them.

// The most bytes of a heap, including unused bytes at the end of each block.
constexpr int64_t kMaxHeapBytes = int64_t{1} << 31;
constexpr int64_t kMinBlockBytes = 512;
constexpr int64_t kMaxBlockBytes = int64_t{1} << 20;
// HDF5's own limits for the links of a group, used unless a link is longer.
constexpr int64_t kUsualLinkBytes = 4096;
constexpr int64_t kUsualBlockBytes = 65536;
constexpr int64_t kMaxWidth = 1024;
// A heap ID has a link's offset in the heap and its size.
constexpr int kOffsetBytes = 4;
constexpr int kSizeBytes = 2;
static_assert(kHeapIdBytes == 1 + kOffsetBytes + kSizeBytes);
constexpr int64_t kBlockOverhead = 4 + 1 + 8 + kOffsetBytes + 4;

static_assert(2 * kMaxWidth * kMaxBlockBytes == kMaxHeapBytes);
static_assert(kMaxLinkBytes + kBlockOverhead < kMaxBlockBytes);

int64_t CeilPowerOfTwo(int64_t number) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(number)));
}

// The checksum precedes the links, and counts as zero for its computation.
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

// Appends an indirect block, which lists the addresses of blocks.
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

// Packs links into blocks in the order in which they are added.
class LinkHeapWriter {
 public:
  // `num_links` and `link_bytes` are totals; `longest` is the size of one link.
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

  // Appends the heap, and returns its address. `start` is the address of the
  // first byte of `out`.
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
      blocks_[i] = std::string();  // frees its memory
    }
    if (num_entries > 0) {
      PutBlockOfBlocks(out, heap, first_block, num_blocks, block_bytes_,
                       num_entries);
    }
    PutHeader(out, num_entries > 0 ? above : first_block);
    return heap;
  }

 private:
  // Returns the rows of the indirect block; 0 if there is only one block.
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
    PutAddress(out, 0);           // next ID of a huge object
    PutAddress(out, kNoAddress);  // huge objects
    PutAddress(out, allocated - num_blocks * kBlockOverhead - used_bytes_);
    PutAddress(out, kNoAddress);  // free space
    PutAddress(out,
               num_blocks == 1 ? allocated : NumRows() * width_ * block_bytes_);
    PutAddress(out, allocated);
    PutAddress(out,
               num_blocks == 1 ? 0 : allocated);  // where the next block goes
    PutAddress(out, num_links_);
    for (int i = 0; i < 4; ++i) PutAddress(out, 0);  // huge and tiny objects
    PutNumber(out, width_, 2);
    PutAddress(out, block_bytes_);  // of the first row
    // HDF5 may add a link up to the limit above. It may also add indirect
    // blocks, and assumes that their first row is twice as large as the first
    // row here.
    const int64_t for_links = most_link_bytes_ == kUsualLinkBytes
                                  ? kUsualBlockBytes
                                  : 2 * kUsualBlockBytes;
    PutAddress(out, std::max(for_links, width_ * block_bytes_ / 2));
    PutNumber(out, 8 * kOffsetBytes, 2);
    PutNumber(out, 1, 2);  // initial rows
    PutAddress(out, root);
    PutNumber(out, NumRows(), 2);
    PutChecksum(out, begin);
  }

  int64_t num_links_;
  int64_t block_bytes_;
  int64_t most_link_bytes_;  // longest that HDF5 may add
  int64_t width_ = 4;        // blocks per row
  int64_t used_bytes_ = 0;
  std::vector<std::string> blocks_;  // without their headers
};

// Returns true if a heap certainly fits kMaxHeapBytes when its links have
// `link_bytes` in total and the longest has `longest`.
bool FitsHeap(int64_t link_bytes, int64_t longest) {
  const int64_t of_block = kMaxBlockBytes - kBlockOverhead - longest;
  return CeilDivide(link_bytes, of_block) <= 2 * kMaxWidth;
}

// The most links in a group.
constexpr int64_t kMaxLinks = int64_t{1} << 30;

constexpr int kTreeOfNames = 5;
constexpr int kRecordBytes = 4 + kHeapIdBytes;
constexpr int64_t kNodeOverhead = 4 + 1 + 1 + 4;
constexpr int64_t kNodeStep = 512;
// Node sizes in bytes, if there is more than one node.
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
// Returns the number of links in a tree whose root and leaves are all full.
constexpr int64_t MostBelow(int64_t node_bytes) {
  const int64_t root = MostOfRoot(node_bytes);
  return root + (root + 1) * MostOfLeaf(node_bytes);
}

static_assert(kMaxLinksOfLeaf + kNodeStep / kRecordBytes < 65536);
static_assert(MostOfLeaf(kNodeBytes) > 255, "kCountBytes");
static_assert(MostOfLeaf(kLargeNodeBytes) < 65536, "kCountBytes");
static_assert(MostBelow(kLargeNodeBytes) > kMaxLinks);

// The index of the links of a large group, as bytes: a B-tree of one leaf, or
// of one root node with leaves below it.

// The place of a link in the heap, with the checksum of its name.
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
  PutNumber(out, 0, 1);  // heap ID type: in a block
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
  PutNumber(out, 100, 1);  // per cent at which a node is split
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

// Appends leaves of about equal size. Between each two is a record of the root.
Root PutLeaves(std::string& out, int64_t start, Records records) {
  const int64_t count = std::ssize(records);
  const int64_t node_bytes =
      count <= MostBelow(kNodeBytes) ? kNodeBytes : kLargeNodeBytes;
  const int64_t num_leaves = CeilDivide(count + 1, MostOfLeaf(node_bytes) + 1);
  std::string between;
  std::string pointers;
  int64_t begin = 0;
  for (int64_t leaf = 0; leaf < num_leaves; ++leaf) {
    // The end is treated as a record after the last leaf.
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

// Appends an index of at least one link. Returns its address.
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

bool IsExternal(const Link& link) { return !link.file.empty(); }

int WidthOfName(const Link& link) { return link.name.size() < 256 ? 1 : 2; }

// Returns the size of an external link's target in bytes.
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
  std::string out = {0, 0};  // version, no creation order
  PutAddress(out, heap);
  PutAddress(out, tree);
  return out;
}

// Appends the heap and the index. Returns the link info message.
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

// --- Files ---

namespace {

constexpr int64_t kSuperblockBytes = 48;
// The data begins at a page boundary.
constexpr int64_t kPageBytes = 4096;

// The kind of a tree node. All nodes except groups are leaves.
enum class NodeKind : uint8_t { kGroup, kDataset, kLink };

// A group or one of the objects.
struct Node {
  std::string_view name;
  int32_t parent = -1;  // -1 for the root
  NodeKind kind = NodeKind::kGroup;
  size_t number = 0;  // index among the objects of its kind
};

// The nodes, each after its parent; the root is first.
using Tree = std::vector<Node>;

// The encoded type and attribute of all datasets with the same element type.
struct TypeTexts {
  std::string type;
  std::string attribute;
};

using NodesByPath = absl::flat_hash_map<std::string_view, int32_t>;

// Adds an object and the groups above it. Returns false if only HDF5 can handle
// the path.
bool AddPath(std::string_view path, NodeKind kind, size_t number, Tree& tree,
             NodesByPath& nodes) {
  int32_t parent = 0;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    const bool is_last = end == path.size();
    if (name.empty() || name == ".") return false;
    const auto [found, is_new] = nodes.try_emplace(
        path.substr(0, end), static_cast<int32_t>(tree.size()));
    if (is_new && is_last) {
      tree.push_back({name, parent, kind, number});
    } else if (is_new) {
      tree.push_back({name, parent});
    } else if (is_last || tree[found->second].kind != NodeKind::kGroup) {
      return false;
    }
    parent = found->second;
    begin = end + 1;
  }
  return true;
}

// Returns the link to a node, without its address.
Link LinkTo(const Node& node, const FileObjects& objects) {
  Link link = {.name = node.name};
  if (node.kind == NodeKind::kLink) {
    const ExternalLink& external = objects.links[node.number];
    link.file = external.file;
    link.target = external.target;
  }
  return link;
}

// Returns true if PutGroup can make all groups.
bool LinksFit(const Tree& tree, const FileObjects& objects) {
  struct Links {
    int64_t count = 0, bytes = 0, longest = 0;
  };
  std::vector<Links> below(tree.size());
  for (const Node& node : tree) {
    if (node.parent < 0) continue;
    Links& links = below[node.parent];
    const int64_t bytes = LinkBytes(LinkTo(node, objects));
    ++links.count;
    links.bytes += bytes;
    links.longest = std::max(links.longest, bytes);
  }
  return std::all_of(below.begin(), below.end(), [](const Links& links) {
    return links.count <= kMaxLinks && links.longest <= kMaxLinkBytes &&
           FitsHeap(links.bytes, links.longest);
  });
}

std::optional<Tree> BuildTree(const FileObjects& objects) {
  Tree tree(1);
  NodesByPath nodes;
  bool is_plain = true;
  const auto add_datasets = [&](bool are_virtual) {
    for (const DatasetSpec& spec : objects.datasets) {
      // Names all members, so that a new one is not overlooked here.
      const auto& [path, dtype, string_bytes, shape, chunk, filters, fields,
                   pieces] = spec;
      if (pieces.empty() == are_virtual) continue;
      is_plain = is_plain && filters.empty() &&
                 AddPath(path, NodeKind::kDataset,
                         &spec - objects.datasets.data(), tree, nodes);
    }
  };
  add_datasets(/*are_virtual=*/false);
  for (const ExternalLink& link : objects.links) {
    is_plain = is_plain && AddPath(link.path, NodeKind::kLink,
                                   &link - objects.links.data(), tree, nodes);
  }
  add_datasets(/*are_virtual=*/true);
  if (!is_plain || !LinksFit(tree, objects)) return std::nullopt;
  return tree;
}

// Encoded types; equal types share one entry.
class TypesByElement {
 public:
  StatusOr<const TypeTexts*> Of(const DatasetSpec& spec) {
    ElementType type = GetElementType(spec);
    if (type.dtype != DType::kString) type.string_bytes = 0;
    const auto [found, is_new] = texts_.try_emplace(std::move(type));
    if (is_new) {
      BELAY_RETURN_IF_ERROR(Fill(found->first, found->second));
    }
    return &found->second;
  }

 private:
  static Status Fill(const ElementType& type, TypeTexts& texts) {
    BELAY_ASSIGN_OR_RETURN(texts.type, EncodedType(type));
    if (!NeedsDTypeAttribute(type.dtype)) return absl::OkStatus();
    BELAY_ASSIGN_OR_RETURN(texts.attribute, EncodedDTypeAttribute(type.dtype));
    return absl::OkStatus();
  }

  std::map<ElementType, TypeTexts> texts_;
};

// Everything needed to put objects into a file.
struct Contents {
  const FileObjects* objects;
  Tree tree;
  TypesByElement texts = {};
  // Per dataset:
  std::vector<const TypeTexts*> types = {};
  std::vector<std::string> mappings = {};  // empty: not virtual
  std::vector<int64_t> offsets = {};
};

Status Describe(Contents& contents) {
  for (const DatasetSpec& spec : contents.objects->datasets) {
    BELAY_ASSIGN_OR_RETURN(const TypeTexts* texts, contents.texts.Of(spec));
    contents.types.push_back(texts);
    std::string& mappings = contents.mappings.emplace_back();
    if (spec.pieces.empty()) continue;
    BELAY_ASSIGN_OR_RETURN(mappings, EncodedMappings(spec));
  }
  return absl::OkStatus();
}

std::vector<GlobalHeapPlace> PutMappings(std::string& out,
                                         const Contents& contents) {
  GlobalHeapWriter heap(out, kSuperblockBytes);
  std::vector<GlobalHeapPlace> places;
  for (const std::string& mappings : contents.mappings) {
    places.push_back(mappings.empty() ? GlobalHeapPlace{} : heap.Add(mappings));
  }
  heap.End();
  return places;
}

// Appends all objects, deepest first, so that the address of each link's target
// is known. Returns the address of the root group.
int64_t PutObjects(std::string& out, const Contents& contents) {
  const std::vector<GlobalHeapPlace> places = PutMappings(out, contents);
  const Tree& tree = contents.tree;
  const FileObjects& objects = *contents.objects;
  std::vector<std::vector<Link>> links(tree.size());
  int64_t root = 0;
  for (size_t i = tree.size(); i-- > 0;) {
    const Node& node = tree[i];
    const size_t number = node.number;
    Link link = LinkTo(node, objects);
    link.address = kSuperblockBytes + std::ssize(out);
    if (node.kind == NodeKind::kDataset) {
      const TypeTexts& type = *contents.types[number];
      PutDatasetHeader(out, objects.datasets[number], type.type, type.attribute,
                       contents.offsets[number], places[number]);
    } else if (node.kind == NodeKind::kGroup) {
      link.address = PutGroup(out, kSuperblockBytes, links[i]);
      links[i] = {};
    }
    if (node.parent >= 0) links[node.parent].push_back(link);
    root = link.address;
  }
  return root;
}

std::string Superblock(int64_t root, int64_t file_bytes) {
  std::string out = "\x89HDF\r\n\x1a\n";
  PutNumber(out, 3, 1);  // version
  PutNumber(out, 8, 1);  // bytes of an address
  PutNumber(out, 8, 1);  // and of a length
  PutNumber(out, 0, 1);  // file is not open
  PutAddress(out, 0);
  PutAddress(out, kNoAddress);  // no superblock extension
  PutAddress(out, file_bytes);
  PutAddress(out, root);
  PutChecksum(out, 0);
  return out;
}

// Places the datasets one after the other from `begin`. Returns the end.
int64_t PlaceFrom(int64_t begin, Contents& contents) {
  contents.offsets.clear();
  for (const DatasetSpec& spec : contents.objects->datasets) {
    const int64_t bytes = spec.pieces.empty() ? StoredBytes(spec) : 0;
    contents.offsets.push_back(bytes > 0 ? begin : -1);
    begin += bytes;
  }
  return begin;
}

}  // namespace

StatusOr<std::optional<FileMetadata>> EncodeFileMetadata(
    const FileObjects& objects) {
  std::optional<Tree> tree = BuildTree(objects);
  if (!tree.has_value()) return std::nullopt;
  Contents contents = {.objects = &objects, .tree = *std::move(tree)};
  BELAY_RETURN_IF_ERROR(Describe(contents));
  // The places depend on the length of the metadata, but the length does not
  // depend on the places.
  PlaceFrom(0, contents);
  std::string encoded;
  PutObjects(encoded, contents);
  const int64_t bytes = kSuperblockBytes + std::ssize(encoded);
  const int64_t data = CeilDivide(bytes, kPageBytes) * kPageBytes;
  FileMetadata file;
  file.file_bytes = PlaceFrom(data, contents);
  encoded.clear();
  const int64_t root = PutObjects(encoded, contents);
  encoded.insert(0, Superblock(root, file.file_bytes));
  encoded.resize(data, '\0');
  file.bytes = std::move(encoded);
  file.offsets = std::move(contents.offsets);
  return file;
}

}  // namespace belay::h5
