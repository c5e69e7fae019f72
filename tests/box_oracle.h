// What the geometry tests check against: boxes as plain lists of elements.
//
// Slow and obvious on purpose. Nothing here shares code with the library.

#ifndef BELAY_TESTS_BOX_ORACLE_H_
#define BELAY_TESTS_BOX_ORACLE_H_

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <random>
#include <utility>
#include <vector>

#include "belay/arrays/box.h"

namespace belay {

using Rng = std::mt19937_64;
using Position = std::vector<int64_t>;

// How gtest prints a box that is not the expected one.
inline void PrintTo(const Box& box, std::ostream* out) {
  *out << "box " << BoxText(box);
}

// A number in [low, high].
inline int64_t Draw(Rng& rng, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(rng);
}

// One axis in 20 has length 0: with more, nearly every array would be empty.
inline Shape DrawShape(Rng& rng, int max_ndim, int64_t max_length) {
  Shape shape(static_cast<size_t>(Draw(rng, 0, max_ndim)));
  for (int64_t& length : shape) {
    length = Draw(rng, 1, 20) == 1 ? 0 : Draw(rng, 1, max_length);
  }
  return shape;
}

// Any box inside an array of that shape: each axis is whole or empty now and
// then, else any part.
inline Box DrawBox(Rng& rng, const Shape& shape) {
  Box box;
  for (int64_t full : shape) {
    const int64_t kind = Draw(rng, 1, 20);
    int64_t length = full;
    if (kind > 7) length = Draw(rng, std::min<int64_t>(1, full), full);
    if (kind == 1) length = 0;
    box.offset.push_back(Draw(rng, 0, full - length));
    box.shape.push_back(length);
  }
  return box;
}

// Every element of the box, in row-major order.
inline std::vector<Position> Elements(const Box& box) {
  std::vector<Position> elements = {{}};
  for (size_t axis = 0; axis < box.shape.size(); ++axis) {
    std::vector<Position> longer;
    for (const Position& prefix : elements) {
      for (int64_t i = 0; i < box.shape[axis]; ++i) {
        longer.push_back(prefix);
        longer.back().push_back(box.offset[axis] + i);
      }
    }
    elements = std::move(longer);
  }
  return elements;
}

// Where an element lies in a dense row-major store of `box`.
inline int64_t OffsetIn(const Box& box, const Position& element) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < element.size(); ++axis) {
    offset = offset * box.shape[axis] + element[axis] - box.offset[axis];
  }
  return offset;
}

}  // namespace belay

#endif  // BELAY_TESTS_BOX_ORACLE_H_
