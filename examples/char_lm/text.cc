#include "text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <system_error>

namespace char_lm {
namespace {

namespace fs = std::filesystem;

// Directory order differs between machines; names do not.
std::vector<fs::path> FilesOf(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (!entry.is_symlink(error) && entry.is_regular_file(error)) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

uint64_t RotateLeft(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

}  // namespace

belay::StatusOr<Text> ReadText(const std::string& path) {
  std::string all;
  for (const fs::path& file : FilesOf(path)) {
    std::ifstream stream(file, std::ios::binary);
    all.append(std::istreambuf_iterator<char>(stream), {});
  }
  if (all.empty()) {
    return absl::NotFoundError("read text \"" + path + "\": nothing to read");
  }
  const std::set<char> characters(all.begin(), all.end());
  Text text;
  text.vocabulary.assign(characters.begin(), characters.end());
  std::array<int32_t, 256> token_of = {};
  for (size_t i = 0; i < text.vocabulary.size(); ++i) {
    token_of[static_cast<uint8_t>(text.vocabulary[i])] =
        static_cast<int32_t>(i);
  }
  text.tokens.reserve(all.size());
  for (const char c : all) {
    text.tokens.push_back(token_of[static_cast<uint8_t>(c)]);
  }
  return text;
}

uint64_t MixBits(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

RandomState SeedRandom(uint64_t seed) {
  RandomState state;
  for (uint64_t& word : state) word = seed = MixBits(seed);
  return state;
}

uint64_t NextRandom(RandomState& s) {
  const uint64_t result = RotateLeft(s[1] * 5, 7) * 9;
  const uint64_t t = s[1] << 17;
  s[2] ^= s[0];
  s[3] ^= s[1];
  s[1] ^= s[2];
  s[0] ^= s[3];
  s[2] ^= t;
  s[3] = RotateLeft(s[3], 45);
  return result;
}

Batch NextBatch(const Text& text, int64_t context, int64_t size,
                DataCursor& cursor) {
  Batch batch;
  batch.size = size;
  batch.inputs.resize(context * size);
  batch.targets.resize(size);
  const int64_t vocabulary = static_cast<int64_t>(text.vocabulary.size());
  const int64_t windows = static_cast<int64_t>(text.tokens.size()) - context;
  for (int64_t b = 0; b < size; ++b) {
    // A large prime stride visits windows from all over the text in turn.
    const int64_t start = cursor.position++ * 1'000'003 % windows;
    for (int64_t c = 0; c < context; ++c) {
      const uint64_t bits = NextRandom(cursor.random);
      const bool noise = bits % 32 == 0;
      batch.inputs[c * size + b] =
          noise ? static_cast<int32_t>((bits >> 32) % vocabulary)
                : text.tokens[start + c];
    }
    batch.targets[b] = text.tokens[start + context];
  }
  return batch;
}

}  // namespace char_lm
