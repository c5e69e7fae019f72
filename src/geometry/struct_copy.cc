#include "geometry/struct_copy.h"

#include <algorithm>
#include <cstring>

#include "geometry/strided_copy.h"

namespace belay {
namespace {

// Where the corner of a box is in the two stores, and the steps from struct to
// struct.
struct StructPlaces {
  int64_t memory = 0;  // of the struct itself
  int64_t memory_step = 0;
  int64_t stored = 0;
  int64_t stored_step = 0;
};

StructPlaces PlacesOf(const StructLayout& layout, const Box& box,
                      const Box& memory_box, const Box& stored_box) {
  StructPlaces places{.memory_step = layout.bytes,
                      .stored_step = stored_box.shape[1]};
  places.memory = (box.offset[0] - memory_box.offset[0]) * layout.bytes;
  places.stored = (box.offset[0] - stored_box.offset[0]) * places.stored_step +
                  box.offset[1] - stored_box.offset[1];
  return places;
}

// Calls visit(offset from the box's first byte, offset in the program's struct,
// bytes) for what the box has of each part.
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
  const StructPlaces at = PlacesOf(layout, box, memory_box, stored_box);
  int64_t covered = 0;
  ForEachPart(layout, box,
              [&](int64_t, int64_t, int64_t bytes) { covered += bytes; });
  for (int64_t i = 0; covered < box.shape[1] && i < box.shape[0]; ++i) {
    std::memset(stored + at.stored + i * at.stored_step, 0,
                static_cast<size_t>(box.shape[1]));
  }
  ForEachPart(layout, box, [&](int64_t to, int64_t from, int64_t bytes) {
    CopySeries(memory + at.memory + from, at.memory_step,
               stored + at.stored + to, at.stored_step, box.shape[0], bytes);
  });
}

void UnpackStructs(const StructLayout& layout, const Box& box,
                   const char* stored, const Box& stored_box, char* memory,
                   const Box& memory_box) {
  const StructPlaces at = PlacesOf(layout, box, memory_box, stored_box);
  ForEachPart(layout, box, [&](int64_t from, int64_t to, int64_t bytes) {
    CopySeries(stored + at.stored + from, at.stored_step,
               memory + at.memory + to, at.memory_step, box.shape[0], bytes);
  });
}

}  // namespace belay
