#include "mpi/agree_same.h"

#include <string>

#include "absl/functional/function_ref.h"
#include "core/agreed.h"
#include "core/fault.h"
#include "core/text.h"
#include "core/wire.h"
#include "mpi/mpi_error.h"

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

// --- Agree same ---

namespace {

// What a rank has compared.
struct Compared {
  uint64_t fingerprint = 0;
  char what[120] = {};
  char value[300] = {};  // as the error tells it, or "": it does not
};

Compared ComparedBy(std::string_view what, uint64_t fingerprint,
                    std::string_view value) {
  Compared compared{.fingerprint = fingerprint};
  what.copy(compared.what, sizeof(compared.what) - 1);
  value.copy(compared.value, sizeof(compared.value) - 1);
  return compared;
}

// A text that an error tells, or the end of it: paths differ there.
std::string Quoted(std::string_view text) {
  constexpr size_t kMostBytes = 280;
  if (text.size() <= kMostBytes) return Cat("\"", text, "\"");
  return Cat("\"...", text.substr(text.size() - kMostBytes), "\"");
}

// What is compared, without the operation and the object, which may differ as
// well: `join "a": the name`.
std::string_view WithoutObject(std::string_view what) {
  return what.substr(what.rfind('"') + 1);
}

// Why this rank differs from rank 0; OK if it does not.
Status Difference(const CommContext& context, const Compared& mine,
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

// After a comparison that failed: names the lowest rank that differs.
Agreed<> NameDifferent(CommContext& context, const Compared& mine) {
  Compared of_root = mine;
  Status status = Exchange(context, "MPI_Ibcast", MPI_Ibcast, &of_root,
                           sizeof(of_root), MPI_BYTE, 0);
  if (status.ok()) status = Difference(context, mine, of_root);
  return Agree(context, status);
}

// `value` says what the error is to tell of the value.
Agreed<> Compare(CommContext& context, std::string_view what,
                 uint64_t fingerprint, const Status& mine,
                 absl::FunctionRef<std::string()> value) {
  Status own = mine;
  own.Update(fault::Point("agree"));
  const uint64_t size = context.size();
  // Ranks in different calls compare something else.
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
  return NameDifferent(context, ComparedBy(what, fingerprint, value()));
}

}  // namespace

Agreed<> AgreeSame(CommContext& context, std::string_view what,
                   uint64_t fingerprint, const Status& mine) {
  return Compare(context, what, fingerprint, mine,
                 [] { return std::string(); });
}

Agreed<> AgreeSameNumber(CommContext& context, std::string_view what,
                         int64_t number) {
  return Compare(context, what, static_cast<uint64_t>(number), absl::OkStatus(),
                 [&] { return Cat(number); });
}

Agreed<> AgreeSameText(CommContext& context, std::string_view what,
                       std::string_view text, const Status& mine) {
  return Compare(context, what, Fingerprint(text), mine,
                 [&] { return Quoted(text); });
}

}  // namespace belay
