#include "mpi/collective.h"

#include "core/catch_exceptions.h"
#include "core/fault.h"
#include "mpi/all_to_all.h"

namespace belay {
namespace {

constexpr int kGatherTag = 1;
constexpr int kScatterTag = 2;

// The call that a packet belongs to, so that a rank in another call detects it.
enum class PacketKind : uint64_t {
  kFailure = 0xbe10,
  kFromRoot,
  kBroadcast,
  kGather,
  kScatter
};

// The fixed-size first message of every exchange of bytes. Nearly all messages
// are small enough to fit in it.
class Packet {
 public:
  Packet() = default;
  Packet(PacketKind kind, std::string_view bytes)
      : head_(static_cast<uint64_t>(kind) << kSizeBits | bytes.size()) {
    if (is_whole()) std::memcpy(text_, bytes.data(), bytes.size());
  }

  // The size of the whole message.
  int64_t size() const {
    return static_cast<int64_t>(head_ & ((uint64_t{1} << kSizeBits) - 1));
  }
  // Returns true if the packet holds the whole message.
  bool is_whole() const {
    return size() <= static_cast<int64_t>(sizeof(text_));
  }

  // Resizes `bytes`, and fills them if the packet is whole.
  // Errors: those of DifferentCalls.
  Status Unpack(PacketKind kind, std::string& bytes) const {
    if (head_ >> kSizeBits != static_cast<uint64_t>(kind)) {
      return DifferentCalls();
    }
    bytes.resize(size());
    if (is_whole()) std::memcpy(bytes.data(), text_, size());
    return absl::OkStatus();
  }

 private:
  static constexpr int kSizeBits = 48;

  uint64_t head_ = 0;  // the kind, and the number of bytes
  char text_[56] = {};
};
static_assert(sizeof(Packet) == 64);

// Names the work in out-of-memory errors: files determine how much rank 0
// needs.
constexpr char kRootWork[] = "what rank 0 does for all";

// Broadcast without agreement.
Status SendToAll(CommContext& context, PacketKind kind, std::string& bytes,
                 int root) {
  constexpr std::string_view kSite = "MPI_Ibcast";
  Packet packet;
  if (context.rank() == root) packet = Packet(kind, bytes);
  BELAY_RETURN_IF_ERROR(Exchange(context, kSite, MPI_Ibcast, &packet,
                                 sizeof(packet), MPI_BYTE, root));
  if (context.rank() != root) {
    BELAY_RETURN_IF_ERROR(packet.Unpack(kind, bytes));
  }
  if (packet.is_whole()) return absl::OkStatus();
  return ForEachPart(
      packet.size(), context.part_bytes, [&](int64_t at, int count) {
        return Exchange(context, kSite, MPI_Ibcast, bytes.data() + at, count,
                        MPI_BYTE, root);
      });
}

std::span<std::byte> WritableBytes(std::string& bytes) {
  return std::as_writable_bytes(std::span(bytes));
}

// Returns the message of this rank's error, printable on a terminal, with the
// rank appended.
std::string NameRank(const CommContext& context, const Status& error) {
  const Comm& whole = context.whole != nullptr ? *context.whole : context.comm;
  // Errors of damaged files have names from the files, which must not look like
  // further lines.
  std::string text = absl::IsDataLoss(error)
                         ? PrintableLine(std::string(error.message()))
                         : PrintableText(std::string(error.message()));
  if (NamesItsRank(text)) return text;
  return Cat(text, " [rank ", whole.rank(), " of ", whole.size(), "]");
}

// Gives every rank the Status of rank `from`.
Agreed<> SendFailure(CommContext& context, const Status& mine, int from) {
  std::string bytes;
  if (context.rank() == from) {
    bytes = Cat(std::string(1, static_cast<char>(mine.code())),
                NameRank(context, mine));
  }
  const Status sent = SendToAll(context, PacketKind::kFailure, bytes, from);
  if (!sent.ok()) return MpiFailed(sent);
  return SameOnAllRanks(
      Status(static_cast<absl::StatusCode>(bytes[0]), bytes.substr(1)));
}

// Scatter without agreement.
Status SendToEach(CommContext& context, const std::vector<std::string>& parts,
                  std::string& mine) {
  const size_t needed = context.is_root() ? context.size() : 0;
  std::vector<Packet> packets(needed);
  const bool complete = parts.size() == needed || !context.is_root();
  Status status;
  if (!complete) {
    status =
        absl::InvalidArgumentError(Cat("scatter: one part per rank (need ",
                                       needed, ", found ", parts.size(), ")"));
  }
  Parcels parcels(context, kScatterTag);
  for (size_t rank = 0; complete && rank < needed; ++rank) {
    packets[rank] = Packet(PacketKind::kScatter, parts[rank]);
    if (!packets[rank].is_whole()) {
      parcels.Send(std::as_bytes(std::span(parts[rank])),
                   static_cast<int>(rank));
    }
  }
  Packet packet;
  status.Update(Exchange(context, "MPI_Iscatter", MPI_Iscatter, packets.data(),
                         sizeof(packet), MPI_BYTE, &packet, sizeof(packet),
                         MPI_BYTE, 0));
  if (status.ok()) status = packet.Unpack(PacketKind::kScatter, mine);
  if (status.ok() && !packet.is_whole()) {
    parcels.Receive(WritableBytes(mine), 0);
  }
  status.Update(parcels.Finish());
  return status;
}

// The last byte of a message from rank 0; for an error it is the error code.
constexpr char kWhole = 100;
constexpr char kInParts = 101;

// Passes the fault point of the exchange, then agrees.
Agreed<> Finish(CommContext& context, Status status, std::string_view site) {
  status.Update(fault::Point(site));
  return Agree(context, status);
}

// All ranks detect a failed rank by the last value.
Agreed<> Reduce(CommContext& context, std::span<int64_t> values,
                MPI_Op operation, const Status& mine) {
  Status own = mine;
  own.Update(fault::Point("MPI_Iallreduce"));
  const int64_t sound = operation == MPI_MIN ? 1 : 0;
  std::vector<int64_t> ballot(values.begin(), values.end());
  ballot.push_back(own.ok() ? sound : 1 - sound);
  // Only unsigned integers may wrap around.
  const MPI_Datatype type = operation == MPI_SUM ? MPI_UINT64_T : MPI_INT64_T;
  const int64_t most = std::max<int64_t>(1, context.part_bytes / 8);
  const Status sent =
      ForEachPart(ballot.size(), most, [&](int64_t at, int count) {
        return Exchange(context, "MPI_Iallreduce", MPI_Iallreduce, MPI_IN_PLACE,
                        ballot.data() + at, count, type, operation);
      });
  if (!sent.ok()) return MpiFailed(sent);
  if (ballot.back() != sound) return Agree(context, own);
  std::copy_n(ballot.begin(), values.size(), values.begin());
  return {};
}

}  // namespace

Agreed<> Agree(CommContext& context, const Status& mine) {
  Status own = mine;
  own.Update(fault::Point("agree"));
  int64_t lowest = own.ok() ? context.size() : context.rank();
  const Status sent = Exchange(context, "MPI_Iallreduce", MPI_Iallreduce,
                               MPI_IN_PLACE, &lowest, 1, MPI_INT64_T, MPI_MIN);
  if (!sent.ok()) return MpiFailed(sent);
  if (lowest == context.size()) return {};
  if (lowest < 0 || lowest > context.size()) {
    return SameOnAllRanks(DifferentCalls());
  }
  return SendFailure(context, own, static_cast<int>(lowest));
}

Agreed<> OnRoot(CommContext& context, absl::FunctionRef<Status()> work) {
  return Agree(context, context.is_root() ? CatchBadAlloc(kRootWork, work)
                                          : absl::OkStatus());
}

Agreed<> Broadcast(CommContext& context, std::string& bytes, int root) {
  return Finish(context,
                SendToAll(context, PacketKind::kBroadcast, bytes, root),
                "MPI_Ibcast");
}

Agreed<std::vector<std::string>> Gather(CommContext& context,
                                        const std::string& mine) {
  const Packet packet(PacketKind::kGather, mine);
  std::vector<Packet> packets(context.is_root() ? context.size() : 0);
  Status status =
      Exchange(context, "MPI_Igather", MPI_Igather, &packet, sizeof(packet),
               MPI_BYTE, packets.data(), sizeof(packet), MPI_BYTE, 0);
  std::vector<std::string> all(packets.size());
  Parcels parcels(context, kGatherTag);
  for (size_t rank = 0; rank < packets.size(); ++rank) {
    const Status whole = packets[rank].Unpack(PacketKind::kGather, all[rank]);
    status.Update(whole);
    if (whole.ok() && !packets[rank].is_whole()) {
      parcels.Receive(WritableBytes(all[rank]), static_cast<int>(rank));
    }
  }
  if (!packet.is_whole()) parcels.Send(std::as_bytes(std::span(mine)), 0);
  status.Update(parcels.Finish());
  BELAY_RETURN_IF_AGREED(Finish(context, std::move(status), "MPI_Igather"));
  return all;
}

Agreed<std::string> Scatter(CommContext& context,
                            const std::vector<std::string>& parts) {
  std::string mine;
  Status status = SendToEach(context, parts, mine);
  BELAY_RETURN_IF_AGREED(Finish(context, std::move(status), "MPI_Iscatter"));
  return mine;
}

Agreed<std::string> FromRoot(CommContext& context,
                             absl::FunctionRef<StatusOr<std::string>()> work) {
  BELAY_ASSIGN_OR_RETURN_AGREED(
      RootMessage message,
      FromRootInParts(context, [&]() -> StatusOr<RootMessages> {
        BELAY_ASSIGN_OR_RETURN(std::string bytes, work());
        return RootMessages{.common = std::move(bytes)};
      }));
  return std::move(message.common);
}

Agreed<RootMessage> FromRootInParts(
    CommContext& context, absl::FunctionRef<StatusOr<RootMessages>()> work) {
  StatusOr<RootMessages> messages = RootMessages();
  RootMessage message;
  if (context.is_root()) {
    messages = CatchBadAlloc(kRootWork, work);
    message.common = messages.ok()
                         ? std::move(messages->common) +
                               (messages->parts.empty() ? kWhole : kInParts)
                         : NameRank(context, messages.status()) +
                               static_cast<char>(messages.status().code());
  }
  Status status = SendToAll(context, PacketKind::kFromRoot, message.common, 0);
  if (!status.ok()) return MpiFailed(status);
  const char kind = message.common.back();
  message.common.pop_back();
  if (kind != kWhole && kind != kInParts) {
    const auto code = static_cast<absl::StatusCode>(kind);
    return SameOnAllRanks(Status(code, message.common)).error();
  }
  if (kind == kInParts) {
    status = SendToEach(context, messages->parts, message.part);
    status.Update(fault::Point("MPI_Iscatter"));
  }
  BELAY_RETURN_IF_AGREED(Finish(context, std::move(status), "MPI_Ibcast"));
  return message;
}

Agreed<> XorToRoot(CommContext& context, std::span<uint32_t> values) {
  const int64_t most = std::max<int64_t>(1, context.part_bytes / 4);
  Status status = ForEachPart(values.size(), most, [&](int64_t at, int count) {
    uint32_t* part = values.data() + at;
    const bool is_root = context.is_root();
    return Exchange(context, "MPI_Ireduce", MPI_Ireduce,
                    is_root ? MPI_IN_PLACE : part, is_root ? part : nullptr,
                    count, MPI_UINT32_T, MPI_BXOR, 0);
  });
  return Finish(context, std::move(status), "MPI_Ireduce");
}

Agreed<> SumAll(CommContext& context, std::span<int64_t> values,
                const Status& mine) {
  return Reduce(context, values, MPI_SUM, mine);
}

Agreed<> MinAll(CommContext& context, std::span<int64_t> values,
                const Status& mine) {
  return Reduce(context, values, MPI_MIN, mine);
}

Agreed<> MaxAll(CommContext& context, std::span<int64_t> values,
                const Status& mine) {
  return Reduce(context, values, MPI_MAX, mine);
}

// --- All gather ---

Agreed<> GatherParts(CommContext& context, std::span<const GatherPart> parts,
                     int to) {
  constexpr int kPartsTag = 3;
  ++context.messages;
  Parcels parcels(context, kPartsTag);
  const auto gets = [&](int rank) { return to < 0 || to == rank; };
  for (const GatherPart& part : parts) {
    if (gets(context.rank()) && part.rank != context.rank()) {
      parcels.Receive({part.target, static_cast<size_t>(part.bytes)},
                      part.rank);
    }
  }
  // Each rank starts with a different receiver, so that none is flooded.
  for (int step = 1; step < context.size(); ++step) {
    const int other = (context.rank() + step) % context.size();
    if (!gets(other)) continue;
    for (const GatherPart& part : parts) {
      if (part.rank != context.rank()) continue;
      context.bytes_sent += part.bytes;
      parcels.Send({part.source, static_cast<size_t>(part.bytes)}, other);
    }
  }
  for (const GatherPart& part : parts) {
    if (gets(context.rank()) && part.rank == context.rank() && part.bytes > 0 &&
        part.source != part.target) {
      std::memcpy(part.target, part.source, part.bytes);
    }
  }
  Status status = parcels.Finish();
  status.Update(fault::Point("MPI_Isend"));
  return Agree(context, status);
}

Agreed<std::vector<std::string>> AllGather(CommContext& context,
                                           const std::string& mine) {
  const auto size = static_cast<int64_t>(mine.size());
  std::vector<int64_t> sizes(context.size());
  Status status = Exchange(context, "MPI_Iallgather", MPI_Iallgather, &size, 1,
                           MPI_INT64_T, sizes.data(), 1, MPI_INT64_T);
  status.Update(fault::Point("MPI_Iallgather"));
  std::vector<std::string> all(context.size());
  if (status.ok()) {
    status = CatchBadAlloc("the bytes of all ranks", [&] {
      for (int rank = 0; rank < context.size(); ++rank) {
        all[rank].resize(sizes[rank]);
      }
      return absl::OkStatus();
    });
  }
  BELAY_RETURN_IF_AGREED(Agree(context, status));
  std::vector<GatherPart> parts;
  for (int rank = 0; rank < context.size(); ++rank) {
    parts.push_back({.rank = rank,
                     .bytes = sizes[rank],
                     .source = reinterpret_cast<const std::byte*>(mine.data()),
                     .target = reinterpret_cast<std::byte*>(all[rank].data())});
  }
  BELAY_RETURN_IF_AGREED(GatherParts(context, parts, -1));
  return all;
}

// --- Agree same ---

bool NamesItsRank(std::string_view text) {
  const size_t at = text.rfind(" [rank ");
  if (at == std::string_view::npos || text.back() != ']') return false;
  text.remove_prefix(at + 7);
  text.remove_suffix(1);
  const auto is_count = [](std::string_view number) {
    return !number.empty() &&
           number.find_first_not_of("0123456789") == number.npos;
  };
  const size_t of = text.find(" of ");
  return of != std::string_view::npos && is_count(text.substr(0, of)) &&
         is_count(text.substr(of + 4));
}

Status InsertBeforeRank(const Status& error, std::string_view text) {
  std::string message(error.message());
  const size_t end =
      NamesItsRank(message) ? message.rfind(" [rank ") : message.size();
  return Status(error.code(), message.insert(end, text));
}

namespace {

// One rank's side of a comparison, as shown in the error.
struct Compared {
  uint64_t fingerprint = 0;
  char what[120] = {};
  char value[300] = {};  // "" if the error does not show it
};

// Strips operation and object from `join "a": the name`, since they may differ
// as well.
std::string_view WithoutObject(std::string_view what) {
  return what.substr(what.rfind('"') + 1);
}

// Returns an error if this rank differs from rank 0.
Status CompareWithRoot(const CommContext& context, const Compared& mine,
                       const Compared& of_root) {
  const std::string_view what = mine.what;
  if (WithoutObject(what) != WithoutObject(of_root.what)) {
    return absl::InvalidArgumentError(
        Cat("rank ", context.rank(), " of ", context.size(), " compares \"",
            what, "\", rank 0 compares \"", std::string_view(of_root.what),
            "\": ", kDifferentCalls));
  }
  if (what == of_root.what && mine.fingerprint == of_root.fingerprint) {
    return absl::OkStatus();
  }
  const std::string start =
      Cat(what, " differs between ranks: rank ", context.rank(), " of ",
          context.size(), " has ");
  const std::string_view value = mine.value;
  return absl::InvalidArgumentError(
      value.empty() ? Cat(start, "another value than rank 0")
                    : Cat(start, value, ", rank 0 has ",
                          std::string_view(of_root.value)));
}

// Does the work of AgreeSame; the error shows `value`.
Agreed<> Compare(CommContext& context, std::string_view what,
                 uint64_t fingerprint, const Status& mine,
                 std::string_view value) {
  Status own = mine;
  own.Update(fault::Point("agree"));
  const uint64_t size = context.size();
  // Ranks in different calls have a different `what`.
  const uint64_t all = Fingerprint(what) ^ fingerprint;
  // The minimum of the complement is the complement of the maximum.
  uint64_t ballot[] = {own.ok() ? size : static_cast<uint64_t>(context.rank()),
                       all, ~all};
  const Status sent = Exchange(context, "MPI_Iallreduce", MPI_Iallreduce,
                               MPI_IN_PLACE, ballot, 3, MPI_UINT64_T, MPI_MIN);
  if (!sent.ok()) return MpiFailed(sent);
  if (ballot[0] > size) return SameOnAllRanks(DifferentCalls());
  if (ballot[0] != size) return Agree(context, own);
  if (ballot[1] == ~ballot[2]) return {};
  Compared compared{.fingerprint = fingerprint};
  what.copy(compared.what, sizeof(compared.what) - 1);
  value.copy(compared.value, sizeof(compared.value) - 1);
  Compared of_root = compared;
  Status status = Exchange(context, "MPI_Ibcast", MPI_Ibcast, &of_root,
                           sizeof(of_root), MPI_BYTE, 0);
  if (status.ok()) status = CompareWithRoot(context, compared, of_root);
  return Agree(context, status);
}

}  // namespace

Agreed<> AgreeSame(CommContext& context, std::string_view what,
                   uint64_t fingerprint, const Status& mine) {
  return Compare(context, what, fingerprint, mine, "");
}

Agreed<> AgreeSameNumber(CommContext& context, std::string_view what,
                         int64_t number) {
  return Compare(context, what, static_cast<uint64_t>(number), absl::OkStatus(),
                 Cat(number));
}

Agreed<> AgreeSameText(CommContext& context, std::string_view what,
                       std::string_view text, const Status& mine) {
  // Paths usually differ at their ends.
  constexpr size_t kMaxBytes = 280;
  const std::string shown =
      text.size() <= kMaxBytes
          ? Cat("\"", text, "\"")
          : Cat("\"...", text.substr(text.size() - kMaxBytes), "\"");
  return Compare(context, what, Fingerprint(text), mine, shown);
}

}  // namespace belay
