// The same values on every rank: saves with and without a comparison of the
// replicas; restores in which one rank reads each byte for all, and in which
// each rank reads everything itself.

#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "belay/save_restore.h"
#include "contenders.h"
#include "workloads.h"

namespace belay::bench {
namespace {

constexpr int64_t kReplicasArrays = 12;
constexpr int64_t kReplicasBytes = int64_t{64} << 20;  // of one replica
constexpr int64_t kReplicasColumns = 1024;
constexpr double kMaxRead = 1.05;  // times the bytes of one replica

std::shared_ptr<Arrays> Replicas(const Context& context) {
  auto arrays = std::make_shared<Arrays>();
  const Shape shape = {Scaled(context, kReplicasBytes / kReplicasArrays /
                                           (kReplicasColumns * int64_t{4})),
                       kReplicasColumns};
  for (int64_t i = 0; i < kReplicasArrays; ++i) {
    AddPiece(*arrays, {.key = absl::StrFormat("layer_%d", i),
                       .global_shape = shape,
                       .box = WholeBox(shape),
                       .replica = context.comm->rank()});
    arrays->unique_bytes += 4 * NumElements(shape);
  }
  AllocateAndFill(*arrays, context.comm->size());
  return arrays;
}

// Checks the number of bytes read, as counted by the library.
Status CheckBytesRead(const Context& context, const std::string& dir,
                      const std::shared_ptr<Arrays>& arrays) {
  const State state = MakeState(*arrays, arrays->buffer);
  StatusOr<RestoreResult> result =
      Restore(*context.comm, dir, kLatestStep, state,
              {.read_sharing = ReadSharing::kOnce});
  if (!result.ok()) return result.status();
  const double most = kMaxRead * static_cast<double>(arrays->unique_bytes);
  if (static_cast<double>(result->counters.bytes) <= most) {
    return absl::OkStatus();
  }
  return absl::InternalError(absl::StrFormat(
      "bytes are read several times (need at most %.0f, found %d)", most,
      result->counters.bytes));
}

StatusOr<std::vector<Contender>> MakeReplicaRestores(const Context& context,
                                                     const Medium& medium) {
  const auto arrays = Replicas(context);
  StatusOr<std::string> dir = SaveForRestore(context, medium, arrays);
  if (!dir.ok()) return dir.status();
  Contender once = BelayRestore("read once", context, *dir, arrays,
                                {.read_sharing = ReadSharing::kOnce});
  once.check = [context, dir = *dir, arrays, check = once.check] {
    Status status = check();
    status.Update(CheckBytesRead(context, dir, arrays));
    return status;
  };
  return std::vector<Contender>{
      std::move(once), BelayRestore("every rank reads", context, *dir, arrays,
                                    {.read_sharing = ReadSharing::kEachRank})};
}

StatusOr<std::vector<Contender>> MakeReplicaSaves(const Context& context,
                                                  const Medium& medium) {
  const auto arrays = Replicas(context);
  const auto save = [&](const char* name, std::optional<bool> check,
                        bool cached) {
    return BelaySave(name, context, medium, arrays, {.check_replicas = check},
                     cached);
  };
  return std::vector<Contender>{save("samples compared", {}, true),
                                save("all compared", true, true),
                                save("none compared", false, true),
                                save("first, all compared", {}, false),
                                save("first, none compared", false, false)};
}

}  // namespace

Workload SaveReplicas() {
  return {
      .title = "save 64 MiB that every rank holds whole",
      .comparisons =
          {{"replicas.cost.next", "samples compared", "none compared", 1.02},
           {"replicas.cost.all", "all compared", "none compared", {}},
           {"replicas.cost.first",
            "first, all compared",
            "first, none compared",
            {}}},
      .make = MakeReplicaSaves};
}

Workload RestoreReplicas() {
  return {.title = "restore 64 MiB that every rank holds whole",
          .comparisons = {{"restore.replicas", "read once", "every rank reads",
                           1.0}},
          .make = MakeReplicaRestores};
}

}  // namespace belay::bench
