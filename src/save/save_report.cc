// The progress and the result of a save.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/log.h"
#include "core/text.h"
#include "plan/save_planner.h"
#include "save/save_stages.h"
#include "storage/file_system.h"

namespace belay {

std::function<Status(int64_t)> ProgressUpTo(
    int64_t total, const std::function<void(int64_t, int64_t)>& progress) {
  if (!progress) return nullptr;
  return [&progress, total, done = int64_t{0}](int64_t bytes) mutable {
    done = std::min(done + bytes, total);  // `total` does not include strings
    return CatchExceptions([&] {
      progress(done, total);
      return absl::OkStatus();
    });
  };
}

namespace {

// Returns true if stripes are counted. With MPI-IO they are not, because only
// MPI-IO knows which stripes it writes.
bool CountsStripes(const RankPlan& plan, const WrittenData& written) {
  return plan.stripes.striping.stripe_bytes > 0 &&
         (written.transfer == Transfer::kIndependent ||
          written.transfer == Transfer::kTwoPhase);
}

// Returns the stripe counts of this rank. The result has the same length on all
// ranks, because all ranks have all files.
std::vector<int64_t> StripeNumbers(const RankPlan& plan,
                                   const StripeCounts& counts) {
  int32_t servers = 0;
  for (const PlannedFile& file : plan.files) {
    servers = std::max(servers, file.striping.servers);
  }
  std::vector<int64_t> numbers = counts.server_requests;
  numbers.resize(servers);
  numbers.insert(numbers.begin(), {counts.stripes, counts.requests});
  return numbers;
}

// Combines the counters of all ranks. Collective; agreed.
Agreed<> CombineSaveCounters(CommContext& context, const RankPlan& plan,
                             const WrittenData& written,
                             TransferCounters& counters) {
  if (!CountsStripes(plan, written)) return CombineCounters(context, counters);
  counters.stripes = plan.stripes.by_nodes.stripes;
  return CombineCounters(context, counters,
                         StripeNumbers(plan, written.stripes));
}

// Adds to `note` that an operator has chosen the transfer, if one has.
std::string WithOperator(const Comm& comm, std::string note) {
  const std::string& asked = comm.transfer_variable();
  if (asked.empty()) return note;
  return Cat("BELAY_TRANSFER is ", asked, note.empty() ? "" : "; ", note);
}

// Calls after_commit. Rank 0 only.
void CallAfterCommit(const SaveFrame& frame, const SaveResult& result) {
  if (frame.options.after_commit == nullptr || !frame.context.is_root()) return;
  const Status status = CatchExceptions([&]() -> Status {
    frame.options.after_commit(result);
    return absl::OkStatus();
  });
  if (status.ok()) return;
  Log(LogLevel::kWarning,
      Cat("save \"", frame.target.path,
          "\": after_commit: ", std::string(status.message())));
}

}  // namespace

SaveResult EndSave(SaveFrame& frame, bool reuse, RankPlan plan,
                   WrittenData& written, CachedPlan& cache) {
  SaveResult result{.path = frame.target.path, .step = frame.target.step};
  result.transfer = written.transfer;
  result.transfer_note =
      WithOperator(frame.context.comm, std::move(written.transfer_note));
  result.num_arrays = plan.num_arrays;
  result.rounds = plan.rounds;
  result.plan_reused = reuse;
  result.warnings = plan.warnings;
  result.warnings.insert(result.warnings.end(), written.warnings.begin(),
                         written.warnings.end());
  result.counters = std::move(written.counters);
  result.counters.files = plan.num_files;
  result.counters.peak_memory_bytes = PeakMemoryBytes();
  result.counters.stages = frame.stages.Finish();
  static_cast<void>(
      CombineSaveCounters(frame.context, plan, written, result.counters));
  CallAfterCommit(frame, result);
  // With filters, file lengths differ in each save. The result of a sharding
  // policy may also differ, unless it says what it depends on.
  if (frame.options.cache != nullptr && !plan.has_filters &&
      VouchesForItself(frame.options.sharding_policy)) {
    cache.plan = std::move(plan);
  }
  return result;
}

}  // namespace belay
