// The shards of all ranks, as the ranks describe them to rank 0. Equal
// descriptions are stored once.

#ifndef BELAY_PLAN_LISTED_RANKS_H_
#define BELAY_PLAN_LISTED_RANKS_H_

#include <memory>

#include "belay/arrays/layout.h"
#include "core/list_exchange.h"
#include "plan/coverage.h"

namespace belay {

// A sequence of integers as runs of equal steps. A regular sequence, such as
// the ends of equally long rows, takes a few words regardless of its length.

class Progressions {
 public:
  void Append(int64_t value);

  int64_t size() const { return size_; }
  int64_t back() const { return runs_.back().Last(); }  // requires an element
  int64_t operator[](int64_t position) const;

  // Returns the first position with a value greater than `value`, or size().
  // Takes logarithmic time in the number of runs. Requires an ascending
  // sequence.
  int64_t UpperBound(int64_t value) const;

  size_t num_runs() const { return runs_.size(); }

  template <typename Archive>
  friend void Fields(Archive& archive, Progressions& all) {
    std::vector<Run> runs(all.runs_.begin(), all.runs_.end());
    archive(all.size_, runs);
    all.runs_.assign(runs.begin(), runs.end());
  }

 private:
  // first, first + step, ... at positions [begin, begin + count).
  struct Run {
    int64_t begin = 0;
    int64_t first = 0;
    int64_t step = 0;
    int64_t count = 0;

    int64_t Last() const { return first + step * (count - 1); }

    template <typename Archive>
    friend void Fields(Archive& archive, Run& run) {
      archive(run.begin, run.first, run.step, run.count);
    }
  };

  absl::InlinedVector<Run, 1> runs_;  // most sequences are one run
  int64_t size_ = 0;
};

// A rank describes its shards to rank 0 as entries, one per shard or value. An
// entry omits the box of a shard if the box follows from the layout and the
// rank, if every rank holds the whole array, or if the rows are divided evenly
// over all ranks. Such an entry does not depend on the rank, so ranks that hold
// the same arrays in the same way send the same bytes. Boxes are sent only for
// arrays that are divided in another way.

struct Description {
  // Entries without a box, all values, and the job unless it is the default.
  Entries shared;
  // Entries with a box, and the node unless it is 0.
  Entries own;
};

Description Describe(const RankShards& mine, int rank, int num_ranks);

// How the box of a shard is determined.
enum class Place : uint8_t {
  kBox = 0,     // the entry has the box and the replica number
  kLayout = 1,  // from the layout
  kWhole = 2,   // the whole array on every rank; the replica is the rank
  kRows = 3,    // by FirstOfEven; the replica number is 0
};

struct ListedShard {
  ShardInfo info;  // box and replica number are set for kBox only
  Place place = Place::kBox;
  std::shared_ptr<const Layout> layout;  // for kLayout
  int32_t num_ranks = 0;                 // for kRows: ranks that share the rows
};

// A decoded list of entries, which any number of ranks sent.
struct ShardList {
  std::vector<ListedShard> shards;
  // For own entries: the number of shared entries that the rank lists before
  // each.
  std::vector<int64_t> before;
  std::vector<ListedValue> values;
  int32_t node = 0;
  std::string job = std::string(kDefaultJob);  // in shared lists
};

// Errors: Internal - an entry is damaged.
StatusOr<ShardList> DecodeList(const Entries& entries);

// Return the box of the shard, or the shard, as this rank holds it. The rank
// must have listed the shard.
Box BoxOnRank(const ListedShard& listed, int rank);
ShardInfo OnRank(const ListedShard& listed, int rank);

// Distinct lists are stored once: memory grows with the differences between
// ranks, not with their number.

// The lists of a rank, as positions in ListedRanks::lists.
struct RankLists {
  int32_t shared = 0;
  int32_t own = 0;
};

struct ListedRanks {
  std::vector<ShardList> lists;
  std::vector<RankLists> ranks;
};

// Decodes the lists that rank 0 has received, the two of each Description.
// Errors: those of DecodeList.
StatusOr<ListedRanks> ListRanks(const Heard& heard);

std::vector<int32_t> ListNodes(const ListedRanks& listed);

// Returns everything that a rank has listed, in the order of its list.
RankShards GetRankShards(const ListedRanks& listed, int rank);

// Selected entries of each list, as ascending positions.
using RankSelection = std::vector<std::vector<int32_t>>;

// Calls fn(shard, its position on the rank) for the selected entries of a rank,
// in the order in which the rank listed them.
void ForEachSelected(const ListedRanks& listed, const RankSelection& selection,
                     int rank,
                     absl::FunctionRef<void(const ListedShard&, int32_t)> fn);

// An entry, and the ranks that sent it, ascending.
struct ToldShard {
  const ListedShard* shard = nullptr;
  const std::vector<int32_t>* ranks = nullptr;
  int32_t list = 0;   // position in ListedRanks::lists
  int32_t entry = 0;  // position in that list
};

// Calls fn(entries of one key) for each key, ascending. `ranks` is valid only
// during the call.
void ForEachToldKey(const ListedRanks& listed,
                    absl::FunctionRef<void(const std::vector<ToldShard>&)> fn);

// Calls fn(shards of one key) for each key, ascending. The shards are ordered
// by rank, then as the rank listed them. `info` is valid only during the call.
// Stops at the first error.
Status ForEachKey(const ListedRanks& listed,
                  absl::FunctionRef<Status(const std::vector<HeldShard>&)> fn);

}  // namespace belay

#endif  // BELAY_PLAN_LISTED_RANKS_H_
