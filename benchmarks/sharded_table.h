// A table of 1,000,000 rows of 64 f32, partitioned over the ranks.

#ifndef BELAY_BENCHMARKS_SHARDED_TABLE_H_
#define BELAY_BENCHMARKS_SHARDED_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "belay/arrays/tensor.h"
#include "belay/sharded_variable.h"
#include "belay/status.h"
#include "race.h"

namespace belay::bench {

inline constexpr int64_t kColumns = 64;
inline constexpr int64_t kRowBytes = kColumns * sizeof(float);

// The table, and the rows of it that this rank updates or looks up.
struct Table {
  ShardedVariable variable;
  int64_t num_rows = 0;
  std::vector<int64_t> picked;
  Tensor indices;
  Tensor deltas;  // a row for each index

  // This rank's part.
  const Component& part(const Comm& comm) const {
    return variable.components()[comm.rank()];
  }
  int OwnerOf(int64_t row) const {
    return variable.components()[variable.FindComponent(row)].owner;
  }
};

// Makes a table with values that depend only on their position, and picks
// 100,000 rows at random. Collective.
// Errors: those of CreateShardedVariable.
StatusOr<std::shared_ptr<Table>> MakeTable(const Context& context);

// Checks consecutive rows. Local.
// Errors: DataLoss - names the first wrong value.
Status CheckRows(const std::vector<int64_t>& rows, const std::byte* bytes);

// Checks this rank's part after all ranks added their deltas once. Local.
// Errors: DataLoss - names the first wrong value.
Status CheckSums(const Comm& comm, const Table& table);

}  // namespace belay::bench

#endif  // BELAY_BENCHMARKS_SHARDED_TABLE_H_
