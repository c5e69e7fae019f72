// How a program ends on an error: all ranks of it, and with one message.

#ifndef BELAY_MPI_END_ON_ERROR_H_
#define BELAY_MPI_END_ON_ERROR_H_

#include <string>

#include "belay/status.h"

namespace belay {

// Prints `where` and the error, and ends all ranks of the job with exit code 1:
// with MPI_Abort if MPI is initialised, else with std::exit. An error that all
// ranks got is printed once. Local.
[[noreturn]] void EndOnError(const std::string& where, const Status& error);

}  // namespace belay

#endif  // BELAY_MPI_END_ON_ERROR_H_
