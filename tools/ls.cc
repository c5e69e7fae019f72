#include <algorithm>
#include <cstdio>

#include "absl/strings/str_cat.h"
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
  size_t key_width = 3, shape_width = 5;
  for (const ArrayInfo& array : info.arrays) {
    key_width = std::max(key_width, WidthOf(PrintableName(array.key)));
    shape_width = std::max(shape_width, ShapeText(array.shape).size());
  }
  absl::PrintF("%s  %-7s %s %10s  %s\n", Padded("key", key_width), "dtype",
               Padded("shape", shape_width), "bytes", "stored as");
  for (const ArrayInfo& array : info.arrays) {
    absl::PrintF(
        "%s  %-7s %s %10s  %s\n", Padded(PrintableName(array.key), key_width),
        DTypeName(array.dtype), Padded(ShapeText(array.shape), shape_width),
        BytesText(array.bytes), array.cut);
  }
}

// The values that handlers have stored; nothing, if there are none.
void PrintValues(const std::vector<ValueInfo>& all) {
  std::vector<ValueInfo> values;
  int key_width = 5, type_width = 4;
  for (const ValueInfo& value : all) {
    if (value.typestr == kScalarTypestr || value.typestr == kArrayTypestr ||
        value.typestr == kStringTypestr) {
      continue;
    }
    key_width = std::max(key_width, static_cast<int>(value.key.size()));
    type_width = std::max(type_width, static_cast<int>(value.typestr.size()));
    values.push_back(value);
  }
  if (values.empty()) return;
  absl::PrintF("\n%-*s  %-*s  %s\n", key_width, "value", type_width, "type",
               "arrays");
  for (const ValueInfo& value : values) {
    absl::PrintF("%-*s  %-*s  %d\n", key_width, value.key, type_width,
                 value.typestr, value.parts.size());
  }
}

// Who wrote a piece: one task, or any that share the dataset.
std::string TaskText(const StoredPiece& piece) {
  if (!piece.group) return "-";
  return piece.task ? absl::StrFormat("%d", *piece.task) : "shared";
}

void PrintPieces(const CheckpointInfo& info) {
  size_t file_width = 4, key_width = 3, box_width = 3;
  const auto box_text = [](const StoredPiece& piece) {
    return piece.box.shape.empty() ? "-" : BoxText(piece.box);  // a scalar
  };
  for (const StoredPiece& piece : info.pieces) {
    file_width = std::max(file_width, piece.file.size());
    key_width = std::max(key_width, WidthOf(PrintableName(piece.key)));
    box_width = std::max(box_width, box_text(piece).size());
  }
  absl::PrintF("%s  %5s  %s  %s  %s\n", Padded("file", file_width), "group",
               Padded("key", key_width), Padded("box", box_width), "task");
  for (const StoredPiece& piece : info.pieces) {
    const std::string group =
        piece.group ? absl::StrFormat("%d", *piece.group) : "-";
    absl::PrintF("%s  %5s  %s  %s  %s\n", Padded(piece.file, file_width), group,
                 Padded(PrintableName(piece.key), key_width),
                 Padded(box_text(piece), box_width), TaskText(piece));
  }
}

}  // namespace

int List(const std::string& path, bool shards) {
  const StatusOr<std::string> step = ResolveStep(path);
  if (!step.ok()) return Fail(step.status());
  const StatusOr<CheckpointReader> reader = CheckpointReader::Open(*step);
  if (!reader.ok()) return Fail(reader.status());
  const CheckpointInfo* info = &reader->info();
  // Shorter than the arrays where chunks pass filters.
  const std::string compressed =
      info->file_bytes < info->bytes
          ? absl::StrCat(" of ", BytesText(info->file_bytes))
          : "";
  absl::PrintF("%s: step %d, %s, %s in %s (%d)%s, format %d.%d%s\n\n",
               info->path, info->step, CountText(info->arrays.size(), "array"),
               BytesText(info->bytes), LayoutText(*info), info->num_files,
               compressed, info->format_major, info->format_minor,
               info->has_checksums ? ", CRC32C" : ", no checksums");
  if (shards) {
    PrintPieces(*info);
  } else {
    PrintTable(*info);
    PrintValues(reader->Values());
  }
  return 0;
}

}  // namespace belay::tools
