#include "mpi/leaving.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "mpi/mpi_error.h"

namespace belay {

struct CommLife {
  struct Heard {
    int rank = 0;
    int64_t collectives = 0;  // begun by that rank
  };

  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  int64_t collectives = 0;  // begun by this rank
  bool has_told = false;
  std::vector<Heard> heard;
};

namespace {

constexpr int kLeavingTag = 1001;
// MPI_Finalize waits for all ranks anyway. For this long it receives the
// messages of other ranks, so that MPI ends without unreceived messages.
constexpr std::chrono::seconds kLeavingPatience{2};
constexpr std::chrono::microseconds kLeavingNap{20};

struct Lives {
  std::mutex mutex;  // guards the next two members
  std::vector<CommLife*> open;
  std::deque<int64_t> told;  // MPI may still read them
  std::atomic<int> key = MPI_KEYVAL_INVALID;
};

// Never destroyed: MPI_Finalize may come after the destruction of statics.
Lives& AllLives() {
  static auto* const all = new Lives;
  return *all;
}

// Each rank notifies the ranks at distances 1, 2, 4, 8, ... after it. If some
// ranks wait and some have left, one of the waiting ranks directly follows one
// that has left.
template <typename Function>
void ForEachDistance(const CommLife& life, Function visit) {
  for (int64_t distance = 1; distance < life.size; distance *= 2) {
    visit(static_cast<int>(distance));
  }
}

int RankAfter(const CommLife& life, int distance) {
  return static_cast<int>((int64_t{life.rank} + distance) % life.size);
}

int RankBefore(const CommLife& life, int distance) {
  return (life.rank - distance + life.size) % life.size;
}

void ReceiveLeaving(CommLife& life) {
  while (true) {
    int found = 0;
    MPI_Status from;
    const int code =
        MPI_Iprobe(MPI_ANY_SOURCE, kLeavingTag, life.comm, &found, &from);
    if (code != MPI_SUCCESS || !found) return;
    CommLife::Heard heard{.rank = from.MPI_SOURCE};
    if (MPI_Recv(&heard.collectives, 1, MPI_INT64_T, heard.rank, kLeavingTag,
                 life.comm, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
      return;
    }
    life.heard.push_back(heard);
  }
}

// Requires the mutex.
void TellOthers(CommLife& life, std::vector<MPI_Request>& requests,
                Lives& all) {
  if (std::exchange(life.has_told, true)) return;
  ForEachDistance(life, [&](int distance) {
    all.told.push_back(life.collectives);
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Isend(&all.told.back(), 1, MPI_INT64_T, RankAfter(life, distance),
                  kLeavingTag, life.comm, &request) == MPI_SUCCESS) {
      requests.push_back(request);
    }
  });
}

bool HasHeardAll(CommLife& life) {
  ReceiveLeaving(life);
  bool has_all = true;
  ForEachDistance(life, [&](int distance) {
    has_all =
        has_all && std::ranges::count(life.heard, RankBefore(life, distance),
                                      &CommLife::Heard::rank) > 0;
  });
  return has_all;
}

bool AreDone(std::vector<MPI_Request>& requests) {
  std::erase_if(requests, [](MPI_Request& request) {
    int is_done = 0;
    return MPI_Test(&request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
           is_done != 0;
  });
  return requests.empty();
}

// MPI calls the delete functions of MPI_COMM_SELF's attributes in the reverse
// order in which they were set. This one is set with the first communicator, so
// it runs after everything else that belay does in MPI_Finalize.
int OnFinalizeTell(MPI_Comm, int, void*, void*) {
  Lives& all = AllLives();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::vector<MPI_Request> requests;
  for (CommLife* life : all.open) TellOthers(*life, requests, all);
  const auto end = std::chrono::steady_clock::now() + kLeavingPatience;
  while (std::chrono::steady_clock::now() < end) {
    const bool have_sent = AreDone(requests);
    const bool have_heard =
        std::all_of(all.open.begin(), all.open.end(),
                    [](CommLife* life) { return HasHeardAll(*life); });
    if (have_sent && have_heard) break;
    std::this_thread::sleep_for(kLeavingNap);
  }
  for (MPI_Request& request : requests) MPI_Request_free(&request);
  return MPI_SUCCESS;
}

int OnFreeForget(MPI_Comm, int, void* attribute, void*) {
  Lives& all = AllLives();
  const std::lock_guard<std::mutex> lock(all.mutex);
  auto* const life = static_cast<CommLife*>(attribute);
  std::erase(all.open, life);
  delete life;  // NOLINT: WatchLeaving made it
  return MPI_SUCCESS;
}

// Requires the mutex. Returns MPI's code.
int MakeKey(Lives& all) {
  if (all.key != MPI_KEYVAL_INVALID) return MPI_SUCCESS;
  int on_finalize = MPI_KEYVAL_INVALID;
  int code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &OnFinalizeTell,
                                    &on_finalize, nullptr);
  if (code != MPI_SUCCESS) return code;
  code = MPI_Comm_set_attr(MPI_COMM_SELF, on_finalize, nullptr);
  MPI_Comm_free_keyval(&on_finalize);  // freed with the attribute
  if (code != MPI_SUCCESS) return code;
  int key = MPI_KEYVAL_INVALID;
  code = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &OnFreeForget, &key,
                                nullptr);
  if (code == MPI_SUCCESS) all.key = key;
  return code;
}

}  // namespace

int WatchLeaving(MPI_Comm comm) {
  Lives& all = AllLives();
  const std::lock_guard<std::mutex> lock(all.mutex);
  int code = MakeKey(all);
  if (code != MPI_SUCCESS) return code;
  auto life = std::make_unique<CommLife>();
  life->comm = comm;
  MPI_Comm_rank(comm, &life->rank);
  MPI_Comm_size(comm, &life->size);
  code = MPI_Comm_set_attr(comm, all.key, life.get());
  if (code != MPI_SUCCESS) return code;
  all.open.push_back(life.release());  // NOLINT: OnFreeForget deletes it
  return code;
}

CommLife* FindLife(MPI_Comm comm) {
  const int key = AllLives().key;
  if (key == MPI_KEYVAL_INVALID || comm == MPI_COMM_NULL || !IsMpiRunning()) {
    return nullptr;
  }
  void* life = nullptr;
  int is_there = 0;
  const int code = MPI_Comm_get_attr(comm, key, &life, &is_there);
  return code == MPI_SUCCESS && is_there ? static_cast<CommLife*>(life)
                                         : nullptr;
}

void CountCollective(CommLife* life) {
  if (life != nullptr) ++life->collectives;
}

std::optional<LeftRank> FindLeftRank(CommLife& life) {
  ReceiveLeaving(life);
  for (const CommLife::Heard& heard : life.heard) {
    if (heard.collectives >= life.collectives) continue;
    const int mine = (life.rank - heard.rank + life.size) % life.size;
    LeftRank left{.rank = heard.rank};
    ForEachDistance(life, [&](int distance) {
      if (distance < mine) ++left.told_before;
    });
    return left;
  }
  return std::nullopt;
}

void TellLeaving(absl::FunctionRef<bool(MPI_Comm)> keeps_on) {
  Lives& all = AllLives();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::vector<MPI_Request> requests;
  for (CommLife* life : all.open) {
    if (!keeps_on(life->comm)) TellOthers(*life, requests, all);
  }
  for (MPI_Request& request : requests) MPI_Request_free(&request);
}

}  // namespace belay
