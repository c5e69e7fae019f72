#include "hdf5/dataset_listing.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "hdf5/file.h"
#include "hdf5/handle.h"

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

// --- Virtual pieces ---

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

// --- Dataset listing ---

namespace {

// A few groups can have endlessly many paths.
constexpr int64_t kMaxRepeats = 10'000;
// Each level of groups takes memory of the stack.
constexpr size_t kMaxDepth = 1000;
constexpr size_t kPathShown = 100;

struct ListedLink {
  std::string name;
  bool is_hard = true;
};

// HDF5 is C: no exception may pass through it.
herr_t CollectLink(hid_t /*group*/, const char* name, const H5L_info_t* info,
                   void* data) noexcept {
  try {
    static_cast<std::vector<ListedLink>*>(data)->push_back(
        {.name = name, .is_hard = info->type == H5L_TYPE_HARD});
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

StatusOr<std::vector<ListedLink>> LinksOf(const Handle& group) {
  std::vector<ListedLink> links;
  BELAY_RETURN_IF_ERROR(
      Check(H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr,
                       CollectLink, &links),
            "list group", group.name()));
  return links;
}

class Walk {
 public:
  // Lists what the group at `path` leads to.
  Status ListGroup(const Handle& group, const std::string& path) {
    BELAY_ASSIGN_OR_RETURN(const Identity identity, IdentityOf(group));
    if (std::find(above_.begin(), above_.end(), identity) != above_.end()) {
      return absl::OkStatus();
    }
    if (!seen_.insert(identity).second && ++num_repeats_ > kMaxRepeats) {
      return absl::ResourceExhaustedError(
          Cat("list group \"", path, "\": more than ", kMaxRepeats,
              " paths lead to groups that have another path"));
    }
    if (above_.size() == kMaxDepth) {
      return absl::ResourceExhaustedError(
          Cat("list group \"", path.substr(0, kPathShown),
              "...\": too many groups inside each other (need at most ",
              kMaxDepth, ")"));
    }
    above_.push_back(identity);
    BELAY_ASSIGN_OR_RETURN(const std::vector<ListedLink> links, LinksOf(group));
    for (const ListedLink& link : links) {
      BELAY_RETURN_IF_ERROR(ListLink(
          group, link, path.empty() ? link.name : Cat(path, "/", link.name)));
    }
    above_.pop_back();
    return absl::OkStatus();
  }

  std::vector<ListedDataset> TakeListed() { return std::move(listed_); }

 private:
  Status ListLink(const Handle& group, const ListedLink& link,
                  const std::string& path) {
    BELAY_ASSIGN_OR_RETURN(
        const Handle access,
        LinkAccess(H5P_LINK_ACCESS, OtherFiles::kFollowed, path));
    const hid_t id = H5Oopen(group.get(), link.name.c_str(), access.get());
    if (id < 0 && !link.is_hard) {
      H5Eclear2(H5E_DEFAULT);
      listed_.push_back(
          {.path = path, .array = {.problem = "is a link that leads nowhere"}});
      return absl::OkStatus();
    }
    BELAY_ASSIGN_OR_RETURN(const Handle object, Own(id, "open object", path));
    const H5I_type_t type = H5Iget_type(object.get());
    if (type == H5I_GROUP) return ListGroup(object, path);
    if (type != H5I_DATASET) return absl::OkStatus();
    BELAY_ASSIGN_OR_RETURN(NativeArray array, DescribeDataset(object));
    listed_.push_back({.path = path, .array = std::move(array)});
    return absl::OkStatus();
  }

  std::vector<Identity> above_;
  absl::flat_hash_set<Identity> seen_;
  int64_t num_repeats_ = 0;
  std::vector<ListedDataset> listed_;
};

}  // namespace

StatusOr<std::vector<ListedDataset>> ListDatasets(const Handle& file) {
  BELAY_ASSIGN_OR_RETURN(
      const Handle root,
      Own(H5Gopen2(file.get(), "/", H5P_DEFAULT), "open group", "/"));
  Walk walk;
  BELAY_RETURN_IF_ERROR(walk.ListGroup(root, ""));
  std::vector<ListedDataset> listed = walk.TakeListed();
  std::sort(listed.begin(), listed.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return listed;
}

}  // namespace belay::h5
