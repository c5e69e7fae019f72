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
namespace {

// From the lowest bit: 27 bits rank or seconds, 5 bits of a save in the
// background, 8 bits signal, 8 bits flags, 16 bits fingerprint.
constexpr uint64_t kMostValue = (uint64_t{1} << 27) - 1;
constexpr int kFlushShift = 27;
constexpr uint64_t kFlushMask = 31;
constexpr int kSignalShift = 32;
constexpr int kFlagShift = 40;
constexpr int kFingerprintShift = 48;
constexpr uint64_t kTimeLimit = 255;  // in the place of a signal

constexpr uint64_t kSaveDue = 1;
constexpr uint64_t kRulesSave = 2;
constexpr uint64_t kFailed = 4;
constexpr uint64_t kDiffers = 8;

// Whether `one` is to be told rather than `other`.
bool CountsMore(const StopReason& one, const StopReason& other) {
  if ((one.signal != 0) != (other.signal != 0)) return one.signal != 0;
  if (one.signal == 0) return one.seconds_left < other.seconds_left;
  return one.rank != other.rank ? one.rank < other.rank
                                : one.signal < other.signal;
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
           (static_cast<uint64_t>(vote.stop->rank) & kMostValue);
  }
  const double seconds =
      std::clamp(vote.stop->seconds_left, 0.0, static_cast<double>(kMostValue));
  return word | kTimeLimit << kSignalShift |
         static_cast<uint64_t>(std::round(seconds));
}

StopVote UnpackVote(uint64_t word) {
  const uint64_t flags = word >> kFlagShift & 0xff;
  const uint64_t signal = word >> kSignalShift & 0xff;
  const uint64_t value = word & kMostValue;
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

// Where two votes without `differs` meet, each stands for ranks with one
// fingerprint.
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

// Agreeing beside each step on whether to save and whether to stop.

namespace {

using Impl = CheckpointManager::Impl;

void MergeWords(void* from, void* to, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) {
    auto& word = static_cast<uint64_t*>(to)[i];
    word = MergeVotes(static_cast<const uint64_t*>(from)[i], word);
  }
}

// The vote on what rank 0 alone knows. Rank 0 only.
Status VoteOfRoot(Impl& impl, SaveRequest request, StopVote& vote) {
  Stopping& stopping = impl.stopping;
  BELAY_ASSIGN_OR_RETURN(request.makes_up, IsTimeToMakeUp(impl));
  vote.save_due = request.makes_up;
  if (impl.options.should_save) {
    BELAY_ASSIGN_OR_RETURN(const SaveDecision decision,
                           DecideNext(impl, request));
    WarnIfBehind(impl, decision);
    vote.rules_save = decision.save;
  }
  if (!NeedsTimes(impl.options)) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const double now, Now(impl.options));
  const double worked = WorkedBy(stopping, now);
  if (stopping.last_call) {
    Remember(worked - *stopping.last_call, stopping.use.steps);
  }
  stopping.last_call = worked;
  NoteStep(worked, impl.under_way.has_value(), stopping.loop);
  const std::optional<double> left = SecondsLeft(impl, now);
  // The last save has to wait for the one under way.
  const double wait =
      impl.under_way ? SecondsOfSave(stopping.use).value_or(0) : 0;
  if (!vote.stop && left &&
      *left - wait <=
          SecondsToStop(stopping.use, impl.options.final_save_margin)) {
    vote.stop = StopReason{.seconds_left = *left};
  }
  if (impl.options.auto_interval) {
    BELAY_ASSIGN_OR_RETURN(const double due_in, SecondsToNextSave(impl, now));
    vote.save_due = vote.save_due || due_in <= 0;
  }
  return absl::OkStatus();
}

// Begins the next exchange. What goes wrong on this rank is told in it, and
// then returned on all. Collective, and returns at once.
void StartExchange(Impl& impl, const SaveRequest& request) {
  Stopping& stopping = impl.stopping;
  const Comm& comm = impl.values.comm();
  WireWriter same;
  PutOptional(request.step, same);
  PutOptional(request.counter, same);
  same.Put(request.save_counter);
  stopping.fingerprint = Fingerprint(same.bytes());
  StopVote vote{.fingerprint = static_cast<uint16_t>(stopping.fingerprint)};
  if (impl.under_way) {
    vote.flush = static_cast<uint8_t>(ToWord(impl.background->MyVote()));
  }
  if (const std::optional<int> signal = stopping.signals.received()) {
    vote.stop = StopReason{.signal = *signal, .rank = comm.rank()};
  }
  stopping.failure.Update(fault::Point("vote"));
  if (comm.rank() == 0) {
    stopping.failure.Update(VoteOfRoot(impl, request, vote));
  }
  vote.failed = !stopping.failure.ok();
  stopping.failure.Update(
      stopping.exchange.Start(comm, PackVote(vote), &MergeWords));
}

// What the ranks have told each other counts from now on.
void Apply(const StopVote& vote, Impl& impl) {
  Stopping& stopping = impl.stopping;
  stopping.is_save_due = stopping.is_save_due || vote.save_due;
  stopping.rules_save = vote.rules_save;
  if (!vote.stop || stopping.reason) return;
  stopping.reason = vote.stop;
  stopping.is_last_save_owed = !impl.options.read_only;
}

// What the rules say, and what ranks have told each other. Of what is equal on
// all ranks it makes the same of everywhere.
StatusOr<SaveDecision> DecideAsTold(const Impl& impl, SaveRequest request) {
  request.is_last = impl.stopping.reason.has_value();
  request.due_in = impl.stopping.is_save_due ? 0 : 1;
  request.makes_up = impl.history.missed && impl.stopping.is_save_due;
  return DecideNext(impl, request);
}

// Rank 0 only.
Status WatchJob(Impl& impl) {
  Stopping& stopping = impl.stopping;
  BELAY_ASSIGN_OR_RETURN(const JobEnvironment job, ReadJobEnvironment());
  impl.notes.insert(impl.notes.end(), job.notes.begin(), job.notes.end());
  if (job.end_time_is_fixed) {
    stopping.end_time = job.end_time;
    return absl::OkStatus();
  }
  if (job.job_id.empty()) {
    impl.notes.emplace_back(
        "the time limit is not known: this is not a Slurm job, and "
        "BELAY_JOB_END_TIME is not set");
    return absl::OkStatus();
  }
  TimeLimitOptions options{
      .command = TimeLeftCommand(job),
      .every_seconds = impl.options.time_limit_poll_seconds};
  if (job.end_time) options.seconds_left = *job.end_time - UnixTime();
  stopping.limit = std::make_unique<TimeLimit>(std::move(options));
  return absl::OkStatus();
}

}  // namespace

bool NeedsTimes(const ManagerOptions& options) {
  return options.auto_interval || options.stop_at_time_limit ||
         options.end_time;
}

std::optional<double> SecondsLeft(const Impl& impl, double now) {
  const Stopping& stopping = impl.stopping;
  if (stopping.end_time) {
    // Whichever says that it is later, the clock of the run or the system's,
    // which somebody may have put right meanwhile: a job that stops too early
    // goes on later, one that is killed loses what it has not saved.
    const double latest = impl.options.clock ? now : std::max(now, UnixTime());
    return *stopping.end_time - latest;
  }
  if (stopping.limit) return stopping.limit->SecondsLeft();
  return std::nullopt;
}

double WorkedBy(const Stopping& stopping, double now) {
  return stopping.limit ? now - stopping.limit->SecondsSuspended() : now;
}

StatusOr<double> SecondsToNextSave(const Impl& impl, double now) {
  BELAY_ASSIGN_OR_RETURN(
      const std::optional<SaveInterval> interval,
      IntervalFor(impl.stopping.use, *impl.options.auto_interval));
  // The first save tells what saves take.
  if (!interval) return 0.0;
  const double rested =
      WorkedBy(impl.stopping, now) - impl.stopping.resting_since;
  // A clock that was put back cannot tell how long that was.
  return rested < 0 ? 0.0 : interval->seconds - rested;
}

Status CatchStopSignals(Impl& impl) {
  StatusOr<StopSignals> caught = StopSignals::Catch(impl.options.stop_signals);
  if (!caught.ok()) {
    return Status(caught.status().code(),
                  absl::StrCat("manage \"", impl.dir, "\": stop_signals: ",
                               caught.status().message()));
  }
  impl.stopping.signals = *std::move(caught);
  return absl::OkStatus();
}

Status WatchTimeLimit(Impl& impl) {
  Stopping& stopping = impl.stopping;
  if (NeedsTimes(impl.options)) {
    BELAY_ASSIGN_OR_RETURN(stopping.resting_since, Now(impl.options));
  }
  stopping.end_time = impl.options.end_time;
  if (stopping.end_time || !impl.options.stop_at_time_limit) {
    return absl::OkStatus();
  }
  return WatchJob(impl);
}

Agreed<> FinishExchange(Impl& impl) {
  Stopping& stopping = impl.stopping;
  if (!stopping.exchange.is_started()) return {};
  const StatusOr<uint64_t> word = stopping.exchange.Finish(
      impl.values.comm(), impl.options.save.deadline_seconds,
      Cat("decide whether to save \"", impl.dir, "\""));
  if (!word.ok()) return MpiFailed(word.status());
  const StopVote vote = UnpackVote(*word);
  Apply(vote, impl);
  Agreed<> flushed = TakeFlushVote(impl, vote.flush);
  Status failure = std::exchange(stopping.failure, absl::OkStatus());
  if (!flushed.ok() || (!vote.failed && !vote.differs)) return flushed;
  CommContext context = ManagerContext(impl, "save", false);
  if (vote.failed) return Agree(context, failure);
  return AgreeSame(context, "save: the step or step_counter at ShouldSave",
                   stopping.fingerprint);
}

void NoteTimes(const SaveTimes& times, Impl& impl) {
  Stopping& stopping = impl.stopping;
  stopping.is_save_due = false;
  stopping.last_call = times.end;
  stopping.resting_since = times.end;
  for (const std::string& note : times.notes) impl.notes.push_back(note);
  if (!times.seconds) return;
  Remember(*times.seconds, stopping.use.saves);
  stopping.use.restore = times.restore;
  stopping.use.cost = times.cost;
  stopping.use.in_background = impl.background != nullptr;
  if (!impl.options.auto_interval) return;
  const auto interval = IntervalFor(stopping.use, *impl.options.auto_interval);
  if (!interval.ok() || !*interval) return;
  // Said once, and again only if it has become quite another one.
  constexpr double kQuiteAnother = 2;
  const auto& noted = stopping.noted_interval;
  if (noted && (*interval)->seconds <= kQuiteAnother * noted->seconds &&
      noted->seconds <= kQuiteAnother * (*interval)->seconds) {
    return;
  }
  stopping.noted_interval = **interval;
  impl.notes.push_back((*interval)->reason);
}

std::optional<double> TimeOfRestore(const Impl& impl) {
  if (impl.values.comm().rank() != 0 || !NeedsTimes(impl.options)) {
    return std::nullopt;
  }
  const StatusOr<double> now = Now(impl.options);
  if (!now.ok()) return std::nullopt;
  return WorkedBy(impl.stopping, *now);
}

void NoteRestore(std::optional<double> began, Impl& impl) {
  const std::optional<double> end = TimeOfRestore(impl);
  if (!began || !end) return;
  impl.stopping.use.restore = std::max(*end - *began, 0.0);
  impl.stopping.resting_since = *end;
  impl.stopping.last_call = end;
  NotePause(impl.stopping.loop);
}

StatusOr<bool> CheckpointManager::ShouldSave(std::optional<int64_t> step) {
  BELAY_RETURN_IF_AGREED(CheckMoved(impl_.get(), "save"));
  Impl& impl = *impl_;
  Stopping& stopping = impl.stopping;
  const bool asks_root = impl.options.should_save != nullptr;
  const SaveRequest request = RequestOf(impl, step);
  std::optional<StatusOr<SaveDecision>> decision;
  if (!asks_root) {
    BELAY_RETURN_IF_AGREED(FinishExchange(impl));
    decision = DecideAsTold(impl, request);
    if (decision->ok()) WarnIfBehind(impl, **decision);
    // A mistake of this rank is told to all, and to this one, by the next call.
    stopping.failure.Update(decision->status());
  }
  // Nothing more is told once a stop is agreed, so that nothing is under way
  // when the program ends.
  if (!stopping.reason) StartExchange(impl, request);
  // should_save speaks of this very step: rank 0's answer is waited for.
  if (asks_root) BELAY_RETURN_IF_AGREED(FinishExchange(impl));
  if (stopping.reason && !stopping.is_last_save_owed) return false;
  if (!stopping.reason && asks_root) return stopping.rules_save;
  if (!decision) decision = DecideAsTold(impl, request);
  // Nothing is told any more: a mistake of this rank stays its own.
  if (stopping.reason && !decision->ok()) return decision->status();
  return decision->ok() && (*decision)->save;
}

std::optional<StopReason> CheckpointManager::ShouldStop() const {
  if (impl_ == nullptr) return std::nullopt;
  return impl_->stopping.reason;
}

}  // namespace belay
