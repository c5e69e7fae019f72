#include "arrays.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace belay::bench {
namespace {

// Pieces start on cache lines, as separate allocations would.
constexpr int64_t kAlignment = 64;

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

uint64_t SeedOf(const Piece& piece) {
  return Mix(
      std::hash<std::string>{}(absl::StrCat(piece.key, BoxText(piece.box))));
}

// Calls visit(offset in the piece, word, bytes of it that count).
template <typename Visit>
void ForEachWord(const Piece& piece, Visit visit) {
  const uint64_t seed = SeedOf(piece);
  for (int64_t i = 0; i < piece.num_bytes; i += 8) {
    visit(i, Mix(seed + static_cast<uint64_t>(i)),
          std::min<int64_t>(8, piece.num_bytes - i));
  }
}

void FillPiece(const Piece& piece, char* data) {
  ForEachWord(piece, [&](int64_t i, uint64_t word, int64_t bytes) {
    std::memcpy(data + i, &word, bytes);
  });
}

// Returns the first wrong byte, or -1.
int64_t FirstWrongByte(const Piece& piece, const char* data) {
  int64_t wrong = -1;
  ForEachWord(piece, [&](int64_t i, uint64_t word, int64_t bytes) {
    if (std::memcmp(data + i, &word, bytes) != 0 && wrong < 0) wrong = i;
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
    state.AddShard({.key = piece.key,
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
