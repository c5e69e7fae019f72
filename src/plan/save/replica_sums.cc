#include "plan/save/replica_sums.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <tuple>

#include "absl/strings/str_format.h"
#include "base/first_of.h"
#include "base/text.h"
#include "bytes/fingerprint.h"
#include "bytes/wire.h"

namespace belay {
namespace {

constexpr size_t kMostNamedRanks = 8;

auto PlaceOf(const ReplicaSum& sum) {
  return std::tie(sum.key, sum.box.offset, sum.box.shape);
}

std::string RanksText(const std::vector<int32_t>& ranks) {
  return Cat(ranks.size() == 1 ? "rank " : "ranks ",
             FirstOf(ranks, kMostNamedRanks, ", "));
}

struct Different {
  std::string text;
  int32_t rank = 0;  // the first that differs
};

// What most ranks hold, and who holds something else; none if all are equal.
std::optional<Different> Difference(std::span<const ReplicaSum> sums) {
  std::map<uint64_t, std::vector<int32_t>> ranks;
  for (const ReplicaSum& sum : sums) ranks[sum.sum].push_back(sum.rank);
  if (ranks.size() == 1) return std::nullopt;
  // Of as many ranks, those with the lowest.
  const auto most = std::max_element(
      ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
        return std::tuple(a.second.size(), -a.second[0]) <
               std::tuple(b.second.size(), -b.second[0]);
      });
  std::vector<int32_t> others;
  for (const auto& [sum, holders] : ranks) {
    if (sum == most->first) continue;
    others.insert(others.end(), holders.begin(), holders.end());
  }
  std::sort(others.begin(), others.end());
  const Box& box = sums[0].box;
  const std::string place =
      box.shape.empty() ? "" : Cat(", box \"", BoxText(box), "\",");
  std::string text = absl::StrFormat(
      "replicas of \"%s\"%s differ (need the values of %s, found others on %s)",
      sums[0].key, place, RanksText(most->second), RanksText(others));
  return Different{.text = std::move(text), .rank = others[0]};
}

}  // namespace

int32_t ComparerOf(const ReplicaSum& sum, int num_ranks) {
  WireWriter place;
  place.PutText(sum.key);
  place.PutBox(sum.box);
  return static_cast<int32_t>(Fingerprint(place.bytes()) %
                              static_cast<uint64_t>(num_ranks));
}

ReplicaDifferences FindDifferences(std::vector<ReplicaSum> sums) {
  std::sort(sums.begin(), sums.end(),
            [](const ReplicaSum& a, const ReplicaSum& b) {
              return std::tuple_cat(PlaceOf(a), std::tie(a.rank, a.sum)) <
                     std::tuple_cat(PlaceOf(b), std::tie(b.rank, b.sum));
            });
  ReplicaDifferences differences;
  for (size_t begin = 0, end = 0; begin < sums.size(); begin = end) {
    while (end < sums.size() && PlaceOf(sums[end]) == PlaceOf(sums[begin])) {
      ++end;
    }
    const std::optional<Different> found =
        Difference(std::span(sums).subspan(begin, end - begin));
    if (!found) continue;
    if (++differences.count > 1) continue;
    differences.first = found->text;
    differences.rank = found->rank;
  }
  return differences;
}

std::string EncodeSums(const std::vector<ReplicaSum>& sums) {
  if (sums.empty()) return "";
  WireWriter out;
  out.Put<uint64_t>(sums.size());
  for (const ReplicaSum& sum : sums) {
    out.PutText(sum.key);
    out.PutBox(sum.box);
    out.Put(sum.sum);
    out.Put(sum.rank);
  }
  return out.Take();
}

std::vector<ReplicaSum> DecodeSums(std::string_view bytes) {
  if (bytes.empty()) return {};
  WireReader in(bytes);
  return in.GetAll<ReplicaSum>([&] {
    ReplicaSum sum;
    sum.key = in.GetText();
    sum.box = in.GetBox();
    sum.sum = in.Get<uint64_t>();
    sum.rank = in.Get<int32_t>();
    return sum;
  });
}

}  // namespace belay
