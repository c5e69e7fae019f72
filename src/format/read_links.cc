#include "format/read_links.h"

#include <algorithm>
#include <bit>

#include "core/status_macros.h"
#include "core/text.h"
#include "format/object_header.h"

namespace belay::h5 {
namespace {

int Log2(int64_t number) {
  return std::bit_width(static_cast<uint64_t>(number)) - 1;
}

bool IsPowerOfTwo(int64_t number) {
  return number > 0 && std::has_single_bit(static_cast<uint64_t>(number));
}

// The heap in which the links of a large group lie.

// The blocks of a fractal heap, as its header describes them.
struct LinkHeap {
  int64_t address = 0;
  int offset_width = 0;  // of a place in the heap
  int length_width = 0;
  int64_t row_width = 0;    // blocks in a row
  int64_t start_bytes = 0;  // of a block of the first two rows
  int64_t direct_rows = 0;  // rows of blocks that hold links
  int64_t root = 0;
  int64_t root_rows = 0;  // 0: the root is the only block
};

// An entry of a block of blocks, and the place in the heap where it begins.
struct HeapEntry {
  int64_t row = 0;
  int64_t column = 0;
  int64_t offset = 0;
};

// Returns the entry that holds a place below a block of blocks.
HeapEntry FindEntry(const LinkHeap& heap, int64_t offset) {
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

// Returns the rows of the block of blocks of an entry in this row.
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
    const HeapEntry entry = FindEntry(heap, offset);
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

// Returns the bytes that an entry of the index leads to; the file owns them.
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
  // The caller parses all of it.
  BELAY_RETURN_IF_ERROR(file.Charge(bytes, "a link"));
  const int64_t checksum_at = 4 + 1 + 8 + heap.offset_width;
  BELAY_ASSIGN_OR_RETURN(const std::string_view read,
                         ReadChecked(file, block, block_bytes, "FHDB",
                                     "a block of a heap", checksum_at));
  return read.substr(offset, bytes);
}

// The index of the links of a large group: a B-tree by the hash of the name.

constexpr int kNameTree = 5;  // by the names of links
constexpr int64_t kNameRecordBytes = 4 + kHeapIdBytes;
constexpr int64_t kNodePrefixBytes = 4 + 1 + 1;
constexpr int64_t kNodeChecksumBytes = 4;
// More than 2^64 links have.
constexpr int kMaxTreeDepth = 16;
// Names of one checksum are rare, and lie beside each other.
constexpr int kMaxNodesOfHash = 1024;

// The header of a tree.
struct TreeShape {
  int64_t node_bytes = 0;
  int depth = 0;
  int64_t root = 0;
  int64_t root_records = 0;
  int count_width = 0;  // of the number of records of a child
  // By depth: the most records of a node, and the bytes that the number of
  // records below and in it takes.
  std::vector<int64_t> most_records;
  std::vector<int> total_width;
};

struct NodePlace {
  int64_t address;
  int64_t records;
  int depth;
};

// Returns the bytes that a number up to `most` takes.
int WidthFor(uint64_t most) {
  return (std::bit_width(std::max<uint64_t>(most, 1)) - 1) / 8 + 1;
}

// Computes the most records of nodes from their size and the depth.
bool SizeNodes(TreeShape& tree) {
  const int64_t room = tree.node_bytes - kNodePrefixBytes - kNodeChecksumBytes;
  double all = 0;  // far more than any file has may be claimed
  for (int depth = 0; depth <= tree.depth; ++depth) {
    int64_t pointer = 0;
    if (depth > 0) {
      pointer = 8 + tree.count_width + tree.total_width[depth - 1];
    }
    const int64_t most = (room - pointer) / (kNameRecordBytes + pointer);
    if (most < 1) return false;
    if (depth == 0) tree.count_width = WidthFor(static_cast<uint64_t>(most));
    all = all * static_cast<double>(most + 1) + static_cast<double>(most);
    if (all > 1e18) return false;
    tree.most_records.push_back(most);
    tree.total_width.push_back(
        depth == 0 ? 0 : WidthFor(static_cast<uint64_t>(all)));
  }
  return true;
}

StatusOr<TreeShape> ReadTreeHeader(BoundedFile& file, int64_t address) {
  constexpr int64_t kBytes = 38;
  BELAY_ASSIGN_OR_RETURN(
      const std::string_view header,
      ReadChecked(file, address, kBytes, "BTHD", "the index of a group"));
  MetadataReader in(header.substr(4));
  const uint64_t version = in.Number(1);
  const uint64_t kind = in.Number(1);
  TreeShape tree;
  tree.node_bytes = static_cast<int64_t>(in.Number(4));
  const uint64_t record_bytes = in.Number(2);
  tree.depth = static_cast<int>(in.Number(2));
  in.Number(2);  // when nodes are split and merged
  tree.root = in.Address();
  tree.root_records = static_cast<int64_t>(in.Number(2));
  if (version != 0 || kind != kNameTree || record_bytes != kNameRecordBytes) {
    return absl::UnimplementedError(
        Cat("read \"", file.name(), "\": a group has an index of another kind ",
            "than belay writes (kind ", kind, ")"));
  }
  if (tree.depth > kMaxTreeDepth || tree.node_bytes > file.size() ||
      !SizeNodes(tree)) {
    return file.Damaged(address, "the index of a group is damaged");
  }
  return tree;
}

// A node without what follows its last record or child.
StatusOr<std::string_view> ReadNode(BoundedFile& file, const TreeShape& tree,
                                    const NodePlace& node) {
  if (node.records < 0 || node.records > tree.most_records[node.depth]) {
    return file.Damaged(node.address, "a node has too many records");
  }
  int64_t bytes = kNodePrefixBytes + node.records * kNameRecordBytes;
  if (node.depth > 0) {
    bytes += (node.records + 1) *
             (8 + tree.count_width + tree.total_width[node.depth - 1]);
  }
  BELAY_ASSIGN_OR_RETURN(
      const std::string_view read,
      ReadChecked(file, node.address, bytes + kNodeChecksumBytes,
                  node.depth > 0 ? "BTIN" : "BTLF", "a node of an index"));
  if (read[4] != 0 || read[5] != kNameTree) {
    return file.Damaged(node.address, "a node is one of another index");
  }
  return read;
}

uint32_t HashAt(std::string_view node, int64_t record) {
  return static_cast<uint32_t>(
      MetadataReader(node.substr(kNodePrefixBytes + record * kNameRecordBytes))
          .Number(4));
}

// The records with a hash that is not less; or greater.
int64_t LowerBound(std::string_view node, int64_t records, uint64_t hash) {
  int64_t begin = 0;
  while (begin < records) {
    const int64_t middle = begin + (records - begin) / 2;
    if (HashAt(node, middle) < hash) {
      begin = middle + 1;
    } else {
      records = middle;
    }
  }
  return begin;
}

NodePlace ChildAt(const TreeShape& tree, std::string_view bytes,
                  const NodePlace& node, int64_t child) {
  const int total = tree.total_width[node.depth - 1];
  const int64_t pointer = 8 + tree.count_width + total;
  MetadataReader in(bytes.substr(
      kNodePrefixBytes + node.records * kNameRecordBytes + child * pointer));
  const int64_t address = in.Address();
  const auto records = static_cast<int64_t>(in.Number(tree.count_width));
  return {address, records, node.depth - 1};
}

// Returns the places in the heap of all links whose names have this hash, in no
// order. `address` is that of the header of a B-tree of version 2.
StatusOr<std::vector<std::string>> FindByHash(BoundedFile& file,
                                              int64_t address, uint32_t hash) {
  BELAY_ASSIGN_OR_RETURN(const TreeShape tree, ReadTreeHeader(file, address));
  std::vector<std::string> found;
  std::vector<NodePlace> nodes;
  if (tree.root_records > 0) {
    nodes.push_back({tree.root, tree.root_records, tree.depth});
  }
  // Each node is below the one that names it, but several may name one.
  for (int visited = 0; !nodes.empty(); ++visited) {
    const NodePlace node = nodes.back();
    if (visited == kMaxNodesOfHash) {
      return file.Damaged(node.address, "too many names have one checksum");
    }
    nodes.pop_back();
    BELAY_ASSIGN_OR_RETURN(const std::string_view bytes,
                           ReadNode(file, tree, node));
    const int64_t begin = LowerBound(bytes, node.records, hash);
    const int64_t end = LowerBound(bytes, node.records, uint64_t{hash} + 1);
    BELAY_RETURN_IF_ERROR(
        file.Charge(sizeof(std::string), "the index of a group", end - begin));
    for (int64_t i = begin; i < end; ++i) {
      found.emplace_back(bytes.substr(
          kNodePrefixBytes + i * kNameRecordBytes + 4, kHeapIdBytes));
    }
    if (node.depth == 0) continue;
    for (int64_t child = begin; child <= end; ++child) {
      nodes.push_back(ChildAt(tree, bytes, node, child));
    }
  }
  return found;
}

// The links themselves.

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

// Returns the address of the object of a hard link.
StatusOr<int64_t> ResolveLink(const BoundedFile& file, const ParsedLink& link) {
  if (link.type == 0) return link.address;
  const char* kind = link.type == 1    ? "a soft link"
                     : link.type == 64 ? "a link into another file"
                                       : "a link of its own kind";
  return absl::UnimplementedError(Cat("read \"", file.name(), "\": \"",
                                      link.name, "\" is ", kind,
                                      ", which is not followed here"));
}

// Finds a link of a group whose links lie in a heap.
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
    if (link->name == name) return ResolveLink(file, *link);
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
    if (link->name == name) return ResolveLink(file, *link);
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
