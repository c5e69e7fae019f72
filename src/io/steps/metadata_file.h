// The metadata of a step, as a file beside its data.

#ifndef BELAY_IO_STEPS_METADATA_FILE_H_
#define BELAY_IO_STEPS_METADATA_FILE_H_

#include <string>
#include <string_view>

#include "belay/manager/metadata.h"
#include "belay/status.h"

namespace belay {

// Writes the text of MetadataText into a step that is in progress. Rank 0 only.
// Errors: those of PosixFile.
Status WriteMetadataFile(const std::string& directory, std::string_view text,
                         bool durable);

// Reads the metadata of a step; empty if there is no file. Local.
// Errors: those of PosixFile and ParseMetadata; DataLoss - too long a file.
StatusOr<Metadata> ReadMetadataFile(const std::string& directory);

}  // namespace belay

#endif  // BELAY_IO_STEPS_METADATA_FILE_H_
