// The text that the model learns, and the windows of it that form a batch.
//
// This code does not depend on ranks: every rank reads the same text and draws
// the same batches.

#ifndef CHAR_LM_TEXT_H_
#define CHAR_LM_TEXT_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "belay/status.h"

namespace char_lm {

// A text as numbers: tokens[i] is the index of character i in the vocabulary.
struct Text {
  std::string vocabulary;  // every character that occurs, ascending
  std::vector<int32_t> tokens;
};

// Reads one file, or all regular files of a directory in the order of their
// names. Links are ignored. Local.
// Errors: NotFound - no such file, or nothing to read in it.
belay::StatusOr<Text> ReadText(const std::string& path);

// The generator xoshiro256** by Blackman and Vigna. Its whole state is four
// words, which a checkpoint can hold.
using RandomState = std::array<uint64_t, 4>;

// Returns a state that depends only on the seed. Local.
RandomState SeedRandom(uint64_t seed);

// Returns the next 64 random bits. Local.
uint64_t NextRandom(RandomState& state);

// Returns 64 well-mixed bits that depend only on `x`. Local.
uint64_t MixBits(uint64_t x);

// Returns a number in [0, 1) with 24 random bits. Local.
inline float UnitFloat(uint64_t bits) {
  return static_cast<float>(bits >> 40) * 0x1p-24f;
}

// The position of the training in the text. The checkpoint stores all members.
struct DataCursor {
  int64_t position = 0;  // windows read so far
  RandomState random = {};
};

// Examples side by side: one window of the text and the character after it.
struct Batch {
  int64_t size = 0;
  std::vector<int32_t> inputs;   // [context][size]
  std::vector<int32_t> targets;  // [size]
};

// Reads the next `size` windows of `context` characters and moves the cursor.
// One character in 32 is replaced by a random one, so that the model does not
// rely on any single one. Local.
Batch NextBatch(const Text& text, int64_t context, int64_t size,
                DataCursor& cursor);

}  // namespace char_lm

#endif  // CHAR_LM_TEXT_H_
