// Pieces for tests of sharding policies, and groupings as text.

#ifndef BELAY_TESTS_POLICY_TESTING_H_
#define BELAY_TESTS_POLICY_TESTING_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "belay/sharding_policy.h"

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

}  // namespace belay

#endif  // BELAY_TESTS_POLICY_TESTING_H_
