// All metadata of a file, as bytes, made without HDF5.
//
// HDF5 takes about 40 us for a dataset in a group of its own, which all ranks
// wait for; putting the same together from the File Format Specification takes
// about 5.

#ifndef BELAY_FORMAT_FILE_METADATA_H_
#define BELAY_FORMAT_FILE_METADATA_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
inline void PutChecksum(std::string& out, size_t begin) {
  PutNumber(out, MetadataChecksum(std::string_view(out).substr(begin)), 4);
}

// The place of a text in a global heap.
struct GlobalHeapPlace {
  int64_t address;  // of the collection
  int64_t number;   // in it, from 1 on
};

// Object headers: what a file says about a dataset, as bytes.
//
// Encoded as HDF5 1.10 writes them (File Format Specification, version 3.0:
// headers of version 2, without times).

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

// The most bytes of one link in a heap.
inline constexpr int64_t kMaxLinkBytes = 65535;

// Links of a group. HDF5 numbers the links below a node in 16 bits.
inline constexpr int64_t kMaxLinksOfLeaf = 65000;

// The bytes that say where in the heap a link lies.
inline constexpr int kHeapIdBytes = 7;

// Groups: the names in them and what they lead to, as bytes.
//
// Up to 8 links lie in the header of their group. More lie in a heap, with a
// B-tree that finds them by the checksums of their names.

// More links than this are kept in an index.
inline constexpr unsigned kMaxCompactLinks = 8;

// A name in a group, and what it leads to: an object of this file by the
// address of its header, or one of another file.
struct Link {
  std::string_view name;
  int64_t address = 0;
  std::string_view file = {};  // not empty: `target` is an object of it
  std::string_view target = {};
};

// Returns the bytes that a link takes.
int64_t LinkBytes(const Link& link);

// Appends the header of a group, with all that belongs to it. `start` is the
// address of the first byte of `out`. The links have different names, take at
// most kMaxLinkBytes each, and fit a heap. Returns the address of the header.
int64_t PutGroup(std::string& out, int64_t start,
                 const std::vector<Link>& links);

// The objects of a file, without the groups above them. Borrowed.
struct FileObjects {
  std::span<const DatasetSpec> datasets = {};
  std::span<const ExternalLink> links = {};
};

// The first bytes of a file, up to its data, and where everything lies.
struct FileMetadata {
  std::string bytes;
  std::vector<int64_t> offsets;  // by dataset; -1 for those without bytes
  int64_t file_bytes = 0;
};

// Returns the metadata of a file, in which the bytes of datasets follow each
// other in their order. Returns nothing for what only HDF5 can make, or
// refuses: filters, two objects with one name, a path that is no sequence of
// names, a link of more than 65535 bytes, a group with links of 2 GiB.
// Errors: Internal.
StatusOr<std::optional<FileMetadata>> EncodeFileMetadata(
    const FileObjects& objects);

}  // namespace belay::h5

#endif  // BELAY_FORMAT_FILE_METADATA_H_
