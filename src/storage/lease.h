// The lease of a directory: its file and its text.

#ifndef BELAY_STORAGE_LEASE_H_
#define BELAY_STORAGE_LEASE_H_

#include <functional>
#include <optional>

#include "storage/file_lock.h"

namespace belay {

// The holder of a lease, as the text of its file says.
struct LeaseOwner {
  std::string host;
  int64_t pid = 0;
  // When the process started, in ticks after the start of its host: a number of
  // a process may be used again. 0: not known.
  int64_t start_time = 0;
  std::string job;      // of Slurm; empty: none
  std::string cluster;  // of the job, whose number others may have as well
  // The number of restarts of the job. -1: not known.
  int64_t restarts = -1;
  std::string user;   // empty: not known
  std::string since;  // date and time in UTC

  bool operator==(const LeaseOwner&) const = default;
};

// The text of a lease begins with this, so that a part of it is known as such.
constexpr std::string_view kLeaseBeginning = "{\"belay_lease\":1";

// One line of JSON.
std::string LeaseText(const LeaseOwner& owner);

// Reads it back. Nothing for an empty file or one that was not written to its
// end: these do not name a holder.
// Errors: FailedPrecondition - the text was not written by belay; begins with
//   `operation`.
StatusOr<std::optional<LeaseOwner>> ParseLease(std::string_view text,
                                               std::string_view operation);

// `process 7 on host "n1" (Slurm job 42, user "u"), since 2026-01-31 12:00
// UTC`.
std::string OwnerText(const LeaseOwner& owner);

// The lease of a directory: one manager writes there at a time.
//
// A lock on its file says that it is held; the kernel frees the lock when the
// process ends. The content of the file only names the holder. Where a file
// system has no locks, the content decides.

// This process, now.
LeaseOwner ThisProcess();

// Returns whether this owner, of this host, still runs.
bool IsRunning(const LeaseOwner& owner);

// Move only. The destructor gives the lease back.
class Lease {
 public:
  using TryLock = std::function<StatusOr<FileLock::Result>(FileLock&)>;

  // Takes the lease of which `path` is the file, for `me`. One that an ended
  // process has left is taken over. One that another host holds for the same
  // Slurm job is waited for, for `patience` seconds.
  // Errors: FailedPrecondition - another process holds it; says who, and what
  //   to do; or the file is not a lease; those of FileLock.
  static StatusOr<Lease> Take(const std::string& path, const LeaseOwner& me,
                              double patience = 0,
                              const TryLock& try_lock = &Lock);

  Lease() = default;
  // Makes sure of it after an outage of the file system, which may have lost
  // the lock. One that was never taken needs no renewal. `path` as for
  // Take.
  // Errors: FailedPrecondition - another process has taken it meanwhile; says
  //   who; those of FileLock.
  Status Renew(const std::string& path, const TryLock& try_lock = &Lock);

  // Moves; what is assigned to gives its lease back when `other` dies.
  Lease(Lease&& other) noexcept { *this = std::move(other); }
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  bool is_held() const { return file_.is_open(); }
  // True if Renew has found the lock taken while the file still names this
  // process: perhaps a server has not yet dropped the earlier connection. The
  // caller should renew again.
  bool is_unsure() const { return is_unsure_; }
  // The content of its file.
  const std::string& text() const { return text_; }
  // Says from whom it was taken over; "" if from nobody.
  const std::string& note() const { return note_; }

 private:
  static StatusOr<FileLock::Result> Lock(FileLock& file) { return file.Try(); }

  FileLock file_;
  bool is_unsure_ = false;
  int64_t pid_ = 0;  // a process that was forked off must not give it back
  std::string text_;
  std::string note_;
};

}  // namespace belay

#endif  // BELAY_STORAGE_LEASE_H_
