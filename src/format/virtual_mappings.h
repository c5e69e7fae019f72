// Which parts of other files a virtual dataset shows, as bytes.

#ifndef BELAY_FORMAT_VIRTUAL_MAPPINGS_H_
#define BELAY_FORMAT_VIRTUAL_MAPPINGS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"
#include "format/element_type.h"

namespace belay::h5 {

// Returns what a virtual dataset says of its pieces.
// Errors: Internal - a box has parts of structs.
StatusOr<std::string> EncodedMappings(const VirtualDataset& dataset);

// Where a text lies among those that HDF5 keeps apart from headers.
struct GlobalHeapPlace {
  int64_t address;  // of the collection
  int64_t number;   // in it, from 1 on
};

// Collects texts, each of at least one byte, into a few collections.
class GlobalHeapWriter {
 public:
  // `start` is the address of the first byte of `out`.
  GlobalHeapWriter(std::string& out, int64_t start)
      : out_(out), start_(start) {}

  // Appends a text to `out`. Returns its place. Nothing else is appended to
  // `out` until End.
  GlobalHeapPlace Add(std::string_view text);

  // Ends the last collection. Add may be called again.
  void End();

 private:
  std::string& out_;
  int64_t start_;
  size_t begin_ = 0;  // of the collection
  int64_t count_ = 0;
};

}  // namespace belay::h5

#endif  // BELAY_FORMAT_VIRTUAL_MAPPINGS_H_
