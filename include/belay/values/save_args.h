// How individual values are stored: with which dtype, in which chunks, and by
// which rank.
//
//   SaveOptions options;
//   options.args = {{"model/.*/kernel", {.dtype = DType::kBF16}},
//                   {"embed", {.chunk_byte_size = 4 << 20}}};
//
// Plain structs; every default stores a value as it is.

#ifndef BELAY_VALUES_SAVE_ARGS_H_
#define BELAY_VALUES_SAVE_ARGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"

namespace belay {

// Who chooses the shape of chunks of a given size.
enum class ChunkChooser : uint8_t {
  // The largest chunk that the size allows, even if lengths are prime.
  kExact = 0,
  // The shapes that Orbax chooses, which may be far smaller.
  kGreedy = 1,
};

// An HDF5 filter, which transforms the bytes of each chunk on the way to the
// file and back: its registered number and its parameters.
struct Filter {
  int id = 0;
  std::vector<uint32_t> parameters = {};

  friend bool operator==(const Filter&, const Filter&) = default;
};

// Compression by zlib, after a byte shuffle of all elements, which makes
// numbers compress better. Every HDF5 has both. Local. `level` ranges from 1
// (fastest) to 9 (smallest); 0 does not compress. A save refuses any other
// level.
std::vector<Filter> Deflate(int level = 1);

// Chunks are HDF5 chunks, given as lengths per axis. They form a grid that
// begins at the first element of the array; those at the far ends may be
// smaller. Each rank's piece of an array is a shard. If the pieces are not a
// regular grid, the whole array counts as the shard. Values that cannot have
// chunks (scalars, strings, arrays without elements) are stored without them.
struct SaveArgs {
  // Store numbers as this dtype. If `keys` is a pattern, this applies only to
  // values of the same kind: floating, integer, complex or bool. An entry that
  // is the key itself converts any number. Floats round to nearest even;
  // conversion to integers truncates towards zero. A number that is too large
  // becomes infinity, or the largest number if the dtype has no infinity; NaN
  // becomes integer 0. Values that this changes by more than rounding are
  // counted: SaveResult::warnings names their keys, and
  // SaveOptions::strict_dtype refuses them. Strings and complex numbers cannot
  // be converted to real numbers.
  std::optional<DType> dtype = {};
  // No write crosses the boundaries of these chunks. Must divide the shard
  // along each axis. Unset: the shard.
  std::optional<Shape> write_chunk_shape = {};
  // The chunk that is stored. Must divide the write chunk along each axis.
  // Unset: the write chunk.
  std::optional<Shape> read_chunk_shape = {};
  // Instead of the two members above: choose a chunk of at most this many
  // bytes, in the stored dtype. 0: no limit.
  int64_t chunk_byte_size = 0;
  ChunkChooser chooser = ChunkChooser::kExact;
  // Axes along which a chunk has length 1. If set, a chunk is chosen as with
  // chunk_byte_size.
  std::vector<int> shard_axes = {};
  // Chunks pass through these filters in order, such as Deflate(). If no member
  // above requests chunks, they have at most 1 MiB. Every reader needs these
  // filters. HDF5's szip, nbit and scaleoffset are refused; data stored by
  // plugin filters is read back and compared.
  std::vector<Filter> filters = {};
  // If several ranks hold the value, write only the replica with this number,
  // and do not compare it with the others. The number is the rank for values
  // that every rank holds, and Layout::Replica for those with a layout. Unset:
  // the ranks share the work, and the values must be equal.
  std::optional<int64_t> primary_replica = {};

  friend bool operator==(const SaveArgs&, const SaveArgs&) = default;
};

// Arguments for values whose whole key matches `keys`, a regular expression in
// RE2's syntax, such as "model/.*".
struct SaveArgsFor {
  std::string keys;
  SaveArgs args;

  friend bool operator==(const SaveArgsFor&, const SaveArgsFor&) = default;
};

}  // namespace belay

#endif  // BELAY_VALUES_SAVE_ARGS_H_
