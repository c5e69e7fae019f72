// Exchanges numbers between ranks so that results do not depend on the number
// of ranks.
//
// Floating-point addition is not associative, and MPI_Allreduce may add in any
// order. Here every sum is either computed on one rank or passed from rank to
// rank in the order of the elements.

#ifndef CHAR_LM_EXCHANGE_H_
#define CHAR_LM_EXCHANGE_H_

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "belay/arrays/layout.h"

namespace char_lm {

// The ranks that train together.
struct Ranks {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
};

// Joins the pieces of an array that is partitioned along its first axis, so
// that every rank holds the whole array. Each element of `shape` is `width`
// numbers. Collective. Same on all ranks: layout, shape, width.
std::vector<float> GatherPieces(const Ranks& ranks, const belay::Layout& layout,
                                const belay::Shape& shape, int64_t width,
                                const std::vector<float>& piece);

// Lets the ranks add their parts to each element of `sums`, one rank after
// another, starting from zeros; every rank gets the result. Collective. Same on
// all ranks: stretch, the size of sums. add(first, last) adds this rank's part
// to sums[first, last). While one rank adds to a stretch, the rank before it
// works on the next stretch.
void AddInRankOrder(const Ranks& ranks, int64_t stretch,
                    std::vector<float>& sums,
                    const std::function<void(int64_t, int64_t)>& add);

}  // namespace char_lm

#endif  // CHAR_LM_EXCHANGE_H_
