// Pieces for tests of sharding policies, groupings as text, and an oracle that
// looks at every element. The oracle shares no code with the library.

#ifndef BELAY_TESTS_POLICY_TESTING_H_
#define BELAY_TESTS_POLICY_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "belay/values/sharding_policy.h"
#include "model_testing.h"

namespace belay {

using Pieces = std::vector<ShardableTensor>;
using Groups = std::vector<ShardGroup>;

// The piece `box` of an array, held by task 0 of job "job".
inline ShardableTensor PieceOfArray(std::string key, DType dtype, Shape shape,
                                    Box box) {
  ShardableTensor piece{.key = std::move(key),
                        .dtype = dtype,
                        .global_shape = std::move(shape),
                        .box = std::move(box),
                        .device = RankDevice("job", 0, 0),
                        .bytes = 0};
  piece.bytes = NumElements(piece.box.shape) * DTypeSize(dtype);
  return piece;
}

inline ShardableTensor WholeArray(std::string key, DType dtype,
                                  const Shape& shape) {
  return PieceOfArray(std::move(key), dtype, shape, WholeBox(shape));
}

inline ShardableTensor TextPiece(std::string key, int64_t bytes) {
  ShardableTensor piece = WholeArray(std::move(key), DType::kString, {});
  piece.bytes = bytes;
  return piece;
}

// The same piece on another task.
inline ShardableTensor OnTask(ShardableTensor piece, int task) {
  piece.device = RankDevice("job", 0, task);
  return piece;
}

// A line per group, "key box" for each piece, such as "a 0,2 + b 0,1:0,3".
inline std::vector<std::string> GroupTexts(const Groups& groups) {
  std::vector<std::string> texts;
  for (const ShardGroup& group : groups) {
    std::string text;
    for (const ShardableTensor& piece : group) {
      if (!text.empty()) text += " + ";
      text += piece.key;
      if (!piece.box.shape.empty()) text += " " + BoxText(piece.box);
    }
    texts.push_back(text);
  }
  return texts;
}

inline int64_t GroupBytes(const ShardGroup& group) {
  int64_t bytes = 0;
  for (const ShardableTensor& piece : group) bytes += piece.bytes;
  return bytes;
}

// Numbers the elements of a box as in its array. At most three axes.
inline std::vector<int64_t> ElementsOf(const Box& box, const Shape& shape) {
  int64_t full[3] = {1, 1, 1}, begin[3] = {0, 0, 0}, length[3] = {1, 1, 1};
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    full[axis] = shape[axis];
    begin[axis] = box.offset[axis];
    length[axis] = box.shape[axis];
  }
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < length[0]; ++i) {
    for (int64_t j = 0; j < length[1]; ++j) {
      for (int64_t k = 0; k < length[2]; ++k) {
        numbers.push_back(((begin[0] + i) * full[1] + begin[1] + j) * full[2] +
                          begin[2] + k);
      }
    }
  }
  return numbers;
}

inline bool IsInside(const Box& box, const Shape& shape) {
  if (box.offset.size() != shape.size()) return false;
  if (box.shape.size() != shape.size()) return false;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (box.offset[axis] < 0 || box.shape[axis] < 0) return false;
    if (box.offset[axis] + box.shape[axis] > shape[axis]) return false;
  }
  return true;
}

// Says what is wrong with a grouping of pieces of one task; "" if nothing is.
inline std::string OracleSays(const Pieces& listed, const Groups& groups) {
  // Which listed piece each element is of, and -1 once it was returned.
  std::map<std::string, std::map<int64_t, int>> owners;
  std::multiset<std::string> empty;
  for (size_t i = 0; i < listed.size(); ++i) {
    const auto elements = ElementsOf(listed[i].box, listed[i].global_shape);
    for (int64_t element : elements) {
      owners[listed[i].key][element] = static_cast<int>(i);
    }
    if (elements.empty()) {
      empty.insert(listed[i].key + " " + BoxText(listed[i].box));
    }
  }
  for (const ShardGroup& group : groups) {
    if (group.empty()) return "empty group";
    for (const ShardableTensor& piece : group) {
      const auto same_key = std::find_if(
          listed.begin(), listed.end(),
          [&](const ShardableTensor& other) { return other.key == piece.key; });
      if (same_key == listed.end()) return "key " + piece.key;
      if (piece.dtype != same_key->dtype) return "dtype";
      if (piece.global_shape != same_key->global_shape) return "shape";
      if (piece.device != same_key->device) return "device";
      if (!IsInside(piece.box, piece.global_shape)) return "outside";
      const auto elements = ElementsOf(piece.box, piece.global_shape);
      if (elements.empty()) {
        const auto it = empty.find(piece.key + " " + BoxText(piece.box));
        if (it == empty.end()) return "empty box";
        empty.erase(it);
      }
      const auto count = static_cast<int64_t>(elements.size());
      int64_t bytes = count * DTypeSize(piece.dtype);
      if (piece.dtype == DType::kString) bytes = same_key->bytes;
      if (piece.bytes != bytes) return "bytes";
      int owner = -1;
      for (int64_t element : elements) {
        const auto it = owners[piece.key].find(element);
        if (it == owners[piece.key].end()) return "element not listed";
        if (it->second < 0) return "element twice";
        if (owner >= 0 && it->second != owner) return "joined";
        owner = std::exchange(it->second, -1);
      }
    }
  }
  for (const auto& [key, elements] : owners) {
    for (const auto& [element, owner] : elements) {
      if (owner >= 0) return "dropped " + key;
    }
  }
  return empty.empty() ? "" : "empty box dropped";
}

// Pieces of one task: whole arrays, slices of arrays whose other slices are
// elsewhere, scalars, strings, and boxes without elements.
inline Pieces RandomPieces(Random& random) {
  const DType dtypes[] = {DType::kU8, DType::kF16, DType::kF32, DType::kC128};
  Pieces pieces;
  for (int64_t key = Uniform(0, 4, random); key >= 0; --key) {
    const std::string name = "k" + std::to_string(key);
    if (Uniform(0, 7, random) == 0) {
      pieces.push_back(TextPiece(name, Uniform(0, 60, random)));
      continue;
    }
    Shape shape;
    for (int64_t ndim = Uniform(0, 3, random); ndim > 0; --ndim) {
      shape.push_back(Uniform(0, 9, random) == 0 ? 0 : Uniform(1, 6, random));
    }
    const DType dtype = dtypes[Uniform(0, 3, random)];
    const int depth = static_cast<int>(Uniform(0, 2, random));
    for (Box& box : RandomTiling(WholeBox(shape), depth, random)) {
      if (depth > 0 && Uniform(0, 3, random) == 0) continue;  // elsewhere
      pieces.push_back(PieceOfArray(name, dtype, shape, std::move(box)));
    }
  }
  return pieces;
}

}  // namespace belay

#endif  // BELAY_TESTS_POLICY_TESTING_H_
