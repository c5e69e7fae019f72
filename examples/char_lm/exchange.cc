#include "exchange.h"

#include <algorithm>

namespace char_lm {
namespace {

constexpr int kTag = 1;

}  // namespace

std::vector<float> GatherPieces(const Ranks& ranks, const belay::Layout& layout,
                                const belay::Shape& shape, int64_t width,
                                const std::vector<float>& piece) {
  std::vector<int> counts;
  std::vector<int> offsets;
  int total = 0;
  for (int rank = 0; rank < ranks.size; ++rank) {
    const belay::Box box = layout.LocalBox(shape, rank).value();
    counts.push_back(static_cast<int>(belay::NumElements(box.shape) * width));
    offsets.push_back(total);
    total += counts.back();
  }
  std::vector<float> whole(total);
  MPI_Allgatherv(piece.data(), counts[ranks.rank], MPI_FLOAT, whole.data(),
                 counts.data(), offsets.data(), MPI_FLOAT, ranks.comm);
  return whole;
}

void AddInRankOrder(const Ranks& ranks, int64_t stretch,
                    std::vector<float>& sums,
                    const std::function<void(int64_t, int64_t)>& add) {
  const int last_rank = ranks.size - 1;
  const int64_t size = static_cast<int64_t>(sums.size());
  std::fill(sums.begin(), sums.end(), 0.0f);
  for (int64_t first = 0; first < size; first += stretch) {
    const int64_t last = std::min(first + stretch, size);
    const int count = static_cast<int>(last - first);
    float* data = sums.data() + first;
    if (ranks.rank > 0) {
      MPI_Recv(data, count, MPI_FLOAT, ranks.rank - 1, kTag, ranks.comm,
               MPI_STATUS_IGNORE);
    }
    add(first, last);
    if (ranks.rank < last_rank) {
      MPI_Send(data, count, MPI_FLOAT, ranks.rank + 1, kTag, ranks.comm);
    }
  }
  MPI_Bcast(sums.data(), static_cast<int>(size), MPI_FLOAT, last_rank,
            ranks.comm);
}

}  // namespace char_lm
