// Handwritten code that updates and looks up rows of the table, for this one
// partition. It starts with information that belay must compute first: rows and
// requests are already sorted by owner before the timing starts.

#ifndef BELAY_BENCHMARKS_SHARDED_BY_HAND_H_
#define BELAY_BENCHMARKS_SHARDED_BY_HAND_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "belay/comm.h"
#include "belay/status.h"
#include "sharded_table.h"

namespace belay::bench {

// Byte counts and offsets for every rank, as arguments of MPI_Alltoallv.
struct Side {
  explicit Side(int size) : counts(size), offsets(size) {}

  // Computes the offsets from the counts. Local.
  void Lay() {
    int64_t end = 0;
    for (size_t rank = 0; rank < counts.size(); ++rank) {
      offsets[rank] = static_cast<int>(end);
      end += counts[rank];
    }
    bytes.resize(end);
  }

  std::vector<int> counts;
  std::vector<int> offsets;
  std::vector<std::byte> bytes;
};

// Updates or requests, by owner.
struct ByHand {
  explicit ByHand(int size) : to(size), from(size) {}

  Side to;  // for other ranks; local rows are in `kept`
  Side from;
  Side rows_to{0};  // replies of lookups
  Side rows_from{0};
  std::vector<int64_t> kept;         // places in table->picked
  std::vector<std::byte> kept_rows;  // of lookups
};

// Sorts the updates of this rank. Collective.
std::shared_ptr<ByHand> SortUpdates(const Comm& comm, const Table& table);

// Does one MPI_Alltoallv and the local loop. Collective.
Status ScatterAddByHand(const Comm& comm, const Table& table, ByHand& sorted);

// Sorts the requests of this rank. Collective.
std::shared_ptr<ByHand> SortRequests(const Comm& comm, const Table& table);

// Does one MPI_Alltoallv for requests, the local loop, and one MPI_Alltoallv
// for replies. Rows arrive in the order of owners; repeated rows arrive
// repeatedly. Collective.
Status LookUpByHand(const Comm& comm, const Table& table, ByHand& sorted);

// Returns the numbers of the received rows, in order. Local.
std::vector<int64_t> RowsAskedFor(const ByHand& sorted);

}  // namespace belay::bench

#endif  // BELAY_BENCHMARKS_SHARDED_BY_HAND_H_
