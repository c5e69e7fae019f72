// What a virtual dataset is put together from.

#ifndef BELAY_HDF5_VIRTUAL_PIECES_H_
#define BELAY_HDF5_VIRTUAL_PIECES_H_

#include <vector>

#include "belay/status.h"
#include "hdf5/handle.h"
#include "hdf5_format/dataset_spec.h"

namespace belay::h5 {

// Returns the pieces of a virtual dataset, in its order; none of another one.
// The first elements of the dataset of a piece, as many as its box has, are
// those of the box: all of them if it has this shape. Local.
// Errors: DataLoss - a piece fills no box, or begins elsewhere in its dataset.
StatusOr<std::vector<VirtualPiece>> PiecesOf(const Handle& dataset);

}  // namespace belay::h5

#endif  // BELAY_HDF5_VIRTUAL_PIECES_H_
