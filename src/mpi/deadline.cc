#include "mpi/deadline.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "core/program_words.h"
#include "core/text.h"
#include "core/threads.h"
#include "mpi/arrivals.h"
#include "mpi/mpi_error.h"

namespace belay {

int TestRequest(MPI_Request& request, int& done) {
  // Calls no error handler, but does not return the error either.
  int code = MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
  if (code != MPI_SUCCESS || !done) return code;
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  code = MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
  if (code != MPI_SUCCESS) return code;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
  MPI_Errhandler_free(&handler);
  return code;
}

// --- Deadline ---

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int64_t kTestsBeforeYield = 64;
// Then a rank naps. If more ranks than cores wait, it may wake up on another
// core, and for tens of steps of the program two ranks share one core. Most
// waits of a save are shorter.
constexpr std::chrono::microseconds kYieldTime{5000};
constexpr std::chrono::microseconds kNap{20};
// If a thread that looks ten times as often has not looked for so long, it was
// stopped, as when a batch system suspends the job: that time does not count.
constexpr Seconds kMostGap{10};
constexpr int kMostNamedRanks = 16;
constexpr std::string_view kHasLeft =
    " has called MPI_Finalize and will not make this call; let a rank that "
    "fails end all ranks with belay::Check or MPI_Abort";
constexpr size_t kMostWork = 3;  // ranks of which a message names the work
// The rank that knows most ends the job: referees one after the other, then
// other ranks, then the watchdogs.
constexpr Seconds kBetweenReferees{0.3};
constexpr Seconds kGrace{2};
constexpr Seconds kWatchdogGrace{4};
// How often a waiting rank looks for ranks that have left, and how long it lets
// their own message come first.
constexpr Seconds kBetweenLooks{0.01};
constexpr Seconds kBeforeLeft{0.5};
constexpr Seconds kBetweenLeft{1};

Clock::time_point After(Clock::time_point start, Seconds delay) {
  return start + std::chrono::duration_cast<Clock::duration>(delay);
}

// "rank 2 of 8", "ranks 2, 5 of 8".
std::string NameRanks(const std::vector<int>& ranks, int size) {
  return Cat(ranks.size() == 1 ? "rank " : "ranks ",
             FirstOf(ranks, kMostNamedRanks, ", "), " of ", size);
}

// A rank that waits long lets go of its core, which the others may need.
void GiveWay(Clock::time_point since) {
  if (Clock::now() - since < kYieldTime) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(kNap);
  }
}

}  // namespace

// Calls no exit handlers: they may wait for the thing that hangs.
[[noreturn]] void EndJob(std::string_view text) {
  const std::string line = PrintableText(Cat("belay: deadline: ", text,
                                             "; ending the job with exit code ",
                                             kDeadlineExitCode, "\n"));
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  _exit(kDeadlineExitCode);
}

struct Deadline::Impl {
  Impl(const Comm& comm, double limit, std::string name, bool has_watchdog,
       int64_t number);
  ~Impl();

  // Used by the thread that waits.
  void BeginGate();
  Status WaitFor(MPI_Request& request, Clock::time_point since);
  void Poll();
  [[noreturn]] void GiveUp();
  void LookForLeft(Clock::time_point now);
  std::string WhereTheyAre(const std::vector<int>& late) const;
  bool is_referee() const { return !is_foreign && arrivals.is_referee(); }

  // Runs in the watchdog's thread; makes no MPI call.
  void Watch();
  // Leaves out the time in which nothing ran. Requires the mutex.
  void SkipGap(Clock::time_point now);

  Clock::duration GapSince(Clock::time_point then, Clock::time_point now) const;

  const int rank;
  const int size;
  const Seconds seconds;
  const Seconds most_gap;
  const std::string operation;

  bool is_foreign = false;            // see OnForeign
  std::span<const std::string> work;  // of each rank in this stage

  CommLife* life;                             // null if foreign
  Clock::time_point look_at;                  // for ranks that have left
  std::optional<Clock::time_point> end_left;  // end the job for one of them

  int64_t agreement = 0;
  Clock::time_point tell_at;        // of this agreement
  Clock::time_point tell_again_at;  // of this agreement
  Clock::time_point give_up_at;     // of this agreement
  Clock::time_point polled_at;      // at this agreement
  Arrivals arrivals;

  std::mutex mutex;  // guards the next four
  std::string stage = "start";
  Clock::time_point start = Clock::now();
  Clock::time_point looked_at = start;  // by the watchdog
  bool done = false;
  std::condition_variable wake;
  std::thread watchdog;
};

// Without a limit it takes a century, which fits the clock.
Deadline::Impl::Impl(const Comm& of, double limit, std::string name,
                     bool has_watchdog, int64_t number)
    : rank(of.rank()),
      size(of.size()),
      seconds(limit > 0 ? std::min(limit, 3e9) : 3e9),
      most_gap(std::min(kMostGap, seconds / 2)),
      operation(std::move(name)),
      life(FindLife(of.raw())),
      arrivals(of, operation, number) {
  // Without a thread the agreements still watch.
  if (has_watchdog && limit > 0) {
    watchdog = StartThreadWithoutSignals([this] { Watch(); });
  }
}

Deadline::Impl::~Impl() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    done = true;
  }
  wake.notify_one();
  if (watchdog.joinable()) watchdog.join();
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized && agreement > 0 && is_referee()) arrivals.Listen(agreement);
}

// The time in which nothing ran; zero if it is no longer than usual.
Clock::duration Deadline::Impl::GapSince(Clock::time_point then,
                                         Clock::time_point now) const {
  return now - then > most_gap ? now - then : Clock::duration::zero();
}

void Deadline::Impl::SkipGap(Clock::time_point now) {
  start = std::min(now, start + GapSince(looked_at, now));
  looked_at = now;
}

void Deadline::Impl::Watch() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!done) {
    const Clock::time_point now = Clock::now();
    SkipGap(now);
    const Clock::time_point end = After(start, seconds + kWatchdogGrace);
    if (now >= end) {
      EndJob(Cat(operation, ", stage ", stage,
                 ": a call did not return within ", seconds.count(),
                 " s on rank ", rank));
    }
    wake.wait_until(lock, std::min(end, After(now, most_gap / 10)));
  }
}

// Late agreements still get a little time for the arrivals.
void Deadline::Impl::BeginGate() {
  const Seconds least = std::min(Seconds(1), seconds / 4);
  const Clock::time_point now = Clock::now();
  ++agreement;
  polled_at = now;
  look_at = After(now, kBetweenLooks);
  end_left.reset();
  std::lock_guard<std::mutex> lock(mutex);
  // Without a watchdog, a long time was spent in work.
  if (watchdog.joinable()) SkipGap(now);
  tell_at = std::max(After(start, seconds / 2), After(now, least / 2));
  tell_again_at = tell_at;
  give_up_at = std::max(After(start, seconds), After(now, least));
  if (is_referee()) {
    give_up_at = After(give_up_at, rank * kBetweenReferees);
  } else {
    give_up_at = After(give_up_at, kGrace);
  }
}

Status Deadline::Impl::WaitFor(MPI_Request& request, Clock::time_point since) {
  for (int64_t tests = 0;; ++tests) {
    int is_done = 0;
    const int code = TestRequest(request, is_done);
    if (code != MPI_SUCCESS) return MpiError(code, "MPI_Test");
    if (is_done) return absl::OkStatus();
    // Most agreements open within a few tests.
    if (tests < kTestsBeforeYield) continue;
    Poll();
    GiveWay(since);
  }
}

void Deadline::Impl::Poll() {
  const Clock::time_point now = Clock::now();
  const Clock::duration gap = GapSince(polled_at, now);
  polled_at = now;
  tell_at += gap;
  tell_again_at += gap;
  give_up_at += gap;
  if (life != nullptr && now >= look_at) LookForLeft(now);
  if (now < tell_at) return;
  if (now >= tell_again_at && !is_foreign) {
    // Repeatedly, since a late referee drops earlier messages.
    arrivals.Tell(agreement);
    tell_again_at = After(now, seconds / 8);
  }
  if (is_referee()) arrivals.Listen(agreement);
  if (now >= give_up_at) GiveUp();
}

void Deadline::Impl::LookForLeft(Clock::time_point now) {
  look_at = After(now, kBetweenLooks);
  const std::optional<LeftRank> left = FindLeftRank(*life);
  if (!left) return;
  if (!end_left) {
    end_left = After(now, kBeforeLeft + left->told_before * kBetweenLeft);
  }
  if (now < *end_left) return;
  EndOnError("belay", InWordsOfProgram(absl::FailedPreconditionError(
                          Cat(operation, ", stage ", stage, ": rank ",
                              left->rank, " of ", size, kHasLeft))));
}

// The work of late ranks in this stage, or the other operation where they wait.
std::string Deadline::Impl::WhereTheyAre(const std::vector<int>& late) const {
  std::string text;
  size_t told = 0;
  for (const int other : late) {
    if (told == kMostWork) break;
    const std::string elsewhere = arrivals.Elsewhere(other);
    if (!elsewhere.empty()) {
      absl::StrAppend(&text, "; rank ", other, " is in ", elsewhere);
    } else if (!work.empty()) {
      absl::StrAppend(&text, "; rank ", other, " ", work[other]);
    } else {
      continue;
    }
    ++told;
  }
  return text.empty() ? "; ranks may be in different calls" : text;
}

void Deadline::Impl::GiveUp() {
  std::string text =
      Cat(operation, ", stage ", stage, ": waited ", seconds.count(), " s");
  if (is_foreign) {
    EndJob(Cat(text, " on rank ", rank, " of ", size,
               " for other ranks: every rank of the communicator must make "
               "this call"));
  }
  const std::vector<int> late = arrivals.LateRanks(agreement);
  if (late.empty()) {
    absl::StrAppend(&text, " though all ", size,
                    " ranks have arrived; ranks may be in different calls");
  } else if (is_referee()) {
    absl::StrAppend(&text, " for ", NameRanks(late, size), WhereTheyAre(late));
  } else {
    absl::StrAppend(&text, " on rank ", rank, " and heard nothing from ",
                    NameRanks(late, size), WhereTheyAre(late));
  }
  std::fflush(stdout);
  EndJob(text);
}

Deadline::Deadline(const Comm& comm, double seconds, std::string operation,
                   bool watchdog, int64_t number) {
  impl_ = std::make_unique<Impl>(comm, seconds, std::move(operation), watchdog,
                                 number);
}

Deadline Deadline::OnForeign(const Comm& comm, double seconds,
                             std::string operation) {
  Deadline deadline(comm, seconds, std::move(operation));
  deadline.impl_->is_foreign = true;
  deadline.impl_->life = nullptr;  // it may end before this one does
  return deadline;
}

Deadline::Deadline(Deadline&&) noexcept = default;
Deadline& Deadline::operator=(Deadline&&) noexcept = default;
Deadline::~Deadline() = default;

void Deadline::Enter(std::string_view stage,
                     std::span<const std::string> work) {
  impl_->work = work;
  std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->stage = std::string(stage);
  impl_->start = Clock::now();
}

void Deadline::GoOn() {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->start = Clock::now();
}

void Deadline::CountCollective() { belay::CountCollective(impl_->life); }

Status Deadline::Wait(MPI_Request& request) {
  return Wait(std::span<MPI_Request>(&request, 1));
}

Status Deadline::Wait(std::span<MPI_Request> requests) {
  impl_->BeginGate();
  const Clock::time_point since = Clock::now();
  Status status;
  for (MPI_Request& request : requests) {
    status.Update(impl_->WaitFor(request, since));
  }
  return status;
}

}  // namespace belay
