// The values that are saved: arrays partitioned over the ranks, in one warm
// buffer.

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

// The part of an array that this rank holds.
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
  // Bytes of all arrays, without replicas.
  int64_t unique_bytes = 0;
  // Bytes per rank in the plain baselines: unique_bytes / ranks.
  int64_t plain_bytes = 0;
};

// Adds a piece at the end of the buffer, which AllocateAndFill allocates.
// Local.
void AddPiece(Arrays& arrays, Piece piece);

// Allocates the buffer and fills every piece with bytes that depend only on its
// key and its position in the array, so that replicas and other partitions
// agree. Local.
void AllocateAndFill(Arrays& arrays, int num_ranks);

// Checks that `buffer`, with the same pieces, holds those bytes. Local.
// Errors: DataLoss - names the key and the first wrong byte.
Status CheckContents(const Arrays& arrays, const std::vector<char>& buffer);

// Returns a State over the pieces; their data is in `buffer`. Local.
State MakeState(const Arrays& arrays, std::vector<char>& buffer);

// Makes `count` arrays [rows, columns], partitioned over the ranks along
// `axis`; the length of that axis is rounded up to a multiple of the ranks.
// Local.
std::shared_ptr<Arrays> MakeMatrices(const Context& context, int64_t count,
                                     int64_t rows, int64_t columns, int axis,
                                     DType dtype = DType::kF32);

// Makes `count` f32 arrays [bytes / 4], partitioned evenly. Local.
std::shared_ptr<Arrays> MakeVectors(const Context& context, int64_t count,
                                    int64_t bytes);

// Returns `value * scale`, at least 1. Local.
int64_t Scaled(const Context& context, int64_t value);

}  // namespace belay::bench

#endif  // BELAY_BENCHMARKS_ARRAYS_H_
