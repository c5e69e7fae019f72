// Numbers, checksums and addresses as HDF5 stores them.
//
// What the HDF5 File Format Specification (version 3.0) calls offsets and
// lengths has 8 bytes here, little-endian like all numbers of a file.

#ifndef BELAY_HDF5_FORMAT_METADATA_BYTES_H_
#define BELAY_HDF5_FORMAT_METADATA_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace belay::h5 {

// The address of something that is not there.
inline constexpr int64_t kNoAddress = -1;

// Of the checksum behind metadata.
inline constexpr int64_t kChecksumBytes = 4;

// Appends the lowest `width` bytes of a number. Local.
void PutNumber(std::string& out, int64_t value, int width);

// Appends an address or a length, of 8 bytes. Local.
inline void PutAddress(std::string& out, int64_t address) {
  PutNumber(out, address, 8);
}

// Returns the checksum that HDF5 puts behind metadata, and by which it sorts
// names: Jenkins' lookup3 with the start value 0. Local.
uint32_t MetadataChecksum(std::string_view bytes);

// Appends the checksum of what begins at `begin`. Local.
void PutChecksum(std::string& out, size_t begin);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FORMAT_METADATA_BYTES_H_
