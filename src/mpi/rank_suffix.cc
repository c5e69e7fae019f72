#include "mpi/rank_suffix.h"

#include "base/printable.h"
#include "base/text.h"

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

}  // namespace belay
