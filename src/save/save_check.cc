// The compare and verify stages of a save. They check that replicas are equal,
// and that the data files hold what was written.
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/program_words.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "mpi/all_to_all.h"
#include "pipeline/listing.h"
#include "pipeline/result_text.h"
#include "pipeline/save_options.h"
#include "plan/replica_check.h"
#include "save/save_stages.h"
#include "storage/verify.h"

namespace belay {
namespace {

// Packs the sums of this rank's replicas for the ranks that compare them.
Status PackSums(const CommContext& context, const ReplicaCheck& replicas,
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
      const auto comparer = ChooseComparer(sum, context.size());
      sums[static_cast<size_t>(comparer)].push_back(std::move(sum));
    }
  }
  for (size_t rank = 0; rank < to.size(); ++rank) {
    if (!sums[rank].empty()) to[rank].Append(Encode(sums[rank]));
  }
  return absl::OkStatus();
}

// Compares the sums of all ranks for the boxes that this rank compares.
ReplicaDifferences Compare(const std::vector<std::span<std::byte>>& received) {
  std::vector<ReplicaSum> all;
  for (const std::span<std::byte> bytes : received) {
    const auto* data = reinterpret_cast<const char*>(bytes.data());
    WireReader in({data, bytes.size()});
    std::vector<ReplicaSum> sums;
    in(sums);
    std::move(sums.begin(), sums.end(), std::back_inserter(all));
  }
  return FindDifferences(std::move(all));
}

}  // namespace

uint64_t SumReplicas(const SaveOptions& options, const RankPlan& plan,
                     const std::vector<Shard>& shards) {
  const ReplicaChecks checks = ChooseReplicaChecks(options);
  if (checks == ReplicaChecks::kNone) return 0;
  return SumReplicas(
      plan.replicas, shards,
      checks == ReplicaChecks::kEachSave ? kEveryByte : plan.num_reuses);
}

Agreed<> CompareReplicas(SaveFrame& frame, const PreparedSave& save) {
  const ReplicaCheck& replicas = save.plan.replicas;
  if (replicas.num_boxes == 0 ||
      ChooseReplicaChecks(frame.options) == ReplicaChecks::kNone) {
    return {};
  }
  frame.stages.Enter("compare");
  std::vector<int64_t> sum = {0};
  const Status summed = CatchBadAlloc("the bytes of replicas", [&] {
    sum[0] = static_cast<int64_t>(
        SumReplicas(replicas, save.listed.shards, kEveryByte));
    return absl::OkStatus();
  });
  BELAY_RETURN_IF_AGREED(SumAll(frame.context, sum, summed));
  if (sum[0] == 0) return {};
  return NameDifferentReplicas(frame, save);
}

Agreed<> NameDifferentReplicas(SaveFrame& frame, const PreparedSave& save) {
  CommContext& context = frame.context;
  Mail mail(context.size());
  BELAY_RETURN_IF_AGREED(
      ExchangeMail(context, "the sums of replicas", mail, [&](Messages& to) {
        return PackSums(context, save.plan.replicas, save.listed.shards, to);
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
        "rank holds is saved by %s, what each rank has of its own by %s, and "
        "what may differ, if only in its last bits, by %s, which save the "
        "value of rank 0 [rank %d of %d]",
        frame.target.path, differences.first, count[0],
        count[0] == 1 ? "box" : "boxes",
        save.reuse ? "; steps that were saved before may hold a mix of these "
                     "values, as each save compares others"
                   : "",
        kAddPieceWord.InProgram(), kAddPerRankWord.InProgram(),
        kAddFromRank0Word.InProgram(), differences.rank, context.size()));
  } else if (count[0] == 0) {
    mine = absl::InvalidArgumentError(absl::StrFormat(
        "save \"%s\": replicas differed, and no longer do: values have changed "
        "during the save",
        frame.target.path));
  }
  return Agree(context, mine);
}

// The verify stage of a save. It checks sizes, holes and, on request, every
// byte.

namespace {

// Looks for holes and wrong sizes in the files that this rank has created.
// Returns their sizes.
StatusOr<std::vector<int64_t>> CheckMyFiles(const SaveTarget& target,
                                            const RankPlan& plan,
                                            bool& has_holes) {
  std::vector<int64_t> sizes;
  for (const PlannedFile& file : plan.files) {
    if (!file.is_creator) continue;
    int64_t bytes = plan.skeletons[sizes.size()]->file_bytes;
    if (file.HasFilters()) {
      BELAY_ASSIGN_OR_RETURN(bytes, FileBytes(target.DataPath(file)));
    }
    bool holes = false;
    BELAY_RETURN_IF_ERROR(
        CheckWrittenFile(target.DataPath(file), bytes, holes));
    has_holes = has_holes || holes;
    sizes.push_back(bytes);
  }
  return sizes;
}

// Reads back this rank's part of all files. If `all` is false, reads back only
// filtered datasets, of files whose filters may be lossy.
Status ReadBackMine(const SaveFrame& frame, const PreparedSave& save,
                    bool all) {
  for (const PlannedFile& file : save.plan.files) {
    if (all) {
      BELAY_RETURN_IF_ERROR(
          ReadBack(DataFileJob(frame, save, file, DatasetPart::kPlain)));
    } else if (file.IsLossless()) {
      continue;
    }
    BELAY_RETURN_IF_ERROR(ReadBackFiltered(
        DataFileJob(frame, save, file, DatasetPart::kFiltered)));
  }
  return absl::OkStatus();
}

// True if any rank has found it. Equal on all ranks.
struct Found {
  bool holes = false;
  bool lost_values = false;
};

// Finds out whether any file has holes and whether any rank has lost values.
// Sets `sizes` to those of the files that this rank created. Agrees on `mine`.
// A file system may report only synced data as allocated, so if there seem to
// be holes, all ranks look again after all have synced. Collective; agreed.
Agreed<Found> LookTogether(SaveFrame& frame, const RankPlan& plan,
                           const Status& mine, bool has_lost,
                           std::vector<int64_t>& sizes) {
  Status status = mine;
  std::vector<int64_t> flags = {0};
  for (int look = 0; look < 2 && flags[0] == 0; ++look) {
    bool has_holes = false;
    StatusOr<std::vector<int64_t>> found =
        CheckMyFiles(frame.target, plan, has_holes);
    status.Update(found.status());
    flags = {has_holes ? 0 : 1};
    if (!StoresAllAsTheyAre(frame.options)) flags.push_back(has_lost ? 0 : 1);
    BELAY_RETURN_IF_AGREED(MinAll(frame.context, flags, status));
    sizes = *std::move(found);
  }
  return Found{.holes = flags[0] == 0,
               .lost_values = flags.back() == 0 && flags.size() > 1};
}

}  // namespace

Agreed<> TellLostValues(SaveFrame& frame, const PreparedSave& save, bool any,
                        StepInProgress& step, WrittenData& written) {
  if (!any) return {};
  const std::vector<LostValues> mine =
      ListLost({save.listed.shards, save.plan.forms, written.losses},
               ConversionWay::kToStored);
  Agreed<std::vector<std::string>> warnings =
      TellLost(frame.context, Cat("save \"", frame.target.path, "\""), mine,
               frame.options.strict_dtype);
  // A manager may tolerate a failure of the file system, but not lost values.
  step.program_failed = absl::IsFailedPrecondition(warnings.status());
  BELAY_RETURN_IF_AGREED(warnings);
  written.warnings = *std::move(warnings);
  return {};
}

Agreed<> VerifyData(SaveFrame& frame, PreparedSave& save, StepInProgress& step,
                    WrittenData& written) {
  frame.stages.Enter("verify");
  RankPlan& plan = save.plan;
  std::vector<int64_t> sizes;
  BELAY_ASSIGN_OR_RETURN_AGREED(const Found found,
                                LookTogether(frame, plan, written.status,
                                             AnyLost(written.losses), sizes));
  BELAY_RETURN_IF_AGREED(
      TellLostValues(frame, save, found.lost_values, step, written));
  if (plan.has_filters) {
    BELAY_RETURN_IF_AGREED(GatherFileSizes(frame.context, sizes, plan));
  }
  // If fewer bytes are allocated than were written, either some are lost or the
  // file system compresses. Reading back shows which.
  const bool all = frame.options.read_back || found.holes;
  if (all || plan.has_filters) {
    BELAY_RETURN_IF_AGREED(
        Agree(frame.context, ReadBackMine(frame, save, all)));
  }
  if (written.registers.empty()) return {};
  return XorToRoot(frame.context, written.registers);
}

}  // namespace belay
