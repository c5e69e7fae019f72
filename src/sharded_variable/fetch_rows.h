// Rows of a variable from wherever they are.

#ifndef BELAY_SHARDED_VARIABLE_FETCH_ROWS_H_
#define BELAY_SHARDED_VARIABLE_FETCH_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "belay/sharded_variable.h"
#include "belay/status.h"
#include "core/agreed.h"
#include "mpi/collective.h"

namespace belay {

// Where the rows that were asked for can be read, in the order of asking: in
// the variable itself, or among those that came from other ranks.
struct FetchedRows {
  std::vector<const std::byte*> rows;
  std::unique_ptr<std::byte[]> received;
};

// Fetches rows, each from its owner and only once. Every rank passes its own
// rows, or why it has none. Collective. Same on all ranks: variable. The rows
// were checked; they are looked at only if `mine` is OK. `scratch` is memory
// that may be written to, any amount of it: that of the result, say, because
// fresh memory costs as much as a copy.
Agreed<FetchedRows> FetchRows(CommContext& context,
                              const std::string& operation,
                              const ShardedVariable& variable,
                              const Status& mine, std::span<const int64_t> rows,
                              std::span<std::byte> scratch);

// Copies rows one after the other.
void CopyRows(const std::vector<const std::byte*>& rows, int64_t row_bytes,
              std::byte* to);

}  // namespace belay

#endif  // BELAY_SHARDED_VARIABLE_FETCH_ROWS_H_
