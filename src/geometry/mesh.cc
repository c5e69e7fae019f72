#include "belay/arrays/mesh.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace belay {
namespace {

constexpr int kMaxRanks = std::numeric_limits<int>::max();

std::string AxesText(const std::vector<MeshAxis>& axes) {
  return absl::StrJoin(axes, ",", [](std::string* out, const MeshAxis& axis) {
    absl::StrAppend(out, axis.name, "=", axis.size);
  });
}

bool IsReserved(char c) {
  return absl::ascii_isspace(static_cast<unsigned char>(c)) || c == ',' ||
         c == ':' || c == '|';
}

// Returns only the cause.
Status CheckName(const std::vector<MeshAxis>& axes, size_t position) {
  const std::string& name = axes[position].name;
  if (name.empty()) {
    return absl::InvalidArgumentError(Cat("axis ", position, " has no name"));
  }
  if (std::any_of(name.begin(), name.end(), IsReserved)) {
    return absl::InvalidArgumentError(
        Cat("axis name \"", name, "\" has a blank or one of , : |"));
  }
  for (size_t i = 0; i < position; ++i) {
    if (axes[i].name == name) {
      return absl::InvalidArgumentError(
          Cat("axis \"", name, "\" appears twice"));
    }
  }
  return absl::OkStatus();
}

StatusOr<int> CountRanks(const std::vector<MeshAxis>& axes) {
  int64_t ranks = 1;
  for (size_t i = 0; i < axes.size(); ++i) {
    BELAY_RETURN_IF_ERROR(CheckName(axes, i));
    if (axes[i].size < 1) {
      return absl::InvalidArgumentError(Cat("size of axis \"", axes[i].name,
                                            "\" (need 1 or more, found ",
                                            axes[i].size, ")"));
    }
    if (axes[i].size > kMaxRanks / ranks) {
      return absl::InvalidArgumentError(
          Cat("too many ranks (need at most ", kMaxRanks, ")"));
    }
    ranks *= axes[i].size;
  }
  return static_cast<int>(ranks);
}

}  // namespace

StatusOr<Mesh> Mesh::Create(std::vector<MeshAxis> axes) {
  const StatusOr<int> num_ranks = CountRanks(axes);
  if (!num_ranks.ok()) {
    return absl::InvalidArgumentError(
        Cat("create mesh \"", AxesText(axes),
            "\": ", num_ranks.status().message()));
  }
  Mesh mesh;
  mesh.axes_ = std::move(axes);
  mesh.num_ranks_ = *num_ranks;
  return mesh;
}

std::vector<int64_t> Mesh::Coordinates(int rank) const {
  std::vector<int64_t> coordinates(axes_.size());
  int64_t rest = rank;
  for (size_t i = axes_.size(); i-- > 0;) {
    coordinates[i] = rest % axes_[i].size;
    rest /= axes_[i].size;
  }
  return coordinates;
}

StatusOr<int> Mesh::AxisIndex(std::string_view name) const {
  for (size_t i = 0; i < axes_.size(); ++i) {
    if (axes_[i].name == name) return static_cast<int>(i);
  }
  return absl::InvalidArgumentError(
      Cat("find mesh axis \"", name, "\": not in mesh \"", ToString(), "\""));
}

std::string Mesh::ToString() const { return AxesText(axes_); }

}  // namespace belay
