// The name of this machine.

#ifndef BELAY_BASE_PROCESS_HOST_NAME_H_
#define BELAY_BASE_PROCESS_HOST_NAME_H_

#include <string>

namespace belay {

// Returns the name that the system gives this host; "" if it gives none. Local.
std::string HostName();

}  // namespace belay

#endif  // BELAY_BASE_PROCESS_HOST_NAME_H_
