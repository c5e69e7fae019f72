#include "h5/filter.h"

#include <string>

#include "base/status_macros.h"
#include "base/text.h"
#include "h5/error.h"

namespace belay::h5 {

Status CheckCanWrite(const std::vector<Filter>& filters) {
  InitLibrary();
  for (const Filter& filter : filters) {
    const std::string name = Cat("filter ", filter.id);
    BELAY_ASSIGN_OR_RETURN(
        const int64_t is_there,
        Number(H5Zfilter_avail(filter.id), "look for", name));
    if (is_there == 0) {
      return absl::FailedPreconditionError(
          Cat("HDF5 does not have ", name,
              ": install its plugin, and set HDF5_PLUGIN_PATH to where it is"));
    }
    unsigned can = 0;
    BELAY_RETURN_IF_ERROR(
        Check(H5Zget_filter_info(filter.id, &can), "describe", name));
    if ((can & H5Z_FILTER_CONFIG_ENCODE_ENABLED) == 0) {
      return absl::FailedPreconditionError(
          Cat("HDF5 has ", name, " only for reading"));
    }
  }
  return absl::OkStatus();
}

}  // namespace belay::h5
