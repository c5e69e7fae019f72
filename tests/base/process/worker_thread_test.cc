#include "base/process/worker_thread.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>

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

TEST(WorkerThread, HasTheLowestPriorityAndNoSignals) {
  WorkerThread thread;
  int nice = 0;
  sigset_t blocked;
  sigemptyset(&blocked);
  thread.Begin([&] {
    nice = getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)));
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return absl::OkStatus();
  });
  ASSERT_TRUE(thread.WaitFor(milliseconds(10000)));
  EXPECT_EQ(nice, 19);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 1);
  EXPECT_EQ(sigismember(&blocked, SIGUSR1), 1);
}

}  // namespace
}  // namespace belay::worker_thread_test
