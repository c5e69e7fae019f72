#include "mpi/arrivals/arrivals.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace belay {
namespace {

constexpr int kArrivalTag = 1000;
constexpr size_t kMostName = 104;

uint64_t Fnv1a(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (unsigned char c : text) hash = (hash ^ c) * 0x100000001b3u;
  return hash;
}

// With the beginning and the end of a long name: they say what and where.
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

// What was sent but not needed: ranks arrived late but not too late. Messages
// of which this rank does not hear any more stay unreceived; MPI drops them
// with the communicator.
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

int Arrivals::num_referees() const { return std::min(size_, kReferees); }

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

}  // namespace belay
