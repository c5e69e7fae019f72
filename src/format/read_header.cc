#include "format/read_header.h"

#include <algorithm>

#include "core/status_macros.h"
#include "core/text.h"
#include "format/object_header.h"

namespace belay::h5 {
namespace {

// Far more than an object has whose many links or attributes lie elsewhere.
constexpr size_t kMaxMessages = 4096;
constexpr size_t kMaxBlocks = 256;
// The sum over the blocks of a header: a block has up to eight links or
// attributes of 64 KiB, and others lie elsewhere.
constexpr int64_t kMostHeaderBytes = int64_t{4} << 20;
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

// The kinds that belay writes, or HDF5 for it (see HeaderMessage::Kind), and
// those that other programs may add: a comment (0x0d), a link count (0x16).
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

// Part of a header whose messages are still to be taken apart.
struct Block {
  int64_t offset;
  int64_t bytes;
};

// The beginning of a header.
struct Prefix {
  bool has_creation_order = false;
  int64_t bytes = 0;     // of itself
  int64_t messages = 0;  // of the first block
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

// Adds a block to those of a header, before it is read. Each has bytes of its
// own: a file could name one block again and again, and lead back to it. Its
// messages are charged even if the file has kept it: they are taken apart
// again.
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
  if (added.bytes > kMostHeaderBytes - before) {
    return file.Damaged(
        added.offset,
        Cat("a header is too long (need at most ", kMostHeaderBytes,
            " bytes, found ", before, " and ", added.bytes, " more)"));
  }
  if (blocks.size() > kMaxBlocks) {
    return file.Damaged(added.offset, "the parts of a header have no end");
  }
  blocks.push_back(added);
  return file.Charge(added.bytes, "a header");
}

// Takes the messages of a block apart; continuation blocks go to `blocks`.
Status TakeMessages(BoundedFile& file, int64_t offset, std::string_view bytes,
                    bool has_creation_order, std::vector<Block>& blocks,
                    std::vector<StoredMessage>& messages) {
  constexpr int kIsShared = 0x02;
  const size_t head = has_creation_order ? 6 : 4;
  MetadataReader in(bytes);
  // Fewer bytes than a message takes are a gap.
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

}  // namespace belay::h5
