#include "format/virtual_mappings.h"

#include <algorithm>
#include <limits>

#include "core/status_macros.h"
#include "format/object_header.h"

namespace belay::h5 {
namespace {

// HDF5 reads so many bytes of a collection before it knows how long it is.
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

StatusOr<std::string> EncodedMappings(const VirtualDataset& dataset) {
  std::string mappings;
  int64_t count = 0;
  for (const VirtualPiece& piece : dataset.pieces) {
    if (IsEmpty(piece.box)) continue;
    BELAY_ASSIGN_OR_RETURN(const Box box,
                           DatasetBox(TypeOf(dataset.spec), piece.box));
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
