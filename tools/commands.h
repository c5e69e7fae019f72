// The sub-commands of `belay`. Each prints to stdout and returns an exit code:
// 0 all is well, 1 damage was found, 2 the command could not be carried out.

#ifndef BELAY_TOOLS_COMMANDS_H_
#define BELAY_TOOLS_COMMANDS_H_

#include <cstdint>
#include <string>

#include "belay/status.h"

namespace belay::tools {

// Prints a table of the arrays of a checkpoint or, with `shards`, of what each
// data file holds.
int List(const std::string& path, bool shards);

// Reads every byte of a checkpoint and compares checksums.
int Verify(const std::string& path, bool quiet);

// Prints an error to stderr and returns 2.
int Fail(const Status& status);

// "1.5 MiB".
std::string BytesText(int64_t bytes);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_COMMANDS_H_
