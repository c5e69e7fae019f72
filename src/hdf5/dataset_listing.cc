#include "hdf5/dataset_listing.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "hdf5/error.h"
#include "hdf5/identity.h"
#include "hdf5/property.h"

namespace belay::h5 {
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
