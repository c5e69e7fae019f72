// What a program stores beside the values of a step: the commit of its source,
// its command line, its configuration.

#ifndef BELAY_MANAGER_METADATA_H_
#define BELAY_MANAGER_METADATA_H_

#include <map>
#include <string>

#include "belay/status.h"

namespace belay {

// UTF-8 texts by name, at most 1 MiB including their names. A step stores them
// as metadata.json, which `belay ls` shows.
using Metadata = std::map<std::string, std::string>;

// Reads what SaveOptions::metadata stored in a step; empty if nothing. Local.
// `path` is a committed step, or a directory of steps whose newest step is
// read.
// Errors: NotFound - no such step; DataLoss - the file is damaged; says where.
StatusOr<Metadata> ReadMetadata(const std::string& path);

}  // namespace belay

#endif  // BELAY_MANAGER_METADATA_H_
