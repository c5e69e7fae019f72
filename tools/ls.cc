#include <algorithm>
#include <cstdio>

#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "commands.h"

namespace belay::tools {
namespace {

const char* LayoutText(FileLayout layout) {
  switch (layout) {
    case FileLayout::kShared:
      return "one shared file";
    case FileLayout::kPerNode:
      return "one file per node";
    case FileLayout::kPerTask:
      return "one file per task";
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

}  // namespace

int List(const std::string& path) {
  const StatusOr<std::string> step = ResolveStep(path);
  if (!step.ok()) return Fail(step.status());
  const StatusOr<CheckpointInfo> info = ReadCheckpointInfo(*step);
  if (!info.ok()) return Fail(info.status());
  absl::PrintF("%s: step %d, %d arrays, %s in %s (%d), format %d.%d%s\n\n",
               info->path, info->step, info->arrays.size(),
               BytesText(info->bytes), LayoutText(info->file_layout),
               info->num_files, info->format_major, info->format_minor,
               info->has_checksums ? ", CRC32C" : ", no checksums");
  PrintTable(*info);
  return 0;
}

}  // namespace belay::tools
