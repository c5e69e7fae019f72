#include "mpi/deadline.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "core/program_words.h"
#include "core/text.h"
#include "core/threads.h"
#include "core/wire.h"
#include "mpi/leaving.h"
#include "mpi/mpi_error.h"

namespace belay {

int TestRequest(MPI_Request& request, int& done) {
  // Calls no error handler, but does not return errors either.
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

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int kArrivalTag = 1000;
constexpr int64_t kTestsBeforeYield = 64;
// After this long, a waiting rank sleeps between tests. With more ranks than
// cores, it may wake up on another rank's core and share it for tens of the
// program's steps. Most waits of a save are shorter.
constexpr std::chrono::microseconds kYieldTime{5000};
constexpr std::chrono::microseconds kNap{20};
// Two looks are normally a tenth of this apart. A longer gap than this means
// that the process was stopped, for example because a batch system suspended
// the job. That time is not counted.
constexpr Seconds kMaxGap{10};
constexpr int kMaxNamedRanks = 16;
constexpr std::string_view kHasLeft =
    " has called MPI_Finalize and will not make this call; a rank that fails "
    "should ";
constexpr size_t kMaxWork = 3;  // ranks whose work a message shows
// The rank that knows most should end the job: first the referees one after
// another, then the other ranks, then the watchdogs.
constexpr Seconds kBetweenReferees{0.3};
constexpr Seconds kGrace{2};
constexpr Seconds kWatchdogGrace{4};
// How often a waiting rank looks for ranks that have left, and how long it
// waits for them to report their own error first.
constexpr Seconds kBetweenLooks{0.01};
constexpr Seconds kBeforeLeft{0.5};
constexpr Seconds kBetweenLeft{1};

Clock::time_point After(Clock::time_point start, Seconds delay) {
  return start + std::chrono::duration_cast<Clock::duration>(delay);
}

// A rank that waits for long frees its core, which other ranks may need.
void GiveWay(Clock::time_point since) {
  if (Clock::now() - since < kYieldTime) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(kNap);
  }
}

}  // namespace

// Calls no exit handlers: they may wait for whatever hangs.
[[noreturn]] void EndJob(std::string_view text) {
  const std::string line = PrintableText(Cat("belay: deadline: ", text,
                                             "; ending the job with exit code ",
                                             kDeadlineExitCode, "\n"));
  std::fputs(line.c_str(), stderr);
  std::fflush(stderr);
  _exit(kDeadlineExitCode);
}

// --- Arrivals ---

// Arrivals at the agreements of one operation on one communicator. Waiting
// ranks report to a few referees, the lowest ranks.
class Deadline::Arrivals {
 public:
  // `number` distinguishes operations of the same name.
  Arrivals(const Comm& comm, const std::string& operation, int64_t number)
      : comm_(comm.raw()),
        rank_(comm.rank()),
        size_(comm.size()),
        num_referees_(std::min(size_, 4)),
        operation_(operation),
        hash_(Fingerprint(Cat(operation, " ", number))) {}
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;
  // Messages may still be in flight to referees that arrived in time and do not
  // need them. MPI drops them with the communicator.
  ~Arrivals() {
    if (!IsMpiRunning()) return;
    for (std::unique_ptr<Outgoing>& outgoing : outgoing_) {
      int is_done = 0;
      MPI_Test(&outgoing->request, &is_done, MPI_STATUS_IGNORE);
      if (is_done) continue;
      MPI_Request_free(&outgoing->request);
      outgoing.release();  // leak it: MPI may still read it
    }
  }

  bool is_referee() const { return rank_ < num_referees_; }

  // Tells the referees that this rank waits at this agreement. The message is
  // small enough that MPI delivers it without the receiver's help.
  void Tell(int64_t agreement) {
    for (int referee = 0; referee < num_referees_; ++referee) {
      if (referee == rank_) continue;
      Outgoing& outgoing = *outgoing_.emplace_back(new Outgoing);
      outgoing.message = {hash_, agreement};
      CopyName(outgoing.message);
      MPI_Isend(&outgoing.message, sizeof(Message), MPI_BYTE, referee,
                kArrivalTag, comm_, &outgoing.request);
    }
  }

  // Receives the messages to this referee. The first call at an agreement drops
  // messages about other operations, since their ranks may have moved on.
  void Listen(int64_t agreement) {
    reached_.resize(size_);
    reached_[rank_] = agreement;
    int found = 0;
    MPI_Status from;
    while (MPI_Iprobe(MPI_ANY_SOURCE, kArrivalTag, comm_, &found, &from) ==
               MPI_SUCCESS &&
           found) {
      const int rank = from.MPI_SOURCE;
      Message message;
      MPI_Recv(&message, sizeof(message), MPI_BYTE, rank, kArrivalTag, comm_,
               MPI_STATUS_IGNORE);
      if (message.operation == hash_) {
        reached_[rank] = std::max(reached_[rank], message.agreement);
        elsewhere_.erase(rank);
      } else {
        elsewhere_[rank] = message.name;
      }
    }
    if (std::exchange(listened_, agreement) != agreement) elsewhere_.clear();
  }

  // Returns the ranks that are not known to have reached the agreement.
  std::vector<int> LateRanks(int64_t agreement) const {
    std::vector<int> late;
    const int end = is_referee() ? size_ : num_referees_;
    for (int other = 0; other < end; ++other) {
      if (!is_referee() || reached_[other] < agreement) late.push_back(other);
    }
    return late;
  }

  // Returns the other operation in which a rank waits, if it has reported one;
  // otherwise "".
  std::string Elsewhere(int rank) const {
    const auto found = elsewhere_.find(rank);
    if (found == elsewhere_.end() || found->second == operation_) return "";
    return found->second;
  }

 private:
  // "I wait at this agreement."
  struct Message {
    uint64_t operation = 0;  // hash of its name
    int64_t agreement = 0;
    char name[104] = {};  // the operation's name
  };
  struct Outgoing {
    Message message;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  // Shortens a long name in the middle, to keep the operation and the path.
  void CopyName(Message& message) const {
    constexpr size_t kMax = sizeof(message.name) - 1;
    constexpr size_t kBeginning = 30;
    constexpr std::string_view kGap = "...";
    std::string name = operation_;
    if (name.size() > kMax) {
      name.replace(kBeginning, name.size() - kMax + kGap.size(), kGap);
    }
    name.copy(message.name, kMax);
  }

  const MPI_Comm comm_;
  const int rank_;
  const int size_;
  const int num_referees_;
  const std::string operation_;
  const uint64_t hash_;
  int64_t listened_ = 0;          // the agreement of the last Listen
  std::vector<int64_t> reached_;  // per rank: the last agreement reported
  std::map<int, std::string> elsewhere_;
  std::vector<std::unique_ptr<Outgoing>> outgoing_;
};

// --- Deadline ---

struct Deadline::Impl {
  // Without a limit, uses a century, which the clock can represent.
  Impl(const Comm& of, double limit, std::string name, bool has_watchdog,
       int64_t number)
      : rank(of.rank()),
        size(of.size()),
        seconds(limit > 0 ? std::min(limit, 3e9) : 3e9),
        most_gap(std::min(kMaxGap, seconds / 2)),
        operation(std::move(name)),
        life(FindLife(of.raw())),
        arrivals(of, operation, number) {
    // If the thread cannot start, the deadline is still checked at each
    // agreement.
    if (has_watchdog && limit > 0) {
      watchdog = StartThreadWithoutSignals([this] { Watch(); });
    }
  }

  ~Impl() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      done = true;
    }
    wake.notify_one();
    if (watchdog.joinable()) watchdog.join();
    if (IsMpiRunning() && agreement > 0 && is_referee())
      arrivals.Listen(agreement);
  }

  bool is_referee() const { return !is_foreign && arrivals.is_referee(); }

  // Returns the time during which nothing ran; zero for gaps of normal length.
  Clock::duration GapSince(Clock::time_point then,
                           Clock::time_point now) const {
    return now - then > most_gap ? now - then : Clock::duration::zero();
  }

  // Excludes the time during which nothing ran. Requires the mutex.
  void SkipGap(Clock::time_point now) {
    start = std::min(now, start + GapSince(looked_at, now));
    looked_at = now;
  }

  // Runs in the watchdog's thread; makes no MPI calls.
  void Watch() {
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

  // An agreement that is entered late still leaves a little time for the
  // arrivals to be reported.
  void BeginAgreement() {
    const Seconds least = std::min(Seconds(1), seconds / 4);
    const Clock::time_point now = Clock::now();
    ++agreement;
    polled_at = now;
    look_at = After(now, kBetweenLooks);
    end_left.reset();
    std::lock_guard<std::mutex> lock(mutex);
    // Without a watchdog nobody checks the clock: a long gap is work, not a
    // stop.
    if (watchdog.joinable()) SkipGap(now);
    tell_at = std::max(After(start, seconds / 2), After(now, least / 2));
    tell_again_at = tell_at;
    give_up_at = After(
        std::max(After(start, seconds), After(now, least)),
        is_referee() ? Seconds(rank * kBetweenReferees) : Seconds(kGrace));
  }

  Status WaitFor(MPI_Request& request, Clock::time_point since) {
    for (int64_t tests = 0;; ++tests) {
      int is_done = 0;
      const int code = TestRequest(request, is_done);
      if (code != MPI_SUCCESS) return MpiError(code, "MPI_Test");
      if (is_done) return absl::OkStatus();
      // Most agreements complete within a few tests.
      if (tests < kTestsBeforeYield) continue;
      Poll();
      GiveWay(since);
    }
  }

  void Poll() {
    const Clock::time_point now = Clock::now();
    const Clock::duration gap = GapSince(polled_at, now);
    polled_at = now;
    tell_at += gap;
    tell_again_at += gap;
    give_up_at += gap;
    if (life != nullptr && now >= look_at) LookForLeft(now);
    if (now < tell_at) return;
    if (now >= tell_again_at && !is_foreign) {
      // Repeated, since a late referee drops earlier messages.
      arrivals.Tell(agreement);
      tell_again_at = After(now, seconds / 8);
    }
    if (is_referee()) arrivals.Listen(agreement);
    if (now >= give_up_at) GiveUp();
  }

  void LookForLeft(Clock::time_point now) {
    look_at = After(now, kBetweenLooks);
    const std::optional<LeftRank> left = FindLeftRank(*life);
    if (!left) return;
    if (!end_left) {
      end_left = After(now, kBeforeLeft + left->told_before * kBetweenLeft);
    }
    if (now < *end_left) return;
    EndOnError("belay",
               absl::FailedPreconditionError(
                   Cat(operation, ", stage ", stage, ": rank ", left->rank,
                       " of ", size, kHasLeft, kEndAllRanksWord.InProgram())));
  }

  // Describes the work of late ranks in this stage, or the other operation in
  // which they wait.
  std::string DescribeLate(const std::vector<int>& late) const {
    std::string text;
    size_t described = 0;
    for (const int other : late) {
      const std::string elsewhere = arrivals.Elsewhere(other);
      if (elsewhere.empty() && work.empty()) continue;
      if (described++ == kMaxWork) break;
      text += elsewhere.empty() ? Cat("; rank ", other, " ", work[other])
                                : Cat("; rank ", other, " is in ", elsewhere);
    }
    return text.empty() ? "; ranks may be in different calls" : text;
  }

  [[noreturn]] void GiveUp() {
    const std::string start_of_text =
        Cat(operation, ", stage ", stage, ": waited ", seconds.count(), " s");
    if (is_foreign) {
      EndJob(Cat(start_of_text, " on rank ", rank, " of ", size,
                 " for other ranks: every rank of the communicator must make "
                 "this call"));
    }
    const std::vector<int> late = arrivals.LateRanks(agreement);
    std::fflush(stdout);
    if (late.empty()) {
      EndJob(Cat(start_of_text, " although all ", size,
                 " ranks have arrived; ranks may be in different calls"));
    }
    const std::string whom =
        is_referee() ? std::string(" for ")
                     : Cat(" on rank ", rank, " and heard nothing from ");
    EndJob(Cat(start_of_text, whom, NameRanks(late, kMaxNamedRanks), " of ",
               size, DescribeLate(late)));
  }

  const int rank;
  const int size;
  const Seconds seconds;
  const Seconds most_gap;
  const std::string operation;

  bool is_foreign = false;            // see OnForeign
  std::span<const std::string> work;  // per rank, in this stage

  CommLife* life;                             // null: OnForeign
  Clock::time_point look_at;                  // for ranks that have left
  std::optional<Clock::time_point> end_left;  // when to end the job

  int64_t agreement = 0;
  Clock::time_point tell_at;        // of this agreement
  Clock::time_point tell_again_at;  // of this agreement
  Clock::time_point give_up_at;     // of this agreement
  Clock::time_point polled_at;      // at this agreement
  Arrivals arrivals;

  std::mutex mutex;  // guards the next four members
  std::string stage = "start";
  Clock::time_point start = Clock::now();
  Clock::time_point looked_at = start;  // when the watchdog last looked
  bool done = false;
  std::condition_variable wake;
  std::thread watchdog;
};

Deadline::Deadline(const Comm& comm, double seconds, std::string operation,
                   bool watchdog, int64_t number) {
  impl_ = std::make_unique<Impl>(comm, seconds, std::move(operation), watchdog,
                                 number);
}

Deadline Deadline::OnForeign(const Comm& comm, double seconds,
                             std::string operation) {
  Deadline deadline(comm, seconds, std::move(operation));
  deadline.impl_->is_foreign = true;
  deadline.impl_->life = nullptr;  // it may end before this Deadline does
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

void Deadline::Restart() {
  std::lock_guard<std::mutex> lock(impl_->mutex);
  impl_->start = Clock::now();
}

void Deadline::CountCollective() { belay::CountCollective(impl_->life); }

Status Deadline::Wait(MPI_Request& request) {
  return Wait(std::span<MPI_Request>(&request, 1));
}

Status Deadline::Wait(std::span<MPI_Request> requests) {
  impl_->BeginAgreement();
  const Clock::time_point since = Clock::now();
  Status status;
  for (MPI_Request& request : requests) {
    status.Update(impl_->WaitFor(request, since));
  }
  return status;
}

}  // namespace belay
