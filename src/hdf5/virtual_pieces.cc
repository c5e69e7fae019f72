#include "hdf5/virtual_pieces.h"

#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "hdf5/error.h"
#include "hdf5/property.h"

namespace belay::h5 {
namespace {

// Reads a name of a mapping with one of HDF5's functions, which measure it
// first.
StatusOr<std::string> NameOfPiece(const Handle& creation, size_t index,
                                  ssize_t (*get)(hid_t, size_t, char*,
                                                 size_t)) {
  BELAY_ASSIGN_OR_RETURN(const int64_t length,
                         Number(get(creation.get(), index, nullptr, 0),
                                "get pieces of", creation.name()));
  std::string name(static_cast<size_t>(length), '\0');
  BELAY_ASSIGN_OR_RETURN(
      const int64_t found,
      Number(get(creation.get(), index, name.data(), name.size() + 1),
             "get pieces of", creation.name()));
  if (found != length) return absl::InternalError("a name changed its length");
  return name;
}

// A name in which "%%" stands for "%". Another "%" would make a pattern of it,
// which stands for the names of many.
StatusOr<std::string> UndoubledName(const Handle& creation, std::string name) {
  std::string plain;
  for (size_t i = 0; i < name.size(); ++i) {
    plain += name[i];
    if (name[i] != '%') continue;
    if (i + 1 == name.size() || name[++i] != '%') {
      return absl::DataLossError(Cat("open dataset \"", creation.name(),
                                     "\": a piece has a pattern of names"));
    }
  }
  return plain;
}

// The box that is selected in a dataspace.
StatusOr<Box> SelectedBox(const Handle& space) {
  BELAY_ASSIGN_OR_RETURN(const int64_t ndim,
                         Number(H5Sget_simple_extent_ndims(space.get()),
                                "get number of axes of", space.name()));
  Dims begin(static_cast<size_t>(ndim)), last(begin);
  BELAY_RETURN_IF_ERROR(
      Check(H5Sget_select_bounds(space.get(), begin.data(), last.data()),
            "get selection of", space.name()));
  BELAY_ASSIGN_OR_RETURN(const int64_t selected,
                         Number(H5Sget_select_npoints(space.get()),
                                "get selection of", space.name()));
  Box box{Shape(begin.begin(), begin.end()), Shape(begin.size())};
  for (size_t i = 0; i < begin.size(); ++i) {
    box.shape[i] = static_cast<int64_t>(last[i] - begin[i] + 1);
  }
  if (NumElements(box.shape) == selected) return box;
  return absl::DataLossError(
      Cat("open dataset \"", space.name(), "\": a piece fills no box"));
}

StatusOr<VirtualPiece> PieceOf(const Handle& creation, size_t index) {
  VirtualPiece piece;
  BELAY_ASSIGN_OR_RETURN(std::string file,
                         NameOfPiece(creation, index, H5Pget_virtual_filename));
  BELAY_ASSIGN_OR_RETURN(piece.file, UndoubledName(creation, std::move(file)));
  BELAY_ASSIGN_OR_RETURN(std::string path,
                         NameOfPiece(creation, index, H5Pget_virtual_dsetname));
  BELAY_ASSIGN_OR_RETURN(piece.path, UndoubledName(creation, std::move(path)));
  BELAY_ASSIGN_OR_RETURN(const Handle shown,
                         Own(H5Pget_virtual_vspace(creation.get(), index),
                             "get pieces of", creation.name()));
  BELAY_ASSIGN_OR_RETURN(piece.box, SelectedBox(shown));
  BELAY_ASSIGN_OR_RETURN(const Handle source,
                         Own(H5Pget_virtual_srcspace(creation.get(), index),
                             "get pieces of", creation.name()));
  if (H5Sget_select_type(source.get()) == H5S_SEL_ALL) return piece;
  BELAY_ASSIGN_OR_RETURN(const Box whole, SelectedBox(source));
  if (whole == WholeBox(piece.box.shape)) return piece;
  return absl::DataLossError(Cat("open dataset \"", creation.name(),
                                 "\": a piece is a part of \"", piece.path,
                                 "\""));
}

}  // namespace

StatusOr<std::vector<VirtualPiece>> PiecesOf(const Handle& dataset) {
  BELAY_ASSIGN_OR_RETURN(const Handle creation,
                         Own(H5Dget_create_plist(dataset.get()),
                             "get properties of", dataset.name()));
  std::vector<VirtualPiece> pieces;
  if (H5Pget_layout(creation.get()) != H5D_VIRTUAL) return pieces;
  size_t count = 0;
  BELAY_RETURN_IF_ERROR(Check(H5Pget_virtual_count(creation.get(), &count),
                              "get pieces of", dataset.name()));
  for (size_t i = 0; i < count; ++i) {
    BELAY_ASSIGN_OR_RETURN(VirtualPiece piece, PieceOf(creation, i));
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace belay::h5
