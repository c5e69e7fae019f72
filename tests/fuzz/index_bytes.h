// An index as one string: of columns, and of a file of HDF5.

#ifndef BELAY_TESTS_FUZZ_INDEX_BYTES_H_
#define BELAY_TESTS_FUZZ_INDEX_BYTES_H_

#include <string>
#include <string_view>

#include "format/index_columns.h"
#include "plan/plan.h"

namespace belay {

// The columns of an input: each has two bytes with the number of its rows, then
// numbers, or texts behind a byte with their length; and back.
IndexColumns ColumnsOfInput(std::string_view input);
std::string InputOfColumns(const IndexColumns& columns);

// Puts checksums and digests of an index right, as far as its columns are
// found.
void RepairIndex(std::string& file);

// Does with an index what a reader of a checkpoint does, but for the data.
void CheckIndex(const SavedCheckpoint& saved);

}  // namespace belay

#endif  // BELAY_TESTS_FUZZ_INDEX_BYTES_H_
