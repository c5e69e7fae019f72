// Arrays of structs: u8 arrays whose last axis has the bytes of one struct,
// which no part of a file cuts.

#ifndef BELAY_PLAN_STORED_STORED_STRUCTS_H_
#define BELAY_PLAN_STORED_STORED_STRUCTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "belay/status.h"
#include "plan/plan.h"

namespace belay {

// Columns of an index; see docs/format.md.
struct StructColumns {
  // One row per array of structs.
  std::vector<uint32_t> array;
  std::vector<std::string> fields;
};

// Calls fn(path inside the index, column) for every column; the one list of
// names.
template <typename Columns, typename Fn>
void ForEachStructColumn(Columns& columns, Fn&& fn) {
  fn(".belay/structs/array", columns.array);
  fn(".belay/structs/fields", columns.fields);
}

StructColumns ToStructColumns(const std::vector<StoredArray>& arrays);

// Gives the arrays of `saved`, whose datasets are known, their fields. Returns
// what is wrong with the columns, "" if nothing.
std::string FromStructColumns(const StructColumns& columns,
                              SavedCheckpoint& saved);

// Checks that no dataset and no chunk of a plan has parts of structs.
// Errors: InvalidArgument - one has; names the key.
Status CheckWholeStructs(const SavePlan& plan);

}  // namespace belay

#endif  // BELAY_PLAN_STORED_STORED_STRUCTS_H_
