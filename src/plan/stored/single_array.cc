#include "plan/stored/single_array.h"

#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/numeric/int128.h"
#include "absl/strings/str_format.h"
#include "bytes/checksum.h"
#include "geometry/box_tiling.h"

namespace belay {
namespace {

constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max();

std::string NoTiling(const StoredArray& array,
                     const std::vector<const Box*>& boxes) {
  absl::uint128 found = 0;
  for (const Box* box : boxes) {
    found += static_cast<uint64_t>(NumElements(box->shape));
  }
  const absl::uint128 need =
      static_cast<uint64_t>(ArrayBytes(array) / IoElementSize(array.dtype));
  return absl::StrFormat(
      "the datasets of \"%s\" do not hold each element exactly once (need %d "
      "elements, found %d%s)",
      array.key, need, found, found == need ? ", some of them twice" : "");
}

}  // namespace

std::vector<ArrayEntry> ArrayEntries(const SavedCheckpoint& saved) {
  std::vector<ArrayEntry> entries(saved.arrays.size());
  const std::span<const StoredDataset> datasets(saved.datasets);
  size_t begin = 0;
  int64_t next_block = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    size_t end = begin;
    while (end < datasets.size() &&
           datasets[end].array == static_cast<int32_t>(i)) {
      ++end;
    }
    entries[i] = {datasets.subspan(begin, end - begin), next_block};
    begin = end;
    // Without checksums nobody asks for them, and nothing bounds their sum.
    if (saved.has_checksums) {
      next_block += NumBlocks(ArrayBytes(saved.arrays[i]));
    }
  }
  return entries;
}

std::string DamageOfTilings(const SavedCheckpoint& saved) {
  absl::uint128 bytes = 0;
  std::vector<const Box*> boxes;
  auto dataset = saved.datasets.begin();
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    const StoredArray& array = saved.arrays[i];
    bytes += static_cast<uint64_t>(ArrayBytes(array));
    if (bytes > kMostBytes) {
      return absl::StrFormat(
          "the arrays up to \"%s\" have too many bytes (need at most %d, found "
          "%d)",
          array.key, kMostBytes, bytes);
    }
    boxes.clear();
    for (; dataset != saved.datasets.end() &&
           dataset->array == static_cast<int32_t>(i);
         ++dataset) {
      boxes.push_back(&dataset->box);
    }
    const Shape text = {array.string_bytes};
    const bool is_text = array.dtype == DType::kString;
    if (!IsTiling(is_text ? text : array.shape, boxes)) {
      return NoTiling(array, boxes);
    }
  }
  return "";
}

SavedCheckpoint IndexOfArray(const SavedCheckpoint& saved, int32_t array,
                             const ArrayEntry& entry, const Box& box) {
  SavedCheckpoint one{.step = saved.step,
                      .format_major = saved.format_major,
                      .format_minor = saved.format_minor,
                      .file_layout = saved.file_layout,
                      .has_checksums = saved.has_checksums,
                      .arrays = {saved.arrays[array]}};
  absl::flat_hash_map<int32_t, int32_t> file_numbers;
  for (const StoredDataset& dataset : entry.datasets) {
    if (!Intersect(dataset.box, box)) continue;
    const auto [file, is_new] = file_numbers.try_emplace(
        dataset.file, static_cast<int32_t>(one.files.size()));
    if (is_new) one.files.push_back(saved.files[dataset.file]);
    one.datasets.push_back(dataset);
    one.datasets.back().array = 0;
    one.datasets.back().file = file->second;
  }
  if (saved.has_checksums) {
    const auto first = saved.checksums.begin() + entry.first_block;
    one.checksums.assign(first,
                         first + NumBlocks(ArrayBytes(saved.arrays[array])));
  }
  return one;
}

}  // namespace belay
