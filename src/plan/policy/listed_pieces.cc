#include "plan/policy/listed_pieces.h"

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "plan/coverage.h"

namespace belay {
namespace {

// The cause only; the caller names the piece.
Status CheckPiece(const ShardableTensor& piece) {
  if (!IsKnownDType(static_cast<uint8_t>(piece.dtype))) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "unknown dtype (found number %d)", static_cast<int>(piece.dtype)));
  }
  BELAY_ASSIGN_OR_RETURN(const int64_t elements,
                         CheckedNumElements(piece.global_shape));
  BELAY_RETURN_IF_ERROR(CheckBox(piece.box, piece.global_shape));
  if (piece.dtype == DType::kString) {
    if (!piece.global_shape.empty()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("a string is always a scalar (need shape [], found "
                          "%s)",
                          ShapeText(piece.global_shape)));
    }
    if (piece.bytes >= 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrFormat(
        "negative length (need 0 bytes or more, found %d)", piece.bytes));
  }
  if (elements > INT64_MAX / DTypeSize(piece.dtype)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the array has more than 2^63 - 1 bytes (%d elements of %d bytes)",
        elements, DTypeSize(piece.dtype)));
  }
  const int64_t need = PieceBytes(piece, piece.box);
  if (piece.bytes == need) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "bytes are not those of the box (need %d, found %d)", need, piece.bytes));
}

}  // namespace

int64_t PieceBytes(const ShardableTensor& like, const Box& box) {
  if (like.dtype == DType::kString) return like.bytes;
  return NumElements(box.shape) * DTypeSize(like.dtype);
}

DeviceSpec TaskOf(const DeviceSpec& device) {
  return {.job = device.job,
          .replica = device.replica,
          .task = device.task,
          .device_type = std::nullopt,
          .device_index = std::nullopt};
}

bool SameTask(const DeviceSpec& a, const DeviceSpec& b) {
  return a.task == b.task && a.job == b.job;
}

bool SameReplica(const DeviceSpec& a, const DeviceSpec& b) {
  return SameTask(a, b) && a.replica == b.replica;
}

Status CheckListed(const std::vector<ShardableTensor>& listed) {
  for (const ShardableTensor& piece : listed) {
    const Status cause = CheckPiece(piece);
    if (cause.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("list \"%s\": piece with box \"%s\": %s", piece.key,
                        BoxText(piece.box), cause.message()));
  }
  return absl::OkStatus();
}

Status CheckListedKey(const std::vector<const ShardableTensor*>& listed) {
  const ShardableTensor& first = *listed[0];
  if (listed.size() == 1) return absl::OkStatus();
  std::vector<const Box*> boxes;
  for (const ShardableTensor* piece : listed) {
    if (piece->dtype != first.dtype ||
        piece->global_shape != first.global_shape) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "list \"%s\": pieces of different arrays (%s %s and %s %s)",
          first.key, DTypeName(first.dtype), ShapeText(first.global_shape),
          DTypeName(piece->dtype), ShapeText(piece->global_shape)));
    }
    boxes.push_back(&piece->box);
  }
  if (const auto pair = FindOverlap(boxes)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "list \"%s\": pieces overlap (box \"%s\" and box \"%s\")", first.key,
        BoxText(*boxes[pair->first]), BoxText(*boxes[pair->second])));
  }
  return absl::OkStatus();
}

}  // namespace belay
