// MaxShardSize: a greedy packer that cuts what does not fit.

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/ceil_divide.h"
#include "base/status_macros.h"
#include "belay/values/sharding_policy.h"
#include "plan/policy/listed_pieces.h"

namespace belay {
namespace {

// More groups than anybody can want, and than rank 0 can be trusted to hold.
constexpr int64_t kMaxGroups = int64_t{1} << 22;

class Packer {
 public:
  explicit Packer(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // Puts a listed piece into the open group, cut as far as needed.
  void Add(const ShardableTensor& piece) {
    piece_ = &piece;
    num_alone_ = 0;
    if (piece.dtype == DType::kString || IsEmpty(piece.box)) {
      PutWhole(piece.box, piece.bytes);
    } else {
      Pack(piece.box, 0);
    }
    if (num_alone_ > 0) Warn();
  }

  Grouping Take() {
    Grouping made = std::move(groups_);
    made.warnings = std::move(warnings_);
    std::move(alone_.begin(), alone_.end(), std::back_inserter(made.groups));
    return made;
  }

 private:
  // Puts all of `box` into groups. Its axes before `axis` have length 1.
  void Pack(Box box, size_t axis) {
    // An axis of length 1 cannot be cut: rows are counted on the next one.
    while (axis < box.shape.size() && box.shape[axis] == 1) ++axis;
    int64_t bytes = PieceBytes(*piece_, box);
    if (axis == box.shape.size()) return PutWhole(box, bytes);
    while (bytes > rest_) {
      const size_t cut_axis = ChooseAxis(box, bytes, axis);
      if (cut_axis == kNoAxis) return PackRows(box, axis);
      const int64_t slice_bytes = bytes / box.shape[cut_axis];
      const int64_t length = rest_ / slice_bytes;
      if (length == 0) {
        OpenGroup();
        continue;
      }
      Box part = box;
      part.shape[cut_axis] = length;
      Put(std::move(part), length * slice_bytes);
      box.offset[cut_axis] += length;
      box.shape[cut_axis] -= length;
      bytes -= length * slice_bytes;
    }
    Put(std::move(box), bytes);
  }

  // For a box of which not even one slice fits into an empty group.
  void PackRows(const Box& box, size_t axis) {
    Box row = box;
    row.shape[axis] = 1;
    for (int64_t i = 0; i < box.shape[axis]; ++i) {
      Pack(row, axis + 1);
      ++row.offset[axis];
    }
  }

  // Returns where to cut a box, or kNoAxis if no slice fits into a group. The
  // rest of the open group plays no part: it takes slices of the same kind.
  size_t ChooseAxis(const Box& box, int64_t bytes, size_t first) const {
    size_t best = kNoAxis;
    int64_t fewest = 0;
    for (size_t axis = first; axis < box.shape.size(); ++axis) {
      const int64_t slices = max_bytes_ / (bytes / box.shape[axis]);
      if (slices == 0) continue;
      // With whole rows, runs in the file are longest. They leave less than a
      // third of a group empty if two or more fit.
      if (axis == first && slices > 1) return first;
      const int64_t groups = CeilDivide(box.shape[axis], slices);
      if (best == kNoAxis || groups < fewest) {
        best = axis;
        fewest = groups;
      }
    }
    return best;
  }

  // For what cannot be cut.
  void PutWhole(const Box& box, int64_t bytes) {
    if (bytes > max_bytes_) {
      alone_.push_back({PartOf(box, bytes)});
      ++num_alone_;
      return;
    }
    if (bytes > rest_) OpenGroup();
    Put(box, bytes);
  }

  void Put(Box box, int64_t bytes) {
    if (groups_.empty()) OpenGroup();
    groups_.back().push_back(PartOf(std::move(box), bytes));
    rest_ -= bytes;
  }

  ShardableTensor PartOf(Box box, int64_t bytes) const {
    return {.key = piece_->key,
            .dtype = piece_->dtype,
            .global_shape = piece_->global_shape,
            .box = std::move(box),
            .device = piece_->device,
            .bytes = bytes};
  }

  void OpenGroup() {
    groups_.emplace_back();
    rest_ = max_bytes_;
  }

  void Warn() {
    warnings_.push_back(absl::StrFormat(
        "max shard size \"%s\": %d elements are too large and get a group each "
        "(need at most %d bytes, found %d)",
        piece_->key, num_alone_, max_bytes_, alone_.back()[0].bytes));
  }

  static constexpr size_t kNoAxis = SIZE_MAX;

  const int64_t max_bytes_;
  int64_t rest_ = 0;  // of the open group, the last of groups_
  std::vector<ShardGroup> groups_;
  std::vector<ShardGroup> alone_;
  std::vector<std::string> warnings_;

  const ShardableTensor* piece_ = nullptr;  // the piece that is being added
  int64_t num_alone_ = 0;                   // elements of it in alone_
};

// Refuses a limit that would fill the memory with groups. Elements above the
// limit are counted as what they are, groups of their own.
Status CheckLimit(const std::vector<ShardableTensor>& pieces,
                  int64_t max_bytes) {
  if (max_bytes < 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "max shard size: no group can hold anything (need 1 byte or more, "
        "found %d)",
        max_bytes));
  }
  int64_t least = 0;
  for (const ShardableTensor& piece : pieces) {
    if (piece.dtype == DType::kString) continue;  // never cut
    const int64_t groups =
        piece.bytes / std::max(max_bytes, DTypeSize(piece.dtype));
    if (groups > kMaxGroups - least) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "max shard size: the limit of %d bytes is too small (need at most %d "
          "groups, found more at key \"%s\")",
          max_bytes, kMaxGroups, piece.key));
    }
    least += groups;
  }
  return absl::OkStatus();
}

}  // namespace

ShardingPolicy MaxShardSize(int64_t max_bytes) {
  return {
      .description = absl::StrFormat("groups of at most %d bytes", max_bytes),
      .parameters = {{"max_bytes", absl::StrFormat("%d", max_bytes)}},
      .group = [max_bytes](const std::vector<ShardableTensor>& pieces)
          -> StatusOr<Grouping> {
        BELAY_RETURN_IF_ERROR(CheckLimit(pieces, max_bytes));
        Packer packer(max_bytes);
        for (const ShardableTensor& piece : pieces) packer.Add(piece);
        return packer.Take();
      }};
}

}  // namespace belay
