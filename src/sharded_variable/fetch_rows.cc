#include "sharded_variable/fetch_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "core/agreed.h"
#include "core/flat_buffer.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "mpi/all_to_all.h"
#include "sharded_variable/operation.h"

namespace belay {
namespace {

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

  // The value's number.
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
  std::optional<RowFinder> finder;
  std::vector<int64_t> rows;    // different ones, sorted by owner
  std::vector<int64_t> starts;  // by rank: its first in `rows`; and the end
  std::vector<int64_t> place;   // of what was asked: in `rows`, or kNone
};

Requests MakeRequests(const CommContext& context,
                      const ShardedVariable& variable,
                      std::span<const int64_t> rows, FetchedRows& fetched) {
  Requests requests;
  const RowFinder& finder = requests.finder.emplace(variable);
  requests.starts.resize(context.size() + 1);
  requests.place.resize(rows.size(), kNone);
  fetched.rows.resize(rows.size());
  Numbering numbering(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    const Component& component = finder.Find(rows[i]);
    if (component.owner == context.rank()) {
      fetched.rows[i] = finder.Address(component, rows[i]);
    } else {
      requests.place[i] = numbering.NumberOf(rows[i]);
    }
  }
  // Sorts by counting.
  const std::vector<int64_t>& different = numbering.values();
  std::vector<int64_t> moved_to(different.size());
  for (int64_t row : different) ++requests.starts[finder.Find(row).owner + 1];
  for (int rank = 0; rank < context.size(); ++rank) {
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
  fetched.received = NewBytes(requests.rows.size() * variable.RowBytes());
  return requests;
}

// By rank: how many bytes of indices go there.
std::vector<int64_t> IndexBytes(const Requests& requests) {
  std::vector<int64_t> bytes;
  for (size_t rank = 0; rank + 1 < requests.starts.size(); ++rank) {
    bytes.push_back((requests.starts[rank + 1] - requests.starts[rank]) *
                    kRowIndexBytes);
  }
  return bytes;
}

// The cuts of `bytes` into parts for the ranks; `starts` counts units of
// `unit_bytes` bytes, and has the end too.
template <typename Byte>
std::vector<std::span<Byte>> Parts(Byte* bytes,
                                   const std::vector<int64_t>& starts,
                                   int64_t unit_bytes) {
  std::vector<std::span<Byte>> parts;
  for (size_t rank = 0; rank + 1 < starts.size(); ++rank) {
    parts.emplace_back(bytes + starts[rank] * unit_bytes,
                       (starts[rank + 1] - starts[rank]) * unit_bytes);
  }
  return parts;
}

// The questions of the other ranks, and room for what they are told.
struct Answers {
  ReceivedBytes asked;
  std::vector<int64_t> starts;         // by rank: its first row; and the end
  std::vector<const std::byte*> rows;  // where they lie
  std::unique_ptr<std::byte[]> memory;
  std::byte* bytes = nullptr;
};

// All that answering needs memory for: in `scratch` if it is large enough.
StatusOr<Answers> NewAnswers(std::span<const int64_t> index_bytes,
                             int64_t row_bytes, std::span<std::byte> scratch) {
  Answers answers;
  BELAY_ASSIGN_OR_RETURN(answers.asked, NewReceivedBytes(index_bytes));
  for (int64_t offset : answers.asked.offsets) {
    answers.starts.push_back(offset / kRowIndexBytes);
  }
  answers.rows.resize(answers.starts.back());
  const size_t size = answers.rows.size() * row_bytes;
  if (size > scratch.size()) answers.memory = NewBytes(size);
  answers.bytes =
      answers.memory != nullptr ? answers.memory.get() : scratch.data();
  return answers;
}

// Collects the rows that others asked this rank for, in the order of asking.
void Gather(const RowFinder& finder, int64_t row_bytes, Answers& answers) {
  const std::byte* next = answers.asked.memory.bytes.get();
  for (const std::byte*& address : answers.rows) {
    int64_t row;
    std::memcpy(&row, next, kRowIndexBytes);
    next += kRowIndexBytes;
    address = finder.Address(row);
  }
  CopyRows(answers.rows, row_bytes, answers.bytes);
}

// Asks, answers what was asked, and gets the answers. Collective.
Agreed<> ExchangeRows(CommContext& context, int64_t row_bytes,
                      const Requests& requests, Answers& answers,
                      FetchedRows& fetched) {
  const auto* const indices =
      reinterpret_cast<const std::byte*>(requests.rows.data());
  BELAY_RETURN_IF_AGREED(
      ExchangeBytes(context, Parts(indices, requests.starts, kRowIndexBytes),
                    answers.asked.FromAll()));
  Gather(*requests.finder, row_bytes, answers);
  const std::byte* const answer = answers.bytes;
  BELAY_RETURN_IF_AGREED(
      ExchangeBytes(context, Parts(answer, answers.starts, row_bytes),
                    Parts(fetched.received.get(), requests.starts, row_bytes)));
  for (size_t i = 0; i < requests.place.size(); ++i) {
    if (requests.place[i] == kNone) continue;
    fetched.rows[i] = fetched.received.get() + requests.place[i] * row_bytes;
  }
  return {};
}

}  // namespace

Agreed<FetchedRows> FetchRows(CommContext& context,
                              const std::string& operation,
                              const ShardedVariable& variable,
                              const Status& mine, std::span<const int64_t> rows,
                              std::span<std::byte> scratch) {
  FetchedRows fetched;
  const StatusOr<Requests> requests =
      CatchBadAlloc("rows and indices", [&]() -> StatusOr<Requests> {
        BELAY_RETURN_IF_ERROR(mine);
        return MakeRequests(context, variable, rows, fetched);
      });
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<int64_t> index_bytes,
      ExchangeCounts(
          context, WithOperation(operation, requests.status()),
          requests.ok() ? IndexBytes(*requests) : std::vector<int64_t>(),
          {Cat(operation, ": the variable"), VariableFingerprint(variable)}));
  const int64_t row_bytes = variable.RowBytes();
  StatusOr<Answers> answers = CatchBadAlloc("rows for other ranks", [&] {
    return NewAnswers(index_bytes, row_bytes, scratch);
  });
  BELAY_RETURN_IF_AGREED(
      Agree(context, WithOperation(operation, answers.status())));
  BELAY_RETURN_IF_AGREED(
      ExchangeRows(context, row_bytes, *requests, *answers, fetched));
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
