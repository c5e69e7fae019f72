#include "hdf5/filter.h"

#include <string>
#include <string_view>

#include "base/status_macros.h"
#include "base/text.h"
#include "hdf5/error.h"

namespace belay::h5 {
namespace {

// Checks that HDF5 has these filters, and `need` of what they can do. Local.
Status CheckCan(const std::vector<Filter>& filters, unsigned need,
                std::string_view otherwise) {
  InitLibrary();
  for (const Filter& filter : filters) {
    const std::string name = Cat("filter ", filter.id);
    BELAY_ASSIGN_OR_RETURN(
        const int64_t is_there,
        Number(H5Zfilter_avail(filter.id), "look for", name));
    if (is_there == 0) {
      return absl::FailedPreconditionError(
          Cat("HDF5 does not have ", name,
              ": install its plugin, and set HDF5_PLUGIN_PATH to where it is "
              "(H5Zregister in the program is not enough)"));
    }
    unsigned can = 0;
    BELAY_RETURN_IF_ERROR(
        Check(H5Zget_filter_info(filter.id, &can), "describe", name));
    if ((can & need) == 0) {
      return absl::FailedPreconditionError(
          Cat("HDF5 has ", name, " only for ", otherwise));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckCanWrite(const std::vector<Filter>& filters) {
  return CheckCan(filters, H5Z_FILTER_CONFIG_ENCODE_ENABLED, "reading");
}

Status CheckCanRead(const std::vector<Filter>& filters) {
  return CheckCan(filters, H5Z_FILTER_CONFIG_DECODE_ENABLED, "writing");
}

}  // namespace belay::h5
