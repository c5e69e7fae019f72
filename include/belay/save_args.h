// How single values are stored: as which dtype, in which chunks, and by whom.
//
//   SaveOptions options;
//   options.args = {{"model/.*/kernel", {.dtype = DType::kBF16}},
//                   {"embed", {.chunk_byte_size = 4 << 20}}};
//
// Plain structs; every default stores a value as it is.

#ifndef BELAY_SAVE_ARGS_H_
#define BELAY_SAVE_ARGS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/box.h"
#include "belay/dtype.h"

namespace belay {

// Who chooses the shape of chunks of a given size.
enum class ChunkChooser : uint8_t {
  // As large as the size allows, also where lengths are prime.
  kExact = 0,
  // As Orbax does: the same shapes as there, which may be far smaller.
  kGreedy = 1,
};

// A filter of HDF5, which changes the bytes of each chunk on their way to the
// file and back: the number under which it is registered, and its parameters.
struct Filter {
  int id = 0;
  std::vector<uint32_t> parameters = {};

  friend bool operator==(const Filter&, const Filter&) = default;
};

// Compression by zlib, after a shuffle of the bytes of all elements, which
// makes numbers compress better. Every HDF5 has both. Local. `level` is from 1,
// fast, to 9, small; 0 does not compress, and a save refuses all others.
std::vector<Filter> Deflate(int level = 1);

// Chunks are lengths per axis. They form a grid that begins at the first
// element of the array; those at the far ends may be smaller. Each rank's piece
// of an array is a shard; where the pieces are no regular grid, the whole array
// counts as the shard. Chunks are those of HDF5. Values that cannot have any, a
// scalar, a text or an array without elements, are stored without.
struct SaveArgs {
  // Store numbers as this dtype: floats round to nearest even, and are cut
  // towards zero to integers; what is too large becomes infinity or the largest
  // number of the dtype, and NaN as an integer 0. Neither texts nor complex
  // numbers become real ones.
  std::optional<DType> dtype = {};
  // No write reaches across its borders: divides the shard along each axis. Not
  // given: the shard.
  std::optional<Shape> write_chunk_shape = {};
  // The chunk that is stored: divides the write chunk along each axis. Not
  // given: the write chunk.
  std::optional<Shape> read_chunk_shape = {};
  // Instead of the two: choose a chunk of at most so many bytes as they are
  // stored. 0: no limit.
  int64_t chunk_byte_size = 0;
  ChunkChooser chooser = ChunkChooser::kExact;
  // Axes along which a chunk has length 1. Chooses a chunk, as the size does.
  std::vector<int> shard_axes = {};
  // Chunks pass through these in turn, such as Deflate(). Where nothing above
  // asks for chunks they have at most 1 MiB. Every reader needs these filters.
  // HDF5's szip, nbit and scaleoffset are refused; what filters of plugins have
  // stored is read back and compared.
  std::vector<Filter> filters = {};
  // Of a value that several ranks hold, write the replica with this number,
  // whole, and do not compare it with the others: the rank of values that every
  // rank holds, Layout::Replica of those that are laid out. Unset: the ranks
  // share the work, and the values have to be equal.
  std::optional<int64_t> primary_replica = {};

  friend bool operator==(const SaveArgs&, const SaveArgs&) = default;
};

// Arguments of the values whose whole key matches `keys`, a regular expression
// in RE2's syntax, such as "model/.*".
struct SaveArgsFor {
  std::string keys;
  SaveArgs args;

  friend bool operator==(const SaveArgsFor&, const SaveArgsFor&) = default;
};

}  // namespace belay

#endif  // BELAY_SAVE_ARGS_H_
