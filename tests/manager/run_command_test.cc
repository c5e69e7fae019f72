#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "manager/time_limit.h"

namespace belay::run_command_test {
namespace {

StatusOr<std::string> Shell(const std::string& script, double seconds = 60) {
  return RunCommand({.words = {"sh", "-c", script},
                     .environment = EnvironmentWithout("BELAY_TEST_HIDDEN"),
                     .seconds = seconds});
}

void ExpectNoChild() {
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(RunCommandTest, ReturnsWhatItPrints) {
  EXPECT_EQ(Shell("echo one; echo two").value(), "one\ntwo\n");
  EXPECT_EQ(Shell("true").value(), "");
  EXPECT_EQ(Shell("cat").value(), "");  // its input is empty
  ExpectNoChild();
}

TEST(RunCommandTest, Failures) {
  EXPECT_EQ(Shell("echo out; echo why >&2; exit 3").status(),
            absl::InternalError("run \"sh\": exit code 3: why"));
  EXPECT_EQ(Shell("kill -9 $$").status(),
            absl::InternalError("run \"sh\": ended by signal 9"));
  EXPECT_EQ(
      RunCommand({.words = {"no-such-command"}, .environment = {}}).status(),
      absl::NotFoundError(
          "start \"no-such-command\": no such file or directory"));
  ExpectNoChild();
}

// It ends with all that it has started.
TEST(RunCommandTest, TimeLimit) {
  const Status late = Shell("sleep 1000 & sleep 1000", 0.2).status();
  EXPECT_EQ(late,
            absl::DeadlineExceededError("run \"sh\": no answer within 0.2 s"));
  // Without output it is known to run only by its process.
  EXPECT_EQ(Shell("exec >&- 2>&-; sleep 1000", 0.2).status(),
            absl::InternalError("run \"sh\": ended by signal 9"));
  ExpectNoChild();
}

TEST(RunCommandTest, Cancelled) {
  const int cancel = eventfd(1, 0);
  EXPECT_TRUE(
      absl::IsCancelled(RunCommand({.words = {"sleep", "1000"},
                                    .environment = EnvironmentWithout("X"),
                                    .cancel = cancel})
                            .status()));
  close(cancel);
  ExpectNoChild();
}

TEST(RunCommandTest, MuchOutput) {
  const auto text = Shell("head -c 1000000 /dev/zero; echo done >&2");
  EXPECT_EQ(text.value().size(), 64u << 10);
}

// What holds a lock of ours, blocks a signal or names our variables stays here.
TEST(RunCommandTest, WhatTheChildDoesNotGet) {
  setenv("BELAY_TEST_HIDDEN_ONE", "1", 1);
  setenv("BELAY_TEST_SEEN", "2", 1);
  const int open = dup(2);  // no FD_CLOEXEC
  sigset_t usr1;
  sigset_t before;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  sigprocmask(SIG_BLOCK, &usr1, &before);
  const auto text = Shell(
      "echo \"$BELAY_TEST_HIDDEN_ONE,$BELAY_TEST_SEEN\"; "
      "test ! -e /proc/self/fd/" +
      std::to_string(open) + " && echo closed; grep SigBlk /proc/self/status");
  sigprocmask(SIG_SETMASK, &before, nullptr);
  close(open);
  EXPECT_EQ(text.value(), ",2\nclosed\nSigBlk:\t0000000000000000\n");
}

// A program that collects all its children, or wants none, may do so.
TEST(RunCommandTest, ChildrenAreIgnored) {
  const auto before = signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(Shell("echo one").value(), "one\n");
  signal(SIGCHLD, before);
}

}  // namespace
}  // namespace belay::run_command_test
