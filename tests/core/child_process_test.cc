#include "core/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/fault.h"
#include "sanitizers.h"

namespace belay::child_process_test {
namespace {

constexpr double kCpu = 5;
constexpr double kDeadline = 60;

// A child that does with each request what child_program.cc says of `work`.
ChildProcess Start(const std::string& work, const ChildLimits& limits = {}) {
  auto child =
      ChildProcess::Start("do it", {BELAY_CHILD_PROGRAM, work}, limits);
  EXPECT_TRUE(child.ok()) << child.status();
  return *std::move(child);
}

void ExpectError(const Status& status, absl::StatusCode code,
                 const std::string& text) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_NE(status.message().find(text), status.message().npos) << status;
}

TEST(ChildProcessTest, AnswersRequestsInTurn) {
  ChildProcess child = Start("append");
  EXPECT_EQ(*child.Ask(" a", kCpu, kDeadline), " a");
  EXPECT_EQ(*child.Ask(" b", kCpu, kDeadline), " a b");
  ChildProcess moved = std::move(child);
  EXPECT_FALSE(child.is_running());
  EXPECT_EQ(*moved.Ask("", kCpu, kDeadline), " a b");
  const std::string large(30 << 20, 'x');
  EXPECT_EQ(moved.Ask(large, kCpu, kDeadline)->size(), 4 + large.size());
}

TEST(ChildProcessTest, ErrorsAndExceptionsAreAnswers) {
  ChildProcess child = Start("fail");
  EXPECT_EQ(child.Ask("x", kCpu, kDeadline).status(), absl::NotFoundError("x"));
  ExpectError(child.Ask("throw", kCpu, kDeadline).status(),
              absl::StatusCode::kInternal, "thrown");
  if (testing::kCanRunOutOfMemory) {
    ExpectError(child.Ask("memory", kCpu, kDeadline).status(),
                absl::StatusCode::kResourceExhausted, "memory");
  }
  EXPECT_EQ(child.Ask("y", kCpu, kDeadline).status(), absl::NotFoundError("y"));
}

TEST(ChildProcessTest, ACrashIsAnError) {
  for (const int signal : {SIGSEGV, SIGABRT, SIGBUS}) {
    ChildProcess child = Start("raise");
    ExpectError(child.Ask(std::to_string(signal), kCpu, kDeadline).status(),
                absl::StatusCode::kDataLoss,
                "do it: its process has crashed (signal " +
                    std::to_string(signal) + ")");
    EXPECT_FALSE(child.is_running());
    ExpectError(child.Ask("", kCpu, kDeadline).status(),
                absl::StatusCode::kFailedPrecondition, "has ended before");
  }
}

// Such as a batch system sends to all processes of a job.
TEST(ChildProcessTest, SignalsOfTheJobAreForTheParent) {
  ChildProcess child = Start("kill");
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT, SIGHUP}) {
    EXPECT_EQ(*child.Ask(std::to_string(signal), kCpu, kDeadline),
              "still here");
  }
  ExpectError(child.Ask(std::to_string(SIGKILL), kCpu, kDeadline).status(),
              absl::StatusCode::kResourceExhausted, "was killed");
}

TEST(ChildProcessTest, WorksWithoutStandardFiles) {
  // In a child of its own, which loses them, and starts another one.
  ChildProcess outer = Start("close");
  EXPECT_EQ(*outer.Ask(BELAY_CHILD_PROGRAM, kCpu, kDeadline), "ab");
}

// Where the program lets the system wait for its children.
TEST(ChildProcessTest, SomebodyElseMayWaitForIt) {
  ::signal(SIGCHLD, SIG_IGN);
  ChildProcess child = Start("raise");
  ExpectError(child.Ask(std::to_string(SIGSEGV), kCpu, kDeadline).status(),
              absl::StatusCode::kUnavailable, "has ended");
  ::signal(SIGCHLD, SIG_DFL);
}

// Returns true if a process has ended.
bool IsGone(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string number, name, state;
  return !(stat >> number >> name >> state) || state == "Z";
}

TEST(ChildProcessTest, EndsWithItsParent) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    ChildProcess child = Start("pid");
    const pid_t pid = std::stoi(*child.Ask("", kCpu, kDeadline));
    std::thread asks([&] { child.Ask("wait", kCpu, kDeadline).IgnoreError(); });
    ::usleep(100'000);
    if (::write(ends[1], &pid, sizeof(pid)) < 0) ::_exit(1);
    ::kill(::getpid(), SIGKILL);
  }
  ::close(ends[1]);
  pid_t pid = 0;
  ASSERT_EQ(::read(ends[0], &pid, sizeof(pid)), sizeof(pid));
  ::close(ends[0]);
  ::waitpid(parent, nullptr, 0);
  for (int tries = 0; tries < 1000 && !IsGone(pid); ++tries) ::usleep(10'000);
  EXPECT_TRUE(IsGone(pid));
}

TEST(ChildProcessTest, WhatDoesNotEndIsEnded) {
  ChildProcess busy = Start("compute");
  ExpectError(busy.Ask("", 0.1, kDeadline).status(),
              absl::StatusCode::kResourceExhausted, "too long to compute");
  ChildProcess idle = Start("pid");
  const auto begin = std::chrono::steady_clock::now();
  ExpectError(idle.Ask("wait", kCpu, 0.2).status(),
              absl::StatusCode::kDeadlineExceeded, "no answer within 0.2 s");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_FALSE(idle.is_running());
}

TEST(ChildProcessTest, MemoryIsLimitedBesideWhatIsThere) {
  if (!testing::kCanRunOutOfMemory) GTEST_SKIP() << testing::kEndsWithoutMemory;
  ChildProcess child = Start("fill", {.memory_bytes = int64_t{64} << 20});
  EXPECT_EQ(*child.Ask("16", kCpu, kDeadline), "120");
  ExpectError(child.Ask("200", kCpu, kDeadline).status(),
              absl::StatusCode::kResourceExhausted, "memory");
  EXPECT_EQ(*child.Ask("16", kCpu, kDeadline), "120");
}

TEST(ChildProcessTest, SharedMemoryHoldsLargeResults) {
  constexpr size_t kBytes = 1 << 20;
  ChildProcess child = Start("share", {.shared_bytes = kBytes});
  ASSERT_TRUE(child.Ask("a", kCpu, kDeadline).ok());
  const std::span<const std::byte> shared = child.shared();
  ASSERT_EQ(shared.size(), kBytes);
  EXPECT_EQ(shared[0], std::byte{'a'});
  EXPECT_EQ(shared[kBytes - 1], std::byte{'a'});
}

// A lock would be held for as long as the child has the file.
TEST(ChildProcessTest, FilesOfTheParentAreNotKeptOpen) {
  const std::string path = ::testing::TempDir() + "belay_child_lock";
  const int held = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  ChildProcess child = Start("append");
  ASSERT_TRUE(child.Ask("", kCpu, kDeadline).ok());
  ::close(held);
  const int other = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  EXPECT_EQ(::flock(other, LOCK_EX | LOCK_NB), 0);
  ::close(other);
  std::filesystem::remove(path);
}

// Nor do the locks that its threads hold.
TEST(ChildProcessTest, ManyAtOnceBesideThreads) {
  std::atomic<bool> is_done = false;
  std::thread allocates([&] {
    while (!is_done) std::vector<std::string>(100, std::string(1000, 'x'));
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int round = 0; round < 20; ++round) {
        ChildProcess child = Start("append");
        const auto answer = child.Ask(std::to_string(i), kCpu, kDeadline);
        ASSERT_TRUE(answer.ok()) << answer.status();
        EXPECT_EQ(*answer, std::to_string(i));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  is_done = true;
  allocates.join();
}

TEST(ChildProcessTest, WhatIsNoSuchProgram) {
  const std::string none = "/no/such/program";
  ExpectError(ChildProcess::Start("do it", {none}, {}).status(),
              absl::StatusCode::kNotFound, none);
  // One that does not answer.
  auto child = ChildProcess::Start("do it", {"/bin/false"}, {});
  ASSERT_TRUE(child.ok()) << child.status();
  ExpectError(child->Ask("", kCpu, kDeadline).status(),
              absl::StatusCode::kUnavailable,
              "has ended before it began (exit code 1)");
}

TEST(ChildProcessTest, OutlivesTheThreadThatStartedIt) {
  ChildProcess child;
  std::thread([&] {
    child = Start("append");
    EXPECT_EQ(*child.Ask("a", kCpu, kDeadline), "a");
  }).join();
  EXPECT_EQ(*child.Ask("b", kCpu, kDeadline), "ab");
}

TEST(ChildProcessTest, ALimitOfFilesIsAnError) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 1 << 20;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto child = ChildProcess::Start(
      "do it", {BELAY_CHILD_PROGRAM, "share"}, {.shared_bytes = 2 << 20});
  ::setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(child.ok());
}

TEST(ChildProcessTest, FaultPointsCountInTheParent) {
  fault::Arm(5);
  ChildProcess child = Start("pass");
  EXPECT_TRUE(fault::Point("mine").ok());
  EXPECT_EQ(*child.Ask("", kCpu, kDeadline), "");
  EXPECT_EQ(fault::Count(), 4);
  EXPECT_EQ(*child.Ask("", kCpu, kDeadline), "point: injected fault");
  EXPECT_EQ(fault::Count(), 5);
  fault::Arm(0);
  fault::Disarm();
}

}  // namespace
}  // namespace belay::child_process_test
