// What a file holds.

#ifndef BELAY_TESTS_FILE_BYTES_H_
#define BELAY_TESTS_FILE_BYTES_H_

#include <fstream>
#include <string>

namespace belay::testing {

// Returns all bytes of a file, none if it cannot be read.
inline std::string FileBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  std::string bytes(file.tellg(), '\0');
  file.seekg(0).read(bytes.data(), std::ssize(bytes));
  return bytes;
}

inline void PutFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace belay::testing

#endif  // BELAY_TESTS_FILE_BYTES_H_
