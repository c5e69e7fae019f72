#include "storage/lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "directory_fixture.h"

namespace belay::lease_test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// A child that has done its work once the constructor returns, and then waits
// until it is killed. Its own children die with the group.
class Child {
 public:
  explicit Child(const std::function<bool()>& work) {
    int ready[2];
    if (pipe(ready) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      setpgid(0, 0);
      const char done = work() ? 'y' : 'n';
      if (write(ready[1], &done, 1) != 1) _exit(1);
      for (;;) pause();
    }
    char done = 'n';
    good_ = read(ready[0], &done, 1) == 1 && done == 'y';
    close(ready[0]);
    close(ready[1]);
  }
  ~Child() {
    kill(-pid_, SIGKILL);
    Kill();
  }

  void Kill() {
    if (pid_ <= 0 || gone_) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    gone_ = true;
  }

  bool good() const { return good_; }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  bool good_ = false;
  bool gone_ = false;
};

class LeaseTest : public DirectoryTest {
 protected:
  LeaseTest() {
    setenv("SLURM_JOB_ID", "4711", 1);
    setenv("SLURM_CLUSTER_NAME", "alps", 1);
  }
  ~LeaseTest() override {
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_CLUSTER_NAME");
  }

  std::string File() const { return Path("step.lease"); }

  StatusOr<Lease> Take() const { return Lease::Take(File(), ThisProcess()); }

  // Takes the lease and keeps it until the process ends.
  bool TakeForEver() const {
    static Lease lease;
    StatusOr<Lease> taken = Take();
    if (taken.ok()) lease = *std::move(taken);
    return taken.ok();
  }
};

// As `id -un` has it, where no variable says it.
TEST_F(LeaseTest, NamesTheUserOfTheSystem) {
  FILE* command = popen("id -un", "r");
  ASSERT_NE(command, nullptr);
  char name[256] = {};
  const bool is_listed = fgets(name, sizeof(name), command) != nullptr;
  pclose(command);
  if (!is_listed) GTEST_SKIP() << "the user has no name";
  const char* variables[] = {"USER", "LOGNAME"};
  std::vector<std::pair<const char*, std::string>> before;
  for (const char* variable : variables) {
    if (const char* value = getenv(variable))
      before.emplace_back(variable, value);
    unsetenv(variable);
  }
  EXPECT_EQ(ThisProcess().user + "\n", name);
  setenv("USER", "ada", 1);
  EXPECT_EQ(ThisProcess().user, "ada");
  unsetenv("USER");
  for (const auto& [variable, value] : before)
    setenv(variable, value.c_str(), 1);
}

TEST_F(LeaseTest, IsTakenAndGivenBack) {
  {
    const StatusOr<Lease> lease = Take();
    ASSERT_EQ(lease.status(), absl::OkStatus());
    EXPECT_TRUE(lease->is_held());
    EXPECT_EQ(lease->note(), "");
    EXPECT_THAT(Content("step.lease"),
                MatchesRegex("\\{\"belay_lease\":1,\"host\":\".*\",\"pid\":" +
                             std::to_string(getpid()) +
                             ",.*\"job\":\"4711\",\"cluster\":\"alps\",.*"
                             "\\}\n"));
  }
  EXPECT_EQ(Content("step.lease"), "");
  const StatusOr<Lease> again = Take();
  ASSERT_EQ(again.status(), absl::OkStatus());
  EXPECT_EQ(again->note(), "");
}

// Two managers of one process are two as well.
TEST_F(LeaseTest, IsRefusedWithinOneProcess) {
  StatusOr<Lease> first = Take();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(Take().status().code(), absl::StatusCode::kFailedPrecondition);
  const Lease moved = *std::move(first);
  EXPECT_EQ(Take().status().code(), absl::StatusCode::kFailedPrecondition);
  const StatusOr<Lease> other = Lease::Take(Path("other.lease"), ThisProcess());
  EXPECT_EQ(other.status(), absl::OkStatus());
}

TEST_F(LeaseTest, HeldByALivingProcess) {
  Child child([&] { return TakeForEver(); });
  ASSERT_TRUE(child.good());
  const Status held = Take().status();
  EXPECT_EQ(held.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(held.message()),
              MatchesRegex("take the lease \".*step.lease\": held by process " +
                           std::to_string(child.pid()) +
                           " on host \".*\" \\(Slurm job 4711, user \".*\"\\), "
                           "since [0-9-]+ [0-9:]+ UTC; only one manager may "
                           "save here at a time: wait until that job has "
                           "ended, or choose another directory or prefix"));
  EXPECT_THAT(Content("step.lease"),
              HasSubstr("\"pid\":" + std::to_string(child.pid())));
}

TEST_F(LeaseTest, OfAKilledProcessIsTakenOver) {
  Child child([&] { return TakeForEver(); });
  ASSERT_TRUE(child.good());
  child.Kill();
  const StatusOr<Lease> lease = Take();
  ASSERT_EQ(lease.status(), absl::OkStatus());
  EXPECT_THAT(lease->note(),
              MatchesRegex("the lease was taken over from process " +
                           std::to_string(child.pid()) +
                           " on host .*, which has ended"));
  EXPECT_THAT(Content("step.lease"),
              HasSubstr("\"pid\":" + std::to_string(getpid())));
}

// A program that the killed process had started does not hold it on.
TEST_F(LeaseTest, IsNotInheritedByPrograms) {
  Child child([&] {
    if (!TakeForEver()) return false;
    if (fork() == 0) {
      execlp("sleep", "sleep", "100", nullptr);
      _exit(1);
    }
    usleep(200000);  // until sleep has begun
    return true;
  });
  ASSERT_TRUE(child.good());
  child.Kill();
  EXPECT_EQ(Take().status(), absl::OkStatus());
}

// A copy of the killed process does, as it may still write.
TEST_F(LeaseTest, IsInheritedByForks) {
  Child child([&] {
    if (!TakeForEver()) return false;
    if (fork() == 0) {
      for (;;) pause();
    }
    return true;
  });
  ASSERT_TRUE(child.good());
  child.Kill();
  EXPECT_THAT(std::string(Take().status().message()),
              HasSubstr("which has ended; a process that it started still "
                        "holds it: end that"));
}

// A fork that ends in order must not give back what its parent holds, and the
// parent gives it back although a fork has the file open.
TEST_F(LeaseTest, AForkNeitherGivesBackNorKeeps) {
  std::optional<Lease> lease = *Take();
  Child child([&] {
    lease.reset();
    return true;
  });
  ASSERT_TRUE(child.good());
  EXPECT_NE(Content("step.lease"), "");
  EXPECT_EQ(Take().status().code(), absl::StatusCode::kFailedPrecondition);
  Child holder([] { return true; });
  lease.reset();
  EXPECT_EQ(Take().status(), absl::OkStatus());
}

TEST_F(LeaseTest, AFileOfAnotherProgramIsLeftAlone) {
  Put("step.lease", "someone's notes");
  EXPECT_EQ(Take().status(),
            absl::FailedPreconditionError(
                "open \"" + File() +
                "\": not written by belay; move the file away if the directory "
                "is to hold checkpoints"));
  EXPECT_EQ(Content("step.lease"), "someone's notes");
}

TEST_F(LeaseTest, AHalfWrittenFileIsTakenOver) {
  const std::string text = LeaseText(ThisProcess());
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{10}, size_t{20}, text.size() - 3}) {
    Put("step.lease", text.substr(0, size));
    EXPECT_EQ(Take().status(), absl::OkStatus()) << size;
  }
}

TEST_F(LeaseTest, BadPlaces) {
  EXPECT_EQ(Lease::Take(Path("none/step.lease"), ThisProcess()).status(),
            absl::NotFoundError("open \"" + Path("none/step.lease") +
                                "\": no such file or directory"));
  std::filesystem::create_directory(File());
  EXPECT_EQ(Take().status().code(), absl::StatusCode::kInvalidArgument);
}

// A node has died, its job was started again elsewhere, and the file server
// takes the lock away later.
TEST_F(LeaseTest, WaitsForTheRunBeforeOnADeadNode) {
  LeaseOwner before = ThisProcess();
  before.host = "dead";
  Put("step.lease", LeaseText(before));
  int tries = 0;
  const auto third_time = [&](FileLock& file) {
    return ++tries < 3 ? FileLock::Result::kHeld : file.Try();
  };
  const StatusOr<Lease> lease =
      Lease::Take(File(), ThisProcess(), 100, third_time);
  ASSERT_EQ(lease.status(), absl::OkStatus());
  EXPECT_EQ(tries, 3);
  EXPECT_THAT(lease->note(), HasSubstr("on host \"dead\""));
}

TEST_F(LeaseTest, WaitsForNobodyElse) {
  int tries = 0;
  const auto never = [&](FileLock&) -> StatusOr<FileLock::Result> {
    ++tries;
    return FileLock::Result::kHeld;
  };
  const LeaseOwner me = ThisProcess();
  LeaseOwner other_job = me;
  other_job.host = "elsewhere";
  other_job.job = "4712";
  LeaseOwner other_cluster = me;
  other_cluster.host = "elsewhere";
  other_cluster.cluster = "other";
  LeaseOwner no_job = me;
  no_job.host = "elsewhere";
  no_job.job = "";
  for (const LeaseOwner& owner : {me, other_job, other_cluster, no_job}) {
    Put("step.lease", LeaseText(owner));
    for (LeaseOwner taker : {me, no_job}) {
      taker.host = me.host;
      EXPECT_THAT(
          std::string(
              Lease::Take(File(), taker, 1e9, never).status().message()),
          HasSubstr("held by"));
    }
  }
  EXPECT_EQ(tries, 8);
}

TEST_F(LeaseTest, AFaultAnywhereTakesNothing) {
  for (int64_t point = 1;; ++point) {
    fault::Arm(point);
    const StatusOr<Lease> lease = Take();
    const bool injected = fault::Count() >= point;
    fault::Disarm();
    if (!injected) {
      EXPECT_EQ(lease.status(), absl::OkStatus());
      EXPECT_GT(point, 4);
      break;
    }
    EXPECT_EQ(lease.status().code(), absl::StatusCode::kInternal);
    EXPECT_EQ(Take().status(), absl::OkStatus()) << point;
  }
}

TEST(ThisProcessTest, IsRunning) {
  LeaseOwner me = ThisProcess();
  EXPECT_TRUE(IsRunning(me));
  me.start_time += 1;
  EXPECT_FALSE(IsRunning(me));
  EXPECT_TRUE(IsRunning({.pid = getpid()}));
  EXPECT_FALSE(IsRunning({.pid = 0}));
  EXPECT_FALSE(IsRunning({.pid = -1}));
}

// Who can write to the directory must not make a manager write elsewhere.
TEST_F(LeaseTest, ALinkIsNoLease) {
  const std::string elsewhere = File() + ".elsewhere";
  for (const bool exists : {false, true}) {
    if (exists) std::ofstream(elsewhere) << "";
    std::filesystem::remove(File());
    std::filesystem::create_symlink(elsewhere, File());
    EXPECT_FALSE(FileLock::Open(File(), kLeaseBeginning).ok());
    EXPECT_EQ(std::filesystem::exists(elsewhere), exists);
  }
  std::filesystem::remove(File());
  ASSERT_EQ(mkfifo(File().c_str(), 0600), 0);
  EXPECT_FALSE(FileLock::Open(File(), kLeaseBeginning).ok());
}

}  // namespace
}  // namespace belay::lease_test
