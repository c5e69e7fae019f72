#include "save/save_report.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/log.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "save/save_stages.h"
#include "storage/striping.h"

namespace belay {

std::function<Status(int64_t)> ProgressUpTo(
    int64_t total, const std::function<void(int64_t, int64_t)>& progress) {
  if (!progress) return nullptr;
  return [&progress, total, done = int64_t{0}](int64_t bytes) mutable {
    done = std::min(done + bytes, total);  // texts do not count
    return CatchExceptions([&] {
      progress(done, total);
      return absl::OkStatus();
    });
  };
}

// What a save has done, as its caller gets to see it.

namespace {

// Writes of MPI-IO go to stripes that only MPI-IO knows.
bool CountsStripes(const PlannedSave& planned, const WrittenData& written) {
  return planned.stripes.striping.stripe_bytes > 0 &&
         (written.transfer == Transfer::kIndependent ||
          written.transfer == Transfer::kTwoPhase);
}

// What this rank did: as many numbers on all ranks, which have all files.
std::vector<int64_t> StripeNumbers(const PlannedSave& planned,
                                   const StripeCounts& counts) {
  int32_t servers = 0;
  for (const PlannedFile& file : planned.files) {
    servers = std::max(servers, file.striping.servers);
  }
  std::vector<int64_t> numbers = counts.server_requests;
  numbers.resize(servers);
  numbers.insert(numbers.begin(), {counts.stripes, counts.requests});
  return numbers;
}

// Combines the counters of all ranks. Collective; agreed.
Agreed<> CombineSaveCounters(CommContext& context, const PlannedSave& planned,
                             const WrittenData& written,
                             TransferCounters& counters) {
  if (!CountsStripes(planned, written))
    return CombineCounters(context, counters);
  counters.stripes = planned.stripes.by_nodes.stripes;
  return CombineCounters(context, counters,
                         StripeNumbers(planned, written.stripes));
}

// Says who has asked for the transfer, if not the program.
std::string WithOperator(const Comm& comm, std::string note) {
  const std::string& asked = comm.transfer_variable();
  if (asked.empty()) return note;
  return Cat("BELAY_TRANSFER is ", asked, note.empty() ? "" : "; ", note);
}

// Tells the program of a commit that stands. Rank 0 only.
void TellAfterCommit(const SaveFrame& frame, const SaveResult& result) {
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

SaveResult Report(const SaveFrame& frame, bool reuse,
                  const PlannedSave& planned, WrittenData& written) {
  SaveResult result{.path = frame.target.path, .step = frame.target.step};
  result.transfer = written.transfer;
  result.transfer_note =
      WithOperator(frame.context.comm, std::move(written.transfer_note));
  result.num_arrays = planned.num_arrays;
  result.rounds = planned.rounds;
  result.plan_reused = reuse;
  result.warnings = planned.warnings;
  result.warnings.insert(result.warnings.end(), written.warnings.begin(),
                         written.warnings.end());
  result.counters = std::move(written.counters);
  result.counters.files = planned.num_files;
  result.counters.peak_memory_bytes = PeakMemoryBytes();
  result.counters.stages = frame.stages.Finish();
  static_cast<void>(
      CombineSaveCounters(frame.context, planned, written, result.counters));
  TellAfterCommit(frame, result);
  return result;
}

}  // namespace belay
