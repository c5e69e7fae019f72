#include "core/layout.h"

#include <limits>
#include <numeric>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/program_words.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {

Status CheckMeshSize(std::string_view start, const Layout& layout,
                     int num_ranks) {
  const int found = layout.mesh().num_ranks();
  if (found == num_ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat(start, ": the layout ", layout.ToString(),
          " is for another number of ranks (need ", num_ranks, ", found ",
          found, ")"));
}

Status CheckLayoutOfKey(std::string_view key, const Layout& layout,
                        int num_ranks) {
  const Status status =
      CheckMeshSize(Cat("list \"", key, "\""), layout, num_ranks);
  if (status.ok()) return status;
  return Status(status.code(),
                Cat(status.message(), "; ", kOnRanksWord.InProgram(),
                    " makes one for the communicator"));
}

// --- Mesh ---

namespace {

constexpr int kMaxRanks = std::numeric_limits<int>::max();

std::string AxesText(const std::vector<MeshAxis>& axes) {
  return absl::StrJoin(axes, ",", [](std::string* out, const MeshAxis& axis) {
    absl::StrAppend(out, axis.name, "=", axis.size);
  });
}

constexpr int64_t kMaxMeshAxes = 64;

// The message holds only the cause; the caller adds the operation.
Status CheckName(const std::vector<MeshAxis>& axes, size_t position) {
  const std::string& name = axes[position].name;
  if (name.empty()) {
    return absl::InvalidArgumentError(Cat("axis ", position, " has no name"));
  }
  if (name.find_first_of(" \t\n\v\f\r,:|") != name.npos) {
    return absl::InvalidArgumentError(
        Cat("axis name \"", name, "\" has a blank or one of , : |"));
  }
  const auto found = std::ranges::find(axes, name, &MeshAxis::name);
  if (found == axes.begin() + static_cast<std::ptrdiff_t>(position)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(Cat("axis \"", name, "\" appears twice"));
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
  // Names are compared pairwise, and the axes may come from an untrusted file.
  if (std::ssize(axes) > kMaxMeshAxes) {
    return absl::InvalidArgumentError(
        Cat("create mesh: too many axes (need at most ", kMaxMeshAxes,
            ", found ", axes.size(), ")"));
  }
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
  const auto found = std::ranges::find(axes_, name, &MeshAxis::name);
  if (found != axes_.end()) return static_cast<int>(found - axes_.begin());
  return absl::InvalidArgumentError(
      Cat("find mesh axis \"", name, "\": not in mesh \"", ToString(), "\""));
}

std::string Mesh::ToString() const { return AxesText(axes_); }

// --- Layout ---

namespace {

std::string AxesText(const LayoutAxes& axes) {
  using Names = std::vector<std::string>;
  const auto one_axis = [](std::string* out, const Names& names) {
    absl::StrAppend(out, names.empty() ? "-" : absl::StrJoin(names, "+"));
  };
  return Cat("[", absl::StrJoin(axes, ",", one_axis), "]");
}

// Returns the number of array axes that name the mesh axis: 0 or 1 in a valid
// layout.
int64_t CountUses(const LayoutAxes& axes, const std::string& name) {
  int64_t uses = 0;
  for (const std::vector<std::string>& names : axes) {
    uses += std::count(names.begin(), names.end(), name);
  }
  return uses;
}

// The message holds only the cause; the caller adds the operation.
Status CheckAxes(const Mesh& mesh, const LayoutAxes& axes) {
  for (const std::vector<std::string>& names : axes) {
    for (const std::string& name : names) {
      BELAY_RETURN_IF_ERROR(mesh.AxisIndex(name).status());
    }
  }
  for (const MeshAxis& axis : mesh.axes()) {
    if (CountUses(axes, axis.name) > 1) {
      return absl::InvalidArgumentError(
          Cat("mesh axis \"", axis.name, "\" is used twice"));
    }
  }
  return absl::OkStatus();
}

Status NotALayout(std::string_view text) {
  return absl::InvalidArgumentError(
      Cat("parse layout \"", text,
          "\": not a layout (need one such as \"[x,-] on x=2,y=4\")"));
}

// A name may itself contain '='.
std::optional<std::vector<MeshAxis>> ParseMeshAxes(std::string_view text) {
  std::vector<MeshAxis> axes;
  if (text.empty()) return axes;
  for (const std::string_view part : Split(text, ',')) {
    const size_t equals = part.rfind('=');
    if (equals == part.npos) return std::nullopt;
    MeshAxis& axis = axes.emplace_back();
    axis.name = part.substr(0, equals);
    if (!absl::SimpleAtoi(AbslView(part.substr(equals + 1)), &axis.size)) {
      return std::nullopt;
    }
  }
  return axes;
}

// Returns the mesh axes of one array axis. A mesh axis name may contain '+' or
// be "-".
std::vector<std::string> ParseNames(const Mesh& mesh, std::string_view text) {
  if (mesh.AxisIndex(text).ok()) return {std::string(text)};
  if (text == "-") return {};
  return absl::StrSplit(AbslView(text), '+');
}

}  // namespace

StatusOr<Layout> Layout::Create(Mesh mesh, LayoutAxes axes) {
  const Status cause = CheckAxes(mesh, axes);
  if (!cause.ok()) {
    return absl::InvalidArgumentError(
        Cat("create layout \"", AxesText(axes), "\": ", cause.message()));
  }
  return Layout(std::move(mesh), std::move(axes));
}

Layout Layout::Replicated(Mesh mesh, int ndim) {
  return Layout(std::move(mesh), LayoutAxes(static_cast<size_t>(ndim)));
}

int64_t Layout::NumParts(int axis) const {
  int64_t parts = 1;
  for (const std::string& name : axes_[static_cast<size_t>(axis)]) {
    parts *= mesh_.axes()[*mesh_.AxisIndex(name)].size;
  }
  return parts;
}

int64_t Layout::PartOf(int axis,
                       const std::vector<int64_t>& coordinates) const {
  int64_t part = 0;
  for (const std::string& name : axes_[static_cast<size_t>(axis)]) {
    const size_t i = *mesh_.AxisIndex(name);
    part = part * mesh_.axes()[i].size + coordinates[i];
  }
  return part;
}

StatusOr<Box> Layout::LocalBox(const Shape& global_shape, int rank) const {
  if (global_shape.size() != axes_.size()) {
    return absl::InvalidArgumentError(
        Cat("cut array \"", ShapeText(global_shape),
            "\": wrong number of axes for ", ToString(), " (need ",
            axes_.size(), ", found ", global_shape.size(), ")"));
  }
  if (rank < 0 || rank >= mesh_.num_ranks()) {
    return absl::InvalidArgumentError(
        Cat("cut array \"", ShapeText(global_shape), "\": no such rank on ",
            ToString(), " (need 0 to ", mesh_.num_ranks() - 1, ", found ", rank,
            ")"));
  }
  BELAY_RETURN_IF_ERROR(CheckedNumElements(global_shape).status());
  const std::vector<int64_t> coordinates = mesh_.Coordinates(rank);
  Box box = WholeBox(global_shape);
  for (int axis = 0; axis < ndim(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int64_t parts = NumParts(axis);
    const int64_t part = PartOf(axis, coordinates);
    const int64_t base = global_shape[i] / parts;
    const int64_t extra = global_shape[i] % parts;
    box.offset[i] = part * base + std::min(part, extra);
    box.shape[i] = base + (part < extra ? 1 : 0);
  }
  return box;
}

int64_t Layout::NumReplicas() const {
  int64_t replicas = mesh_.num_ranks();
  for (int axis = 0; axis < ndim(); ++axis) replicas /= NumParts(axis);
  return replicas;
}

int64_t Layout::Replica(int rank) const {
  const std::vector<int64_t> coordinates = mesh_.Coordinates(rank);
  int64_t replica = 0;
  for (size_t i = 0; i < coordinates.size(); ++i) {
    const MeshAxis& axis = mesh_.axes()[i];
    if (CountUses(axes_, axis.name) == 0) {
      replica = replica * axis.size + coordinates[i];
    }
  }
  return replica;
}

std::string Layout::ToString() const {
  return Cat(AxesText(axes_), " on ", mesh_.ToString());
}

StatusOr<Layout> Layout::Parse(std::string_view text) {
  constexpr std::string_view kOn = "] on ";
  const size_t on = text.find(kOn);
  if (!text.starts_with('[') || on == std::string_view::npos) {
    return NotALayout(text);
  }
  auto mesh_axes = ParseMeshAxes(text.substr(on + kOn.size()));
  if (!mesh_axes) return NotALayout(text);
  BELAY_ASSIGN_OR_RETURN(Mesh mesh, Mesh::Create(*std::move(mesh_axes)));
  LayoutAxes axes;
  const std::string_view parts = text.substr(1, on - 1);
  if (!parts.empty()) {
    for (const std::string_view part : Split(parts, ',')) {
      axes.push_back(ParseNames(mesh, part));
    }
  }
  return Create(std::move(mesh), std::move(axes));
}

Layout Layout::OnRanks(int num_ranks) const {
  if (num_ranks == mesh_.num_ranks()) return *this;
  std::vector<MeshAxis> sizes = mesh_.axes();
  if (sizes.empty()) sizes.push_back({.name = "replica", .size = 1});
  int64_t left = num_ranks;
  for (size_t i = sizes.size(); i-- > 1;) {
    sizes[i].size = std::gcd(sizes[i].size, left);
    left /= sizes[i].size;
  }
  sizes[0].size = left;
  return Layout(*Mesh::Create(std::move(sizes)), axes_);
}

}  // namespace belay
