#include "format/object_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "core/status_macros.h"

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

void PutChecksum(std::string& out, size_t begin) {
  PutNumber(out, MetadataChecksum(std::string_view(out).substr(begin)), 4);
}

// --- Object header ---

namespace {

using Kind = HeaderMessage::Kind;

constexpr int kFourByteSize = 0x02;  // flag: how the size of a header is stored

// The flags of a message that HDF5 gives it.
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
  PutNumber(out, has_axes ? 1 : 0, 1);  // the largest lengths follow
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
  // Allocated early, never filled, no value given; or late, filled with zeros.
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
    std::string info = {0, 0};  // attributes lie in the header itself
    PutAddress(info, kNoAddress);
    PutAddress(info, kNoAddress);
    messages.push_back({Kind::kAttributeInfo, std::move(info)});
    messages.push_back({Kind::kAttribute, attribute});
  }
  PutObjectHeader(out, messages);
}

// --- Virtual mappings ---

namespace {

// HDF5 reads this many bytes of a collection before it knows its length.
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

// As HDF5 does: as two corners where these have 32 bits.
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
    PutNumber(out, 1, 4);  // boxes
    for (const int64_t begin : box.offset) PutNumber(out, begin, 4);
    for (int64_t axis = 0; axis < axes; ++axis) {
      PutNumber(out, box.offset[axis] + box.shape[axis] - 1, 4);
    }
    return;
  }
  PutNumber(out, kRegular, 4);
  PutNumber(out, 1, 1);  // one box, or several at a distance
  PutNumber(out, 4 + 4 * 8 * axes, 4);
  PutNumber(out, axes, 4);
  for (int64_t axis = 0; axis < axes; ++axis) {
    PutNumber(out, box.offset[axis], 8);
    PutNumber(out, 1, 8);  // distance
    PutNumber(out, 1, 8);  // boxes
    PutNumber(out, box.shape[axis], 8);
  }
}

// HDF5 reads the name of a source as a format, in which "%%" is a "%".
void PutName(std::string& out, std::string_view name) {
  for (const char c : name) out.append(c == '%' ? 2 : 1, c);
  out.push_back('\0');
}

}  // namespace

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

GlobalHeapPlace GlobalHeapWriter::Add(std::string_view text) {
  constexpr int64_t kMostNumber = 65000;  // of 16 bits
  const size_t used = out_.size() - begin_;
  if (count_ == kMostNumber ||
      (count_ > 0 && used + text.size() > kFullCollectionBytes)) {
    End();
  }
  if (count_ == 0) {
    begin_ = out_.size();
    out_ += "GCOL";
    PutNumber(out_, 1, 4);  // version
    PutNumber(out_, 0, 8);  // bytes of it all, put in by End
  }
  ++count_;
  PutNumber(out_, count_, 2);
  PutNumber(out_, 0, 2);  // how many refer to it
  PutNumber(out_, 0, 4);
  PutNumber(out_, std::ssize(text), 8);
  out_ += text;
  out_.resize(begin_ + (out_.size() - begin_ + 7) / 8 * 8, '\0');
  return {start_ + static_cast<int64_t>(begin_), count_};
}

void GlobalHeapWriter::End() {
  if (count_ == 0) return;
  const size_t used = out_.size() - begin_;
  const size_t bytes = std::max(used + kObjectHeadBytes, kMinCollectionBytes);
  PutNumber(out_, 0, 8);  // what is free has no number
  PutNumber(out_, static_cast<int64_t>(bytes - used), 8);
  out_.resize(begin_ + bytes, '\0');
  std::string size;
  PutNumber(size, static_cast<int64_t>(bytes), 8);
  out_.replace(begin_ + 8, size.size(), size);
  count_ = 0;
}

}  // namespace belay::h5
