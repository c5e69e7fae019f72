#include "variable/fetch_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include "base/huge_pages.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "parallel/all_to_all.h"
#include "variable/operation.h"
#include "variable/rows.h"

namespace belay {
namespace {

constexpr int64_t kIndexBytes = sizeof(int64_t);
constexpr int64_t kNone = -1;

// Gives different values the numbers 0, 1, 2, in the order of appearance. An
// open hash table of numbers alone: it is half as large as one with the values,
// which stand in a list of their own anyway.
class Numbering {
 public:
  // For at most `most` different values.
  explicit Numbering(int64_t most)
      : numbers_(std::bit_ceil(static_cast<uint64_t>(2 * most + 1)), kNone),
        shift_(64 - std::countr_zero(numbers_.size())) {}

  // The value's number. Local.
  int64_t NumberOf(int64_t value) {
    constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;
    const size_t mask = numbers_.size() - 1;
    size_t slot = shift_ == 64 ? 0 : (value * kGolden) >> shift_;
    while (true) {
      int64_t& number = numbers_[slot];
      if (number == kNone) {
        number = static_cast<int64_t>(values_.size());
        values_.push_back(value);
        return number;
      }
      if (values_[number] == value) return number;
      slot = (slot + 1) & mask;
    }
  }

  const std::vector<int64_t>& values() const { return values_; }

 private:
  std::vector<int64_t> numbers_;
  int shift_;
  std::vector<int64_t> values_;
};

// The questions of one rank.
struct Requests {
  std::vector<int64_t> rows;    // different ones, sorted by owner
  std::vector<int64_t> starts;  // by rank: its first in `rows`; and the end
  std::vector<int64_t> place;   // of what was asked: in `rows`, or kNone
};

Requests MakeRequests(const Team& team, const RowFinder& finder,
                      std::span<const int64_t> rows, FetchedRows& fetched) {
  Requests requests;
  requests.starts.resize(team.size() + 1);
  requests.place.resize(rows.size(), kNone);
  fetched.rows.resize(rows.size());
  Numbering numbering(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const Component& component = finder.Find(rows[i]);
    if (component.owner == team.rank()) {
      fetched.rows[i] = finder.Address(component, rows[i]);
    } else {
      requests.place[i] = numbering.NumberOf(rows[i]);
    }
  }
  // Sorts by counting.
  const std::vector<int64_t>& different = numbering.values();
  std::vector<int64_t> moved_to(different.size());
  for (int64_t row : different) ++requests.starts[finder.Find(row).owner + 1];
  for (int rank = 0; rank < team.size(); ++rank) {
    requests.starts[rank + 1] += requests.starts[rank];
  }
  std::vector<int64_t> next = requests.starts;
  requests.rows.resize(different.size());
  for (size_t number = 0; number < different.size(); ++number) {
    moved_to[number] = next[finder.Find(different[number]).owner]++;
    requests.rows[moved_to[number]] = different[number];
  }
  for (int64_t& place : requests.place) {
    if (place != kNone) place = moved_to[place];
  }
  return requests;
}

std::vector<std::span<const std::byte>> BytesByRank(const Requests& requests) {
  std::vector<std::span<const std::byte>> bytes;
  for (size_t rank = 0; rank + 1 < requests.starts.size(); ++rank) {
    bytes.push_back(std::as_bytes(
        std::span(requests.rows)
            .subspan(requests.starts[rank],
                     requests.starts[rank + 1] - requests.starts[rank])));
  }
  return bytes;
}

// The rows that others asked this rank for, in the order of asking: in
// `scratch` if it is large enough, else in memory that `answer` gets.
std::byte* Gather(const RowFinder& finder, int64_t row_bytes,
                  const ReceivedBytes& asked, std::span<std::byte> scratch,
                  std::unique_ptr<std::byte[]>& answer) {
  const int64_t count = asked.offsets.back() / kIndexBytes;
  std::vector<int64_t> rows(count);
  if (count > 0) {
    std::memcpy(rows.data(), asked.bytes.get(), count * kIndexBytes);
  }
  std::vector<const std::byte*> addresses(count);
  for (int64_t i = 0; i < count; ++i) addresses[i] = finder.Address(rows[i]);
  const size_t size = count * row_bytes;
  if (size > scratch.size()) answer = NewBytes(size);
  std::byte* const rows_out = answer != nullptr ? answer.get() : scratch.data();
  CopyRows(addresses, row_bytes, rows_out);
  return rows_out;
}

// Answers what was asked, and gets the answers. Collective.
Status ExchangeRows(Team& team, const ShardedVariable& variable,
                    const RowFinder& finder, const ReceivedBytes& asked,
                    const Requests& requests, std::span<std::byte> scratch,
                    FetchedRows& fetched) {
  const int64_t row_bytes = variable.RowBytes();
  std::unique_ptr<std::byte[]> memory;
  std::byte* const answer = Gather(finder, row_bytes, asked, scratch, memory);
  fetched.received = NewBytes(requests.rows.size() * row_bytes);
  std::vector<std::span<const std::byte>> to;
  std::vector<std::span<std::byte>> from;
  const auto part = [&](const std::vector<int64_t>& starts, int rank,
                        int64_t unit, std::byte* bytes) {
    return std::span(bytes + starts[rank] / unit * row_bytes,
                     (starts[rank + 1] - starts[rank]) / unit * row_bytes);
  };
  for (int rank = 0; rank < team.size(); ++rank) {
    to.push_back(part(asked.offsets, rank, kIndexBytes, answer));
    from.push_back(part(requests.starts, rank, 1, fetched.received.get()));
  }
  BELAY_RETURN_IF_AGREED(ExchangeBytes(team, to, from));
  for (size_t i = 0; i < requests.place.size(); ++i) {
    if (requests.place[i] == kNone) continue;
    fetched.rows[i] = fetched.received.get() + requests.place[i] * row_bytes;
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<FetchedRows> FetchRows(Team& team, const std::string& operation,
                                const ShardedVariable& variable,
                                const Status& mine,
                                std::span<const int64_t> rows,
                                std::span<std::byte> scratch) {
  FetchedRows fetched;
  StatusOr<Requests> requests =
      WithMemory("rows and indices", [&]() -> StatusOr<Requests> {
        BELAY_RETURN_IF_ERROR(mine);
        return MakeRequests(team, RowFinder(variable), rows, fetched);
      });
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const ReceivedBytes asked,
      AllToAll(
          team, WithOperation(operation, requests.status()),
          BytesByRank(requests.ok() ? *requests : Requests()),
          {Cat(operation, ": the variable"), VariableFingerprint(variable)}));
  const RowFinder finder(variable);
  BELAY_RETURN_IF_AGREED(
      ExchangeRows(team, variable, finder, asked, *requests, scratch, fetched));
  return fetched;
}

void CopyRows(const std::vector<const std::byte*>& rows, int64_t row_bytes,
              std::byte* to) {
  constexpr size_t kAhead = 12;
  if (row_bytes == 0) return;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kAhead < rows.size()) Prefetch(rows[i + kAhead], row_bytes);
    std::memcpy(to + i * row_bytes, rows[i], row_bytes);
  }
}

}  // namespace belay
