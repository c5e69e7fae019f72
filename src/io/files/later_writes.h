// Bytes that are known, but need not be written yet.

#ifndef BELAY_IO_FILES_LATER_WRITES_H_
#define BELAY_IO_FILES_LATER_WRITES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace belay {

// What one file lacks, which is there already.
struct LaterWrite {
  struct Region {
    int64_t offset = 0;
    std::string_view bytes;
  };

  std::string path;
  std::vector<Region> regions;
  std::shared_ptr<const void> owner;  // of the bytes
};

using LaterWrites = std::vector<LaterWrite>;

}  // namespace belay

#endif  // BELAY_IO_FILES_LATER_WRITES_H_
