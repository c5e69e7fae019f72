// The metadata of a step as JSON, with a checksum.

#ifndef BELAY_STORAGE_METADATA_FILE_H_
#define BELAY_STORAGE_METADATA_FILE_H_

#include <string_view>

#include "belay/manager/metadata.h"

namespace belay {

inline constexpr size_t kMostMetadataBytes = size_t{8} << 20;

// Errors: InvalidArgument - not UTF-8, or too long; names the entry.
StatusOr<std::string> MetadataText(const Metadata& metadata);

// `operation` begins the message of an error.
// Errors: DataLoss - not written by MetadataText, or damaged; Unimplemented -
//   written by a newer belay.
StatusOr<Metadata> ParseMetadata(std::string_view text,
                                 std::string_view operation);

// The metadata of a step, as a file beside its data.

// Writes the text of MetadataText into a step that is in progress. Rank 0 only.
// Errors: those of PosixFile.
Status WriteMetadataFile(const std::string& directory, std::string_view text,
                         bool durable);

// Reads the metadata of a step; empty if there is no file.
// Errors: those of PosixFile and ParseMetadata; DataLoss - too long a file.
StatusOr<Metadata> ReadMetadataFile(const std::string& directory);

}  // namespace belay

#endif  // BELAY_STORAGE_METADATA_FILE_H_
