// What a program writes beside the values of a step: the commit of its source,
// its command line, its configuration.

#ifndef BELAY_METADATA_H_
#define BELAY_METADATA_H_

#include <map>
#include <string>

#include "belay/status.h"

namespace belay {

// Texts in UTF-8 by name, at most 1 MiB with their names. A step has them as
// metadata.json, which `belay ls` shows.
using Metadata = std::map<std::string, std::string>;

// Reads what SaveOptions::metadata has left in a step; empty if it was empty.
// Local. `path` is a committed step or a directory of steps, whose newest
// counts.
// Errors: NotFound - no such step; DataLoss - the file is damaged; says where.
StatusOr<Metadata> ReadMetadata(const std::string& path);

}  // namespace belay

#endif  // BELAY_METADATA_H_
