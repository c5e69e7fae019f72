#include "hdf5_format/write/write_link_heap.h"

#include <algorithm>
#include <bit>

#include "base/ceil_divide.h"
#include "hdf5_format/metadata_bytes.h"
#include "hdf5_format/read/name_index.h"

namespace belay::h5 {
namespace {

constexpr int64_t kMinBlockBytes = 512;
constexpr int64_t kMaxBlockBytes = int64_t{1} << 20;
// Those that HDF5 takes for the links of a group, as far as they suffice.
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

}  // namespace

std::string EncodedHeapId(const HeapPlace& place) {
  std::string out = {0};  // it lies in a block
  PutNumber(out, place.offset, kOffsetBytes);
  PutNumber(out, place.bytes, kSizeBytes);
  return out;
}

bool FitsHeap(int64_t link_bytes, int64_t longest) {
  const int64_t of_block = kMaxBlockBytes - kBlockOverhead - longest;
  return CeilDivide(link_bytes, of_block) <= 2 * kMostWidth;
}

LinkHeapWriter::LinkHeapWriter(int64_t num_links, int64_t link_bytes,
                               int64_t longest)
    : num_links_(num_links),
      most_link_bytes_(longest <= kUsualLinkBytes ? kUsualLinkBytes
                                                  : kMaxLinkBytes) {
  block_bytes_ = std::clamp(CeilPowerOfTwo(kBlockOverhead + link_bytes),
                            kMinBlockBytes, kMaxBlockBytes);
}

HeapPlace LinkHeapWriter::Add(const std::string& link) {
  const int64_t room = block_bytes_ - kBlockOverhead;
  if (blocks_.empty() || std::ssize(blocks_.back()) + std::ssize(link) > room) {
    blocks_.emplace_back();
  }
  const HeapPlace place = {(std::ssize(blocks_) - 1) * block_bytes_ +
                               kBlockOverhead + std::ssize(blocks_.back()),
                           std::ssize(link)};
  blocks_.back() += link;
  used_bytes_ += std::ssize(link);
  return place;
}

// Of the block of blocks; none if there is one block only.
int64_t LinkHeapWriter::NumRows() const {
  const int64_t num_blocks = std::ssize(blocks_);
  return num_blocks == 1 ? 0 : CeilDivide(num_blocks, width_);
}

void LinkHeapWriter::PutHeader(std::string& out, int64_t root) const {
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
  PutAddress(out, num_blocks == 1 ? 0 : allocated);  // where the next one goes
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

int64_t LinkHeapWriter::Put(std::string& out, int64_t start) {
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

}  // namespace belay::h5
