// Station compare of a save: whether replicas are equal.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/fingerprint.h"
#include "base/status_macros.h"
#include "base/with_memory.h"
#include "checkpoint/save_run.h"
#include "model/replica_sums.h"
#include "parallel/all_to_all.h"

namespace belay {
namespace {

std::string_view BytesOf(const Shard& shard) {
  if (shard.dtype == DType::kString) return *shard.text;
  return {static_cast<const char*>(shard.data),
          static_cast<size_t>(NumElements(shard.box.shape) *
                              DTypeSize(shard.dtype))};
}

// What this rank holds, for the rank that compares it. Local.
std::vector<std::string> SumsByComparer(const SaveRun& run) {
  std::vector<std::vector<ReplicaSum>> sums(
      static_cast<size_t>(run.team.size()));
  for (const Shard& shard : run.shards) {
    if (NumElements(shard.box.shape) == 0) continue;
    ReplicaSum sum{.key = shard.key,
                   .box = shard.box,
                   .sum = Fingerprint(BytesOf(shard)),
                   .rank = run.team.rank()};
    const auto comparer = static_cast<size_t>(ComparerOf(sum, run.team.size()));
    sums[comparer].push_back(std::move(sum));
  }
  std::vector<std::string> encoded;
  for (const auto& some : sums) encoded.push_back(EncodeSums(some));
  return encoded;
}

std::vector<std::span<const std::byte>> AsSpans(
    const std::vector<std::string>& texts) {
  std::vector<std::span<const std::byte>> spans;
  for (const std::string& text : texts) {
    spans.push_back(std::as_bytes(std::span(text.data(), text.size())));
  }
  return spans;
}

// Compares what all ranks said of the boxes that this one compares. Local.
ReplicaDifferences Compare(const ReceivedBytes& received) {
  std::vector<ReplicaSum> all;
  for (const std::span<std::byte> bytes : received.FromAll()) {
    const auto* data = reinterpret_cast<const char*>(bytes.data());
    for (ReplicaSum& sum : DecodeSums({data, bytes.size()})) {
      all.push_back(std::move(sum));
    }
  }
  return FindDifferences(std::move(all));
}

}  // namespace

Status CompareReplicas(SaveRun& run) {
  if (!run.options.check_replicas) return absl::OkStatus();
  run.stations.Enter("compare");
  std::vector<std::string> sums;
  const Status summed = WithMemory("the sums of replicas", [&] {
    sums = SumsByComparer(run);
    return absl::OkStatus();
  });
  BELAY_ASSIGN_OR_RETURN_AGREED(const ReceivedBytes received,
                                AllToAll(run.team, summed, AsSpans(sums)));
  ReplicaDifferences differences;
  const Status compared = WithMemory("the sums of replicas", [&] {
    differences = Compare(received);
    return absl::OkStatus();
  });
  std::vector<int64_t> count = {differences.count};
  BELAY_RETURN_IF_AGREED(Agree(run.team, compared));
  BELAY_RETURN_IF_AGREED(SumAll(run.team, count));
  Status mine;
  if (differences.count > 0) {
    mine = absl::InvalidArgumentError(absl::StrFormat(
        "save \"%s\": %s; %d such %s in all [rank %d of %d]", run.path,
        differences.first, count[0], count[0] == 1 ? "box" : "boxes",
        differences.rank, run.team.size()));
  }
  return Agree(run.team, mine);
}

}  // namespace belay
