// Stage compare of a save: whether replicas are equal.
#include <span>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/catch_bad_alloc.h"
#include "base/status_macros.h"
#include "bytes/fingerprint.h"
#include "mpi/all_to_all.h"
#include "pipeline/save_options.h"
#include "plan/save/replica_check.h"
#include "plan/save/replica_sums.h"
#include "save/save_stages.h"

namespace belay {
namespace {

// What this rank holds, for the rank that compares it. Local.
Status SumsByComparer(const CommContext& context, const ReplicaCheck& replicas,
                      const std::vector<Shard>& shards, Messages& to) {
  std::vector<std::vector<ReplicaSum>> sums(
      static_cast<size_t>(context.size()));
  for (const ReplicaRange& range : replicas.ranges) {
    for (int32_t i = range.first; i < range.first + range.count; ++i) {
      const Shard& shard = shards[static_cast<size_t>(i)];
      ReplicaSum sum{.key = shard.key,
                     .box = shard.box,
                     .sum = ReplicaFingerprint(shard),
                     .rank = context.rank()};
      const auto comparer = ComparerOf(sum, context.size());
      sums[static_cast<size_t>(comparer)].push_back(std::move(sum));
    }
  }
  for (size_t rank = 0; rank < to.size(); ++rank) {
    to[rank].Append(EncodeSums(sums[rank]));
  }
  return absl::OkStatus();
}

// Compares what all ranks said of the boxes that this one compares. Local.
ReplicaDifferences Compare(const std::vector<std::span<std::byte>>& received) {
  std::vector<ReplicaSum> all;
  for (const std::span<std::byte> bytes : received) {
    const auto* data = reinterpret_cast<const char*>(bytes.data());
    for (ReplicaSum& sum : DecodeSums({data, bytes.size()})) {
      all.push_back(std::move(sum));
    }
  }
  return FindDifferences(std::move(all));
}

}  // namespace

uint64_t SumReplicas(const SaveOptions& options, const ReusablePlan& plan,
                     const std::vector<Shard>& shards) {
  const ReplicaChecks checks = ChecksOf(options);
  if (checks == ReplicaChecks::kNone) return 0;
  return SumOfReplicas(
      plan.planned.replicas, shards,
      checks == ReplicaChecks::kEachSave ? kEveryByte : plan.num_reuses);
}

Status CompareReplicas(const SaveFrame& frame, const ReplicaCheck& replicas,
                       const std::vector<Shard>& shards) {
  if (replicas.num_boxes == 0 ||
      ChecksOf(frame.options) == ReplicaChecks::kNone) {
    return absl::OkStatus();
  }
  frame.stages.Enter("compare");
  std::vector<int64_t> sum = {0};
  const Status summed = CatchBadAlloc("the bytes of replicas", [&] {
    sum[0] = static_cast<int64_t>(SumOfReplicas(replicas, shards, kEveryByte));
    return absl::OkStatus();
  });
  BELAY_RETURN_IF_AGREED(SumAll(frame.context, sum, summed));
  return sum[0] == 0 ? absl::OkStatus()
                     : NameDifferentReplicas(frame, replicas, shards,
                                             /*is_reused=*/false);
}

Status NameDifferentReplicas(const SaveFrame& frame,
                             const ReplicaCheck& replicas,
                             const std::vector<Shard>& shards, bool is_reused) {
  CommContext& context = frame.context;
  Mail mail(context.size());
  BELAY_RETURN_IF_AGREED(
      ExchangeMail(context, "the sums of replicas", mail, [&](Messages& to) {
        return SumsByComparer(context, replicas, shards, to);
      }));
  ReplicaDifferences differences;
  const Status compared = CatchBadAlloc("the sums of replicas", [&] {
    differences = Compare(mail.from);
    return absl::OkStatus();
  });
  std::vector<int64_t> count = {differences.count};
  BELAY_RETURN_IF_AGREED(Agree(context, compared));
  BELAY_RETURN_IF_AGREED(SumAll(context, count));
  Status mine;
  if (differences.count > 0) {
    mine = absl::InvalidArgumentError(absl::StrFormat(
        "save \"%s\": %s; %d such %s in all%s; the part of an array that a "
        "rank "
        "holds is saved by AddPiece, what each rank has of its own by "
        "AddPerRank or Tracker::PerRank, and what may differ, if only in its "
        "last bits, by AddFromRank0 or FromRank0, which save the value of rank "
        "0 [rank %d of %d]",
        frame.target.path, differences.first, count[0],
        count[0] == 1 ? "box" : "boxes",
        is_reused ? "; steps that were saved before may hold a mix of these "
                    "values, as each save compares others"
                  : "",
        differences.rank, context.size()));
  } else if (count[0] == 0) {
    mine = absl::InvalidArgumentError(absl::StrFormat(
        "save \"%s\": replicas differed, and no longer do: values have changed "
        "during the save",
        frame.target.path));
  }
  return Agree(context, mine);
}

}  // namespace belay
