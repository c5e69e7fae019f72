#include "base/process/host_name.h"

#include <limits.h>
#include <unistd.h>

namespace belay {

std::string HostName() {
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return host;
}

}  // namespace belay
