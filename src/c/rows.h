// Rows in the program's memory, whose number may change in a restore.

#ifndef BELAY_C_ROWS_H_
#define BELAY_C_ROWS_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "belay/arrays/dtype.h"
#include "belay/arrays/fields.h"
#include "belay/belay_c.h"
#include "belay/status.h"

namespace belay::c {

// The program's description of its rows, and their current state during a save
// or a restore. Shard::object of rows points to this.
struct ProgramRows {
  std::string key;
  belay_rows given = {};  // without shape and fields
  DType dtype = DType::kU8;
  int64_t width = 1;      // stored elements of a row
  int64_t row_bytes = 1;  // the larger of memory and stored size
  bool has_ids = false;
  int64_t count = 0;
  void* data = nullptr;
  // True if other rows, whose resize function may move the memory, may share
  // it. The address is then requested again for each use.
  bool may_move = false;
};

// Reads the counts of the program's rows, and gets their memory.
// Errors: InvalidArgument - a count is negative or exceeds the capacity, or
//   there are no ids for it; ResourceExhausted - no memory;
//   FailedPrecondition - a resize function returns different memory at each
//   call; all name the key.
Status TakeRows(std::deque<ProgramRows>& all);

// Sets the program's counts after a restore. The keys `missing`, ascending,
// were not restored. Their rows get the number of the restored rows that share
// their count; if there are none, they keep their number.
// Errors: FailedPrecondition - rows that share a count have different numbers
//   (the smallest becomes the count), or there is no room for that many rows;
//   ResourceExhausted - no memory; all name the key.
Status GiveCounts(const std::vector<std::string>& missing,
                  std::deque<ProgramRows>& all);

// After a failed restore, sets the program's counts of rows that have a resize
// function, because it may already have changed their memory.
void GiveCountsOfResized(const std::deque<ProgramRows>& all);

}  // namespace belay::c

// The fields of a struct of the program.
struct belay_fields {
  int64_t bytes = 0;
  std::vector<belay::StructField> fields = {};
};

#endif  // BELAY_C_ROWS_H_
