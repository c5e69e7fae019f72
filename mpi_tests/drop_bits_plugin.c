/* A plugin of HDF5: filter 300 drops the lowest bit of each byte that is
   written, if its first parameter is not 0. HDF5 leaves 256 to 511 to tests. */

#include <H5PLextern.h>
#include <hdf5.h>

static size_t DropBits(unsigned flags, size_t count, const unsigned values[],
                       size_t bytes, size_t* room, void** buffer) {
  unsigned char* data = *buffer;
  size_t i;
  (void)room;
  if ((flags & H5Z_FLAG_REVERSE) != 0 || count == 0 || values[0] == 0) {
    return bytes;
  }
  for (i = 0; i < bytes; ++i) data[i] &= 0xFE;
  return bytes;
}

static const H5Z_class2_t kFilter = {H5Z_CLASS_T_VERS, 300,  1,    1,
                                     "drop bits",      NULL, NULL, DropBits};

H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; }

const void* H5PLget_plugin_info(void) { return &kFilter; }
