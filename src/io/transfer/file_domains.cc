#include "io/transfer/file_domains.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "base/status_macros.h"

namespace belay {
namespace {

// How many ranges are counted at a time.
constexpr int64_t kRangesPerRank = 64;
constexpr int64_t kMostRanges = 4096;
// Smaller domains make more requests than they spare.
constexpr int64_t kLeastDomain = int64_t{1} << 20;

int64_t PowerOfTwoFrom(int64_t least) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(least)));
}

// The least multiple of `unit` that is not below `bytes`.
int64_t RoundUp(int64_t bytes, int64_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Ranges of equal width, the first of which begins at or before `begin`.
std::vector<int64_t> FirstEdges(int64_t begin, int64_t end, int ranks,
                                int64_t unit) {
  const int64_t most = std::min(kMostRanges, kRangesPerRank * ranks);
  const int64_t least = (end - begin) / most + 1;
  const int64_t width = unit * PowerOfTwoFrom(RoundUp(least, unit) / unit);
  std::vector<int64_t> edges;
  for (int64_t at = begin / width * width; at < end; at += width) {
    edges.push_back(at);
  }
  edges.push_back(edges.back() + width);
  return edges;
}

// What parts of a range that is too heavy are multiples of; 0: it stays.
int64_t PartUnit(int64_t weight, int64_t width, int64_t share,
                 const DomainBorders& borders) {
  if (weight <= share) return 0;
  if (width > borders.unit) return borders.unit;
  const bool must = weight > borders.most_weight && width > kDomainAlignment;
  return must ? kDomainAlignment : 0;
}

// Cuts the ranges that weigh more than `share`. Returns whether there were any
// that can be cut.
bool CutHeavyRanges(const std::vector<int64_t>& weights, int64_t share,
                    const DomainBorders& borders, std::vector<int64_t>& edges) {
  std::vector<int64_t> units;
  int64_t heavy = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    units.push_back(
        PartUnit(weights[i], edges[i + 1] - edges[i], share, borders));
    heavy += units[i] > 0 ? 1 : 0;
  }
  if (heavy == 0) return false;
  const int64_t parts =
      PowerOfTwoFrom(std::max<int64_t>(2, kMostRanges / 2 / heavy));
  std::vector<int64_t> finer;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t width = edges[i + 1] - edges[i];
    const int64_t unit = units[i];
    const int64_t step =
        unit > 0 ? std::max(unit, width / parts / unit * unit) : width;
    for (int64_t at = edges[i]; at < edges[i + 1]; at += step) {
      finer.push_back(at);
    }
  }
  finer.push_back(edges.back());
  edges = std::move(finer);
  return true;
}

// Gives the domains that begin at `starts` to as many of the ranks, evenly. The
// others get empty ones.
std::vector<int64_t> SpreadOverRanks(const std::vector<int64_t>& starts,
                                     int64_t end, int ranks) {
  const int64_t count = std::ssize(starts);
  std::vector<int64_t> spread;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t next = (rank * count + ranks - 1) / ranks;
    spread.push_back(next < count ? starts[next] : end);
  }
  spread.push_back(end);
  return spread;
}

}  // namespace

int64_t WeightOf(const Segments& segments) {
  return std::accumulate(segments.begin(), segments.end(), int64_t{0},
                         [](int64_t sum, const IoSegment& segment) {
                           return sum + segment.bytes + kSegmentWeight;
                         });
}

void SortByOffset(Segments& segments) {
  const auto before = [](const IoSegment& a, const IoSegment& b) {
    return a.offset < b.offset;
  };
  if (!std::is_sorted(segments.begin(), segments.end(), before)) {
    std::sort(segments.begin(), segments.end(), before);
  }
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

int64_t DomainUnit(int64_t stripe, int64_t most_weight) {
  if (stripe <= 0) return kDomainAlignment;
  const int64_t unit = RoundUp(kLeastDomain, stripe);
  return unit <= most_weight ? unit : stripe;
}

StatusOr<std::vector<int64_t>> CutIntoDomains(CommContext& context,
                                              int64_t begin, int64_t end,
                                              const Segments& mine,
                                              const DomainBorders& borders) {
  std::vector<int64_t> edges =
      FirstEdges(begin, end, context.size(), borders.unit);
  std::vector<int64_t> weights;
  int64_t all = 0;
  do {
    weights.assign(edges.size() - 1, 0);
    AddWeights(mine, edges, weights);
    BELAY_RETURN_IF_AGREED(SumAll(context, weights));
    all = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  } while (context.size() > 1 &&
           CutHeavyRanges(weights, all / context.size(), borders, edges));
  std::vector<int64_t> starts = {edges[0]};
  int64_t before = 0;
  for (size_t range = 1; range < weights.size(); ++range) {
    before += weights[range - 1];
    const auto domains = static_cast<int64_t>(starts.size());
    // At the border that is nearest to the even share.
    if (domains < context.size() && edges[range] < end &&
        before + weights[range] / 2 >= all / context.size() * domains) {
      starts.push_back(edges[range]);
    }
  }
  return SpreadOverRanks(starts, end, context.size());
}

}  // namespace belay
