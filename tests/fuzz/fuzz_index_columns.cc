// Fed: the columns of an index, without a file around them. An index that they
// make is written and read back as it was; its objects can be listed, what is
// planned to be read of its arrays lies in its files, and an array that is
// taken out alone is the same.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "format/index_columns.h"
#include "format/stored_columns.h"
#include "fuzz_target.h"
#include "index_bytes.h"

namespace belay::fuzz_index_columns {
namespace {

void CheckAlone(const SavedCheckpoint& all, size_t number,
                const std::optional<IndexColumns>& columns) {
  const auto has_filters = [&](const StoredDataset& dataset) {
    return dataset.array == static_cast<int32_t>(number) &&
           !dataset.filters.empty();
  };
  if (std::any_of(all.datasets.begin(), all.datasets.end(), has_filters)) {
    Require(!columns.has_value(), "filters need all keys");
    return;
  }
  Require(columns.has_value(), "each array can be taken out");
  const StatusOr<SavedCheckpoint> one = FromColumns(*columns, "one");
  Require(one.ok(), "an array alone is sound if the index is");
  Require(one->arrays == std::vector<StoredArray>{all.arrays[number]},
          "an array is the same alone");
  size_t found = 0;
  for (StoredDataset dataset : all.datasets) {
    if (dataset.array != static_cast<int32_t>(number)) continue;
    dataset.array = 0;
    Require(found < one->datasets.size() && dataset == one->datasets[found],
            "its datasets are the same");
    ++found;
  }
  Require(found == one->datasets.size(), "it has no other datasets");
  Require(one->files == all.files && one->step == all.step,
          "all else is the same");
}

void Run(std::string_view input) {
  StoredColumns stored = ToStoredColumns(ColumnsOfInput(input));
  const std::vector<std::string> keys =
      GetRows<std::string>(FindColumn(stored, ".belay/arrays/key"));
  std::vector<std::optional<IndexColumns>> alone;
  for (size_t i = 0; i < keys.size() && i < 4; ++i) {
    alone.push_back(SelectArrays(stored, {keys[i]}));
    if (alone.back()) (void)FromColumns(*alone.back(), "alone");
  }
  const StatusOr<SavedCheckpoint> saved =
      FromColumns(ToIndexColumns(std::move(stored)), "input");
  if (!saved.ok()) return;
  for (size_t i = 0; i < alone.size(); ++i) CheckAlone(*saved, i, alone[i]);
  CheckIndex(*saved);
}

const RegisterFuzzTarget kTarget({"index_columns", Run});

}  // namespace
}  // namespace belay::fuzz_index_columns
