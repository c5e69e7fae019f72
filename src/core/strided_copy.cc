#include "core/strided_copy.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace belay {
namespace {

// A loop over runs: `count` runs, `a_step` and `b_step` elements apart in the
// two stores.
struct Loop {
  int64_t count = 1;
  int64_t a_step = 0;
  int64_t b_step = 0;
};

// All runs of a box: the first run, and the loops around it, innermost first.
struct RunLoops {
  ElementRun first{.a = 0, .b = 0, .length = 1};
  absl::InlinedVector<Loop, 6> loops;
};

// Adds an axis outside all others. Merges axes that follow each other without a
// gap in both stores into one longer run or loop.
void AddAxis(const Loop& axis, RunLoops& runs) {
  if (axis.count == 1) return;
  if (runs.loops.empty() && axis.a_step == runs.first.length &&
      axis.b_step == runs.first.length) {
    runs.first.length *= axis.count;
    return;
  }
  if (!runs.loops.empty()) {
    Loop& inner = runs.loops.back();
    if (axis.a_step == inner.count * inner.a_step &&
        axis.b_step == inner.count * inner.b_step) {
      inner.count *= axis.count;
      return;
    }
  }
  runs.loops.push_back(axis);
}

// Requires a box that is not empty, so that no product overflows int64.
RunLoops MakeRunLoops(const Box& box, const StridedStore& a,
                      const StridedStore& b) {
  assert(Contains(a.box, box) && Contains(b.box, box));
  RunLoops runs;
  int64_t a_dense = 1, b_dense = 1;
  for (size_t axis = box.shape.size(); axis-- > 0;) {
    const int64_t a_step = a.strides.empty() ? a_dense : a.strides[axis];
    const int64_t b_step = b.strides.empty() ? b_dense : b.strides[axis];
    runs.first.a += (box.offset[axis] - a.box.offset[axis]) * a_step;
    runs.first.b += (box.offset[axis] - b.box.offset[axis]) * b_step;
    AddAxis({box.shape[axis], a_step, b_step}, runs);
    a_dense *= a.box.shape[axis];
    b_dense *= b.box.shape[axis];
  }
  return runs;
}

RunLoops MakeRunLoops(const Box& box, const Box& a_box, const Box& b_box) {
  const Shape dense;
  return MakeRunLoops(box, StridedStore{a_box, dense},
                      StridedStore{b_box, dense});
}

// Moves `run` and `index` to the next iteration of the innermost loop; returns
// false after the last one. Never steps past the end, since that offset may not
// fit int64.
bool Advance(const absl::InlinedVector<Loop, 6>& loops,
             absl::InlinedVector<int64_t, 6>& index, ElementRun& run) {
  for (size_t i = 1; i < loops.size(); ++i) {
    const Loop& loop = loops[i];
    if (index[i] + 1 < loop.count) {
      ++index[i];
      run.a += loop.a_step;
      run.b += loop.b_step;
      return true;
    }
    run.a -= index[i] * loop.a_step;
    run.b -= index[i] * loop.b_step;
    index[i] = 0;
  }
  return false;
}

// How to cut a box into tiles: in a tile, axes before `axis` have length 1,
// `axis` has `length`, and later axes are whole.
struct TileCut {
  size_t axis = 0;
  int64_t length = 1;
};

TileCut ChooseCut(const Box& box, int64_t max_elements) {
  int64_t inner = 1;  // number of elements per index of the axis
  size_t axis = box.shape.size() - 1;
  while (axis > 0 && inner <= max_elements / box.shape[axis]) {
    inner *= box.shape[axis--];
  }
  return {axis, std::min(box.shape[axis], max_elements / inner)};
}

// Moves `tile` to the next place in row-major order; returns false after the
// last.
bool AdvanceTile(const Box& box, const TileCut& cut, Box& tile) {
  for (size_t axis = cut.axis + 1; axis-- > 0;) {
    // Subtracts to find what is left: offset + length may overflow.
    const int64_t done =
        tile.offset[axis] - box.offset[axis] + tile.shape[axis];
    const int64_t left = box.shape[axis] - done;
    if (left > 0) {
      tile.offset[axis] += tile.shape[axis];
      if (axis == cut.axis) tile.shape[axis] = std::min(cut.length, left);
      return true;
    }
    tile.offset[axis] = box.offset[axis];
    if (axis == cut.axis) tile.shape[axis] = cut.length;
  }
  return false;
}

// Copies `count` pieces of `bytes` bytes each.
void CopyPieces(const char* from, int64_t from_step, char* to, int64_t to_step,
                int64_t count, int64_t bytes) {
  VisitSize(bytes, [&](auto size) {
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(to + i * to_step, from + i * from_step,
                  static_cast<size_t>(size));
    }
  });
}

}  // namespace

void ForEachRun(const Box& box, const Box& a_box, const Box& b_box,
                absl::FunctionRef<void(const ElementRun&)> visit) {
  const Shape dense;
  ForEachRunSeries(box, {a_box, dense}, {b_box, dense},
                   [&](const RunSeries& series) {
                     for (int64_t i = 0; i < series.count; ++i) {
                       visit({.a = series.a + i * series.a_step,
                              .b = series.b + i * series.b_step,
                              .length = series.length});
                     }
                   });
}

void ForEachRunSeries(const Box& box, const StridedStore& a,
                      const StridedStore& b,
                      absl::FunctionRef<void(const RunSeries&)> visit) {
  if (IsEmpty(box)) return;
  RunLoops runs = MakeRunLoops(box, a, b);
  const Loop inner = runs.loops.empty() ? Loop{} : runs.loops[0];
  absl::InlinedVector<int64_t, 6> index(runs.loops.size(), 0);
  do {
    visit({.a = runs.first.a,
           .a_step = inner.a_step,
           .b = runs.first.b,
           .b_step = inner.b_step,
           .count = inner.count,
           .length = runs.first.length});
  } while (Advance(runs.loops, index, runs.first));
}

ElementRun FirstRun(const Box& box, const Box& a_box, const Box& b_box) {
  assert(!IsEmpty(box));
  return MakeRunLoops(box, a_box, b_box).first;
}

int64_t CountRuns(const Box& box, const Box& a_box, const Box& b_box) {
  if (IsEmpty(box)) return 0;
  if (box.shape.size() <= 1) return 1;
  int64_t count = 1;
  for (const Loop& loop : MakeRunLoops(box, a_box, b_box).loops) {
    count *= loop.count;
  }
  return count;
}

void ForEachTile(const Box& box, int64_t max_elements,
                 absl::FunctionRef<void(const Box&)> visit) {
  TryForEachTile(box, max_elements, [&](const Box& tile) {
    visit(tile);
    return absl::OkStatus();
  }).IgnoreError();
}

Status TryForEachTile(const Box& box, int64_t max_elements,
                      absl::FunctionRef<Status(const Box&)> visit) {
  assert(max_elements >= 1);
  if (IsEmpty(box)) return absl::OkStatus();
  if (box.shape.empty()) return visit(box);
  const TileCut cut = ChooseCut(box, max_elements);
  Box tile = box;
  std::fill_n(tile.shape.begin(), cut.axis, 1);
  tile.shape[cut.axis] = cut.length;
  do {
    if (Status status = visit(tile); !status.ok()) return status;
  } while (AdvanceTile(box, cut, tile));
  return absl::OkStatus();
}

// --- Copies ---

Shape DenseStrides(const Shape& shape, int64_t element_bytes) {
  Shape strides(shape.size());
  int64_t stride = element_bytes;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

void CopyElements(const Box& box, const char* from, const StridedStore& from_in,
                  char* to, const StridedStore& to_in, int64_t element_size) {
  ForEachRunSeries(box, from_in, to_in, [&](const RunSeries& series) {
    CopyPieces(from + series.a * element_size, series.a_step * element_size,
               to + series.b * element_size, series.b_step * element_size,
               series.count, series.length * element_size);
  });
}

void StridedCopy(const Shape& shape, int64_t element_bytes,
                 Strided<const std::byte> source, Strided<std::byte> target) {
  if (NumElements(shape) == 0) return;
  // Treats the bytes of an element as one more axis.
  Shape bytes = shape;
  bytes.push_back(element_bytes);
  source.strides.push_back(1);
  target.strides.push_back(1);
  const Box box = WholeBox(bytes);
  CopyElements(box, reinterpret_cast<const char*>(source.data),
               {box, source.strides}, reinterpret_cast<char*>(target.data),
               {box, target.strides}, 1);
}

// --- Structs ---

namespace {

// Byte offsets of a box's corner in the two stores, and steps between structs.
struct StructPlaces {
  int64_t memory = 0;  // start of the struct
  int64_t memory_step = 0;
  int64_t stored = 0;
  int64_t stored_step = 0;
};

StructPlaces FindStructPlaces(const StructLayout& layout, const Box& box,
                              const Box& memory_box, const Box& stored_box) {
  const int64_t step = stored_box.shape[1];
  return {.memory = (box.offset[0] - memory_box.offset[0]) * layout.bytes,
          .memory_step = layout.bytes,
          .stored = (box.offset[0] - stored_box.offset[0]) * step +
                    box.offset[1] - stored_box.offset[1],
          .stored_step = step};
}

// Calls visit(offset from the box's first byte, offset in the program's struct,
// bytes) for the intersection of the box with each part of the layout.
template <typename Visit>
void ForEachPart(const StructLayout& layout, const Box& box, Visit visit) {
  const int64_t first = box.offset[1], end = first + box.shape[1];
  for (const StructLayout::Part& part : layout.parts) {
    const int64_t begin = std::max(part.stored, first);
    const int64_t bytes = std::min(part.stored + part.bytes, end) - begin;
    if (bytes <= 0) continue;
    visit(begin - first, part.memory + begin - part.stored, bytes);
  }
}

}  // namespace

bool IsDense(const StructLayout& layout) {
  return layout.stored_bytes == layout.bytes && layout.parts.size() == 1 &&
         layout.parts[0].memory == 0 && layout.parts[0].bytes == layout.bytes;
}

void PackStructs(const StructLayout& layout, const Box& box, const char* memory,
                 const Box& memory_box, char* stored, const Box& stored_box) {
  const StructPlaces at = FindStructPlaces(layout, box, memory_box, stored_box);
  int64_t covered = 0;
  ForEachPart(layout, box,
              [&](int64_t, int64_t, int64_t bytes) { covered += bytes; });
  for (int64_t i = 0; covered < box.shape[1] && i < box.shape[0]; ++i) {
    std::memset(stored + at.stored + i * at.stored_step, 0,
                static_cast<size_t>(box.shape[1]));
  }
  ForEachPart(layout, box, [&](int64_t to, int64_t from, int64_t bytes) {
    CopyPieces(memory + at.memory + from, at.memory_step,
               stored + at.stored + to, at.stored_step, box.shape[0], bytes);
  });
}

void UnpackStructs(const StructLayout& layout, const Box& box,
                   const char* stored, const Box& stored_box, char* memory,
                   const Box& memory_box) {
  const StructPlaces at = FindStructPlaces(layout, box, memory_box, stored_box);
  ForEachPart(layout, box, [&](int64_t from, int64_t to, int64_t bytes) {
    CopyPieces(stored + at.stored + from, at.stored_step,
               memory + at.memory + to, at.memory_step, box.shape[0], bytes);
  });
}

}  // namespace belay
