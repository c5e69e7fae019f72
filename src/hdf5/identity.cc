#include "hdf5/identity.h"

#include "base/status_macros.h"
#include "hdf5/error.h"

namespace belay::h5 {
namespace {

#if H5_VERSION_GE(1, 12, 0)
using ObjectInfo = H5O_info1_t;
#else
using ObjectInfo = H5O_info_t;
#endif

}  // namespace

StatusOr<Identity> IdentityOf(const Handle& object) {
  ObjectInfo info;
  BELAY_RETURN_IF_ERROR(Check(H5Oget_info2(object.get(), &info, H5O_INFO_BASIC),
                              "get place of", object.name()));
  return Identity(info.fileno, info.addr);
}

}  // namespace belay::h5
