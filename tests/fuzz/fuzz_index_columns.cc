// Fed: the columns of an index, without a file around them. An index that they
// make is written and read back as it was; its objects can be listed, and what
// is planned to be read of its arrays lies in its files.
#include "format/index_columns.h"
#include "fuzz_target.h"
#include "index_bytes.h"

namespace belay::fuzz_index_columns {
namespace {

void Run(std::string_view input) {
  const StatusOr<SavedCheckpoint> saved =
      FromColumns(ColumnsOfInput(input), "input");
  if (saved.ok()) CheckIndex(*saved);
}

const RegisterFuzzTarget kTarget({"index_columns", Run});

}  // namespace
}  // namespace belay::fuzz_index_columns
