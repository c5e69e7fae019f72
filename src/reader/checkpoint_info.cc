#include "reader/checkpoint_info.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_format.h"
#include "base/amount_text.h"
#include "base/text.h"
#include "plan/chunks/filters.h"

namespace belay {
namespace {

std::string CutText(const ArrayEntry& entry) {
  if (entry.datasets.empty()) return "empty";
  const StoredDataset& first = entry.datasets[0];
  const std::string filters =
      first.filters.empty() ? "" : Cat(", ", DescribeFilters(first.filters));
  if (entry.datasets.size() > 1) {
    return absl::StrFormat("%d pieces%s", entry.datasets.size(), filters);
  }
  if (first.chunk.empty()) return "contiguous";
  return Cat(CountText(NumElements(ChunkGrid(first)), "chunk"), " of ",
             ShapeText(first.chunk), filters);
}

// The datasets as a user sees them.
std::vector<StoredPiece> PiecesOf(const SavedCheckpoint& saved) {
  std::vector<const StoredDataset*> datasets;
  datasets.reserve(saved.datasets.size());
  for (const StoredDataset& dataset : saved.datasets) {
    datasets.push_back(&dataset);
  }
  const auto is_before = [](const StoredDataset* a, const StoredDataset* b) {
    return a->file < b->file;
  };
  if (!std::is_sorted(datasets.begin(), datasets.end(), is_before)) {
    std::stable_sort(datasets.begin(), datasets.end(), is_before);
  }
  std::vector<StoredPiece> pieces;
  pieces.reserve(datasets.size());
  for (const StoredDataset* dataset : datasets) {
    pieces.push_back(
        {.file = saved.files[dataset->file].name,
         .group = dataset->group,
         .key = saved.arrays[dataset->array].key,
         .box = dataset->box,
         .task = dataset->task < 0 ? std::optional<int64_t>() : dataset->task});
  }
  return pieces;
}

}  // namespace

std::vector<ArrayInfo> ArraysOf(const SavedCheckpoint& saved,
                                const std::vector<ArrayEntry>& entries) {
  const std::vector<std::string> layouts = LayoutsOf(saved);
  std::vector<ArrayInfo> arrays;
  arrays.reserve(saved.arrays.size());
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    const StoredArray& array = saved.arrays[i];
    arrays.push_back({.key = array.key,
                      .dtype = array.dtype,
                      .shape = array.shape,
                      .bytes = ArrayBytes(array),
                      .cut = CutText(entries[i]),
                      .args = array.args,
                      .layout = layouts[i],
                      .fields = array.fields});
  }
  return arrays;
}

CheckpointInfo InfoOf(const std::string& path, const SavedCheckpoint& saved,
                      const std::vector<ArrayEntry>& entries) {
  CheckpointInfo info{.path = path,
                      .step = saved.step,
                      .time = saved.time,
                      .format_major = saved.format_major,
                      .format_minor = saved.format_minor,
                      .file_layout = saved.file_layout,
                      .num_files = static_cast<int64_t>(saved.files.size()),
                      .bytes = TotalBytes(saved),
                      .has_checksums = saved.has_checksums,
                      .has_graph = !saved.graph.node_parent.empty(),
                      .arrays = ArraysOf(saved, entries),
                      .pieces = PiecesOf(saved)};
  for (const StoredFile& file : saved.files) info.file_bytes += file.bytes;
  return info;
}

}  // namespace belay
