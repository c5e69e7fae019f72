#include "plan/stored/stored_structs.h"

#include "absl/strings/str_format.h"
#include "bytes/struct_text.h"
#include "plan/stored/column_damage.h"

namespace belay {
namespace {

// Whether a dataset has all bytes of its structs, and so has each chunk.
bool HasWholeStructs(const StoredDataset& dataset, const StoredArray& array) {
  const int64_t bytes = array.shape.back();
  return dataset.box.shape.back() == bytes &&
         (dataset.chunk.empty() || dataset.chunk.back() == bytes);
}

bool CanHave(const StoredArray& array, const std::string& fields) {
  return array.dtype == DType::kU8 && array.shape.size() == 2 &&
         BytesOfFields(fields) == array.shape.back();
}

}  // namespace

StructColumns ToStructColumns(const std::vector<StoredArray>& arrays) {
  StructColumns columns;
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (arrays[i].fields.empty()) continue;
    columns.array.push_back(static_cast<uint32_t>(i));
    columns.fields.push_back(arrays[i].fields);
  }
  return columns;
}

std::string FromStructColumns(const StructColumns& columns,
                              SavedCheckpoint& saved) {
  ColumnDamage damage("structs");
  damage.CheckLength("fields", columns.fields, columns.array.size());
  damage.CheckRange("array", columns.array, 0, saved.arrays.size());
  damage.CheckRows("array", columns.array, [&](size_t i) {
    return i == 0 || columns.array[i - 1] < columns.array[i];
  });
  damage.CheckRows("fields", columns.fields, [&](size_t i) {
    StoredArray& array = saved.arrays[columns.array[i]];
    if (!CanHave(array, columns.fields[i])) return false;
    array.fields = columns.fields[i];
    return true;
  });
  if (std::string text = damage.Take(); !text.empty()) return text;
  if (columns.array.empty()) return "";
  for (const StoredDataset& dataset : saved.datasets) {
    const StoredArray& array = saved.arrays[dataset.array];
    if (array.fields.empty() || HasWholeStructs(dataset, array)) continue;
    return absl::StrFormat("a dataset of \"%s\" has parts of structs",
                           array.key);
  }
  return "";
}

Status CheckWholeStructs(const SavePlan& plan) {
  for (const StoredDataset& dataset : plan.datasets) {
    const StoredArray& array = plan.arrays[dataset.array];
    if (array.fields.empty() || HasWholeStructs(dataset, array)) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "plan \"%s\": its structs are cut, by a sharding policy or the chunk "
        "shape of its arguments (need all %d bytes of the last axis, found box "
        "\"%s\", chunk %s)",
        array.key, array.shape.back(), BoxText(dataset.box),
        ShapeText(dataset.chunk)));
  }
  return absl::OkStatus();
}

}  // namespace belay
