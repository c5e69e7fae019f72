#include "format/file_reader.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "core/status_macros.h"
#include "core/text.h"
#include "format/chunked_dataset.h"
#include "format/file_metadata.h"

namespace belay::h5 {
namespace {

// Far more than any object needs: many links or attributes are stored
// elsewhere.
constexpr size_t kMaxMessages = 4096;
constexpr size_t kMaxBlocks = 256;
// The limit for all blocks of a header together. A block has up to eight links
// or attributes of 64 KiB; more are stored elsewhere.
constexpr int64_t kMaxHeaderBytes = int64_t{4} << 20;
constexpr std::string_view kFileSignature("\x89HDF\r\n\x1a\n", 8);
constexpr int64_t kSuperblockLength = 48;

enum MessageKind : uint8_t {
  kNil = 0x00,
  kExternalFiles = 0x07,
  kOldDatatypeName = 0x09,
  kFilters = 0x0b,
  kOldTime = 0x0e,
  kSharedTable = 0x0f,
  kContinuation = 0x10,
  kSymbolTable = 0x11,
  kTime = 0x12,
};

// The kinds that belay writes, or HDF5 writes for it (see HeaderMessage::Kind),
// and kinds that other programs may add: a comment (0x0d), a link count (0x16).
bool IsKnown(uint8_t kind) {
  constexpr uint8_t kKnown[] = {0x00, 0x01, 0x02, 0x03, 0x05, 0x06, 0x08,
                                0x0a, 0x0b, 0x0c, 0x0d, 0x10, 0x15, 0x16};
  return std::find(std::begin(kKnown), std::end(kKnown), kind) !=
         std::end(kKnown);
}

std::string KindName(uint8_t kind) {
  switch (kind) {
    case kExternalFiles:
      return "values in external files";
    case kOldTime:
    case kTime:
      return "a time of modification";
    case kSharedTable:
      return "a table of shared messages";
    case kSymbolTable:
      return "a symbol table of an old group";
    default:
      return Cat("a message of kind ", static_cast<int>(kind));
  }
}

Status NotWritten(const BoundedFile& file, int64_t offset,
                  std::string_view what) {
  return absl::UnimplementedError(Cat("read \"", file.name(), "\": it has ",
                                      what, " (at offset ", offset,
                                      "), which belay never writes"));
}

// A part of a header whose messages are not parsed yet.
struct Block {
  int64_t offset;
  int64_t bytes;
};

// The beginning of a header.
struct Prefix {
  bool has_creation_order = false;
  int64_t bytes = 0;     // of the prefix
  int64_t messages = 0;  // bytes in the first block
};

StatusOr<Prefix> ReadPrefix(BoundedFile& file, int64_t address) {
  enum Flags {
    kSizeWidth = 0x03,
    kCreationOrder = 0x04,
    kPhases = 0x10,
    kTimes = 0x20
  };
  BELAY_ASSIGN_OR_RETURN(const std::string begin,
                         file.Read(address, 6, "an object header"));
  if (!begin.starts_with("OHDR")) {
    return file.Damaged(address, "there is no object header");
  }
  if (begin[4] != 2) return NotWritten(file, address, "an old object header");
  const int flags = begin[5];
  const int width = 1 << (flags & kSizeWidth);
  Prefix prefix{.has_creation_order = (flags & kCreationOrder) != 0};
  prefix.bytes =
      6 + ((flags & kTimes) != 0 ? 16 : 0) + ((flags & kPhases) != 0 ? 4 : 0);
  BELAY_ASSIGN_OR_RETURN(
      const std::string size,
      file.Read(address + prefix.bytes, width, "an object header"));
  prefix.messages = static_cast<int64_t>(MetadataReader(size).Number(width));
  prefix.bytes += width;
  if (prefix.messages < 0 || prefix.messages > file.size()) {
    return file.Damaged(address, "the size of an object header is damaged");
  }
  return prefix;
}

// Adds a block to those of a header, before it is read. Blocks must not
// overlap: otherwise a file could list the same block repeatedly, or form a
// cycle. Charges the block's messages even if the file has kept it, since they
// are parsed again.
Status AddBlock(BoundedFile& file, std::vector<Block>& blocks, Block added) {
  BELAY_RETURN_IF_ERROR(
      file.CheckRange(added.offset, added.bytes, "a part of a header"));
  int64_t before = 0;
  for (const Block& block : blocks) {
    before += block.bytes;
    if (added.offset < block.offset + block.bytes &&
        block.offset < added.offset + added.bytes) {
      return file.Damaged(added.offset, "the parts of a header overlap");
    }
  }
  if (added.bytes > kMaxHeaderBytes - before) {
    return file.Damaged(
        added.offset,
        Cat("a header is too long (need at most ", kMaxHeaderBytes,
            " bytes, found ", before, " and ", added.bytes, " more)"));
  }
  if (blocks.size() > kMaxBlocks) {
    return file.Damaged(added.offset, "the parts of a header have no end");
  }
  blocks.push_back(added);
  return file.Charge(added.bytes, "a header");
}

// Parses the messages of a block, and adds continuation blocks to `blocks`.
Status TakeMessages(BoundedFile& file, int64_t offset, std::string_view bytes,
                    bool has_creation_order, std::vector<Block>& blocks,
                    std::vector<StoredMessage>& messages) {
  constexpr int kIsShared = 0x02;
  const size_t head = has_creation_order ? 6 : 4;
  MetadataReader in(bytes);
  // If fewer bytes are left than a message needs, they are a gap.
  while (in.left() >= head) {
    const auto kind = static_cast<uint8_t>(in.Number(1));
    const auto size = static_cast<size_t>(in.Number(2));
    const auto flags = static_cast<int>(in.Number(1));
    in.Bytes(head - 4);
    const std::string_view content = in.Bytes(size);
    if (!in.ok()) return file.Damaged(offset, "a message leaves its header");
    if (!IsKnown(kind)) return NotWritten(file, offset, KindName(kind));
    if ((flags & kIsShared) != 0) {
      return NotWritten(file, offset, "a shared message");
    }
    if (kind == kContinuation) {
      MetadataReader place(content);
      const int64_t at = place.Address();
      const int64_t length = place.Address();
      if (!place.ok()) return file.Damaged(offset, "a message is too short");
      BELAY_RETURN_IF_ERROR(AddBlock(file, blocks, {at, length}));
    } else if (kind != kNil) {
      if (messages.size() >= kMaxMessages) {
        return file.Damaged(offset, "an object has too many messages");
      }
      BELAY_RETURN_IF_ERROR(file.Charge(
          static_cast<int64_t>(sizeof(StoredMessage) + content.size()),
          "a message of a header"));
      messages.push_back({kind, std::string(content)});
    }
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::string_view> ReadChecked(BoundedFile& file, int64_t offset,
                                       int64_t bytes,
                                       std::string_view signature,
                                       std::string_view what,
                                       int64_t checksum_at) {
  const BoundedFile::Checked part = {offset, bytes, checksum_at};
  const std::string* kept = file.FindKept(part);
  if (kept != nullptr && kept->starts_with(signature)) return *kept;
  BELAY_ASSIGN_OR_RETURN(std::string read, file.Read(offset, bytes, what));
  const bool is_last = checksum_at < 0;
  if (is_last) checksum_at = bytes - kChecksumBytes;
  if (checksum_at < std::ssize(signature) ||
      checksum_at > bytes - kChecksumBytes || !read.starts_with(signature)) {
    return file.Damaged(offset, Cat(what, " is not there"));
  }
  const uint64_t found =
      MetadataReader(std::string_view(read).substr(checksum_at)).Number(4);
  if (is_last) {
    read.resize(checksum_at);
  } else {
    read.replace(checksum_at, kChecksumBytes, kChecksumBytes, '\0');
  }
  if (found != MetadataChecksum(read)) {
    return file.Damaged(offset, Cat("the checksum of ", what, " is wrong"));
  }
  return file.Keep(part, std::move(read));
}

StatusOr<std::vector<StoredMessage>> ReadObjectHeader(BoundedFile& file,
                                                      int64_t address) {
  BELAY_ASSIGN_OR_RETURN(const Prefix prefix, ReadPrefix(file, address));
  const int64_t bytes = prefix.bytes + prefix.messages + kChecksumBytes;
  std::vector<Block> blocks;
  BELAY_RETURN_IF_ERROR(AddBlock(file, blocks, {address, bytes}));
  BELAY_ASSIGN_OR_RETURN(
      const std::string_view first,
      ReadChecked(file, address, bytes, "OHDR", "an object header"));
  std::vector<StoredMessage> messages;
  BELAY_RETURN_IF_ERROR(TakeMessages(file, address, first.substr(prefix.bytes),
                                     prefix.has_creation_order, blocks,
                                     messages));
  for (size_t next = 1; next < blocks.size(); ++next) {
    const auto [offset, length] = blocks[next];
    BELAY_ASSIGN_OR_RETURN(
        const std::string_view block,
        ReadChecked(file, offset, length, "OCHK", "a part of a header"));
    BELAY_RETURN_IF_ERROR(TakeMessages(file, offset, block.substr(4),
                                       prefix.has_creation_order, blocks,
                                       messages));
  }
  return messages;
}

// --- Links ---

namespace {

// Returns the only message of a kind, or null if there are none or several.
const StoredMessage* FindMessage(const std::vector<StoredMessage>& messages,
                                 uint8_t kind) {
  const StoredMessage* found = nullptr;
  for (const StoredMessage& message : messages) {
    if (message.kind != kind) continue;
    if (found != nullptr) return nullptr;
    found = &message;
  }
  return found;
}

int Log2(int64_t number) {
  return std::bit_width(static_cast<uint64_t>(number)) - 1;
}

bool IsPowerOfTwo(int64_t number) {
  return number > 0 && std::has_single_bit(static_cast<uint64_t>(number));
}

// The heap that holds the links of a large group.

// A fractal heap, as described by its header.
struct LinkHeap {
  int64_t address = 0;
  int offset_width = 0;  // bytes of an offset in the heap
  int length_width = 0;
  int64_t row_width = 0;    // blocks per row
  int64_t start_bytes = 0;  // of a block in the first two rows
  int64_t direct_rows = 0;  // rows of direct blocks, which hold links
  int64_t root = 0;
  int64_t root_rows = 0;  // 0: the root is the only block
};

// An entry of an indirect block, and the offset in the heap where it begins.
struct HeapEntry {
  int64_t row = 0;
  int64_t column = 0;
  int64_t offset = 0;
};

// Returns the entry of an indirect block that contains an offset.
HeapEntry FindEntry(const LinkHeap& heap, int64_t offset) {
  const int64_t first_row = heap.row_width * heap.start_bytes;
  HeapEntry entry;
  if (offset < first_row) {
    entry.column = offset / heap.start_bytes;
    entry.offset = entry.column * heap.start_bytes;
    return entry;
  }
  // Each row has blocks twice as large as the row before, except the second
  // row.
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

// Returns the address in an entry of an indirect block. Verifies the whole
// block.
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

// Returns the rows of the indirect block that an entry in this row refers to.
int64_t RowsBelow(const LinkHeap& heap, int64_t row) {
  return Log2(BlockBytes(heap, row)) - Log2(heap.start_bytes * heap.row_width) +
         1;
}

// Returns the address of the direct block that contains an offset in the heap,
// and converts `offset` to an offset in that block.
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
  in.Number(2);  // bytes of an ID
  const uint64_t filter_bytes = in.Number(2);
  const uint64_t flags = in.Number(1);
  const auto max_object = static_cast<int64_t>(in.Number(4));
  in.Bytes(8 * 12);  // free space and counts
  LinkHeap heap{.address = address};
  heap.row_width = static_cast<int64_t>(in.Number(2));
  heap.start_bytes = in.Address();
  const int64_t max_direct = in.Address();
  const auto offset_bits = static_cast<int>(in.Number(2));
  in.Number(2);  // initial rows
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

// Returns the bytes of the link with this heap ID; the file owns them.
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
  // Charged because the caller parses all of it.
  BELAY_RETURN_IF_ERROR(file.Charge(bytes, "a link"));
  const int64_t checksum_at = 4 + 1 + 8 + heap.offset_width;
  BELAY_ASSIGN_OR_RETURN(const std::string_view read,
                         ReadChecked(file, block, block_bytes, "FHDB",
                                     "a block of a heap", checksum_at));
  return read.substr(offset, bytes);
}

// The index of the links of a large group: a B-tree by the hash of the name.

constexpr int kNameTree = 5;  // indexes links by name
constexpr int64_t kNameRecordBytes = 4 + kHeapIdBytes;
constexpr int64_t kNodePrefixBytes = 4 + 1 + 1;
constexpr int64_t kNodeChecksumBytes = 4;
// A tree of 2^64 links has fewer levels.
constexpr int kMaxTreeDepth = 16;
// Names with the same checksum are rare, and adjacent in the tree.
constexpr int kMaxNodesOfHash = 1024;

// The properties of a tree, from its header.
struct TreeShape {
  int64_t node_bytes = 0;
  int depth = 0;
  int64_t root = 0;
  int64_t root_records = 0;
  int count_width = 0;  // bytes of a child's record count
  // Per depth: the most records of a node, and the bytes of the number of
  // records in and below it.
  std::vector<int64_t> most_records;
  std::vector<int> total_width;
};

struct NodePlace {
  int64_t address;
  int64_t records;
  int depth;
};

// Returns the bytes needed for a number up to `most`.
int WidthFor(uint64_t most) {
  return (std::bit_width(std::max<uint64_t>(most, 1)) - 1) / 8 + 1;
}

// Computes the most records of nodes from their size and the depth. Returns
// false if a size is damaged.
bool SizeNodes(TreeShape& tree) {
  const int64_t room = tree.node_bytes - kNodePrefixBytes - kNodeChecksumBytes;
  double all = 0;  // a double, since a file may claim any number
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

// Returns a node up to its last record or child.
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

// Returns the first record whose hash is not less than `hash`.
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

// Returns the heap IDs of all links whose names have this hash, in no
// particular order. `address` is that of the header of a version 2 B-tree.
StatusOr<std::vector<std::string>> FindByHash(BoundedFile& file,
                                              int64_t address, uint32_t hash) {
  BELAY_ASSIGN_OR_RETURN(const TreeShape tree, ReadTreeHeader(file, address));
  std::vector<std::string> found;
  std::vector<NodePlace> nodes;
  if (tree.root_records > 0) {
    nodes.push_back({tree.root, tree.root_records, tree.depth});
  }
  // Each node is deeper than its parent, but several parents may share a child.
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
  int type = 0;  // 0 is a hard link
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

// Returns the address of the object that a hard link refers to.
StatusOr<int64_t> ResolveLink(const BoundedFile& file, const ParsedLink& link) {
  if (link.type == 0) return link.address;
  const char* kind = link.type == 1    ? "a soft link"
                     : link.type == 64 ? "a link into another file"
                                       : "a link of its own kind";
  return absl::UnimplementedError(Cat("read \"", file.name(), "\": \"",
                                      link.name, "\" is ", kind,
                                      ", which is not followed here"));
}

// Finds a link in a group whose links are stored in a heap.
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

// Returns the address of the object that a group's link refers to, or nothing
// if there is no link with that name. `messages` are those of the group.
// Searches an index if there are many links.
// Errors: DataLoss - damaged, or no group; Unimplemented - a soft or an
//   external link, or a group that belay does not write; those of BoundedFile.
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

// --- Datasets ---

// Returns the address of the root group's header.
StatusOr<int64_t> ReadSuperblock(BoundedFile& file) {
  BELAY_ASSIGN_OR_RETURN(
      const std::string begin,
      file.Read(0, std::min<int64_t>(file.size(), 12), "the superblock"));
  if (!begin.starts_with(kFileSignature) || begin.size() < 12) {
    return file.Damaged(0, "not an HDF5 file");
  }
  const int version = static_cast<uint8_t>(begin[8]);
  if (version != 2 && version != 3) {
    return NotWritten(file, 0, Cat("a superblock of version ", version));
  }
  if (begin[9] != 8 || begin[10] != 8) {
    return NotWritten(file, 0, "addresses that are not of 8 bytes");
  }
  BELAY_ASSIGN_OR_RETURN(const std::string_view block,
                         ReadChecked(file, 0, kSuperblockLength, kFileSignature,
                                     "the superblock"));
  MetadataReader in(block.substr(12));
  const int64_t base = in.Address();
  const int64_t extension = in.Address();
  const int64_t end = in.Address();
  const int64_t root = in.Address();
  if (base != 0) return NotWritten(file, 0, "a block before its superblock");
  if (extension != kNoAddress) {
    return NotWritten(file, 0, "an extension of the superblock");
  }
  if (end > file.size()) {
    return absl::DataLossError(Cat("read \"", file.name(),
                                   "\": the file is truncated (need ", end,
                                   " bytes, found ", file.size(), ")"));
  }
  return root;
}

using Kind = HeaderMessage::Kind;

constexpr uint8_t kFilterPipeline = 0x0b;
enum LayoutClass { kCompact = 0, kContiguous = 1, kChunked = 2, kVirtual = 3 };
constexpr int kMaxAxes = 32;  // HDF5's limit
constexpr int kMaxDepth = 10000;

Status NotRead(const BoundedFile& file, std::string_view path,
               std::string_view what) {
  return absl::UnimplementedError(Cat("read \"", file.name(), "\": \"", path,
                                      "\" has ", what,
                                      ", which is not read here"));
}

Status DamagedDataset(const BoundedFile& file, std::string_view path,
                      std::string_view what) {
  return absl::DataLossError(Cat("read \"", file.name(), "\": the ", what,
                                 " of \"", path, "\" is missing or damaged"));
}

StatusOr<Shape> ParseSpace(const BoundedFile& file, std::string_view path,
                           const StoredMessage* message) {
  enum Types { kScalar = 0, kSimple = 1, kNull = 2 };
  if (message == nullptr) return DamagedDataset(file, path, "shape");
  MetadataReader in(message->bytes);
  const uint64_t version = in.Number(1);
  const uint64_t axes = in.Number(1);
  in.Number(1);  // whether maximum lengths follow
  const uint64_t type = in.Number(1);
  Shape shape;
  if (version != 2 || axes > kMaxAxes || type > kNull ||
      (type != kSimple && axes > 0)) {
    return DamagedDataset(file, path, "shape");
  }
  for (uint64_t axis = 0; axis < axes; ++axis) {
    const int64_t length = in.Address();
    if (length < 0) return DamagedDataset(file, path, "shape");
    shape.push_back(length);
  }
  if (type == kNull) return Shape{0};
  if (!in.ok()) return DamagedDataset(file, path, "shape");
  return shape;
}

// Checks that the class of the layout is `need`.
Status CheckLayout(const BoundedFile& file, std::string_view path,
                   const StoredMessage* message, LayoutClass need) {
  if (message == nullptr) return DamagedDataset(file, path, "layout");
  MetadataReader in(message->bytes);
  const uint64_t version = in.Number(1);
  const uint64_t layout = in.Number(1);
  if (version != 3 && version != 4) {
    return NotRead(file, path, Cat("a layout of version ", version));
  }
  if (layout == need) return absl::OkStatus();
  constexpr std::string_view kNames[] = {"its bytes in its header", "no chunks",
                                         "chunks",
                                         "its bytes in other datasets"};
  return NotRead(file, path,
                 layout <= kVirtual ? std::string(kNames[layout])
                                    : Cat("a layout of class ", layout));
}

Status ParseLayout(const BoundedFile& file, std::string_view path,
                   const StoredMessage* message, ContiguousDataset& dataset) {
  BELAY_RETURN_IF_ERROR(CheckLayout(file, path, message, kContiguous));
  MetadataReader in(std::string_view(message->bytes).substr(2));
  dataset.offset = in.Address();
  dataset.bytes = in.Address();
  if (!in.ok() || dataset.bytes < 0) {
    return DamagedDataset(file, path, "layout");
  }
  return absl::OkStatus();
}

// Returns the size of an element in bytes, according to its type.
int64_t ReadElementBytes(std::string_view type) {
  return static_cast<int64_t>(MetadataReader(type.substr(4)).Number(4));
}

// Checks that the bytes match the shape and the type, and are inside the file.
Status CheckExtent(const BoundedFile& file, std::string_view path,
                   const ContiguousDataset& dataset) {
  if (dataset.type.size() < 8) return DamagedDataset(file, path, "type");
  int64_t need = ReadElementBytes(dataset.type);
  for (const int64_t length : dataset.shape) {
    if (length > 0 && need > std::numeric_limits<int64_t>::max() / length) {
      return DamagedDataset(file, path, "shape");
    }
    need *= length;
  }
  if (need != dataset.bytes || (need > 0 && dataset.offset == kNoAddress)) {
    return absl::DataLossError(
        Cat("read \"", file.name(), "\": \"", path,
            "\" has another number of bytes than its shape says (need ", need,
            ", found ", dataset.bytes, ")"));
  }
  if (need > 0 &&
      (dataset.offset > file.size() || need > file.size() - dataset.offset)) {
    return absl::DataLossError(Cat("read \"", file.name(), "\": \"", path,
                                   "\" is larger than its file (need ", need,
                                   " bytes at offset ", dataset.offset,
                                   ", found ", file.size(), " in all)"));
  }
  return absl::OkStatus();
}

const StoredMessage* Find(const std::vector<StoredMessage>& messages,
                          Kind kind) {
  return FindMessage(messages, static_cast<uint8_t>(kind));
}

bool HasFilters(const std::vector<StoredMessage>& messages) {
  return std::ranges::any_of(messages, [](const StoredMessage& message) {
    return message.kind == kFilterPipeline;
  });
}

StatusOr<std::optional<ContiguousDataset>> ParseDataset(
    const BoundedFile& file, std::string_view path,
    const std::vector<StoredMessage>& messages) {
  const auto find = [&](Kind kind) { return Find(messages, kind); };
  ContiguousDataset dataset;
  if (HasFilters(messages)) return NotRead(file, path, "filters");
  BELAY_ASSIGN_OR_RETURN(dataset.shape,
                         ParseSpace(file, path, find(Kind::kDataspace)));
  const StoredMessage* type = find(Kind::kDatatype);
  if (type == nullptr) return DamagedDataset(file, path, "type");
  dataset.type = type->bytes;
  BELAY_RETURN_IF_ERROR(ParseLayout(file, path, find(Kind::kLayout), dataset));
  BELAY_RETURN_IF_ERROR(CheckExtent(file, path, dataset));
  return dataset;
}

Status InDataset(const BoundedFile& file, std::string_view path,
                 const Status& status) {
  return Status(status.code(), Cat("read \"", file.name(), "\": \"", path,
                                   "\": ", std::string(status.message())));
}

StatusOr<std::optional<ChunkedDataset>> ParseChunked(
    const BoundedFile& file, std::string_view path,
    const std::vector<StoredMessage>& messages) {
  const auto find = [&](Kind kind) { return Find(messages, kind); };
  const StoredMessage* layout = find(Kind::kLayout);
  BELAY_RETURN_IF_ERROR(CheckLayout(file, path, layout, kChunked));
  ChunkedDataset dataset;
  BELAY_ASSIGN_OR_RETURN(dataset.shape,
                         ParseSpace(file, path, find(Kind::kDataspace)));
  const StoredMessage* type = find(Kind::kDatatype);
  if (type == nullptr || type->bytes.size() < 8) {
    return DamagedDataset(file, path, "type");
  }
  dataset.type = type->bytes;
  dataset.element_bytes = ReadElementBytes(dataset.type);
  if (HasFilters(messages)) {
    const StoredMessage* only = FindMessage(messages, kFilterPipeline);
    if (only == nullptr) return DamagedDataset(file, path, "list of filters");
    StatusOr<std::vector<Filter>> filters = ParseFilterPipeline(only->bytes);
    if (!filters.ok()) return InDataset(file, path, filters.status());
    dataset.filters = *std::move(filters);
  }
  const Status chunks = ParseChunks(layout->bytes, dataset);
  if (!chunks.ok()) return InDataset(file, path, chunks);
  return dataset;
}

}  // namespace

StatusOr<FileReader> FileReader::Open(BoundedFile& file) {
  FileReader reader(file);
  BELAY_ASSIGN_OR_RETURN(const int64_t root, ReadSuperblock(file));
  BELAY_ASSIGN_OR_RETURN(reader.groups_[""], ReadObjectHeader(file, root));
  return reader;
}

// Returns null if there is no such group. `path` is empty, or ends with "/".
StatusOr<const FileReader::Messages*> FileReader::FindGroup(
    std::string_view path) {
  // Iterates from the root: recursion over a long path could overflow the
  // stack.
  const std::optional<Messages>* group = &groups_.find("")->second;
  int depth = 0;
  for (size_t begin = 0; begin < path.size() && group->has_value();) {
    if (++depth > kMaxDepth) {
      return file_->Damaged(0, "too many groups lie inside each other");
    }
    const size_t end = path.find('/', begin);
    const std::string_view above = path.substr(0, end + 1);
    auto known = groups_.find(above);
    if (known == groups_.end()) {
      BELAY_RETURN_IF_ERROR(
          file_->Charge(std::ssize(above), "the path of a group"));
      BELAY_ASSIGN_OR_RETURN(
          const std::optional<int64_t> address,
          FindLink(*file_, **group, path.substr(begin, end - begin)));
      std::optional<Messages> messages;
      if (address) {
        BELAY_ASSIGN_OR_RETURN(messages, ReadObjectHeader(*file_, *address));
      }
      known = groups_.emplace(above, std::move(messages)).first;
    }
    group = &known->second;
    begin = end + 1;
  }
  return group->has_value() ? &**group : nullptr;
}

StatusOr<std::optional<FileReader::Messages>> FileReader::FindObject(
    std::string_view path) {
  const size_t end = path.rfind('/');
  const size_t begin = end == path.npos ? 0 : end + 1;
  BELAY_ASSIGN_OR_RETURN(const Messages* group,
                         FindGroup(path.substr(0, begin)));
  if (group == nullptr) return std::nullopt;
  BELAY_ASSIGN_OR_RETURN(const std::optional<int64_t> address,
                         FindLink(*file_, *group, path.substr(begin)));
  if (!address) return std::nullopt;
  BELAY_ASSIGN_OR_RETURN(Messages messages, ReadObjectHeader(*file_, *address));
  return messages;
}

StatusOr<std::optional<ContiguousDataset>> FileReader::Find(
    std::string_view path) {
  BELAY_ASSIGN_OR_RETURN(const std::optional<Messages> messages,
                         FindObject(path));
  if (!messages) return std::nullopt;
  return ParseDataset(*file_, path, *messages);
}

StatusOr<std::optional<ChunkedDataset>> FileReader::FindChunked(
    std::string_view path) {
  BELAY_ASSIGN_OR_RETURN(const std::optional<Messages> messages,
                         FindObject(path));
  if (!messages) return std::nullopt;
  return ParseChunked(*file_, path, *messages);
}

}  // namespace belay::h5
