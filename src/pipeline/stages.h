// Stages of an operation, and checks between all ranks at its start.

#ifndef BELAY_PIPELINE_STAGES_H_
#define BELAY_PIPELINE_STAGES_H_

#include <chrono>
#include <span>

#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "mpi/collective.h"
#include "mpi/mpi_error.h"
#include "pipeline/save_options.h"

namespace belay {

// Fails on all ranks if they passed different arguments. Takes one small
// all-reduce if they are equal, else one for each argument. Collective; agreed.
// Errors: InvalidArgument - `operation: NAME differs between ranks: ...`.
Agreed<> AgreeOnArguments(CommContext& context, std::string_view operation,
                          const std::vector<CommonOption>& arguments);

// Returns how long a host waits to see a file of another host.
double SharedDirectorySeconds(double deadline_seconds);

// Agrees on `mine`, and checks that every rank sees the file that rank 0 has
// made. Messages begin with `operation`. `seconds` is how long ranks have
// waited. `did_see` is true if they have seen other files there before. These
// three must be equal on all ranks. Collective; agreed.
// Errors: FailedPrecondition, or Unavailable with `did_see` - some hosts do not
//   see the file; names the hosts.
Agreed<> AgreeOnSharedDirectory(CommContext& context, const Status& mine,
                                bool sees, bool did_see,
                                const std::string& operation, double seconds);

// Costs of stages. `stages` are equal on all ranks, except for the seconds.
struct StageCosts {
  int64_t messages = 0;  // as in CommContext
  int64_t agreement_bytes = 0;
  std::vector<StageTime> stages = {};
};

// Names the current stage for the deadline and measures its time.
class Stages {
 public:
  // `before` are stages of an earlier operation.
  explicit Stages(CommContext& context, std::vector<StageTime> before = {})
      : context_(context),
        times_(std::move(before)),
        num_before_(times_.size()) {}

  // Ends the current stage and begins the next. `work` as for Deadline::Enter.
  void Enter(std::string_view name, std::span<const std::string> work = {});
  // Ends the last stage and returns all times.
  std::vector<StageTime> Finish();

 private:
  CommContext& context_;
  std::vector<StageTime> times_;
  size_t num_before_;
  std::chrono::steady_clock::time_point since_;
};

// Decodes what rank 0 has sent to all ranks.
// Errors: FailedPrecondition - rank 0 is in another call.
template <typename T>
Agreed<T> DecodeFromRoot(std::string_view bytes) {
  std::optional<T> value = Decode<T>(bytes);
  if (!value) return SameOnAllRanks(DifferentCalls()).error();
  return *std::move(value);
}

// Makes a value on rank 0, such as a struct with Fields, and sends it to all
// ranks. `make` returns a StatusOr<T>; `what` names the value in errors if
// memory runs out. Collective; agreed.
// Errors: those of `make`; ResourceExhausted; FailedPrecondition - rank 0 is in
//   another call.
template <typename T, typename Make>
Agreed<T> ShareFromRoot(CommContext& context, const Make& make,
                        std::string_view what = "a message to all ranks") {
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes, FromRoot(context, [&] {
        return CatchBadAlloc(what, [&]() -> StatusOr<std::string> {
          BELAY_ASSIGN_OR_RETURN(const T value, make());
          return Encode(value);
        });
      }));
  // Some ranks may lack the memory to decode a large value.
  constexpr size_t kSmallBytes = size_t{1} << 16;
  if (bytes.size() <= kSmallBytes) return DecodeFromRoot<T>(bytes);
  return AgreeOn(context, CatchBadAlloc(what, [&]() -> StatusOr<T> {
                   std::optional<T> value = Decode<T>(bytes);
                   if (!value) return DifferentCalls();
                   return *std::move(value);
                 }));
}

// Checks that the communicator is open; ranks cannot agree without it.
// Local, and equal on all ranks of a correct program.
// Errors: FailedPrecondition - the communicator is closed or was moved from.
Agreed<> CheckComm(const Comm& comm, std::string_view operation,
                   const std::string& dir);

// Agrees on a Status, and returns for each number whether it is equal on all
// ranks, in one reduction. The numbers must be fingerprints or 0, because
// differences between other numbers might cancel out. Replaces `sums`, whose
// size must be equal on all ranks, by their sums over all ranks modulo 2^64.
// Collective; agreed.
Agreed<std::vector<bool>> AgreeOnStructure(CommContext& context,
                                           const Status& mine,
                                           std::span<const uint64_t> numbers,
                                           std::span<uint64_t> sums = {});

// Combines the counters of all ranks as described in TransferCounters.
// `stripes` has the number of stripes that this rank wrote to, the number of
// its requests, and the number of its requests per server. Its size must be
// equal on all ranks; empty: not counted. Collective; agreed.
Agreed<> CombineCounters(CommContext& context, TransferCounters& mine,
                         std::span<const int64_t> stripes = {});

// Returns the peak memory of this process in bytes.
int64_t PeakMemoryBytes();

}  // namespace belay

#endif  // BELAY_PIPELINE_STAGES_H_
