// The lease of a directory: the file and its content.

#ifndef BELAY_STORAGE_LEASE_H_
#define BELAY_STORAGE_LEASE_H_

#include <functional>
#include <optional>

#include "storage/file_lock.h"

namespace belay {

// The holder of a lease, as named in the lease file.
struct LeaseOwner {
  std::string host;
  int64_t pid = 0;
  // Start time of the process, in clock ticks since its host booted: pids are
  // reused. 0: unknown.
  int64_t start_time = 0;
  std::string job;      // Slurm job ID; empty: none
  std::string cluster;  // of the job: other clusters may use the same ID
  // How often the job was restarted. -1: unknown.
  int64_t restarts = -1;
  std::string user;   // empty: unknown
  std::string since;  // date and time in UTC

  bool operator==(const LeaseOwner&) const = default;
};

// The text of a lease begins with this, so that an incomplete one is
// recognized.
constexpr std::string_view kLeaseBeginning = "{\"belay_lease\":1";

// One line of JSON.
std::string LeaseText(const LeaseOwner& owner);

// Parses the text of a lease. Returns nothing for an empty or incompletely
// written file, which names no holder.
// Errors: FailedPrecondition - the text was not written by belay; begins with
//   `operation`.
StatusOr<std::optional<LeaseOwner>> ParseLease(std::string_view text,
                                               std::string_view operation);

// `process 7 on host "n1" (Slurm job 42, user "u"), since 2026-01-31 12:00
// UTC`.
std::string OwnerText(const LeaseOwner& owner);

// The lease of a directory: at most one manager writes there at a time.
//
// The lease is held while its file is locked; the kernel frees the lock when
// the process ends. The content of the file only names the holder. On a file
// system without locks, the content decides.

// Returns the owner that describes this process now.
LeaseOwner ThisProcess();

// Returns true if this owner, a process of this host, is still running.
bool IsRunning(const LeaseOwner& owner);

// Move only. The destructor releases the lease.
class Lease {
 public:
  using TryLock = std::function<StatusOr<FileLock::Result>(FileLock&)>;

  // Takes the lease with the file `path`, for `me`. Takes over a lease left by
  // a process that has ended. If another host holds it for the same Slurm job,
  // waits up to `patience` seconds.
  // Errors: FailedPrecondition - another process holds it; names the process
  //   and the remedy; or the file is not a lease; those of FileLock.
  static StatusOr<Lease> Take(const std::string& path, const LeaseOwner& me,
                              double patience = 0,
                              const TryLock& try_lock = &Lock);

  Lease() = default;
  // Confirms the lease after an outage of the file system, which may have lost
  // the lock. Does nothing if the lease was never taken. `path` as for Take.
  // Errors: FailedPrecondition - another process has taken it since; says
  //   who; those of FileLock.
  Status Renew(const std::string& path, const TryLock& try_lock = &Lock);

  // Swaps: the overwritten lease is released when `other` is destroyed.
  Lease(Lease&& other) noexcept { *this = std::move(other); }
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  bool is_held() const { return file_.is_open(); }
  // True if Renew found the lock taken although the file still names this
  // process. A server may not have dropped the earlier connection yet. The
  // caller should renew again.
  bool is_unsure() const { return is_unsure_; }
  // The content of the lease file.
  const std::string& text() const { return text_; }
  // Names the previous holder if the lease was taken over; otherwise "".
  const std::string& note() const { return note_; }

 private:
  static StatusOr<FileLock::Result> Lock(FileLock& file) { return file.Try(); }

  FileLock file_;
  bool is_unsure_ = false;
  int64_t pid_ = 0;  // a forked process must not release it
  std::string text_;
  std::string note_;
};

}  // namespace belay

#endif  // BELAY_STORAGE_LEASE_H_
