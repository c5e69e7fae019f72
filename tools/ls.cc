#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "commands.h"
#include "number_text.h"

namespace belay::tools {
namespace {

const char* LayoutText(const CheckpointInfo& info) {
  const bool groups =
      std::any_of(info.pieces.begin(), info.pieces.end(),
                  [](const StoredPiece& p) { return p.group.value_or(0) > 0; });
  switch (info.file_layout) {
    case FileLayout::kShared:
      return groups ? "shared files" : "one shared file";
    case FileLayout::kPerNode:
      return groups ? "files per node" : "one file per node";
    case FileLayout::kPerTask:
      return groups ? "files per task" : "one file per task";
  }
  return "unknown";
}

void PrintTable(const CheckpointInfo& info) {
  int key_width = 3, shape_width = 5;
  for (const ArrayInfo& array : info.arrays) {
    key_width = std::max(key_width, static_cast<int>(array.key.size()));
    shape_width =
        std::max(shape_width, static_cast<int>(ShapeText(array.shape).size()));
  }
  absl::PrintF("%-*s  %-7s %-*s %10s  %s\n", key_width, "key", "dtype",
               shape_width, "shape", "bytes", "stored as");
  for (const ArrayInfo& array : info.arrays) {
    absl::PrintF("%-*s  %-7s %-*s %10s  %s\n", key_width, array.key,
                 DTypeName(array.dtype), shape_width, ShapeText(array.shape),
                 BytesText(array.bytes), array.cut);
  }
}

// Who wrote a piece: one task, or any that share the dataset.
std::string TaskText(const StoredPiece& piece) {
  if (!piece.group) return "-";
  return piece.task ? absl::StrFormat("%d", *piece.task) : "shared";
}

void PrintPieces(const CheckpointInfo& info) {
  int file_width = 4, key_width = 3, box_width = 3;
  const auto box_text = [](const StoredPiece& piece) {
    return piece.box.shape.empty() ? "-" : BoxText(piece.box);  // a scalar
  };
  for (const StoredPiece& piece : info.pieces) {
    file_width = std::max(file_width, static_cast<int>(piece.file.size()));
    key_width = std::max(key_width, static_cast<int>(piece.key.size()));
    box_width = std::max(box_width, static_cast<int>(box_text(piece).size()));
  }
  absl::PrintF("%-*s  %5s  %-*s  %-*s  %s\n", file_width, "file", "group",
               key_width, "key", box_width, "box", "task");
  for (const StoredPiece& piece : info.pieces) {
    const std::string group =
        piece.group ? absl::StrFormat("%d", *piece.group) : "-";
    absl::PrintF("%-*s  %5s  %-*s  %-*s  %s\n", file_width, piece.file, group,
                 key_width, piece.key, box_width, box_text(piece),
                 TaskText(piece));
  }
}

}  // namespace

int List(const std::string& path, bool shards) {
  const StatusOr<std::string> step = ResolveStep(path);
  if (!step.ok()) return Fail(step.status());
  const StatusOr<CheckpointInfo> info = ReadCheckpointInfo(*step);
  if (!info.ok()) return Fail(info.status());
  absl::PrintF("%s: step %d, %d arrays, %s in %s (%d), format %d.%d%s\n\n",
               info->path, info->step, info->arrays.size(),
               BytesText(info->bytes), LayoutText(*info), info->num_files,
               info->format_major, info->format_minor,
               info->has_checksums ? ", CRC32C" : ", no checksums");
  if (shards) {
    PrintPieces(*info);
  } else {
    PrintTable(*info);
  }
  return 0;
}

}  // namespace belay::tools
