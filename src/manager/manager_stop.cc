// How ranks agree, during each step, on saving and stopping.
#include "manager/manager_stop.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "belay/manager/job.h"
#include "belay/manager/stop_reason.h"
#include "core/agreed.h"
#include "core/fault.h"
#include "core/process.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "manager/manager_impl.h"
#include "manager/stop_signals.h"
#include "mpi/collective.h"
#include "save/background_save.h"

namespace belay {

using Impl = CheckpointManager::Impl;

namespace {

// Layout of a word, from the lowest bit: 27 bits for the rank or seconds, 5
// bits for the vote on a background save, 8 bits for the signal, 8 bits for
// flags, 16 bits for the fingerprint.
constexpr uint64_t kMaxValue = (uint64_t{1} << 27) - 1;
constexpr int kFlushShift = 27;
constexpr uint64_t kFlushMask = 31;
constexpr int kSignalShift = 32;
constexpr int kFlagShift = 40;
constexpr int kFingerprintShift = 48;
constexpr uint64_t kTimeLimit = 255;  // in place of a signal

constexpr uint64_t kSaveDue = 1;
constexpr uint64_t kRulesSave = 2;
constexpr uint64_t kFailed = 4;
constexpr uint64_t kDiffers = 8;

// Returns true if `one` takes precedence over `other`.
bool CountsMore(const StopReason& one, const StopReason& other) {
  if ((one.signal != 0) != (other.signal != 0)) return one.signal != 0;
  if (one.signal == 0) return one.seconds_left < other.seconds_left;
  return one.rank != other.rank ? one.rank < other.rank
                                : one.signal < other.signal;
}

void MergeWords(void* from, void* to, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) {
    auto& word = static_cast<uint64_t*>(to)[i];
    word = MergeVotes(static_cast<const uint64_t*>(from)[i], word);
  }
}

}  // namespace

bool StopVote::operator==(const StopVote& other) const {
  return PackVote(*this) == PackVote(other);
}

uint64_t PackVote(const StopVote& vote) {
  uint64_t word = uint64_t{vote.fingerprint} << kFingerprintShift;
  const uint64_t flags =
      (vote.save_due ? kSaveDue : 0) | (vote.rules_save ? kRulesSave : 0) |
      (vote.failed ? kFailed : 0) | (vote.differs ? kDiffers : 0);
  word |= flags << kFlagShift;
  word |= (vote.flush & kFlushMask) << kFlushShift;
  if (!vote.stop) return word;
  if (vote.stop->signal != 0) {
    return word | static_cast<uint64_t>(vote.stop->signal) << kSignalShift |
           (static_cast<uint64_t>(vote.stop->rank) & kMaxValue);
  }
  const double seconds =
      std::clamp(vote.stop->seconds_left, 0.0, static_cast<double>(kMaxValue));
  return word | kTimeLimit << kSignalShift |
         static_cast<uint64_t>(std::round(seconds));
}

StopVote UnpackVote(uint64_t word) {
  const uint64_t flags = word >> kFlagShift & 0xff;
  const uint64_t signal = word >> kSignalShift & 0xff;
  const uint64_t value = word & kMaxValue;
  StopVote vote{
      .save_due = (flags & kSaveDue) != 0,
      .rules_save = (flags & kRulesSave) != 0,
      .failed = (flags & kFailed) != 0,
      .differs = (flags & kDiffers) != 0,
      .flush = static_cast<uint8_t>(word >> kFlushShift & kFlushMask),
      .fingerprint = static_cast<uint16_t>(word >> kFingerprintShift)};
  if (signal == kTimeLimit) {
    vote.stop = StopReason{.seconds_left = static_cast<double>(value)};
  } else if (signal != 0) {
    vote.stop = StopReason{.signal = static_cast<int>(signal),
                           .rank = static_cast<int>(value)};
  }
  return vote;
}

// If `differs` is not set, all ranks that were merged have this fingerprint.
uint64_t MergeVotes(uint64_t one, uint64_t other) {
  const StopVote a = UnpackVote(one);
  const StopVote b = UnpackVote(other);
  StopVote both{
      .stop = a.stop,
      .save_due = a.save_due || b.save_due,
      .rules_save = a.rules_save || b.rules_save,
      .failed = a.failed || b.failed,
      .differs = a.differs || b.differs || a.fingerprint != b.fingerprint,
      .flush = static_cast<uint8_t>(a.flush | b.flush),
      .fingerprint = std::min(a.fingerprint, b.fingerprint)};
  if (!a.stop || (b.stop && CountsMore(*b.stop, *a.stop))) both.stop = b.stop;
  return PackVote(both);
}

// --- Stop reason ---

std::string StopReason::ToString() const {
  if (signal == 0)
    return absl::StrFormat("the time limit in %.0f s", seconds_left);
  return absl::StrFormat("%s on rank %d", SignalText(signal), rank);
}

// Adds the facts that only rank 0 knows to its vote. Rank 0 only.
Status Impl::VoteOfRoot(SaveRequest request, StopVote& vote) {
  BELAY_ASSIGN_OR_RETURN(request.makes_up, IsTimeToMakeUp());
  vote.save_due = request.makes_up;
  if (options_.save_policy.should_save) {
    BELAY_ASSIGN_OR_RETURN(const SaveDecision decision, DecideNext(request));
    WarnIfBehind(decision);
    vote.rules_save = decision.save;
  }
  if (!NeedsTimes()) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const double now, Now());
  const double worked = WorkedBy(now);
  if (stopping_.last_call) {
    Remember(worked - *stopping_.last_call, stopping_.use.steps);
  }
  stopping_.last_call = worked;
  NoteStep(worked, under_way_.has_value(), stopping_.loop);
  const std::optional<double> left = SecondsLeft(now);
  // The last save has to wait for the one under way.
  const double wait =
      under_way_ ? EstimateSaveSeconds(stopping_.use).value_or(0) : 0;
  if (!vote.stop && left &&
      *left - wait <=
          SecondsToStop(stopping_.use, options_.final_save_margin)) {
    vote.stop = StopReason{.seconds_left = *left};
  }
  if (options_.save_policy.auto_interval) {
    BELAY_ASSIGN_OR_RETURN(const double due_in, SecondsToNextSave(now));
    vote.save_due = vote.save_due || due_in <= 0;
  }
  return absl::OkStatus();
}

// Begins the next exchange. It reports an error of this rank, if any, so that
// all ranks return it. Collective, but does not wait.
void Impl::StartExchange(const SaveRequest& request) {
  const Comm& comm = values_.comm();
  WireWriter same;
  same(request.step, request.counter, request.save_counter);
  stopping_.fingerprint = Fingerprint(same.bytes());
  StopVote vote{.fingerprint = static_cast<uint16_t>(stopping_.fingerprint)};
  if (under_way_) {
    vote.flush = static_cast<uint8_t>(ToWord(background_->MyVote()));
  }
  if (const std::optional<int> signal = stopping_.signals.received()) {
    vote.stop = StopReason{.signal = *signal, .rank = comm.rank()};
  }
  stopping_.failure.Update(fault::Point("vote"));
  if (comm.rank() == 0) {
    stopping_.failure.Update(VoteOfRoot(request, vote));
  }
  vote.failed = !stopping_.failure.ok();
  stopping_.failure.Update(
      stopping_.exchange.Start(comm, PackVote(vote), &MergeWords));
}

// Applies the vote of all ranks.
void Impl::Apply(const StopVote& vote) {
  stopping_.is_save_due = stopping_.is_save_due || vote.save_due;
  stopping_.rules_save = vote.rules_save;
  if (!vote.stop || stopping_.reason) return;
  stopping_.reason = vote.stop;
  stopping_.is_last_save_owed = !options_.read_only;
}

// Decides from the rules and the votes so far. The result is equal on all ranks
// if their requests are equal.
StatusOr<SaveDecision> Impl::DecideAsTold(SaveRequest request) const {
  request.is_last = stopping_.reason.has_value();
  request.due_in = stopping_.is_save_due ? 0 : 1;
  request.makes_up = history_.missed && stopping_.is_save_due;
  return DecideNext(request);
}

// Watches the time limit of the batch job. Rank 0 only.
// Errors: those of ReadJobEnvironment.
Status Impl::WatchJob() {
  BELAY_ASSIGN_OR_RETURN(const JobEnvironment job, ReadJobEnvironment());
  notes_.insert(notes_.end(), job.notes.begin(), job.notes.end());
  if (job.end_time_is_fixed) {
    stopping_.end_time = job.end_time;
    return absl::OkStatus();
  }
  if (job.job_id.empty()) {
    notes_.emplace_back(
        "the time limit is not known: this is not a Slurm job, and "
        "BELAY_JOB_END_TIME is not set");
    return absl::OkStatus();
  }
  TimeLimitOptions options{.command = TimeLeftCommand(job),
                           .every_seconds = options_.time_limit_poll_seconds};
  if (job.end_time) options.seconds_left = *job.end_time - UnixTime();
  stopping_.limit = std::make_unique<TimeLimit>(std::move(options));
  return absl::OkStatus();
}

// Returns true if an option needs the times of saves and steps.
bool Impl::NeedsTimes() const {
  return options_.save_policy.auto_interval || options_.stop_at_time_limit ||
         options_.end_time;
}

// Returns the seconds before the time limit, if known. Rank 0 only.
std::optional<double> Impl::SecondsLeft(double now) const {
  if (stopping_.end_time) {
    // The later of the run's clock and the system clock, which may have been
    // corrected. Stopping too early costs time, but being killed loses work.
    const double latest = options_.clock ? now : std::max(now, UnixTime());
    return *stopping_.end_time - latest;
  }
  if (stopping_.limit) return stopping_.limit->SecondsLeft();
  return std::nullopt;
}

// Returns `now` minus the time for which the job was suspended, so that
// differences measure only time in which the job ran. Rank 0 only.
double Impl::WorkedBy(double now) const {
  return stopping_.limit ? now - stopping_.limit->SecondsSuspended() : now;
}

// Returns the seconds until a save is due according to auto_interval. Rank 0
// only.
// Errors: those of AdviseInterval.
StatusOr<double> Impl::SecondsToNextSave(double now) const {
  BELAY_ASSIGN_OR_RETURN(
      const std::optional<SaveInterval> interval,
      IntervalFor(stopping_.use, *options_.save_policy.auto_interval));
  // The first save is due immediately, to measure how long saves take.
  if (!interval) return 0.0;
  const double rested = WorkedBy(now) - stopping_.resting_since;
  // If the clock was put back, the time since then is unknown.
  return rested < 0 ? 0.0 : interval->seconds - rested;
}

Status Impl::CatchStopSignals() {
  StatusOr<StopSignals> caught = StopSignals::Catch(options_.stop_signals);
  if (!caught.ok()) {
    return Status(caught.status().code(),
                  absl::StrCat("manage \"", dir_, "\": stop_signals: ",
                               caught.status().message()));
  }
  stopping_.signals = *std::move(caught);
  return absl::OkStatus();
}

Status Impl::WatchTimeLimit() {
  if (NeedsTimes()) {
    BELAY_ASSIGN_OR_RETURN(stopping_.resting_since, Now());
  }
  stopping_.end_time = options_.end_time;
  if (stopping_.end_time || !options_.stop_at_time_limit) {
    return absl::OkStatus();
  }
  return WatchJob();
}

// Completes the exchange of the last ShouldSave, if there is one. Collective;
// agreed.
// Errors: those of any rank; InvalidArgument - ranks passed different steps.
Agreed<> Impl::FinishExchange() {
  if (!stopping_.exchange.is_started()) return {};
  const StatusOr<uint64_t> word =
      stopping_.exchange.Finish(values_.comm(), options_.save.deadline_seconds,
                                Cat("decide whether to save \"", dir_, "\""));
  if (!word.ok()) return MpiFailed(word.status());
  const StopVote vote = UnpackVote(*word);
  Apply(vote);
  Agreed<> flushed = TakeFlushVote(vote.flush);
  Status failure = std::exchange(stopping_.failure, absl::OkStatus());
  if (!flushed.ok() || (!vote.failed && !vote.differs)) return flushed;
  CommContext context = ManagerContext("save", false);
  if (vote.failed) return Agree(context, failure);
  return AgreeSame(context, "save: the step or step_counter at ShouldSave",
                   stopping_.fingerprint);
}

// Records the times of a save, and adds a note on the resulting interval.
void Impl::NoteTimes(const SaveTimes& times) {
  stopping_.is_save_due = false;
  stopping_.last_call = times.end;
  stopping_.resting_since = times.end;
  for (const std::string& note : times.notes) notes_.push_back(note);
  if (!times.seconds) return;
  Remember(*times.seconds, stopping_.use.saves);
  stopping_.use.restore = times.restore;
  stopping_.use.cost = times.cost;
  stopping_.use.in_background = background_ != nullptr;
  if (!options_.save_policy.auto_interval) return;
  const auto interval =
      IntervalFor(stopping_.use, *options_.save_policy.auto_interval);
  if (!interval.ok() || !*interval) return;
  // The interval is noted once, and again only if it has changed much.
  constexpr double kQuiteAnother = 2;
  const auto& noted = stopping_.noted_interval;
  if (noted && (*interval)->seconds <= kQuiteAnother * noted->seconds &&
      noted->seconds <= kQuiteAnother * (*interval)->seconds) {
    return;
  }
  stopping_.noted_interval = **interval;
  notes_.push_back((*interval)->reason);
}

// On rank 0, returns the current time as WorkedBy, if an option needs it. If
// the clock fails, the next save reports that.
std::optional<double> Impl::TimeOfRestore() const {
  if (values_.comm().rank() != 0 || !NeedsTimes()) {
    return std::nullopt;
  }
  const StatusOr<double> now = Now();
  if (!now.ok()) return std::nullopt;
  return WorkedBy(*now);
}

// Records the duration of a restore that began at `began` and ends now.
void Impl::NoteRestore(std::optional<double> began) {
  const std::optional<double> end = TimeOfRestore();
  if (!began || !end) return;
  stopping_.use.restore = std::max(*end - *began, 0.0);
  stopping_.resting_since = *end;
  stopping_.last_call = end;
  NotePause(stopping_.loop);
}

// See CheckpointManager::ShouldSave. Collective.
StatusOr<bool> Impl::ShouldSave(std::optional<int64_t> step) {
  const bool asks_root = options_.save_policy.should_save != nullptr;
  const SaveRequest request = MakeRequest(step);
  std::optional<StatusOr<SaveDecision>> decision;
  if (!asks_root) {
    BELAY_RETURN_IF_AGREED(FinishExchange());
    decision = DecideAsTold(request);
    if (decision->ok()) WarnIfBehind(**decision);
    // All ranks return an error of this rank in the next call.
    stopping_.failure.Update(decision->status());
  }
  // After ranks have agreed to stop there are no more exchanges, so none is
  // under way when the program ends.
  if (!stopping_.reason) StartExchange(request);
  // should_save decides on this step, so its answer cannot come one call later.
  if (asks_root) BELAY_RETURN_IF_AGREED(FinishExchange());
  if (stopping_.reason && !stopping_.is_last_save_owed) return false;
  if (!stopping_.reason && asks_root) return stopping_.rules_save;
  if (!decision) decision = DecideAsTold(request);
  // Without an exchange, no other rank can report this rank's error.
  if (stopping_.reason && !decision->ok()) return decision->status();
  return decision->ok() && (*decision)->save;
}

StatusOr<bool> CheckpointManager::ShouldSave(std::optional<int64_t> step) {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "save"));
  return impl_->ShouldSave(step);
}

std::optional<StopReason> CheckpointManager::ShouldStop() const {
  return impl_ == nullptr ? stop_reason_ : impl_->stopping_.reason;
}

}  // namespace belay
