#include "key_check.h"

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <sstream>
#include <utility>
#include <vector>

#include "errors.h"
#include "log.h"

namespace belay::python {
namespace {

// The keys of rank 0, ascending. Collective.
std::vector<std::string> KeysOfRankZero(const Comm& comm,
                                        const std::vector<std::string>& mine) {
  std::string lines;
  if (comm.rank() == 0) {
    for (const std::string& key : mine) lines += key + "\n";
  }
  auto size = static_cast<int64_t>(lines.size());
  MPI_Bcast(&size, 1, MPI_INT64_T, 0, comm.raw());
  lines.resize(static_cast<size_t>(size));
  MPI_Bcast(lines.data(), static_cast<int>(size), MPI_CHAR, 0, comm.raw());
  std::vector<std::string> keys;
  std::istringstream in(lines);
  for (std::string key; std::getline(in, key);) keys.push_back(key);
  return keys;
}

// What the lowest rank with other keys than rank 0 says of them, on rank 0.
// Collective.
std::string DifferenceText(const Comm& comm, std::vector<std::string> mine) {
  std::sort(mine.begin(), mine.end());
  const std::vector<std::string> theirs = KeysOfRankZero(comm, mine);
  std::vector<std::string> lacks;
  std::vector<std::string> more;
  std::set_difference(theirs.begin(), theirs.end(), mine.begin(), mine.end(),
                      std::back_inserter(lacks));
  std::set_difference(mine.begin(), mine.end(), theirs.begin(), theirs.end(),
                      std::back_inserter(more));
  const bool differs = !lacks.empty() || !more.empty();
  const int number = differs ? comm.rank() : comm.size();
  int lowest = 0;
  MPI_Allreduce(&number, &lowest, 1, MPI_INT, MPI_MIN, comm.raw());
  if (lowest == comm.size()) return "";  // two sets with one hash
  std::string text;
  if (number == lowest) {
    const std::string rank = "rank " + std::to_string(lowest);
    text = lacks.empty()
               ? rank + " has \"" + more.front() + "\", which rank 0 lacks"
               : rank + " lacks \"" + lacks.front() + "\", which rank 0 has";
    const size_t others = lacks.size() + more.size() - 1;
    if (others > 0) {
      text += ", and so for " + std::to_string(others) + " other keys";
    }
  }
  auto size = static_cast<int64_t>(text.size());
  MPI_Bcast(&size, 1, MPI_INT64_T, lowest, comm.raw());
  text.resize(static_cast<size_t>(size));
  MPI_Bcast(text.data(), static_cast<int>(size), MPI_CHAR, lowest, comm.raw());
  return text;
}

}  // namespace

void WarnOfOtherKeys(const Comm& comm, const std::string& directory,
                     const BoundState& state, SavedState& saved) {
  const uint64_t hash = state.plain_keys_hash();
  const uint64_t mine[2] = {hash, ~hash};
  uint64_t least[2] = {};
  WithoutLock([&] {
    MPI_Allreduce(mine, least, 2, MPI_UINT64_T, MPI_MIN, comm.raw());
  });
  const bool is_same = least[0] == ~least[1];
  if (is_same || !saved.warned_of().insert({least[0], least[1]}).second) return;
  const std::string difference =
      WithoutLock([&] { return DifferenceText(comm, state.PlainKeys()); });
  if (comm.rank() != 0 || difference.empty()) return;
  LogWarning("save \"" + directory + "\": " + difference +
             "; values that only some ranks have are stored from those");
}

}  // namespace belay::python
