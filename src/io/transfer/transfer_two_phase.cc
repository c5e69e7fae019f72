#include <algorithm>
#include <cstring>
#include <utility>

#include "base/catch_bad_alloc.h"
#include "base/status_macros.h"
#include "bytes/huge_pages.h"
#include "io/files/posix_file.h"
#include "io/transfer/file_domains.h"
#include "io/transfer/portion_reader.h"
#include "io/transfer/transfer.h"
#include "mpi/all_to_all.h"

namespace belay {
namespace {

// Calls visit(rank, segment) for the parts of segments in the domains of ranks.
template <typename Visit>
void ForEachPart(const Segments& segments, const std::vector<int64_t>& starts,
                 Visit visit) {
  int rank = 0;
  for (const IoSegment& segment : segments) {
    const auto* data = static_cast<const std::byte*>(segment.data);
    int64_t at = segment.offset;
    const int64_t end = segment.offset + segment.bytes;
    while (at < end) {
      while (at >= starts[rank + 1]) ++rank;
      const int64_t next = std::min(end, starts[rank + 1]);
      visit(rank, IoSegment{data, at, next - at});
      data += next - at;
      at = next;
    }
  }
}

// How segments travel: their number, their places, their bytes.
struct Place {
  int64_t offset = 0;
  int64_t bytes = 0;
};

// What goes to one rank, and where its next place and bytes are put.
struct Message {
  int64_t count = 0;
  int64_t bytes = 0;
  std::byte* next_place = nullptr;
  std::byte* next_byte = nullptr;

  int64_t size() const {
    return count == 0 ? 0
                      : static_cast<int64_t>(sizeof(count)) +
                            count * static_cast<int64_t>(sizeof(Place)) + bytes;
  }
};

// Puts the segments of other ranks' domains into `memory`, and those of this
// rank's into `kept`. Returns the messages by rank.
std::vector<std::span<const std::byte>> Pack(const CommContext& context,
                                             const Segments& segments,
                                             const std::vector<int64_t>& starts,
                                             ReusableBytes& memory,
                                             Segments& kept) {
  std::vector<Message> messages(context.size());
  ForEachPart(segments, starts, [&](int rank, const IoSegment& part) {
    if (rank == context.rank()) return kept.push_back(part);
    ++messages[rank].count;
    messages[rank].bytes += part.bytes;
  });
  int64_t size = 0;
  for (const Message& message : messages) size += message.size();
  Reserve(memory, size);
  std::vector<std::span<const std::byte>> to;
  std::byte* next = memory.bytes.get();
  for (Message& message : messages) {
    to.emplace_back(next, message.size());
    if (message.count == 0) continue;
    std::memcpy(next, &message.count, sizeof(message.count));
    message.next_place = next + sizeof(message.count);
    message.next_byte = message.next_place + message.count * sizeof(Place);
    next += message.size();
  }
  ForEachPart(segments, starts, [&](int rank, const IoSegment& part) {
    if (rank == context.rank()) return;
    Message& message = messages[rank];
    const Place place{part.offset, part.bytes};
    std::memcpy(message.next_place, &place, sizeof(place));
    std::memcpy(message.next_byte, part.data, part.bytes);
    message.next_place += sizeof(place);
    message.next_byte += part.bytes;
  });
  return to;
}

// How many segments a message has.
int64_t CountOf(std::span<const std::byte> message) {
  int64_t count = 0;
  if (!message.empty()) std::memcpy(&count, message.data(), sizeof(count));
  return count;
}

// Adds the segments of a message.
void Unpack(std::span<const std::byte> message, Segments& segments) {
  if (message.empty()) return;
  const int64_t count = CountOf(message);
  const std::byte* next = message.data() + sizeof(count);
  const std::byte* bytes = next + count * sizeof(Place);
  for (int64_t i = 0; i < count; ++i, next += sizeof(Place)) {
    Place place;
    std::memcpy(&place, next, sizeof(place));
    segments.push_back({bytes, place.offset, place.bytes});
    bytes += place.bytes;
  }
}

// What one rank carries from portion to portion.
struct TwoPhaseRun {
  const WriteJob& job;
  PosixFile file;
  StripeCounter stripes;
  std::function<Status()> meanwhile;
  ReusableBytes sent;
  ReusableBytes received;
  int64_t gathered_bytes = 0;  // the most at once, with its lists
  Status first;                // failure of this rank
};

// Writes ascending segments; those that follow each other in one call.
Status WriteDomain(const Segments& segments, TwoPhaseRun& run) {
  std::vector<std::span<const std::byte>> parts;
  for (size_t i = 0; i < segments.size();) {
    const int64_t begin = segments[i].offset;
    int64_t end = begin;
    parts.clear();
    for (; i < segments.size() && segments[i].offset == end; ++i) {
      parts.emplace_back(static_cast<const std::byte*>(segments[i].data),
                         static_cast<size_t>(segments[i].bytes));
      end += segments[i].bytes;
    }
    BELAY_RETURN_IF_ERROR(run.file.PwriteParts(begin, parts));
    run.stripes.Add(begin, end - begin);
    if (run.job.durable) run.file.StartWriteback(begin, end - begin);
  }
  return absl::OkStatus();
}

// Bytes of a list.
int64_t MemoryOf(const Segments& segments) {
  return static_cast<int64_t>(segments.capacity() * sizeof(IoSegment));
}

// Writes what arrived, and what this rank keeps. Local.
Status WriteReceived(TwoPhaseRun& run, const ReceivedBytes& received,
                     const Segments& mine, Segments segments) {
  if (run.meanwhile) {
    BELAY_RETURN_IF_ERROR(std::exchange(run.meanwhile, nullptr)());
  }
  return CatchBadAlloc("the order of segments", [&] {
    int64_t count = std::ssize(segments);
    for (std::span<const std::byte> message : received.FromAll()) {
      count += CountOf(message);
    }
    segments.reserve(count);
    for (std::span<const std::byte> message : received.FromAll()) {
      Unpack(message, segments);
    }
    SortByOffset(segments);
    run.gathered_bytes =
        std::max(run.gathered_bytes, run.sent.size + received.memory.size +
                                         MemoryOf(mine) + MemoryOf(segments));
    return WriteDomain(segments, run);
  });
}

// Borders that fit the stripes of the file, as far as the memory allows.
DomainBorders BordersOf(const WriteJob& job) {
  const int64_t most = PortionWeight(job.memory);
  return {.unit = DomainUnit(job.striping.stripe_bytes, most),
          .most_weight = most};
}

// Writes one portion of each rank, which may be empty. Tells whether any rank
// has `more` of this round. Collective; agreed, but for errors in writing,
// which are in run.first.
Status WritePortion(CommContext& context, TwoPhaseRun& run,
                    const Segments& mine, bool& more) {
  std::vector<int64_t> least = {INT64_MAX, INT64_MAX, more ? 0 : 1};
  if (!mine.empty()) {
    least[0] = mine.front().offset;
    least[1] = -(mine.back().offset + mine.back().bytes);
  }
  BELAY_RETURN_IF_AGREED(MinAll(context, least));
  more = least[2] == 0;
  if (least[0] == INT64_MAX) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<int64_t> starts,
      CutIntoDomains(context, least[0], -least[1], mine, BordersOf(run.job)));
  Segments kept;
  std::vector<std::span<const std::byte>> to;
  run.first.Update(CatchBadAlloc("pieces on their way", [&]() -> Status {
    to = Pack(context, mine, starts, run.sent, kept);
    return absl::OkStatus();
  }));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      ReceivedBytes received,
      AllToAll(context,
               BlameFullDisk(run.first, run.job.path, run.job.writes.bytes), to,
               {}, std::move(run.received)));
  run.first.Update(WriteReceived(run, received, mine, std::move(kept)));
  run.received = std::move(received.memory);
  return absl::OkStatus();
}

// Collective; agreed.
Status WriteRounds(CommContext& context, TwoPhaseRun& run,
                   WriteCounts& counts) {
  PortionReader portions(run.job);
  for (int64_t round = 0; round < run.job.rounds; ++round) {
    for (bool more = true; more;) {
      context.deadline.GoOn();  // a long save is no hang
      Segments mine;
      run.first.Update(CatchBadAlloc("a list of segments", [&]() -> Status {
        BELAY_ASSIGN_OR_RETURN(mine, portions.Next(round));
        return absl::OkStatus();
      }));
      more = run.first.ok() && portions.HasMore(round);
      BELAY_RETURN_IF_AGREED(WritePortion(context, run, mine, more));
    }
  }
  counts.staged_bytes = std::max(counts.staged_bytes, portions.staged_bytes());
  counts.gathered_bytes = std::max(counts.gathered_bytes, run.gathered_bytes);
  return absl::OkStatus();
}

}  // namespace

Status WriteInTwoPhases(CommContext& context, const WriteJob& job,
                        WriteCounts& counts) {
  StatusOr<PosixFile> file = PosixFile::Open(job.path, ModeOf(job));
  BELAY_RETURN_IF_AGREED(Agree(context, CheckOpened(job, file.status())));
  TwoPhaseRun run{.job = job,
                  .file = *std::move(file),
                  .stripes = StripeCounter(job.striping),
                  .meanwhile = job.meanwhile,
                  .sent = {},
                  .received = {},
                  .first = {}};
  BELAY_RETURN_IF_AGREED(WriteRounds(context, run, counts));
  Status status = run.first;
  if (status.ok()) status = run.file.Close();
  if (status.ok()) {
    counts.bytes += job.writes.bytes;
    counts.io_calls += run.file.write_calls();
    run.stripes.AddTo(counts.stripes);
  }
  return Agree(context, BlameFullDisk(status, job.path, job.writes.bytes));
}

}  // namespace belay
