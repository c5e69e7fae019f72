#include "storage/two_phase.h"

#include <bit>
#include <numeric>

#include "core/catch_exceptions.h"
#include "core/integers.h"
#include "mpi/all_to_all.h"
#include "storage/reader.h"

namespace belay {
namespace {

// The number of ranges that are weighed at a time.
constexpr int64_t kRangesPerRank = 64;
constexpr int64_t kMostRanges = 4096;
// Smaller domains make more requests than they spare.
constexpr int64_t kLeastDomain = int64_t{1} << 20;

int64_t PowerOfTwoFrom(int64_t least) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(least)));
}

// Ranges of equal width, the first of which begins at or before `begin`.
std::vector<int64_t> FirstEdges(int64_t begin, int64_t end, int ranks,
                                int64_t unit) {
  const int64_t most = std::min(kMostRanges, kRangesPerRank * ranks);
  const int64_t least = (end - begin) / most + 1;
  const int64_t width = unit * PowerOfTwoFrom(CeilDivide(least, unit));
  std::vector<int64_t> edges;
  for (int64_t at = begin / width * width; at < end; at += width) {
    edges.push_back(at);
  }
  edges.push_back(edges.back() + width);
  return edges;
}

// Returns the unit of the parts of a heavy range; 0: it is not cut.
int64_t PartUnit(int64_t weight, int64_t width, int64_t share,
                 const DomainBorders& borders) {
  if (weight <= share) return 0;
  if (width > borders.unit) return borders.unit;
  const bool must = weight > borders.most_weight && width > kDomainAlignment;
  return must ? kDomainAlignment : 0;
}

// Cuts the ranges that weigh more than `share`. Returns whether there were any
// that can be cut.
bool CutHeavyRanges(const std::vector<int64_t>& weights, int64_t share,
                    const DomainBorders& borders, std::vector<int64_t>& edges) {
  std::vector<int64_t> units;
  int64_t heavy = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    units.push_back(
        PartUnit(weights[i], edges[i + 1] - edges[i], share, borders));
    heavy += units[i] > 0 ? 1 : 0;
  }
  if (heavy == 0) return false;
  const int64_t parts =
      PowerOfTwoFrom(std::max<int64_t>(2, kMostRanges / 2 / heavy));
  std::vector<int64_t> finer;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t width = edges[i + 1] - edges[i];
    const int64_t unit = units[i];
    const int64_t step =
        unit > 0 ? std::max(unit, width / parts / unit * unit) : width;
    for (int64_t at = edges[i]; at < edges[i + 1]; at += step) {
      finer.push_back(at);
    }
  }
  finer.push_back(edges.back());
  edges = std::move(finer);
  return true;
}

// Gives the domains that begin at `starts` to as many of the ranks, evenly. The
// others get empty ones.
std::vector<int64_t> SpreadOverRanks(const std::vector<int64_t>& starts,
                                     int64_t end, int ranks) {
  const int64_t count = std::ssize(starts);
  std::vector<int64_t> spread;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t next = (rank * count + ranks - 1) / ranks;
    spread.push_back(next < count ? starts[next] : end);
  }
  spread.push_back(end);
  return spread;
}

}  // namespace

void SortByOffset(Segments& segments) {
  const auto before = [](const IoSegment& a, const IoSegment& b) {
    return a.offset < b.offset;
  };
  if (!std::is_sorted(segments.begin(), segments.end(), before)) {
    std::sort(segments.begin(), segments.end(), before);
  }
}

void AddWeights(const Segments& segments, const std::vector<int64_t>& edges,
                std::vector<int64_t>& weights) {
  size_t range = 0;
  for (const IoSegment& segment : segments) {
    const int64_t end = segment.offset + segment.bytes;
    for (int64_t at = segment.offset; at < end;) {
      if (at >= edges[range + 1]) {
        const auto next = std::upper_bound(
            edges.begin() + static_cast<int64_t>(range) + 1, edges.end(), at);
        range = static_cast<size_t>(next - edges.begin()) - 1;
      }
      const int64_t next = std::min(end, edges[range + 1]);
      weights[range] += next - at + kSegmentWeight;
      at = next;
    }
  }
}

int64_t DomainUnit(int64_t stripe, int64_t most_weight) {
  if (stripe <= 0) return kDomainAlignment;
  const int64_t unit = CeilDivide(kLeastDomain, stripe) * stripe;
  return unit <= most_weight ? unit : stripe;
}

Agreed<std::vector<int64_t>> CutIntoDomains(CommContext& context, int64_t begin,
                                            int64_t end, const Segments& mine,
                                            const DomainBorders& borders) {
  std::vector<int64_t> edges =
      FirstEdges(begin, end, context.size(), borders.unit);
  std::vector<int64_t> weights;
  int64_t all = 0;
  do {
    weights.assign(edges.size() - 1, 0);
    AddWeights(mine, edges, weights);
    BELAY_RETURN_IF_AGREED(SumAll(context, weights));
    all = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  } while (context.size() > 1 &&
           CutHeavyRanges(weights, all / context.size(), borders, edges));
  std::vector<int64_t> starts = {edges[0]};
  int64_t before = 0;
  for (size_t range = 1; range < weights.size(); ++range) {
    before += weights[range - 1];
    const auto domains = static_cast<int64_t>(starts.size());
    // At the border that is nearest to the even share.
    if (domains < context.size() && edges[range] < end &&
        before + weights[range] / 2 >= all / context.size() * domains) {
      starts.push_back(edges[range]);
    }
  }
  return SpreadOverRanks(starts, end, context.size());
}

// --- Transfer two phase ---

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

// A message has the number of segments, their places, and their bytes.
struct Place {
  int64_t offset = 0;
  int64_t bytes = 0;
};

// The message to one rank, and where its next place and bytes go.
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

// Returns the number of segments of a message.
int64_t CountSegments(std::span<const std::byte> message) {
  int64_t count = 0;
  if (!message.empty()) std::memcpy(&count, message.data(), sizeof(count));
  return count;
}

// Adds the segments of a message.
void Unpack(std::span<const std::byte> message, Segments& segments) {
  if (message.empty()) return;
  const int64_t count = CountSegments(message);
  const std::byte* next = message.data() + sizeof(count);
  const std::byte* bytes = next + count * sizeof(Place);
  for (int64_t i = 0; i < count; ++i, next += sizeof(Place)) {
    Place place;
    std::memcpy(&place, next, sizeof(place));
    segments.push_back({bytes, place.offset, place.bytes});
    bytes += place.bytes;
  }
}

// The state of one rank from portion to portion.
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

int64_t MemoryOf(const Segments& segments) {
  return static_cast<int64_t>(segments.capacity() * sizeof(IoSegment));
}

// Writes what arrived, and what this rank keeps.
Status WriteReceived(TwoPhaseRun& run, const ReceivedBytes& received,
                     const Segments& mine, Segments segments) {
  if (run.meanwhile) {
    BELAY_RETURN_IF_ERROR(std::exchange(run.meanwhile, nullptr)());
  }
  return CatchBadAlloc("the order of segments", [&] {
    int64_t count = std::ssize(segments);
    for (std::span<const std::byte> message : received.FromAll()) {
      count += CountSegments(message);
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
DomainBorders ChooseBorders(const WriteJob& job) {
  const int64_t most = PortionWeight(job.memory);
  return {.unit = DomainUnit(job.striping.stripe_bytes, most),
          .most_weight = most};
}

// Writes one portion of each rank, which may be empty. Tells whether any rank
// has `more` of this round. Collective; agreed, but for errors in writing,
// which are in run.first.
Agreed<> WritePortion(CommContext& context, TwoPhaseRun& run,
                      const Segments& mine, bool& more) {
  std::vector<int64_t> least = {INT64_MAX, INT64_MAX, more ? 0 : 1};
  if (!mine.empty()) {
    least[0] = mine.front().offset;
    least[1] = -(mine.back().offset + mine.back().bytes);
  }
  BELAY_RETURN_IF_AGREED(MinAll(context, least));
  more = least[2] == 0;
  if (least[0] == INT64_MAX) return {};
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<int64_t> starts,
                                CutIntoDomains(context, least[0], -least[1],
                                               mine, ChooseBorders(run.job)));
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
  return {};
}

// Collective; agreed.
Agreed<> WriteRounds(CommContext& context, TwoPhaseRun& run,
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
  return {};
}

}  // namespace

Agreed<> WriteInTwoPhases(CommContext& context, const WriteJob& job,
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
