#include "store/stripes.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/status_macros.h"

namespace belay {
namespace {

// How many ranges are counted at a time.
constexpr int64_t kRangesPerRank = 64;
constexpr int64_t kMostRanges = 4096;

int64_t PowerOfTwoFrom(int64_t least) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(least)));
}

// Ranges of equal width, the first of which begins at or before `begin`.
std::vector<int64_t> FirstEdges(int64_t begin, int64_t end, int ranks) {
  const int64_t most = std::min(kMostRanges, kRangesPerRank * ranks);
  const int64_t width =
      PowerOfTwoFrom(std::max(kStripeAlignment, (end - begin) / most + 1));
  std::vector<int64_t> edges;
  for (int64_t at = begin / width * width; at < end; at += width) {
    edges.push_back(at);
  }
  edges.push_back(edges.back() + width);
  return edges;
}

// Cuts the ranges that weigh more than `share`. Returns whether there were any
// that can be cut.
bool CutHeavyRanges(const std::vector<int64_t>& weights, int64_t share,
                    std::vector<int64_t>& edges) {
  const auto is_heavy = [&](size_t i) {
    return weights[i] > share && edges[i + 1] - edges[i] > kStripeAlignment;
  };
  int64_t heavy = 0;
  for (size_t i = 0; i < weights.size(); ++i) heavy += is_heavy(i) ? 1 : 0;
  if (heavy == 0) return false;
  const int64_t parts =
      PowerOfTwoFrom(std::max<int64_t>(2, kMostRanges / 2 / heavy));
  std::vector<int64_t> finer;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t width = edges[i + 1] - edges[i];
    const int64_t step =
        is_heavy(i) ? std::max(kStripeAlignment, width / parts) : width;
    for (int64_t at = edges[i]; at < edges[i + 1]; at += step) {
      finer.push_back(at);
    }
  }
  finer.push_back(edges.back());
  edges = std::move(finer);
  return true;
}

}  // namespace

int64_t WeightOf(const Segments& segments) {
  return std::accumulate(segments.begin(), segments.end(), int64_t{0},
                         [](int64_t sum, const IoSegment& segment) {
                           return sum + segment.bytes + kSegmentWeight;
                         });
}

void AddWeights(const Segments& segments, const std::vector<int64_t>& edges,
                std::vector<int64_t>& weights) {
  size_t range = 0;
  for (const IoSegment& segment : segments) {
    const int64_t end = segment.offset + segment.bytes;
    for (int64_t at = segment.offset; at < end;) {
      if (at >= edges[range + 1]) {
        const auto next = std::upper_bound(
            edges.begin() + static_cast<int64_t>(range) + 1, edges.end(), at);
        range = static_cast<size_t>(next - edges.begin()) - 1;
      }
      const int64_t next = std::min(end, edges[range + 1]);
      weights[range] += next - at + kSegmentWeight;
      at = next;
    }
  }
}

StatusOr<std::vector<int64_t>> CutIntoStripes(Team& team, int64_t begin,
                                              int64_t end,
                                              const Segments& mine) {
  std::vector<int64_t> edges = FirstEdges(begin, end, team.size());
  std::vector<int64_t> weights;
  int64_t all = 0;
  do {
    weights.assign(edges.size() - 1, 0);
    AddWeights(mine, edges, weights);
    BELAY_RETURN_IF_AGREED(SumAll(team, weights));
    all = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  } while (team.size() > 1 &&
           CutHeavyRanges(weights, all / team.size(), edges));
  std::vector<int64_t> starts = {edges[0]};
  int64_t before = 0;
  for (size_t range = 0; range < weights.size(); ++range) {
    before += weights[range];
    const auto stripes = static_cast<int64_t>(starts.size());
    if (stripes < team.size() && before >= all / team.size() * stripes) {
      starts.push_back(std::min(end, edges[range + 1]));
    }
  }
  starts.resize(team.size() + 1, end);
  return starts;
}

}  // namespace belay
