// The values that are saved: arrays cut over the ranks, in one warm buffer.

#ifndef BELAY_BENCHMARKS_ARRAYS_H_
#define BELAY_BENCHMARKS_ARRAYS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/state.h"
#include "belay/status.h"
#include "race.h"

namespace belay::bench {

// What this rank holds of one array.
struct Piece {
  std::string key;
  DType dtype = DType::kF32;
  Shape global_shape;
  Box box;
  int64_t replica = 0;
  int64_t num_bytes = 0;
  int64_t offset = 0;  // in the buffer
};

struct Arrays {
  std::vector<Piece> pieces;
  std::vector<char> buffer;
  // Bytes of all arrays, each element once.
  int64_t unique_bytes = 0;
  // What a rank hands to the plain baselines: unique_bytes / ranks.
  int64_t plain_bytes = 0;
};

// Adds a piece at the end of the buffer, which AllocateAndFill makes. Local.
void AddPiece(Arrays& arrays, Piece piece);

// Allocates the buffer and fills every piece with bytes that depend on its key
// and place in the array only, so that replicas and other cuts agree. Local.
void AllocateAndFill(Arrays& arrays, int num_ranks);

// Checks that `buffer`, of the same pieces, holds those bytes. Local.
// Errors: DataLoss - names the key and the first wrong byte.
Status CheckContents(const Arrays& arrays, const std::vector<char>& buffer);

// Returns a State over the pieces; their data lies in `buffer`. Local.
State MakeState(const Arrays& arrays, std::vector<char>& buffer);

// `count` arrays [rows, columns], cut over the ranks along `axis`; the length
// of that axis is rounded up to a multiple of the ranks. Local.
std::shared_ptr<Arrays> MakeMatrices(const Context& context, int64_t count,
                                     int64_t rows, int64_t columns, int axis,
                                     DType dtype = DType::kF32);

// `count` f32 arrays [bytes / 4], cut evenly. Local.
std::shared_ptr<Arrays> MakeVectors(const Context& context, int64_t count,
                                    int64_t bytes);

// Returns `value * scale`, at least 1. Local.
int64_t Scaled(const Context& context, int64_t value);

}  // namespace belay::bench

#endif  // BELAY_BENCHMARKS_ARRAYS_H_
