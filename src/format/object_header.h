// Object headers as bytes.

#ifndef BELAY_FORMAT_OBJECT_HEADER_H_
#define BELAY_FORMAT_OBJECT_HEADER_H_

#include <cstddef>

#include "format/element_type.h"

namespace belay::h5 {

// Numbers, checksums and addresses as HDF5 stores them.
//
// Offsets and lengths (HDF5 File Format Specification, version 3.0) have 8
// bytes here, little-endian like all numbers of a file.

// The address of a missing object.
inline constexpr int64_t kNoAddress = -1;

inline constexpr int64_t kChecksumBytes = 4;

// Appends the lowest `width` bytes of a number.
void PutNumber(std::string& out, int64_t value, int width);

// Appends an address or a length, of 8 bytes.
inline void PutAddress(std::string& out, int64_t address) {
  PutNumber(out, address, 8);
}

// Returns the checksum that HDF5 puts behind metadata, and by which it sorts
// names: Jenkins' lookup3 with the start value 0.
uint32_t MetadataChecksum(std::string_view bytes);

// Appends the checksum of what begins at `begin`.
void PutChecksum(std::string& out, size_t begin);

// Returns what a virtual dataset says of its pieces.
// Errors: Internal - a box has parts of structs.
StatusOr<std::string> EncodedMappings(const DatasetSpec& dataset);

// The place of a text in a global heap.
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

// Object headers: what a file says about a dataset, as bytes.
//
// Encoded as HDF5 1.10 writes them (File Format Specification, version 3.0:
// headers of version 2, without times). group_links.h has the groups.

// A message of a header: what kind it is of, and its bytes.
struct HeaderMessage {
  enum class Kind : uint8_t {
    kDataspace = 0x01,
    kLinkInfo = 0x02,
    kDatatype = 0x03,
    kFillValue = 0x05,
    kLink = 0x06,
    kLayout = 0x08,
    kGroupInfo = 0x0a,
    kAttribute = 0x0c,
    kAttributeInfo = 0x15,
  };
  Kind kind;
  std::string bytes;
};

// Appends a header of these messages.
void PutObjectHeader(std::string& out,
                     const std::vector<HeaderMessage>& messages);

// Returns the attribute that names the dtype, for NeedsDTypeAttribute.
StatusOr<std::string> EncodedDTypeAttribute(DType dtype);

// Appends the header of a dataset whose bytes begin at `offset` or, if it is
// virtual, whose mappings lie at `place`; `type` and `attribute` are encoded
// ones, and an empty attribute is none.
void PutDatasetHeader(std::string& out, const DatasetSpec& spec,
                      const std::string& type, const std::string& attribute,
                      int64_t offset, const GlobalHeapPlace& place = {});

}  // namespace belay::h5

#endif  // BELAY_FORMAT_OBJECT_HEADER_H_
