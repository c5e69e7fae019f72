#include "model/replica_choice.h"

#include <algorithm>

namespace belay {
namespace {

// A box with more than one holder.
struct Shared {
  int32_t array;
  const HeldBox* held;
  int64_t bytes;
};

// A share of a split box, in units of its split axis.
struct Share {
  const HeldShard* holder;
  int64_t units;
};

// Gives out `bytes` so that the holders with the fewest bytes are raised to
// one level. Returns the bytes per holder, in the order of `holders`, which
// are sorted by load.
std::vector<int64_t> RaiseToLevel(const std::vector<const HeldShard*>& holders,
                                  const std::vector<int64_t>& load,
                                  int64_t bytes, int64_t most_parts) {
  int64_t parts = 0, below = 0;  // holders that get some, and their load
  for (const HeldShard* holder : holders) {
    const int64_t mine = load[holder->rank];
    if (parts == most_parts || (parts > 0 && mine * parts - below >= bytes)) {
      break;
    }
    below += mine;
    ++parts;
  }
  const int64_t level = (below + bytes) / parts;
  std::vector<int64_t> given(parts);
  for (int64_t i = 0; i < parts; ++i) {
    given[i] = std::max<int64_t>(0, level - load[holders[i]->rank]);
  }
  return given;
}

std::vector<const HeldShard*> ByLoad(const HeldBox& held,
                                     const std::vector<int64_t>& load) {
  std::vector<const HeldShard*> holders;
  for (const HeldShard& holder : held.holders) holders.push_back(&holder);
  std::stable_sort(holders.begin(), holders.end(),
                   [&](const HeldShard* a, const HeldShard* b) {
                     return load[a->rank] < load[b->rank];
                   });
  return holders;
}

size_t SplitAxis(const Box& box) {
  size_t axis = 0;
  while (axis + 1 < box.shape.size() && box.shape[axis] == 1) ++axis;
  return axis;
}

// The shares of a box, in whole units of the split axis, that add up to it.
std::vector<Share> SharesOf(const Shared& shared, int64_t units,
                            const std::vector<int64_t>& load) {
  const std::vector<const HeldShard*> holders = ByLoad(*shared.held, load);
  const int64_t most_parts =
      std::clamp<int64_t>(shared.bytes / kMinSplitBytes, 1, units);
  const std::vector<int64_t> given =
      RaiseToLevel(holders, load, shared.bytes, most_parts);
  std::vector<Share> shares;
  int64_t bytes_given = 0, units_given = 0;
  for (size_t i = 0; i < given.size(); ++i) {
    bytes_given += given[i];
    const bool last = i + 1 == given.size();
    // Rounded on the running sum, so that errors do not add up.
    const int64_t until =
        last ? units
             : std::min(units,
                        static_cast<int64_t>(static_cast<double>(units) *
                                                 bytes_given / shared.bytes +
                                             0.5));
    shares.push_back({holders[i], until - units_given});
    units_given = until;
  }
  return shares;
}

void GiveOut(const Shared& shared, std::vector<int64_t>& load,
             std::vector<WritePiece>& pieces) {
  const Box& box = shared.held->box;
  const size_t axis = SplitAxis(box);
  const int64_t units = box.shape.empty() ? 1 : box.shape[axis];
  int64_t position = 0;
  for (const Share& share : SharesOf(shared, units, load)) {
    if (share.units == 0) continue;
    Box part = box;
    if (!box.shape.empty()) {
      part.offset[axis] += position;
      part.shape[axis] = share.units;
      position += share.units;
    }
    load[share.holder->rank] += shared.bytes / units * share.units;
    pieces.push_back({shared.array, share.holder->rank, share.holder->shard,
                      std::move(part)});
  }
}

}  // namespace

std::vector<WritePiece> ChooseWriters(const std::vector<ArrayBoxes>& arrays,
                                      int num_ranks) {
  std::vector<WritePiece> pieces;
  std::vector<Shared> shared;
  std::vector<int64_t> load(num_ranks, 0);
  for (const ArrayBoxes& array : arrays) {
    for (const HeldBox& held : array.boxes) {
      const int64_t bytes = NumElements(held.box.shape) * array.element_size;
      if (held.holders.size() > 1) {
        shared.push_back({array.array, &held, bytes});
        continue;
      }
      const HeldShard& only = held.holders[0];
      load[only.rank] += bytes;
      pieces.push_back({array.array, only.rank, only.shard, held.box});
    }
  }
  std::stable_sort(
      shared.begin(), shared.end(),
      [](const Shared& a, const Shared& b) { return a.bytes > b.bytes; });
  for (const Shared& one : shared) GiveOut(one, load, pieces);
  return pieces;
}

}  // namespace belay
