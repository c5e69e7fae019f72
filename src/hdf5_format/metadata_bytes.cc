#include "hdf5_format/metadata_bytes.h"

#include <array>
#include <bit>
#include <cstring>

namespace belay::h5 {
namespace {

using Words = std::array<uint32_t, 3>;

static_assert(std::endian::native == std::endian::little);

void AddTwelveBytes(Words& words, const char* bytes) {
  Words read;
  std::memcpy(read.data(), bytes, sizeof(read));
  for (size_t i = 0; i < words.size(); ++i) words[i] += read[i];
}

void Mix(Words& words) {
  auto& [a, b, c] = words;
  a = (a - c) ^ std::rotl(c, 4), c += b;
  b = (b - a) ^ std::rotl(a, 6), a += c;
  c = (c - b) ^ std::rotl(b, 8), b += a;
  a = (a - c) ^ std::rotl(c, 16), c += b;
  b = (b - a) ^ std::rotl(a, 19), a += c;
  c = (c - b) ^ std::rotl(b, 4), b += a;
}

void MixAtEnd(Words& words) {
  auto& [a, b, c] = words;
  c = (c ^ b) - std::rotl(b, 14);
  a = (a ^ c) - std::rotl(c, 11);
  b = (b ^ a) - std::rotl(a, 25);
  c = (c ^ b) - std::rotl(b, 16);
  a = (a ^ c) - std::rotl(c, 4);
  b = (b ^ a) - std::rotl(a, 14);
  c = (c ^ b) - std::rotl(b, 24);
}

}  // namespace

void PutNumber(std::string& out, int64_t value, int width) {
  out.append(reinterpret_cast<const char*>(&value), width);
}

uint32_t MetadataChecksum(std::string_view bytes) {
  constexpr size_t kStep = sizeof(Words);
  Words words;
  words.fill(0xdeadbeef + static_cast<uint32_t>(bytes.size()));
  if (bytes.empty()) return words[2];
  for (; bytes.size() > kStep; bytes.remove_prefix(kStep)) {
    AddTwelveBytes(words, bytes.data());
    Mix(words);
  }
  char last[kStep] = {};
  bytes.copy(last, kStep);
  AddTwelveBytes(words, last);
  MixAtEnd(words);
  return words[2];
}

void PutChecksum(std::string& out, size_t begin) {
  PutNumber(out, MetadataChecksum(std::string_view(out).substr(begin)), 4);
}

}  // namespace belay::h5
