#include "arrays.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "belay/extend/state.h"

namespace belay::bench {
namespace {

// Pieces start on cache lines, as separate allocations would.
constexpr int64_t kAlignment = 64;

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Returns the row-major index in the array of element `i` of a piece.
int64_t NumberOf(const Piece& piece, int64_t i) {
  int64_t number = 0, scale = 1;
  for (size_t axis = piece.global_shape.size(); axis-- > 0;) {
    const int64_t length = piece.box.shape[axis];
    number += (piece.box.offset[axis] + i % length) * scale;
    i /= length;
    scale *= piece.global_shape[axis];
  }
  return number;
}

// Calls visit(offset in the piece, word) for each element. The first bytes of
// the word are the element's value, which depends on its index in the array.
template <typename Visit>
void ForEachWord(const Piece& piece, Visit visit) {
  const uint64_t seed = Mix(std::hash<std::string>{}(piece.key));
  const int64_t size = DTypeSize(piece.dtype);
  const int64_t elements = piece.num_bytes / size;
  const int64_t row = piece.box.shape.empty() ? 1 : piece.box.shape.back();
  for (int64_t begin = 0; begin < elements; begin += row) {
    const auto number = static_cast<uint64_t>(NumberOf(piece, begin));
    for (int64_t i = 0; i < row; ++i) {
      visit((begin + i) * size, Mix(seed + number + static_cast<uint64_t>(i)));
    }
  }
}

void FillPiece(const Piece& piece, char* data) {
  const int64_t size = DTypeSize(piece.dtype);
  ForEachWord(piece, [&](int64_t offset, uint64_t word) {
    std::memcpy(data + offset, &word, size);
  });
}

// Returns the first wrong byte, or -1.
int64_t FirstWrongByte(const Piece& piece, const char* data) {
  const int64_t size = DTypeSize(piece.dtype);
  int64_t wrong = -1;
  ForEachWord(piece, [&](int64_t offset, uint64_t word) {
    if (std::memcmp(data + offset, &word, size) != 0 && wrong < 0) {
      wrong = offset;
    }
  });
  return wrong;
}

void AddEvenPiece(const Context& context, Arrays& arrays, int64_t number,
                  Shape shape, int axis, DType dtype) {
  const int64_t ranks = context.comm->size();
  const int64_t part = (shape[axis] + ranks - 1) / ranks;
  shape[axis] = part * ranks;
  Box box = WholeBox(shape);
  box.offset[axis] = part * context.comm->rank();
  box.shape[axis] = part;
  arrays.unique_bytes += DTypeSize(dtype) * NumElements(shape);
  AddPiece(arrays, Piece{.key = absl::StrFormat("layer_%05d/kernel", number),
                         .dtype = dtype,
                         .global_shape = shape,
                         .box = box});
}

}  // namespace

void AddPiece(Arrays& arrays, Piece piece) {
  if (!arrays.pieces.empty()) {
    const Piece& last = arrays.pieces.back();
    piece.offset = (last.offset + last.num_bytes + kAlignment - 1) /
                   kAlignment * kAlignment;
  }
  piece.num_bytes = NumElements(piece.box.shape) * DTypeSize(piece.dtype);
  arrays.pieces.push_back(std::move(piece));
}

void AllocateAndFill(Arrays& arrays, int num_ranks) {
  const Piece& last = arrays.pieces.back();
  arrays.buffer.resize(last.offset + last.num_bytes);
  for (const Piece& piece : arrays.pieces) {
    FillPiece(piece, arrays.buffer.data() + piece.offset);
  }
  arrays.plain_bytes =
      std::min<int64_t>(arrays.unique_bytes / num_ranks, arrays.buffer.size());
}

Status CheckContents(const Arrays& arrays, const std::vector<char>& buffer) {
  for (const Piece& piece : arrays.pieces) {
    const int64_t wrong = FirstWrongByte(piece, buffer.data() + piece.offset);
    if (wrong >= 0) {
      return absl::DataLossError(
          absl::StrCat("compare \"", piece.key, "\" box ", BoxText(piece.box),
                       ": wrong bytes after the restore, first at ", wrong));
    }
  }
  return absl::OkStatus();
}

State MakeState(const Arrays& arrays, std::vector<char>& buffer) {
  State state;
  for (const Piece& piece : arrays.pieces) {
    AddShard(state, {.key = piece.key,
                     .dtype = piece.dtype,
                     .global_shape = piece.global_shape,
                     .box = piece.box,
                     .replica = piece.replica,
                     .data = buffer.data() + piece.offset});
  }
  return state;
}

std::shared_ptr<Arrays> MakeMatrices(const Context& context, int64_t count,
                                     int64_t rows, int64_t columns, int axis,
                                     DType dtype) {
  auto arrays = std::make_shared<Arrays>();
  for (int64_t i = 0; i < count; ++i) {
    AddEvenPiece(context, *arrays, i, {rows, columns}, axis, dtype);
  }
  AllocateAndFill(*arrays, context.comm->size());
  return arrays;
}

std::shared_ptr<Arrays> MakeVectors(const Context& context, int64_t count,
                                    int64_t bytes) {
  auto arrays = std::make_shared<Arrays>();
  for (int64_t i = 0; i < count; ++i) {
    AddEvenPiece(context, *arrays, i, {bytes / 4}, 0, DType::kF32);
  }
  AllocateAndFill(*arrays, context.comm->size());
  return arrays;
}

int64_t Scaled(const Context& context, int64_t value) {
  return std::max<int64_t>(
      1, static_cast<int64_t>(static_cast<double>(value) * context.scale));
}

}  // namespace belay::bench
