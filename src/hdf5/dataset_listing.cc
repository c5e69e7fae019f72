#include "hdf5/dataset_listing.h"

#include <algorithm>
#include <exception>

#include "absl/container/flat_hash_set.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "hdf5/file.h"

namespace belay::h5 {
namespace {

#if H5_VERSION_GE(1, 12, 0)
using ObjectInfo = H5O_info1_t;
#else
using ObjectInfo = H5O_info_t;
#endif

}  // namespace

StatusOr<Identity> FindIdentity(const Handle& object) {
  ObjectInfo info;
  BELAY_RETURN_IF_ERROR(Check(H5Oget_info2(object.get(), &info, H5O_INFO_BASIC),
                              "get place of", object.name()));
  return Identity(info.fileno, info.addr);
}

// --- Virtual pieces ---

StatusOr<std::string> ReadSourceName(GetSourceName get, const Handle& dataset,
                                     const Handle& properties, size_t index,
                                     absl::StatusCode code_of_pattern) {
  BELAY_ASSIGN_OR_RETURN(const std::string format,
                         ReadName(
                             [&](char* name, size_t size) {
                               return get(properties.get(), index, name, size);
                             },
                             "get source of", dataset.name()));
  std::string name;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '%' && format.substr(i + 1, 1) != "%") {
      return Status(
          code_of_pattern,
          Cat("read dataset \"", dataset.name(),
              "\": its sources are given by a pattern (\"", format, "\")"));
    }
    if (format[i] == '%') ++i;
    name += format[i];
  }
  return name;
}

namespace {

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

StatusOr<VirtualPiece> ReadPiece(const Handle& dataset,
                                 const Handle& properties, size_t index) {
  VirtualPiece piece;
  BELAY_ASSIGN_OR_RETURN(
      piece.file, ReadSourceName(H5Pget_virtual_filename, dataset, properties,
                                 index, absl::StatusCode::kDataLoss));
  BELAY_ASSIGN_OR_RETURN(
      piece.path, ReadSourceName(H5Pget_virtual_dsetname, dataset, properties,
                                 index, absl::StatusCode::kDataLoss));
  BELAY_ASSIGN_OR_RETURN(const Handle shown,
                         Own(H5Pget_virtual_vspace(properties.get(), index),
                             "get pieces of", dataset.name()));
  BELAY_ASSIGN_OR_RETURN(piece.box, SelectedBox(shown));
  BELAY_ASSIGN_OR_RETURN(const Handle source,
                         Own(H5Pget_virtual_srcspace(properties.get(), index),
                             "get pieces of", dataset.name()));
  if (H5Sget_select_type(source.get()) == H5S_SEL_ALL) return piece;
  BELAY_ASSIGN_OR_RETURN(const Box whole, SelectedBox(source));
  if (whole == WholeBox(piece.box.shape)) return piece;
  return absl::DataLossError(Cat("open dataset \"", dataset.name(),
                                 "\": a piece is a part of \"", piece.path,
                                 "\""));
}

}  // namespace

StatusOr<std::vector<VirtualPiece>> ReadPieces(const Handle& dataset) {
  BELAY_ASSIGN_OR_RETURN(const Handle properties,
                         GetCreationProperties(dataset));
  std::vector<VirtualPiece> pieces;
  if (H5Pget_layout(properties.get()) != H5D_VIRTUAL) return pieces;
  size_t count = 0;
  BELAY_RETURN_IF_ERROR(Check(H5Pget_virtual_count(properties.get(), &count),
                              "count sources of", dataset.name()));
  for (size_t i = 0; i < count; ++i) {
    BELAY_ASSIGN_OR_RETURN(VirtualPiece piece,
                           ReadPiece(dataset, properties, i));
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

// --- Dataset listing ---

namespace {

// Groups that link to each other have an exponential number of paths.
constexpr int64_t kMaxRepeats = 10'000;
// ListGroup is recursive, and the stack is finite.
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

class Walk {
 public:
  // Lists the datasets below the group at `path`.
  Status ListGroup(const Handle& group, const std::string& path) {
    BELAY_ASSIGN_OR_RETURN(const Identity identity, FindIdentity(group));
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
    std::vector<ListedLink> links;
    BELAY_RETURN_IF_ERROR(
        Check(H5Literate(group.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr,
                         CollectLink, &links),
              "list group", group.name()));
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
