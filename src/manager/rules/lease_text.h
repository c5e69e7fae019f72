// Who holds the lease of a directory, as text in its file.

#ifndef BELAY_MANAGER_RULES_LEASE_TEXT_H_
#define BELAY_MANAGER_RULES_LEASE_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "belay/status.h"

namespace belay {

struct LeaseOwner {
  std::string host;
  int64_t pid = 0;
  // When the process started, in ticks after the start of its host: a number of
  // a process may be used again. 0: not known.
  int64_t start_time = 0;
  std::string job;      // of Slurm; empty: none
  std::string cluster;  // of the job, whose number others may have as well
  // How often the job was started anew. -1: not known.
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
// end, which say that nobody holds the lease who could be named.
// Errors: FailedPrecondition - the text was not written by belay; begins with
//   `operation`.
StatusOr<std::optional<LeaseOwner>> ParseLease(std::string_view text,
                                               std::string_view operation);

// `process 7 on host "n1" (Slurm job 42, user "u"), since 2026-01-31 12:00
// UTC`.
std::string OwnerText(const LeaseOwner& owner);

}  // namespace belay

#endif  // BELAY_MANAGER_RULES_LEASE_TEXT_H_
