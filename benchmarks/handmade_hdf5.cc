// What a user would write without belay: the parallel HDF5 tutorial, for each
// variable.

#include <hdf5.h>
#include <mpi.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contenders.h"

namespace belay::bench {
namespace {

using Dims = std::vector<hsize_t>;

Dims ToDims(const Shape& shape) { return Dims(shape.begin(), shape.end()); }

Status Hdf5Error(const char* call, const std::string& object) {
  return absl::InternalError(absl::StrCat(call, " \"", object, "\": failed"));
}

hid_t CreateDataset(hid_t file, const Piece& piece, hid_t file_space) {
  const hid_t links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  const hid_t dataset = H5Dcreate2(file, piece.key.c_str(), H5T_NATIVE_FLOAT,
                                   file_space, links, H5P_DEFAULT, H5P_DEFAULT);
  H5Pclose(links);
  return dataset;
}

Status WriteVariable(hid_t file, hid_t transfer, const Piece& piece,
                     const char* data) {
  const Dims dims = ToDims(piece.global_shape);
  const Dims offset = ToDims(piece.box.offset);
  const Dims count = ToDims(piece.box.shape);
  const int ndim = static_cast<int>(dims.size());
  const hid_t file_space = H5Screate_simple(ndim, dims.data(), nullptr);
  const hid_t memory_space = H5Screate_simple(ndim, count.data(), nullptr);
  const hid_t dataset = CreateDataset(file, piece, file_space);
  H5Sselect_hyperslab(file_space, H5S_SELECT_SET, offset.data(), nullptr,
                      count.data(), nullptr);
  const herr_t written = H5Dwrite(dataset, H5T_NATIVE_FLOAT, memory_space,
                                  file_space, transfer, data);
  const herr_t closed = H5Dclose(dataset);
  H5Sclose(memory_space);
  H5Sclose(file_space);
  if (written < 0 || closed < 0) return Hdf5Error("H5Dwrite", piece.key);
  return absl::OkStatus();
}

Status WriteVariables(hid_t file, const Arrays& arrays) {
  const hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
  H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
  Status status;
  for (const Piece& piece : arrays.pieces) {
    status.Update(WriteVariable(file, transfer, piece,
                                arrays.buffer.data() + piece.offset));
  }
  H5Pclose(transfer);
  return status;
}

Status WriteFile(MPI_Comm comm, const std::string& path, const Arrays& arrays,
                 bool sync) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_mpio(access, comm, MPI_INFO_NULL);
  const hid_t file =
      H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  H5Pclose(access);
  if (file < 0) return Hdf5Error("H5Fcreate", path);
  Status status = WriteVariables(file, arrays);
  if (sync && H5Fflush(file, H5F_SCOPE_GLOBAL) < 0) {
    status.Update(Hdf5Error("H5Fflush", path));
  }
  if (H5Fclose(file) < 0) status.Update(Hdf5Error("H5Fclose", path));
  return status;
}

}  // namespace

Contender HandmadeHdf5(const Context& context, const Medium& medium,
                       std::shared_ptr<Arrays> arrays) {
  const std::string path = medium.dir + "/handmade.h5";
  return {.name = "HDF5 by hand",
          .run =
              [=, comm = context.comm->raw(), sync = medium.durable] {
                return WriteFile(comm, path, *arrays, sync);
              },
          .clean =
              [path, rank = context.comm->rank()] {
                if (rank == 0 && unlink(path.c_str()) != 0) {
                  return Hdf5Error("unlink", path);
                }
                return absl::OkStatus();
              }};
}

}  // namespace belay::bench
