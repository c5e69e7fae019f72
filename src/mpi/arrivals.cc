#include "mpi/arrivals.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/text.h"

namespace belay {
namespace {

constexpr int kArrivalTag = 1000;
constexpr size_t kMostName = 104;

uint64_t Fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

// Keeps the beginning and the end of a long name: the operation and the path.
void CopyName(std::string name, char (&to)[kMostName]) {
  constexpr size_t kMost = sizeof(to) - 1;
  constexpr size_t kBeginning = 30;
  constexpr std::string_view kGap = "...";
  if (name.size() > kMost) {
    name.replace(kBeginning, name.size() - kMost + kGap.size(), kGap);
  }
  name.copy(to, kMost);
}

}  // namespace

// "I wait at this agreement."
struct Arrivals::Message {
  uint64_t operation = 0;  // hash of its name
  int64_t agreement = 0;
  char name[kMostName] = {};  // of the operation
};

struct Arrivals::Outgoing {
  Message message;
  MPI_Request request = MPI_REQUEST_NULL;
};

Arrivals::Arrivals(const Comm& comm, const std::string& operation,
                   int64_t number)
    : comm_(comm.raw()),
      rank_(comm.rank()),
      size_(comm.size()),
      operation_(operation),
      hash_(Fnv1a(Cat(operation, " ", number))) {}

// Messages may be under way to referees that arrived in time and do not need
// them. MPI drops them with the communicator.
Arrivals::~Arrivals() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized) return;
  for (std::unique_ptr<Outgoing>& outgoing : outgoing_) {
    int is_done = 0;
    MPI_Test(&outgoing->request, &is_done, MPI_STATUS_IGNORE);
    if (is_done) continue;
    MPI_Request_free(&outgoing->request);
    outgoing.release();  // MPI may still read it: leave it behind
  }
}

int Arrivals::num_referees() const { return std::min(size_, 4); }

void Arrivals::Tell(int64_t agreement) {
  for (int referee = 0; referee < num_referees(); ++referee) {
    if (referee == rank_) continue;
    auto outgoing = std::make_unique<Outgoing>();
    outgoing->message = {hash_, agreement};
    CopyName(operation_, outgoing->message.name);
    MPI_Isend(&outgoing->message, sizeof(Message), MPI_BYTE, referee,
              kArrivalTag, comm_, &outgoing->request);
    outgoing_.push_back(std::move(outgoing));
  }
}

void Arrivals::Listen(int64_t agreement) {
  reached_.resize(size_);
  reached_[rank_] = agreement;
  Receive();
  if (listened_ != agreement) elsewhere_.clear();
  listened_ = agreement;
}

void Arrivals::Receive() {
  while (true) {
    int found = 0;
    MPI_Status from;
    const int code =
        MPI_Iprobe(MPI_ANY_SOURCE, kArrivalTag, comm_, &found, &from);
    if (code != MPI_SUCCESS || !found) return;
    Message message;
    MPI_Recv(&message, sizeof(message), MPI_BYTE, from.MPI_SOURCE, kArrivalTag,
             comm_, MPI_STATUS_IGNORE);
    const int rank = from.MPI_SOURCE;
    if (message.operation == hash_) {
      reached_[rank] = std::max(reached_[rank], message.agreement);
      elsewhere_.erase(rank);
    } else {
      elsewhere_[rank] = message.name;
    }
  }
}

std::vector<int> Arrivals::LateRanks(int64_t agreement) const {
  std::vector<int> late;
  const int end = is_referee() ? size_ : num_referees();
  for (int other = 0; other < end; ++other) {
    if (!is_referee() || reached_[other] < agreement) late.push_back(other);
  }
  return late;
}

std::string Arrivals::Elsewhere(int rank) const {
  const auto found = elsewhere_.find(rank);
  return found == elsewhere_.end() || found->second == operation_
             ? std::string()
             : found->second;
}

// --- Leaving ---

namespace {

constexpr int kLeavingTag = 1001;
// MPI_Finalize, which waits for all ranks anyway, receives the messages of
// others for so long, so that MPI ends without unreceived messages.
constexpr std::chrono::seconds kLeavingPatience{2};
constexpr std::chrono::microseconds kLeavingNap{20};

}  // namespace

struct CommLife {
  struct Heard {
    int rank = 0;
    int64_t collectives = 0;  // begun by it
  };

  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  int64_t collectives = 0;  // begun by this rank
  bool has_told = false;
  std::vector<Heard> heard;
};

namespace {

struct Lives {
  std::mutex mutex;  // guards the next two
  std::vector<CommLife*> open;
  std::deque<int64_t> told;  // MPI may still read them
  std::atomic<int> key = MPI_KEYVAL_INVALID;
};

// Never destroyed: MPI_Finalize may come after all other statics have ended.
Lives& AllLives() {
  static auto* const all = new Lives;
  return *all;
}

// Each rank tells those 1, 2, 4, 8, ... after it. If some wait and some have
// left, a rank that waits comes right after one that has left.
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
    has_all = has_all &&
              std::any_of(life.heard.begin(), life.heard.end(),
                          [&](const CommLife::Heard& heard) {
                            return heard.rank == RankBefore(life, distance);
                          });
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

// MPI calls the functions of attributes of MPI_COMM_SELF in the reverse order
// in which they were set: this one, set with the first communicator, comes
// after all that belay does in MPI_Finalize.
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
  MPI_Comm_free_keyval(&on_finalize);  // goes with the attribute
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
  if (key == MPI_KEYVAL_INVALID || comm == MPI_COMM_NULL) return nullptr;
  int is_finalized = 0;
  MPI_Finalized(&is_finalized);
  if (is_finalized) return nullptr;
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
