// Encodes all metadata of a file without HDF5.
//
// HDF5 takes about 40 us for a dataset in its own group, and all ranks wait for
// it. Making the same bytes from the File Format Specification takes about 5
// us.

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
// All numbers of a file are little-endian. Offsets and lengths have 8 bytes
// here (HDF5 File Format Specification, version 3.0).

// The address of a missing object.
inline constexpr int64_t kNoAddress = -1;

inline constexpr int64_t kChecksumBytes = 4;

// Appends the lowest `width` bytes of a number.
void PutNumber(std::string& out, int64_t value, int width);

// Appends an address or a length, of 8 bytes.
inline void PutAddress(std::string& out, int64_t address) {
  PutNumber(out, address, 8);
}

// Returns the checksum that HDF5 appends to metadata and by which it sorts
// names: Jenkins' lookup3 with the initial value 0.
uint32_t MetadataChecksum(std::string_view bytes);

// Appends the checksum of the bytes of `out` from `begin` on.
inline void PutChecksum(std::string& out, size_t begin) {
  PutNumber(out, MetadataChecksum(std::string_view(out).substr(begin)), 4);
}

// The place of an object in a global heap.
struct GlobalHeapPlace {
  int64_t address;  // of the collection
  int64_t number;   // in the collection, from 1 on
};

// Object headers: the description of a dataset, as bytes.
//
// Encoded as HDF5 1.10 writes them (File Format Specification, version 3.0:
// headers of version 2, without times).

// A header message: its kind and its bytes.
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

// Appends a header with these messages.
void PutObjectHeader(std::string& out,
                     const std::vector<HeaderMessage>& messages);

// Returns the attribute message with the dtype's name, for NeedsDTypeAttribute.
StatusOr<std::string> EncodedDTypeAttribute(DType dtype);

// Appends the header of a dataset. Its bytes begin at `offset`; if it is
// virtual, its mappings are at `place`. `type` and `attribute` are encoded. If
// `attribute` is empty, the dataset has none.
void PutDatasetHeader(std::string& out, const DatasetSpec& spec,
                      const std::string& type, const std::string& attribute,
                      int64_t offset, const GlobalHeapPlace& place = {});

// The most bytes of one link in a heap.
inline constexpr int64_t kMaxLinkBytes = 65535;

// The most links in a single leaf: HDF5 counts the links of a node in 16 bits.
inline constexpr int64_t kMaxLinksOfLeaf = 65000;

// Bytes of a heap ID, which gives a link's place in the heap.
inline constexpr int kHeapIdBytes = 7;

// Groups: the names in them and what these refer to, as bytes.
//
// Up to 8 links are stored in the header of their group. More links are stored
// in a heap, and a B-tree finds them by the checksums of their names.

// A group with more links than this has an index.
inline constexpr unsigned kMaxCompactLinks = 8;

// A name in a group, and its target: an object of this file, by the address of
// its header, or an object of another file.
struct Link {
  std::string_view name;
  int64_t address = 0;
  std::string_view file = {};  // if not empty, the file that has `target`
  std::string_view target = {};
};

// Returns the encoded size of a link in bytes.
int64_t LinkBytes(const Link& link);

// Appends a group: its heap and index, if it has them, then its header. Returns
// the address of the header. `start` is the address of the first byte of `out`.
// The links must have different names, take at most kMaxLinkBytes each, and fit
// a heap.
int64_t PutGroup(std::string& out, int64_t start,
                 const std::vector<Link>& links);

// The objects of a file, without the groups that contain them. Borrowed.
struct FileObjects {
  std::span<const DatasetSpec> datasets = {};
  std::span<const ExternalLink> links = {};
};

// The first bytes of a file, up to its data, and the places of the data.
struct FileMetadata {
  std::string bytes;
  std::vector<int64_t> offsets;  // per dataset; -1 if it has no bytes
  int64_t file_bytes = 0;
};

// Returns the metadata of a file in which the bytes of the datasets follow each
// other in order. Returns nothing for what only HDF5 can make, or rejects:
// filters, two objects with the same name, a path with an empty part or ".", a
// link of more than 65535 bytes, a group with 2 GiB of links.
// Errors: Internal.
StatusOr<std::optional<FileMetadata>> EncodeFileMetadata(
    const FileObjects& objects);

}  // namespace belay::h5

#endif  // BELAY_FORMAT_FILE_METADATA_H_
