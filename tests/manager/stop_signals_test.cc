#include "manager/stop_signals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

namespace belay::stop_signals_test {
namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

int calls_of_ours = 0;
int value_of_info = 0;

void Count(int) { ++calls_of_ours; }
void CountInfo(int, siginfo_t* info, void*) {
  ++calls_of_ours;
  value_of_info = static_cast<int>(info->si_pid);
}

struct sigaction Installed(int signal) {
  struct sigaction now = {};
  sigaction(signal, nullptr, &now);
  return now;
}

TEST(StopSignalsTest, CatchesAndPutsBack) {
  {
    const auto caught = StopSignals::Catch({SIGUSR1, SIGTERM});
    ASSERT_EQ(caught.status(), absl::OkStatus());
    EXPECT_EQ(caught->received(), std::nullopt);
    kill(getpid(), SIGTERM);
    EXPECT_EQ(caught->received(), SIGTERM);
    kill(getpid(), SIGTERM);  // harmless
    kill(getpid(), SIGUSR1);
    EXPECT_EQ(caught->received(), SIGUSR1);  // the first of the list
  }
  EXPECT_EQ(Installed(SIGUSR1).sa_handler, SIG_DFL);
  EXPECT_EQ(Installed(SIGTERM).sa_handler, SIG_DFL);
}

TEST(StopSignalsTest, ManySignalsAreHarmless) {
  const auto caught = StopSignals::Catch({SIGTERM});
  for (int i = 0; i < 100; ++i) kill(getpid(), SIGTERM);
  EXPECT_EQ(caught->received(), SIGTERM);
}

TEST(StopSignalsTest, TheHandlerOfTheProgramIsCalledAndKept) {
  calls_of_ours = 0;
  signal(SIGUSR1, &Count);
  struct sigaction with_info = {};
  with_info.sa_sigaction = &CountInfo;
  with_info.sa_flags = SA_SIGINFO;
  sigaction(SIGUSR2, &with_info, nullptr);
  {
    const auto caught = StopSignals::Catch({SIGUSR1, SIGUSR2});
    kill(getpid(), SIGUSR1);
    EXPECT_EQ(calls_of_ours, 1);
    kill(getpid(), SIGUSR2);
    EXPECT_EQ(calls_of_ours, 2);
    EXPECT_EQ(value_of_info, getpid());
    EXPECT_EQ(caught->received(), SIGUSR1);
  }
  EXPECT_EQ(Installed(SIGUSR1).sa_handler, &Count);
  kill(getpid(), SIGUSR1);
  kill(getpid(), SIGUSR2);
  EXPECT_EQ(calls_of_ours, 4);
  signal(SIGUSR1, SIG_DFL);
  signal(SIGUSR2, SIG_DFL);
}

// What the program installs later stays, also if it calls ours.
struct sigaction ours;
void CallOurs(int signal, siginfo_t* info, void* context) {
  ++calls_of_ours;
  ours.sa_sigaction(signal, info, context);
}

TEST(StopSignalsTest, AHandlerThatWasInstalledLater) {
  calls_of_ours = 0;
  {
    const auto caught = StopSignals::Catch({SIGUSR1});
    struct sigaction later = {};
    later.sa_sigaction = &CallOurs;
    later.sa_flags = SA_SIGINFO;
    sigaction(SIGUSR1, &later, &ours);
    kill(getpid(), SIGUSR1);
    EXPECT_EQ(caught->received(), SIGUSR1);
  }
  EXPECT_EQ(Installed(SIGUSR1).sa_sigaction, &CallOurs);
  {
    const auto again = StopSignals::Catch({SIGUSR1});
    EXPECT_EQ(again->received(), std::nullopt);
    kill(getpid(), SIGUSR1);
    EXPECT_EQ(again->received(), SIGUSR1);
  }
  EXPECT_EQ(calls_of_ours, 2);
  sigaction(SIGUSR1, &ours, nullptr);  // as it was
  const auto last = StopSignals::Catch({SIGUSR1});
  kill(getpid(), SIGUSR1);
  EXPECT_EQ(last->received(), SIGUSR1);
  EXPECT_EQ(calls_of_ours, 2);
}

TEST(StopSignalsTest, WhereTheProgramHasTakenOursAway) {
  for (auto* const none : {SIG_DFL, SIG_IGN}) {
    {
      const auto caught = StopSignals::Catch({SIGUSR2});
      signal(SIGUSR2, none);
    }
    EXPECT_EQ(Installed(SIGUSR2).sa_handler, none);
    {
      const auto again = StopSignals::Catch({SIGUSR2});
      ASSERT_NE(Installed(SIGUSR2).sa_handler, none);
      kill(getpid(), SIGUSR2);
      EXPECT_EQ(again->received(), SIGUSR2);
    }
    EXPECT_EQ(Installed(SIGUSR2).sa_handler, none);
  }
  signal(SIGUSR2, SIG_DFL);
}

// The status of a child that was forked while signals were caught and then
// gets one.
int StatusOfChild(int signal) {
  int ready[2];
  if (pipe(ready) != 0) return -2;
  const pid_t child = fork();
  if (child == 0) {
    if (write(ready[1], "x", 1) != 1) _exit(9);
    sleep(1);
    _exit(8);
  }
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  close(ready[1]);
  kill(child, signal);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

void EndWellWhenCalled(int) { _exit(7); }

// What a data loader makes of a signal is as if nothing were caught.
TEST(StopSignalsTest, AProcessThatWasForkedOff) {
  const auto caught = StopSignals::Catch({SIGTERM});
  const int status = StatusOfChild(SIGTERM);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
  EXPECT_EQ(caught->received(), std::nullopt);
}

TEST(StopSignalsTest, AProcessThatWasForkedOffHasTheHandlerFromBefore) {
  signal(SIGTERM, &EndWellWhenCalled);
  {
    const auto caught = StopSignals::Catch({SIGTERM});
    const int status = StatusOfChild(SIGTERM);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  }
  signal(SIGTERM, SIG_DFL);
}

TEST(StopSignalsTest, TwoAtATime) {
  auto first = StopSignals::Catch({SIGUSR2});
  kill(getpid(), SIGUSR2);
  StopSignals second = *StopSignals::Catch({SIGUSR2});
  EXPECT_EQ(first->received(), SIGUSR2);
  EXPECT_EQ(second.received(), std::nullopt);  // it came before
  { const StopSignals gone = *std::move(first); }
  kill(getpid(), SIGUSR2);  // is still caught
  EXPECT_EQ(second.received(), SIGUSR2);
  second = StopSignals();
  EXPECT_EQ(Installed(SIGUSR2).sa_handler, SIG_DFL);
}

TEST(StopSignalsTest, WhatCannotBeCaught) {
  const auto refuse = [](int signal) {
    return std::string(
        StopSignals::Catch({SIGUSR1, signal}).status().message());
  };
  EXPECT_EQ(refuse(SIGKILL), "SIGKILL cannot be caught");
  EXPECT_EQ(refuse(SIGSEGV), "SIGSEGV is not a request to stop");
  EXPECT_EQ(refuse(0), "there is no signal 0");
  EXPECT_EQ(refuse(65), "there is no signal 65");
  EXPECT_NE(refuse(32), "");  // the C library's own
  EXPECT_EQ(Installed(SIGUSR1).sa_handler, SIG_DFL);
}

TEST(StopSignalsTest, Names) {
  EXPECT_EQ(SignalText(SIGUSR1), "SIGUSR1");
  EXPECT_EQ(SignalText(SIGTERM), "SIGTERM");
  EXPECT_EQ(SignalText(40), "signal 40");
}

void InterruptTimes(int times) {
  const auto caught = StopSignals::Catch({SIGINT});
  for (int i = 0; i < times; ++i) kill(getpid(), SIGINT);
  _exit(caught->received() == SIGINT ? 7 : 8);
}

TEST(StopSignalsDeathTest, TheThirdInterruptEndsTheProcess) {
  EXPECT_EXIT(InterruptTimes(2), ExitedWithCode(7), "");
  EXPECT_EXIT(InterruptTimes(3), KilledBySignal(SIGINT), "");
}

// A call of the system that waits goes on after a signal.
TEST(StopSignalsTest, WaitingCallsGoOn) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto caught = StopSignals::Catch({SIGALRM});
  const pid_t child = fork();
  if (child == 0) {
    usleep(100000);
    kill(getppid(), SIGALRM);
    usleep(100000);
    _exit(write(ends[1], "x", 1) == 1 ? 0 : 1);
  }
  char byte = 0;
  EXPECT_EQ(read(ends[0], &byte, 1), 1);
  EXPECT_EQ(caught->received(), SIGALRM);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace belay::stop_signals_test
