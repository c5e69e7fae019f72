// The metadata of a step as JSON, with a checksum.

#ifndef BELAY_STORAGE_METADATA_FILE_H_
#define BELAY_STORAGE_METADATA_FILE_H_

#include <string_view>

#include "belay/manager/metadata.h"

namespace belay {

inline constexpr size_t kMaxMetadataFileBytes = size_t{8} << 20;

// Errors: InvalidArgument - not UTF-8, or too long; names the entry.
StatusOr<std::string> MetadataText(const Metadata& metadata);

// `operation` begins the error message.
// Errors: DataLoss - not written by MetadataText, or damaged; Unimplemented -
//   written by a newer belay.
StatusOr<Metadata> ParseMetadata(std::string_view text,
                                 std::string_view operation);

// Reads the metadata of a step; empty if it has no metadata file.
// Errors: those of PosixFile and ParseMetadata; DataLoss - too long a file.
StatusOr<Metadata> ReadMetadataFile(const std::string& directory);

}  // namespace belay

#endif  // BELAY_STORAGE_METADATA_FILE_H_
