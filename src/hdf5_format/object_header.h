// Object headers: what a file says about a dataset, as bytes.
//
// Encoded as HDF5 1.10 writes them (File Format Specification, version 3.0:
// headers of version 2, without times). group_links.h has the groups.

#ifndef BELAY_HDF5_FORMAT_OBJECT_HEADER_H_
#define BELAY_HDF5_FORMAT_OBJECT_HEADER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"
#include "hdf5_format/dataset_spec.h"
#include "hdf5_format/virtual_mappings.h"

namespace belay::h5 {

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

// Appends a header of these messages. Local.
void PutObjectHeader(std::string& out,
                     const std::vector<HeaderMessage>& messages);

// Returns the attribute that names the dtype, for NeedsDTypeAttribute. Local.
StatusOr<std::string> EncodedDTypeAttribute(DType dtype);

// Appends the header of a virtual dataset whose mappings lie at `place`. Local.
void PutVirtualHeader(std::string& out, const DatasetSpec& spec,
                      const std::string& type, const std::string& attribute,
                      const GlobalHeapPlace& place);

// Appends the header of a dataset whose bytes begin at `offset`; `type` and
// `attribute` are encoded ones, and an empty attribute is none. Local.
void PutDatasetHeader(std::string& out, const DatasetSpec& spec,
                      const std::string& type, const std::string& attribute,
                      int64_t offset);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FORMAT_OBJECT_HEADER_H_
