#include "mpi/agree_same.h"

#include "core/fault.h"
#include "core/text.h"
#include "core/wire.h"

namespace belay {
namespace {

bool IsCount(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

bool NamesItsRank(std::string_view text) {
  const size_t at = text.rfind(" [rank ");
  if (at == std::string_view::npos || text.back() != ']') return false;
  text.remove_prefix(at + 7);
  text.remove_suffix(1);
  const size_t of = text.find(" of ");
  return of != std::string_view::npos && IsCount(text.substr(0, of)) &&
         IsCount(text.substr(of + 4));
}

std::string WithRank(std::string_view text, int rank, int num_ranks) {
  std::string shown = PrintableText(text);
  if (NamesItsRank(shown)) return shown;
  return Cat(shown, " [rank ", rank, " of ", num_ranks, "]");
}

Status InsertBeforeRank(const Status& error, std::string_view text) {
  std::string message(error.message());
  const size_t end =
      NamesItsRank(message) ? message.rfind(" [rank ") : message.size();
  return Status(error.code(), message.insert(end, text));
}

// --- Comparison ---

namespace {

// The comparison of a rank, as the error describes it.
struct Compared {
  uint64_t fingerprint = 0;
  char what[120] = {};
  char value[300] = {};  // "" if the error leaves it out
};

// `join "a": the name` without the operation and the object, which may differ,
// too.
std::string_view WithoutObject(std::string_view what) {
  return what.substr(what.rfind('"') + 1);
}

// Returns the error of a rank that differs from rank 0.
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

// As AgreeSame; the error shows `value`.
Agreed<> Compare(CommContext& context, std::string_view what,
                 uint64_t fingerprint, const Status& mine,
                 std::string_view value) {
  Status own = mine;
  own.Update(fault::Point("agree"));
  const uint64_t size = context.size();
  // Ranks in different calls differ in `what`.
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
  // Paths differ at their ends.
  constexpr size_t kMostBytes = 280;
  const std::string shown =
      text.size() <= kMostBytes
          ? Cat("\"", text, "\"")
          : Cat("\"...", text.substr(text.size() - kMostBytes), "\"");
  return Compare(context, what, Fingerprint(text), mine, shown);
}

}  // namespace belay
