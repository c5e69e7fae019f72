// The metadata of a step as JSON, with a checksum.

#ifndef BELAY_MANAGER_RULES_METADATA_TEXT_H_
#define BELAY_MANAGER_RULES_METADATA_TEXT_H_

#include <string>
#include <string_view>

#include "belay/manager/metadata.h"
#include "belay/status.h"

namespace belay {

// What a file may have at most.
inline constexpr size_t kMostMetadataBytes = size_t{8} << 20;

// Errors: InvalidArgument - not UTF-8, or too long; names the entry.
StatusOr<std::string> MetadataText(const Metadata& metadata);

// `operation` begins the message of an error.
// Errors: DataLoss - not written by MetadataText, or damaged; Unimplemented -
//   written by a newer belay.
StatusOr<Metadata> ParseMetadata(std::string_view text,
                                 std::string_view operation);

}  // namespace belay

#endif  // BELAY_MANAGER_RULES_METADATA_TEXT_H_
