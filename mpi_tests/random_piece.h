// Random pieces of arrays in memory with ghost cells, gaps and other orders,
// and what a restore leaves in each of their cells.

#ifndef BELAY_MPI_TESTS_RANDOM_PIECE_H_
#define BELAY_MPI_TESTS_RANDOM_PIECE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/memory.h"
#include "each_index.h"

namespace belay::testing {

using Random = std::mt19937;

inline int64_t Uniform(int64_t low, int64_t high, Random& random) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// Whether something happens that happens once in `times`.
inline bool OnceIn(int64_t times, Random& random) {
  return Uniform(1, times, random) == 1;
}

// The place of an element among those of a dense array.
inline size_t DensePlace(const Shape& index, const Shape& shape) {
  int64_t place = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    place = place * shape[axis] + index[axis];
  }
  return static_cast<size_t>(place);
}

// A piece of an array in memory of any form.
template <typename T>
struct HeldPiece {
  // In cells that nothing may write.
  static constexpr T kNobody = static_cast<T>(-1);

  Box box;
  MemoryLayout layout;
  Box held;       // what the memory holds; may extend past the array
  Shape strides;  // of what it holds
  std::vector<T> memory;

  Memory InMemory() { return Memory(memory, layout); }

  size_t PlaceOf(const Shape& index) const {
    int64_t place = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) {
      place += (index[axis] - held.offset[axis]) * strides[axis];
    }
    return static_cast<size_t>(place);
  }

  // The element that a restore puts into a cell that the memory holds; none if
  // it leaves the cell as it is.
  std::optional<Shape> RestoredAt(Shape index, const Shape& shape) const {
    for (size_t axis = 0; axis < index.size(); ++axis) {
      const int64_t i = index[axis], begin = box.offset[axis];
      const bool is_ghost = i < begin || i >= begin + box.shape[axis];
      if (is_ghost && !layout.fill_ghosts) return std::nullopt;
      if (i >= 0 && i < shape[axis]) continue;
      if (layout.periodic.empty() || !layout.periodic[axis]) {
        return std::nullopt;
      }
      index[axis] = (i % shape[axis] + shape[axis]) % shape[axis];
    }
    return index;
  }

  // Writes at(index) to each cell of the box.
  template <typename At>
  void Fill(At at) {
    ForEachIndex(box, [&](const Shape& i) { memory[PlaceOf(i)] = at(i); });
  }

  // What the memory has to be after a restore of an array with these elements.
  template <typename At>
  std::vector<T> Expected(const Shape& shape, At at) const {
    std::vector<T> expected(memory.size(), kNobody);
    if (IsEmpty(box)) return expected;
    ForEachIndex(held, [&](const Shape& index) {
      const std::optional<Shape> from = RestoredAt(index, shape);
      if (from) expected[PlaceOf(index)] = at(*from);
    });
    return expected;
  }
};

// Memory for a box, in a random order, with random ghost cells and gaps.
template <typename T>
HeldPiece<T> RandomPiece(const Box& box, Random& random) {
  HeldPiece<T> piece{.box = box, .held = box};
  const size_t axes = box.shape.size();
  const bool has_ghosts = Uniform(0, 3, random) > 0;
  MemoryLayout& layout = piece.layout;
  layout.fill_ghosts = Uniform(0, 1, random) == 1;
  for (size_t axis = 0; axis < axes && has_ghosts; ++axis) {
    layout.before.push_back(Uniform(0, 3, random));
    layout.after.push_back(Uniform(0, 3, random));
    piece.held.offset[axis] -= layout.before[axis];
    piece.held.shape[axis] += layout.before[axis] + layout.after[axis];
    layout.periodic.push_back(Uniform(0, 1, random) == 1);
  }
  std::vector<size_t> order(axes);
  for (size_t i = 0; i < axes; ++i) order[i] = axes - 1 - i;
  const int64_t form = Uniform(0, 2, random);
  if (form == 1) {
    layout.order = AxisOrder::kColumnMajor;
    std::reverse(order.begin(), order.end());
  } else if (form == 2) {
    std::shuffle(order.begin(), order.end(), random);
  }
  piece.strides.resize(axes);
  int64_t end = 1;
  for (const size_t axis : order) {
    piece.strides[axis] = form == 2 ? end + Uniform(0, 2, random) : end;
    end = form == 2 ? end + (piece.held.shape[axis] - 1) * piece.strides[axis]
                    : end * piece.held.shape[axis];
  }
  if (form == 2) {
    layout.strides.assign(piece.strides.begin(), piece.strides.end());
  }
  if (IsEmpty(box)) end = 0;
  piece.memory.assign(static_cast<size_t>(end), HeldPiece<T>::kNobody);
  return piece;
}

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_RANDOM_PIECE_H_
