// Leases on a file system without locks, where the content of the file decides.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "directory_fixture.h"
#include "storage/lease.h"

namespace belay::lease_without_locks_test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class LeaseWithoutLocksTest : public DirectoryTest {
 protected:
  LeaseWithoutLocksTest() {
    setenv("SLURM_JOB_ID", "4711", 1);
    setenv("SLURM_CLUSTER_NAME", "alps", 1);
  }
  ~LeaseWithoutLocksTest() override {
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_CLUSTER_NAME");
  }

  std::string File() const { return Path("step.lease"); }

  StatusOr<Lease> TakeWithoutLocks(const LeaseOwner& me) const {
    return Lease::Take(File(), me, 0, [](FileLock&) {
      return StatusOr<FileLock::Result>(FileLock::Result::kUnsupported);
    });
  }

  // This process in a job that was started anew so often.
  static LeaseOwner ThisProcessAs(const char* restarts) {
    setenv("SLURM_RESTART_COUNT", restarts, 1);
    LeaseOwner me = ThisProcess();
    unsetenv("SLURM_RESTART_COUNT");
    return me;
  }
};

TEST_F(LeaseWithoutLocksTest, TheContentDecides) {
  LeaseOwner me = ThisProcess();
  std::optional<Lease> lease = *TakeWithoutLocks(me);
  EXPECT_THAT(std::string(TakeWithoutLocks(me).status().message()),
              HasSubstr("held by process"));
  lease.reset();
  EXPECT_EQ(TakeWithoutLocks(me).status(), absl::OkStatus());

  // Of a process that has ended, and of a number that is used again.
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  waitpid(ended, nullptr, 0);
  LeaseOwner dead = me;
  dead.pid = ended;
  Put("step.lease", LeaseText(dead));
  EXPECT_THAT(TakeWithoutLocks(me)->note(), HasSubstr("taken over"));
  LeaseOwner reused = me;
  reused.start_time -= 1;
  Put("step.lease", LeaseText(reused));
  EXPECT_THAT(TakeWithoutLocks(me)->note(), HasSubstr("taken over"));
}

TEST_F(LeaseWithoutLocksTest, AnotherHostIsBelieved) {
  LeaseOwner other = ThisProcess();
  other.host = "elsewhere";
  other.job = "";
  Put("step.lease", LeaseText(other));
  EXPECT_THAT(std::string(TakeWithoutLocks(ThisProcess()).status().message()),
              MatchesRegex("take the lease \".*\": held by process .* on host "
                           "\"elsewhere\" \\(user .*; this file system has no "
                           "locks, so it cannot be told whether that job still "
                           "runs: once it has ended, delete the file"));
  EXPECT_EQ(Content("step.lease"), LeaseText(other));
  // With locks the kernel knows better.
  EXPECT_EQ(Lease::Take(File(), ThisProcess()).status(), absl::OkStatus());
}

// The node has died, and its job was started again elsewhere.
TEST_F(LeaseWithoutLocksTest, AnEarlierRunOfTheJobHasEnded) {
  const LeaseOwner me = ThisProcessAs("2");
  LeaseOwner before = me;
  before.host = "dead";
  for (const int64_t restarts : {0, 1}) {
    before.restarts = restarts;
    Put("step.lease", LeaseText(before));
    EXPECT_THAT(TakeWithoutLocks(me)->note(), HasSubstr("on host \"dead\""));
  }
  // The same run on another node, a lease that does not say, another job, one
  // of another cluster.
  LeaseOwner same = before;
  same.restarts = 2;
  LeaseOwner silent = before;
  silent.restarts = -1;
  LeaseOwner other = before;
  other.job = "4712";
  LeaseOwner of_other_cluster = before;
  of_other_cluster.cluster = "other";
  for (const LeaseOwner& owner : {same, silent, other, of_other_cluster}) {
    Put("step.lease", LeaseText(owner));
    EXPECT_THAT(std::string(TakeWithoutLocks(me).status().message()),
                HasSubstr("delete the file"));
  }
  // The first run has no count; one that is absurd is not known.
  EXPECT_EQ(ThisProcess().restarts, 0);
  EXPECT_EQ(ThisProcessAs("x").restarts, -1);
  EXPECT_EQ(ThisProcessAs("-1").restarts, -1);
  EXPECT_EQ(me.restarts, 2);
  // On this host it is looked for.
  LeaseOwner alive = me;
  alive.restarts = 1;
  Put("step.lease", LeaseText(alive));
  EXPECT_THAT(std::string(TakeWithoutLocks(me).status().message()),
              HasSubstr("held by process"));
}

}  // namespace
}  // namespace belay::lease_without_locks_test
