// Rows in memory of the program whose number restores change.

#ifndef BELAY_C_ROWS_H_
#define BELAY_C_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "belay/arrays/dtype.h"
#include "belay/arrays/fields.h"
#include "belay/belay_c.h"
#include "belay/status.h"

namespace belay::c {

// What the program has said of its rows, and what belay works with during a
// save or a restore: the object that a Shard of rows refers to.
struct ProgramRows {
  std::string key;
  belay_rows given = {};  // its shape and fields are not used any more
  DType dtype = DType::kU8;
  int64_t width = 1;  // stored elements of a row
  int64_t count = 0;
  void* data = nullptr;
};

// Takes the count of the program's rows, and finds their memory. Local.
// Errors: InvalidArgument - the count is no count, or exceeds the capacity;
//   ResourceExhausted - no memory; both name the key.
Status TakeRows(ProgramRows& rows);

// Tells the program how many rows it has. Local.
void GiveCount(const ProgramRows& rows);

}  // namespace belay::c

// The fields of a struct of the program.
struct belay_fields {
  int64_t bytes = 0;
  std::vector<belay::StructField> fields = {};
};

#endif  // BELAY_C_ROWS_H_
