// Rows in memory of the program whose number restores change.

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

// What the program has said of its rows, and what belay works with during a
// save or a restore: the object that a Shard of rows refers to.
struct ProgramRows {
  std::string key;
  belay_rows given = {};  // its shape and fields are not used any more
  DType dtype = DType::kU8;
  int64_t width = 1;      // stored elements of a row
  int64_t row_bytes = 1;  // in memory or stored, whichever is more
  bool has_ids = false;
  int64_t count = 0;
  void* data = nullptr;
  // Whether its memory may be that of other rows as well, whose function moves
  // it: its address is asked for again whenever it is used.
  bool may_move = false;
};

// Takes the counts of the program's rows, and finds their memory.
// Errors: InvalidArgument - a count is no count, exceeds the capacity, or there
//   are no ids for it; ResourceExhausted - no memory; FailedPrecondition - a
//   function gives other memory whenever it is called; all name the key.
Status TakeRows(std::deque<ProgramRows>& all);

// Tells the program how many rows it has after a restore. Rows of the
// keys `missing`, ascending, were not restored: they get the number of rows of
// those that they share a count with, or keep their own.
// Errors: FailedPrecondition - rows that share a count have other numbers, and
//   the count is the least of them; or there is no room for that many;
//   ResourceExhausted - no memory; all name the key.
Status GiveCounts(const std::vector<std::string>& missing,
                  std::deque<ProgramRows>& all);

// After a restore that has failed: tells the program how many rows it has where
// its own function has made room for others.
void GiveCountsOfResized(const std::deque<ProgramRows>& all);

}  // namespace belay::c

// The fields of a struct of the program.
struct belay_fields {
  int64_t bytes = 0;
  std::vector<belay::StructField> fields = {};
};

#endif  // BELAY_C_ROWS_H_
