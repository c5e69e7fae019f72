// Metadata that a program stores with the values of a step, such as the commit
// of its source, its command line or its configuration.

#ifndef BELAY_MANAGER_METADATA_H_
#define BELAY_MANAGER_METADATA_H_

#include <map>
#include <string>

#include "belay/status.h"

namespace belay {

// Names and UTF-8 strings, at most 1 MiB in total. A step stores them as
// metadata.json, which `belay ls` shows.
using Metadata = std::map<std::string, std::string>;

// Reads the metadata that SaveOptions::metadata stored in a step; empty if
// there is none. Local. `path` is a committed step, or a directory of steps
// whose newest step is read.
// Errors: NotFound - no such step; DataLoss - the file is damaged; says where.
StatusOr<Metadata> ReadMetadata(const std::string& path);

}  // namespace belay

#endif  // BELAY_MANAGER_METADATA_H_
