#include "hdf5_format/read/link_heap.h"

#include <algorithm>
#include <bit>

#include "base/status_macros.h"
#include "base/text.h"
#include "hdf5_format/metadata_bytes.h"
#include "hdf5_format/read/metadata_reader.h"
#include "hdf5_format/read/read_header.h"

namespace belay::h5 {
namespace {

int Log2(int64_t number) {
  return std::bit_width(static_cast<uint64_t>(number)) - 1;
}

bool IsPowerOfTwo(int64_t number) {
  return number > 0 && std::has_single_bit(static_cast<uint64_t>(number));
}

// Where something lies in the heap: in which entry of a block of blocks, and
// where that entry begins.
struct HeapEntry {
  int64_t row = 0;
  int64_t column = 0;
  int64_t offset = 0;
};

// Of a place that lies in the table below a block of blocks.
HeapEntry EntryOf(const LinkHeap& heap, int64_t offset) {
  const int64_t first_row = heap.row_width * heap.start_bytes;
  HeapEntry entry;
  if (offset < first_row) {
    entry.column = offset / heap.start_bytes;
    entry.offset = entry.column * heap.start_bytes;
    return entry;
  }
  // Blocks are twice as large in each row but the second.
  const int high = Log2(offset);
  entry.row = high - Log2(first_row) + 1;
  const int64_t block = heap.start_bytes << (entry.row - 1);
  const int64_t row_begin = int64_t{1} << high;
  entry.column = (offset - row_begin) / block;
  entry.offset = row_begin + entry.column * block;
  return entry;
}

int64_t BlockBytes(const LinkHeap& heap, int64_t row) {
  return heap.start_bytes << std::max<int64_t>(row - 1, 0);
}

// Reads where an entry of a block of blocks is. Checks all of that block.
StatusOr<int64_t> ReadEntry(BoundedFile& file, const LinkHeap& heap,
                            int64_t block, int64_t rows,
                            const HeapEntry& entry) {
  const int64_t head = 4 + 1 + 8 + heap.offset_width;
  const int64_t bytes = head + 8 * rows * heap.row_width + 4;
  BELAY_ASSIGN_OR_RETURN(
      const std::string_view read,
      ReadChecked(file, block, bytes, "FHIB", "a block of a heap"));
  MetadataReader in(
      read.substr(head + 8 * (entry.row * heap.row_width + entry.column)));
  return in.Address();
}

// How many rows the block of blocks of an entry in this row has.
int64_t RowsBelow(const LinkHeap& heap, int64_t row) {
  return Log2(BlockBytes(heap, row)) - Log2(heap.start_bytes * heap.row_width) +
         1;
}

// Returns the address of the block with links that holds a place, and turns
// `offset` into the place in that block.
StatusOr<int64_t> FindBlock(BoundedFile& file, const LinkHeap& heap,
                            int64_t& offset, int64_t& block_bytes) {
  int64_t block = heap.root;
  int64_t rows = heap.root_rows;
  block_bytes = heap.start_bytes;
  while (rows > 0) {
    const HeapEntry entry = EntryOf(heap, offset);
    if (entry.row >= rows) {
      return file.Damaged(heap.address, "a link lies outside of its heap");
    }
    BELAY_ASSIGN_OR_RETURN(block, ReadEntry(file, heap, block, rows, entry));
    offset -= entry.offset;
    block_bytes = BlockBytes(heap, entry.row);
    if (entry.row < heap.direct_rows) return block;
    const int64_t below = RowsBelow(heap, entry.row);
    if (below >= rows) {
      return file.Damaged(heap.address, "the blocks of a heap are damaged");
    }
    rows = below;
  }
  return block;
}

Status CheckHeap(const BoundedFile& file, const LinkHeap& heap,
                 int64_t max_direct) {
  const bool is_sound =
      IsPowerOfTwo(heap.row_width) && IsPowerOfTwo(heap.start_bytes) &&
      IsPowerOfTwo(max_direct) && heap.start_bytes <= max_direct &&
      max_direct <= int64_t{1} << 31 && heap.row_width <= 1024 &&
      heap.offset_width >= 1 && heap.offset_width <= 8 &&
      heap.root_rows <= 64 &&
      Log2(heap.row_width * heap.start_bytes) + heap.root_rows < 62;
  if (is_sound) return absl::OkStatus();
  return file.Damaged(heap.address, "the heap of a group is damaged");
}

}  // namespace

StatusOr<LinkHeap> OpenLinkHeap(BoundedFile& file, int64_t address) {
  enum Flags { kBlocksHaveChecksums = 0x02 };
  constexpr int64_t kBytes = 146;
  BELAY_ASSIGN_OR_RETURN(
      const std::string_view header,
      ReadChecked(file, address, kBytes, "FRHP", "the heap of a group"));
  MetadataReader in(header.substr(4));
  const uint64_t version = in.Number(1);
  in.Number(2);  // bytes of an id
  const uint64_t filter_bytes = in.Number(2);
  const uint64_t flags = in.Number(1);
  const auto max_object = static_cast<int64_t>(in.Number(4));
  in.Bytes(8 * 12);  // what is free, and how much there is
  LinkHeap heap{.address = address};
  heap.row_width = static_cast<int64_t>(in.Number(2));
  heap.start_bytes = in.Address();
  const int64_t max_direct = in.Address();
  const auto offset_bits = static_cast<int>(in.Number(2));
  in.Number(2);  // rows to begin with
  heap.root = in.Address();
  heap.root_rows = static_cast<int64_t>(in.Number(2));
  if (version != 0 || filter_bytes != 0 ||
      (flags & kBlocksHaveChecksums) == 0) {
    return absl::UnimplementedError(
        Cat("read \"", file.name(), "\": the heap of a group has filters, no ",
            "checksums or another version, which belay never writes"));
  }
  heap.offset_width = (offset_bits + 7) / 8;
  BELAY_RETURN_IF_ERROR(CheckHeap(file, heap, max_direct));
  heap.length_width = std::min((Log2(max_direct) + 7) / 8,
                               Log2(std::max<int64_t>(max_object, 1)) / 8 + 1);
  heap.direct_rows = Log2(max_direct) - Log2(heap.start_bytes) + 2;
  return heap;
}

StatusOr<std::string_view> ReadFromHeap(BoundedFile& file, const LinkHeap& heap,
                                        std::string_view id) {
  enum Kinds { kManaged = 0, kHuge = 1 };
  MetadataReader in(id);
  const int kind = static_cast<int>(in.Number(1)) >> 4;
  if (kind != kManaged) {
    return absl::UnimplementedError(
        Cat("read \"", file.name(), "\": a link has ",
            kind == kHuge ? "a name of more than 4096 bytes"
                          : "a form that belay never writes"));
  }
  auto offset = static_cast<int64_t>(in.Number(heap.offset_width));
  const auto bytes = static_cast<int64_t>(in.Number(heap.length_width));
  if (!in.ok() || offset < 0) {
    return file.Damaged(heap.address, "the place of a link is damaged");
  }
  int64_t block_bytes = 0;
  BELAY_ASSIGN_OR_RETURN(const int64_t block,
                         FindBlock(file, heap, offset, block_bytes));
  if (offset > block_bytes || bytes > block_bytes - offset) {
    return file.Damaged(heap.address, "a link lies outside of its block");
  }
  // Whoever asks goes through all of it.
  BELAY_RETURN_IF_ERROR(file.Charge(bytes, "a link"));
  const int64_t checksum_at = 4 + 1 + 8 + heap.offset_width;
  BELAY_ASSIGN_OR_RETURN(const std::string_view read,
                         ReadChecked(file, block, block_bytes, "FHDB",
                                     "a block of a heap", checksum_at));
  return read.substr(offset, bytes);
}

}  // namespace belay::h5
