#include "mpi/all_to_all.h"

#include "core/catch_exceptions.h"
#include "core/fault.h"

namespace belay {

Status ForEachPart(int64_t total, int64_t most,
                   absl::FunctionRef<Status(int64_t, int)> post) {
  Status status;
  for (int64_t start = 0; start < total; start += most) {
    status.Update(post(start, static_cast<int>(std::min(most, total - start))));
  }
  return status;
}

void Parcels::Send(std::span<const std::byte> bytes, int to) {
  Post(bytes, to, "MPI_Isend", MPI_Isend);
}

void Parcels::Receive(std::span<std::byte> bytes, int from) {
  Post(bytes, from, "MPI_Irecv", MPI_Irecv);
}

Status Parcels::Finish() {
  status_.Update(context_.deadline.Wait(requests_));
  return status_;
}

template <typename Byte, typename Start>
void Parcels::Post(std::span<Byte> bytes, int peer, std::string_view site,
                   Start start) {
  status_.Update(ForEachPart(
      bytes.size(), context_.part_bytes, [&](int64_t at, int count) {
        requests_.push_back(MPI_REQUEST_NULL);
        return MpiError(start(bytes.data() + at, count, MPI_BYTE, peer, tag_,
                              context_.comm.raw(), &requests_.back()),
                        site);
      }));
}

// --- All to all ---

namespace {

// One side of an MPI_Ialltoallw. Every rank has its own datatype, which
// contains the address of its bytes, in blocks that MPI can count. So neither
// the size for a pair of ranks nor the address is limited to 2 GiB.
class Side {
 public:
  explicit Side(int64_t most) : most_(most) {}
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;
  ~Side() {
    for (MPI_Datatype& type : types_) {
      if (type != MPI_BYTE) MPI_Type_free(&type);
    }
  }

  // Appends the next rank's bytes.
  Status Add(const void* data, int64_t size) {
    counts_.push_back(0);
    displacements_.push_back(0);
    types_.push_back(MPI_BYTE);
    if (size == 0) return absl::OkStatus();
    MPI_Aint address = 0;
    BELAY_RETURN_IF_ERROR(
        MpiError(MPI_Get_address(data, &address), "MPI_Get_address"));
    std::vector<int> lengths;
    std::vector<MPI_Aint> addresses;
    for (int64_t start = 0; start < size; start += most_) {
      lengths.push_back(static_cast<int>(std::min(most_, size - start)));
      addresses.push_back(address + start);
    }
    MPI_Datatype type = MPI_BYTE;
    BELAY_RETURN_IF_ERROR(
        MpiError(MPI_Type_create_hindexed(static_cast<int>(lengths.size()),
                                          lengths.data(), addresses.data(),
                                          MPI_BYTE, &type),
                 "MPI_Type_create_hindexed"));
    counts_.back() = 1;
    types_.back() = type;
    return MpiError(MPI_Type_commit(&types_.back()), "MPI_Type_commit");
  }

  const int* counts() const { return counts_.data(); }
  const int* displacements() const { return displacements_.data(); }
  const MPI_Datatype* types() const { return types_.data(); }

 private:
  const int64_t most_;
  std::vector<int> counts_;
  std::vector<int> displacements_;
  std::vector<MPI_Datatype> types_;
};

}  // namespace

Agreed<std::vector<int64_t>> ExchangeCounts(CommContext& context,
                                            const Status& mine,
                                            std::span<const int64_t> to,
                                            const Sameness& same) {
  struct Note {
    int64_t count = 0;  // negative: this rank failed
    uint64_t fingerprint = 0;
  };
  static_assert(sizeof(Note) == 16);
  Status own = mine;
  own.Update(fault::Point("MPI_Ialltoall"));
  const uint64_t fingerprint = Fingerprint(same.what) ^ same.fingerprint;
  std::vector<Note> told(context.size(), {-1, fingerprint});
  for (int rank = 0; own.ok() && rank < context.size(); ++rank) {
    told[rank].count = to[rank];
  }
  std::vector<Note> heard(context.size());
  const Status sent =
      Exchange(context, "MPI_Ialltoall", MPI_Ialltoall, told.data(),
               sizeof(Note), MPI_BYTE, heard.data(), sizeof(Note), MPI_BYTE);
  if (!sent.ok()) return MpiFailed(sent);
  // Every rank sees the failure of any rank. If the fingerprints differ, every
  // rank sees one that is not its own.
  std::vector<int64_t> counts;
  bool is_same = true;
  for (const Note& note : heard) {
    if (note.count < 0) return Agree(context, own).error();
    is_same = is_same && note.fingerprint == fingerprint;
    counts.push_back(note.count);
  }
  if (is_same) return counts;
  return AgreeSame(context, same.what, same.fingerprint).error();
}

Agreed<> ExchangeBytes(CommContext& context,
                       std::span<const std::span<const std::byte>> to,
                       std::span<const std::span<std::byte>> from) {
  Status status;
  Side sent(context.part_bytes);
  Side received(context.part_bytes);
  for (int rank = 0; rank < context.size(); ++rank) {
    status.Update(sent.Add(to[rank].data(), to[rank].size()));
    status.Update(received.Add(from[rank].data(), from[rank].size()));
    if (rank != context.rank()) context.bytes_sent += to[rank].size();
  }
  status.Update(Exchange(context, "MPI_Ialltoallw", MPI_Ialltoallw, MPI_BOTTOM,
                         sent.counts(), sent.displacements(), sent.types(),
                         MPI_BOTTOM, received.counts(),
                         received.displacements(), received.types()));
  status.Update(fault::Point("MPI_Ialltoallw"));
  return Agree(context, status);
}

std::vector<std::span<std::byte>> ReceivedBytes::FromAll() const {
  std::vector<std::span<std::byte>> all;
  for (size_t rank = 0; rank + 1 < offsets.size(); ++rank) {
    all.push_back(From(static_cast<int>(rank)));
  }
  return all;
}

StatusOr<ReceivedBytes> NewReceivedBytes(std::span<const int64_t> sizes,
                                         ReusableBytes memory) {
  ReceivedBytes received{.memory = std::move(memory), .offsets = {0}};
  for (int64_t size : sizes) {
    received.offsets.push_back(received.offsets.back() + size);
  }
  return CatchBadAlloc(Cat(received.offsets.back(), " bytes from other ranks"),
                       [&]() -> StatusOr<ReceivedBytes> {
                         Reserve(received.memory, received.offsets.back());
                         return std::move(received);
                       });
}

Agreed<ReceivedBytes> AllToAll(CommContext& context, const Status& mine,
                               std::span<const std::span<const std::byte>> to,
                               const Sameness& same, ReusableBytes memory) {
  std::vector<int64_t> sizes;
  if (mine.ok()) {
    for (std::span<const std::byte> bytes : to) sizes.push_back(bytes.size());
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<int64_t> sizes_from,
                                ExchangeCounts(context, mine, sizes, same));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      ReceivedBytes received,
      AgreeOn(context, NewReceivedBytes(sizes_from, std::move(memory))));
  BELAY_RETURN_IF_AGREED(ExchangeBytes(context, to, received.FromAll()));
  return received;
}

Agreed<> ExchangeMail(CommContext& context, std::string_view what, Mail& mail,
                      absl::FunctionRef<Status(Messages& to)> make) {
  const Status status = CatchExceptions([&] {
    return CatchBadAlloc(what, [&] {
      for (Message& message : mail.to) message.Clear();
      return make(mail.to);
    });
  });
  std::vector<std::span<const std::byte>> to;
  for (Message& message : mail.to) to.emplace_back(message.bytes());
  const auto own = static_cast<size_t>(context.rank());
  to[own] = {};
  BELAY_ASSIGN_OR_RETURN_AGREED(
      ReceivedBytes received,
      AllToAll(context, status, to, {}, std::move(mail.memory)));
  mail.from = received.FromAll();
  mail.from[own] = mail.to[own].bytes();
  mail.memory = std::move(received.memory);
  return {};
}

}  // namespace belay
