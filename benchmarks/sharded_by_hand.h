// What a program would write by hand to update and look up rows of the table,
// for this one cut. It is given what belay has to find out: rows and requests
// lie sorted by owner before the clock starts.

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

// Bytes for every rank and where they lie, as MPI_Alltoallv takes them.
struct Side {
  explicit Side(int size) : counts(size), offsets(size) {}

  // Places what the counts say. Local.
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

  Side to;  // of other ranks; what stays here is in `kept`
  Side from;
  Side rows_to{0};  // of lookups: the answers
  Side rows_from{0};
  std::vector<int64_t> kept;         // places in table->picked
  std::vector<std::byte> kept_rows;  // of lookups
};

// Sorts the updates of this rank. Collective.
std::shared_ptr<ByHand> SortUpdates(const Comm& comm, const Table& table);

// One MPI_Alltoallv and the local loop. Collective.
Status ScatterAddByHand(const Comm& comm, const Table& table, ByHand& sorted);

// Sorts the requests of this rank. Collective.
std::shared_ptr<ByHand> SortRequests(const Comm& comm, const Table& table);

// One MPI_Alltoallv to ask, the local loop, and one to answer. Rows come in the
// order of owners; a repeated one comes again. Collective.
Status LookUpByHand(const Comm& comm, const Table& table, ByHand& sorted);

// Which rows came, in their order. Local.
std::vector<int64_t> RowsAskedFor(const ByHand& sorted);

}  // namespace belay::bench

#endif  // BELAY_BENCHMARKS_SHARDED_BY_HAND_H_
