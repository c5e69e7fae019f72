// Object headers and the superblock, taken apart.

#ifndef BELAY_FORMAT_READ_HEADER_H_
#define BELAY_FORMAT_READ_HEADER_H_

#include <vector>

#include "format/bounded_file.h"

namespace belay::h5 {

// A message as it stands in a header.
struct StoredMessage {
  uint8_t kind = 0;  // as HeaderMessage::Kind, or any other number
  std::string bytes;
};

// Reads metadata that begins with `signature`. Its checksum is at
// `checksum_at`, where it counts as zero in itself, or at the end (-1). Returns
// it without a checksum at the end; the file owns it.
// Errors: DataLoss - another signature, or another checksum; those of
//   BoundedFile.
StatusOr<std::string_view> ReadChecked(BoundedFile& file, int64_t offset,
                                       int64_t bytes,
                                       std::string_view signature,
                                       std::string_view what,
                                       int64_t checksum_at = -1);

// Returns the address of the root group's header.
// Errors: DataLoss - not HDF5, damaged, or longer than it is;
//   Unimplemented - a superblock that belay does not write; those of
//   BoundedFile.
StatusOr<int64_t> ReadSuperblock(BoundedFile& file);

// Returns all messages of an object, those of continuation blocks, too.
// Errors: DataLoss - damaged; Unimplemented - a header or a message that belay
//   does not write, which it names; those of BoundedFile.
StatusOr<std::vector<StoredMessage>> ReadObjectHeader(BoundedFile& file,
                                                      int64_t address);

// Returns the only message of a kind, or null if there is none.
const StoredMessage* FindMessage(const std::vector<StoredMessage>& messages,
                                 uint8_t kind);

}  // namespace belay::h5

#endif  // BELAY_FORMAT_READ_HEADER_H_
