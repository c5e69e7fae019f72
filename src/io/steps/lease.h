// The lease of a directory: one manager writes there at a time.
//
// Who holds it is said by a lock on its file, which the kernel frees when the
// process ends; the content of the file only says who that is. Where a file
// system has no locks, the content has to do.

#ifndef BELAY_IO_STEPS_LEASE_H_
#define BELAY_IO_STEPS_LEASE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "belay/status.h"
#include "io/files/file_lock.h"
#include "manager/rules/lease_text.h"

namespace belay {

// This process, now. Local.
LeaseOwner ThisProcess();

// Whether a process of this host is the one that is meant and still runs.
// Local.
bool IsRunning(const LeaseOwner& owner);

// Move only. The destructor gives the lease back.
class Lease {
 public:
  using TryLock = std::function<StatusOr<FileLock::Result>(FileLock&)>;

  // Takes the lease of which `path` is the file, for `me`. One that an ended
  // process has left is taken over. One that another host holds for the same
  // Slurm job is waited for, for `patience` seconds. Local.
  // Errors: FailedPrecondition - another process holds it; says who, and what
  //   to do; or the file is not a lease; those of FileLock.
  static StatusOr<Lease> Take(const std::string& path, const LeaseOwner& me,
                              double patience = 0,
                              const TryLock& try_lock = &Lock);

  Lease() = default;
  // Makes sure of it after an outage of the file system, which may have lost
  // the lock. One that was never taken needs no renewal. Local. `path` as for
  // Take.
  // Errors: FailedPrecondition - another process has taken it meanwhile; says
  //   who; those of FileLock.
  Status Renew(const std::string& path, const TryLock& try_lock = &Lock);

  // Moves, gives back. Local.
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  bool is_held() const { return file_.is_open(); }
  // Whether Renew has found the lock taken by somebody, while the file still
  // names this process: perhaps a server that has not forgotten the connection
  // from before. To be asked for again. Local.
  bool is_unsure() const { return is_unsure_; }
  // What its file holds. Local.
  const std::string& text() const { return text_; }
  // From whom it was taken over; "" if from nobody. Local.
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

#endif  // BELAY_IO_STEPS_LEASE_H_
