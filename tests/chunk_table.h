// Changes where a file of HDF5 says that its chunks lie, with right checksums.

#ifndef BELAY_TESTS_CHUNK_TABLE_H_
#define BELAY_TESTS_CHUNK_TABLE_H_

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "file_bytes.h"
#include "format/file_metadata.h"

namespace belay::testing {

// A chunk that has passed filters.
struct ChunkEntry {
  int64_t address = 0;
  int64_t bytes = 0;
  int64_t left_out = 0;
};

inline int64_t NumberAt(std::string_view bytes, size_t at, int width) {
  uint64_t number = 0;
  for (int i = width; i-- > 0;) {
    number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return static_cast<int64_t>(number);
}

// Calls `change` with the chunks of each table in the file `path`, in the order
// of the tables, and writes back what it leaves. For tables of one page.
inline void ChangeChunkTables(
    const std::string& path,
    const std::function<void(std::vector<ChunkEntry>&)>& change) {
  std::string file = FileBytes(path);
  constexpr int kAddress = 8, kMask = 4, kHead = 4 + 1 + 1 + 8;
  int tables = 0;
  for (size_t at = file.find("FAHD"); at != file.npos;
       at = file.find("FAHD", at + 1)) {
    const auto entry_bytes = static_cast<int>(NumberAt(file, at + 6, 1));
    const int64_t count = NumberAt(file, at + 8, 8);
    const auto block = static_cast<size_t>(NumberAt(file, at + 16, 8));
    const int size_bytes = entry_bytes - kAddress - kMask;
    std::vector<ChunkEntry> entries;
    for (int64_t i = 0; i < count; ++i) {
      const size_t entry = block + kHead + i * entry_bytes;
      entries.push_back({NumberAt(file, entry, kAddress),
                         NumberAt(file, entry + kAddress, size_bytes),
                         NumberAt(file, entry + kAddress + size_bytes, kMask)});
    }
    change(entries);
    std::string table = file.substr(block, kHead);
    for (const ChunkEntry& entry : entries) {
      h5::PutAddress(table, entry.address);
      h5::PutNumber(table, entry.bytes, size_bytes);
      h5::PutNumber(table, entry.left_out, kMask);
    }
    h5::PutChecksum(table, 0);
    file.replace(block, table.size(), table);
    ++tables;
  }
  if (tables == 0) throw std::runtime_error(path + " has no table of chunks");
  PutFile(path, file);
}

// Every chunk of the file becomes the first one.
inline void ShareFirstChunk(const std::string& path) {
  ChunkEntry first;
  ChangeChunkTables(path, [&](std::vector<ChunkEntry>& entries) {
    if (first.bytes == 0) first = entries[0];
    for (ChunkEntry& entry : entries) entry = first;
  });
}

}  // namespace belay::testing

#endif  // BELAY_TESTS_CHUNK_TABLE_H_
