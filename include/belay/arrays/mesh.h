// A mesh: ranks arranged in a grid with named axes.
//
// Rank r is at the r-th grid point in row-major order: the last axis varies
// fastest. (DTensor's Mesh, with device ids = ranks.)

#ifndef BELAY_ARRAYS_MESH_H_
#define BELAY_ARRAYS_MESH_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"

namespace belay {

// One axis of a mesh.
struct MeshAxis {
  std::string name;
  int64_t size = 0;

  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

// A grid of ranks. Value type, never invalid once created.
class Mesh {
 public:
  // Makes a mesh of size_0 * size_1 * ... ranks. An empty list is the mesh of
  // one rank. Local.
  // Errors: InvalidArgument - a size below 1, an empty name, a duplicate name,
  //   a name with a blank, ',', ':' or '|', more than 64 axes, or more than
  //   2^31 - 1 ranks.
  static StatusOr<Mesh> Create(std::vector<MeshAxis> axes);

  const std::vector<MeshAxis>& axes() const { return axes_; }

  // Returns the number of ranks. Local.
  int num_ranks() const { return num_ranks_; }

  // Returns the grid point of a rank, one coordinate per axis. Local.
  // Requires 0 <= rank < num_ranks().
  std::vector<int64_t> Coordinates(int rank) const;

  // Returns the position of an axis. Local.
  // Errors: InvalidArgument - no axis of that name; lists the names.
  StatusOr<int> AxisIndex(std::string_view name) const;

  // Returns "x=2,y=4". Local.
  std::string ToString() const;

  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  std::vector<MeshAxis> axes_;
  int num_ranks_ = 1;
};

}  // namespace belay

#endif  // BELAY_ARRAYS_MESH_H_
