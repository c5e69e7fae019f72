#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/threads.h"

namespace belay::worker_thread_test {
namespace {

using std::chrono::milliseconds;

TEST(WorkerThread, DoesOneWorkAfterTheOther) {
  WorkerThread thread;
  EXPECT_TRUE(thread.IsIdle());
  EXPECT_TRUE(thread.WaitFor(milliseconds(0)));
  std::thread::id first;
  for (int i = 0; i < 100; ++i) {
    std::thread::id id;
    thread.Begin([&] {
      id = std::this_thread::get_id();
      return i % 2 == 0 ? absl::OkStatus() : absl::AbortedError("odd");
    });
    ASSERT_TRUE(thread.WaitFor(milliseconds(10000)));
    EXPECT_EQ(thread.result().ok(), i % 2 == 0);
    EXPECT_NE(id, std::this_thread::get_id());
    if (i == 0) first = id;
    EXPECT_EQ(id, first);
  }
}

TEST(WorkerThread, DoesNotWaitForWhatItDoes) {
  std::promise<void> may_end;
  const std::shared_future<void> end = may_end.get_future().share();
  WorkerThread thread;
  thread.Begin([end] {
    end.wait();
    return absl::OkStatus();
  });
  EXPECT_FALSE(thread.IsIdle());
  EXPECT_FALSE(thread.WaitFor(milliseconds(20)));
  may_end.set_value();
  EXPECT_TRUE(thread.WaitFor(milliseconds(10000)));
}

TEST(WorkerThread, WorkMayOutliveIt) {
  std::promise<void> may_end;
  const std::shared_future<void> end = may_end.get_future().share();
  auto ended = std::make_shared<std::promise<void>>();
  std::future<void> has_ended = ended->get_future();
  {
    WorkerThread thread;
    thread.Begin([end, ended] {
      end.wait();
      ended->set_value();
      return absl::OkStatus();
    });
  }
  may_end.set_value();
  EXPECT_EQ(has_ended.wait_for(milliseconds(10000)), std::future_status::ready);
}

TEST(WorkerThread, WhatWorkThrowsIsAnError) {
  WorkerThread thread;
  thread.Begin([]() -> Status { throw std::runtime_error("a reason"); });
  ASSERT_TRUE(thread.WaitFor(milliseconds(10000)));
  EXPECT_EQ(thread.result().code(), absl::StatusCode::kInternal);
}

TEST(WorkerThread, HoldsAResultOfTheCaller) {
  WorkerThread thread;
  thread.Hold(absl::AbortedError("mine"));
  EXPECT_TRUE(thread.IsIdle());
  EXPECT_TRUE(absl::IsAborted(thread.result()));
}

// The priority of a thread for cores and for the disk.
struct Priority {
  int policy = 0;
  int nice = 0;
  int io_class = 0;
};

Priority PriorityOf(pid_t thread) {
  constexpr int kWhoIsThread = 1;
  constexpr int kClassShift = 13;
  return {.policy = sched_getscheduler(thread),
          .nice = getpriority(PRIO_PROCESS, static_cast<id_t>(thread)),
          .io_class =
              static_cast<int>(syscall(SYS_ioprio_get, kWhoIsThread, thread)) >>
              kClassShift};
}

// Begins work that does not end before `end`, and returns its thread.
pid_t BeginUntil(WorkerThread& thread, std::shared_future<void> end) {
  std::promise<pid_t> id;
  thread.Begin([&id, end] {
    id.set_value(static_cast<pid_t>(syscall(SYS_gettid)));
    end.wait();
    return absl::OkStatus();
  });
  return id.get_future().get();
}

// A nice value could not be given back without rights, so it stays.
TEST(WorkerThread, GivesWayUntilSomebodyWaits) {
  constexpr int kIdleClass = 3;
  const Priority before = PriorityOf(0);
  ASSERT_EQ(before.policy, SCHED_OTHER);
  WorkerThread thread;
  for (int i = 0; i < 3; ++i) {
    std::promise<void> may_end;
    const pid_t id = BeginUntil(thread, may_end.get_future().share());
    EXPECT_EQ(PriorityOf(id).policy, SCHED_BATCH);
    EXPECT_EQ(PriorityOf(id).nice, before.nice);
    EXPECT_EQ(PriorityOf(id).io_class, kIdleClass);
    thread.Hurry();
    EXPECT_EQ(PriorityOf(id).policy, SCHED_OTHER);
    EXPECT_EQ(PriorityOf(id).nice, before.nice);
    EXPECT_EQ(PriorityOf(id).io_class, before.io_class);
    may_end.set_value();
    ASSERT_TRUE(thread.WaitFor(milliseconds(10000)));
  }
}

// As one has it who may raise no priority: nothing is lowered for good.
TEST(WorkerThread, GetsItsPriorityBackWithoutRights) {
  constexpr uid_t kNobody = 65534;
  const pid_t child = fork();
  if (child == 0) {
    if (getuid() == 0 && setuid(kNobody) != 0) _exit(2);
    const rlimit none{0, 0};
    if (setrlimit(RLIMIT_NICE, &none) != 0) _exit(3);
    const Priority before = PriorityOf(0);
    WorkerThread thread;
    std::promise<void> may_end;
    const pid_t id = BeginUntil(thread, may_end.get_future().share());
    thread.Hurry();
    const Priority after = PriorityOf(id);
    _exit(after.policy == before.policy && after.nice == before.nice &&
                  after.io_class == before.io_class
              ? 0
              : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(WorkerThread, HasNoSignals) {
  WorkerThread thread;
  sigset_t blocked;
  sigemptyset(&blocked);
  thread.Begin([&] {
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return absl::OkStatus();
  });
  ASSERT_TRUE(thread.WaitFor(milliseconds(10000)));
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 1);
  EXPECT_EQ(sigismember(&blocked, SIGUSR1), 1);
}

}  // namespace
}  // namespace belay::worker_thread_test
