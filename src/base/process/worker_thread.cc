#include "base/process/worker_thread.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/catch_exceptions.h"
#include "base/process/thread_without_signals.h"

namespace belay {

struct WorkerThread::Shared {
  std::mutex mutex;  // guards all of this; nobody holds it while work is done
  std::condition_variable begun;
  std::condition_variable done;
  std::function<Status()> work;
  Status result;
  bool is_idle = true;
  bool is_left = false;  // by the object
  std::thread thread;
  pid_t process = 0;  // that the thread is in
};

namespace {

// As far as the system lets us; work is done in any case.
void TakeLowestPriority() {
  constexpr int kWhoIsThread = 1;
  constexpr int kIdleClass = 3 << 13;
  constexpr int kLeastNice = 19;
  const auto id = static_cast<id_t>(::syscall(SYS_gettid));
  ::setpriority(PRIO_PROCESS, id, kLeastNice);
  ::syscall(SYS_ioprio_set, kWhoIsThread, id, kIdleClass);
}

}  // namespace

WorkerThread::WorkerThread() : shared_(std::make_shared<Shared>()) {}
WorkerThread::WorkerThread(WorkerThread&&) noexcept = default;
WorkerThread& WorkerThread::operator=(WorkerThread&& other) noexcept {
  std::swap(shared_, other.shared_);
  return *this;
}

WorkerThread::~WorkerThread() {
  if (shared_ == nullptr || !shared_->thread.joinable()) return;
  if (shared_->process != ::getpid()) {
    // The mutex may be held by a thread that this process does not have.
    new std::shared_ptr<Shared>(shared_);  // NOLINT: never freed
    return;
  }
  bool is_idle = false;
  {
    const std::lock_guard<std::mutex> lock(shared_->mutex);
    shared_->is_left = true;
    is_idle = shared_->is_idle;
  }
  shared_->begun.notify_one();
  if (is_idle) {
    shared_->thread.join();
  } else {
    shared_->thread.detach();
  }
}

void WorkerThread::Begin(std::function<Status()> work) {
  Shared& shared = *shared_;
  {
    const std::lock_guard<std::mutex> lock(shared.mutex);
    shared.work = std::move(work);
    shared.is_idle = false;
  }
  if (!shared.thread.joinable()) {
    shared.process = ::getpid();
    shared.thread = StartThreadWithoutSignals([shared = shared_] {
      TakeLowestPriority();
      std::unique_lock<std::mutex> lock(shared->mutex);
      while (true) {
        shared->begun.wait(lock,
                           [&] { return !shared->is_idle || shared->is_left; });
        if (shared->is_idle) return;
        const std::function<Status()> next = std::move(shared->work);
        lock.unlock();
        Status result = CatchExceptions(next);
        lock.lock();
        shared->result = std::move(result);
        shared->is_idle = true;
        shared->done.notify_all();
      }
    });
  }
  if (shared.thread.joinable()) {
    shared.begun.notify_one();
    return;
  }
  Hold(CatchExceptions(std::exchange(shared.work, nullptr)));
}

void WorkerThread::Hold(Status result) {
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  shared_->result = std::move(result);
  shared_->is_idle = true;
}

bool WorkerThread::IsIdle() const {
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  return shared_->is_idle;
}

bool WorkerThread::WaitFor(std::chrono::milliseconds time) const {
  std::unique_lock<std::mutex> lock(shared_->mutex);
  return shared_->done.wait_for(lock, time, [&] { return shared_->is_idle; });
}

void WorkerThread::Finish() const {
  if (shared_->thread.joinable() && shared_->process != ::getpid()) return;
  std::unique_lock<std::mutex> lock(shared_->mutex);
  shared_->done.wait(lock, [&] { return shared_->is_idle; });
}

Status WorkerThread::result() const {
  const std::lock_guard<std::mutex> lock(shared_->mutex);
  return shared_->result;
}

}  // namespace belay
