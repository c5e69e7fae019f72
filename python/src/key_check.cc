#include "key_check.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "errors.h"
#include "log.h"
#include "mpi/collective.h"

namespace belay::python {
namespace {

// The keys of rank 0, ascending. Collective.
StatusOr<std::vector<std::string>> KeysOfRankZero(
    CommContext& context, const std::vector<std::string>& mine) {
  std::string lines;
  if (context.is_root()) {
    for (const std::string& key : mine) lines += key + "\n";
  }
  const Status sent = Broadcast(context, lines);
  if (!sent.ok()) return sent;
  std::vector<std::string> keys;
  std::istringstream in(lines);
  for (std::string key; std::getline(in, key);) keys.push_back(key);
  return keys;
}

// How this rank's keys, ascending, differ from those of rank 0; empty if they
// do not.
std::string DifferenceOf(int rank, const std::vector<std::string>& mine,
                         const std::vector<std::string>& of_root) {
  std::vector<std::string> lacks;
  std::vector<std::string> more;
  std::set_difference(of_root.begin(), of_root.end(), mine.begin(), mine.end(),
                      std::back_inserter(lacks));
  std::set_difference(mine.begin(), mine.end(), of_root.begin(), of_root.end(),
                      std::back_inserter(more));
  if (lacks.empty() && more.empty()) return "";
  const std::string start = "rank " + std::to_string(rank);
  std::string text =
      lacks.empty()
          ? start + " has \"" + more.front() + "\", which rank 0 lacks"
          : start + " lacks \"" + lacks.front() + "\", which rank 0 has";
  const size_t others = lacks.size() + more.size() - 1;
  if (others > 0) {
    text += ", and so for " + std::to_string(others) + " other keys";
  }
  return text;
}

// What the lowest rank with other keys than rank 0 says of them, on rank 0.
// Collective.
StatusOr<std::string> DifferenceText(CommContext& context,
                                     std::vector<std::string> mine) {
  std::sort(mine.begin(), mine.end());
  const StatusOr<std::vector<std::string>> theirs =
      KeysOfRankZero(context, mine);
  if (!theirs.ok()) return theirs.status();
  std::string text = DifferenceOf(context.rank(), mine, *theirs);
  int64_t lowest = text.empty() ? context.size() : context.rank();
  Status status = MinAll(context, {&lowest, 1});
  if (!status.ok()) return status;
  if (lowest == context.size()) return "";  // two sets with one hash
  status = Broadcast(context, text, static_cast<int>(lowest));
  if (!status.ok()) return status;
  return text;
}

}  // namespace

void WarnOfOtherKeys(const Call& call, const BoundState& state,
                     SavedState& saved) {
  CommContext context = ContextOf(call, "keys");
  const auto hash = static_cast<int64_t>(state.plain_keys_hash());
  // The minimum of the complement is the complement of the maximum.
  int64_t least[2] = {hash, ~hash};
  Unlocked([&] { return MinAll(context, least); });
  const bool is_same = least[0] == ~least[1];
  if (is_same || !saved.warned_of().insert({least[0], least[1]}).second) return;
  const std::string difference =
      Unlocked([&] { return DifferenceText(context, state.PlainKeys()); });
  if (!context.is_root() || difference.empty()) return;
  LogWarning(call.name + " \"" + call.object + "\": " + difference +
             "; values that only some ranks have are stored from those");
}

}  // namespace belay::python
