// The shards of all ranks as they tell rank 0, once where they tell the same.

#ifndef BELAY_PLAN_LISTED_RANKS_H_
#define BELAY_PLAN_LISTED_RANKS_H_

#include <memory>

#include "belay/arrays/layout.h"
#include "core/list_exchange.h"
#include "plan/coverage.h"

namespace belay {

// A sequence of integers as runs of equal steps. A regular one, such as the
// ends of equally long rows, takes a few words however long it is.

class Progressions {
 public:
  void Append(int64_t value);

  int64_t size() const { return size_; }
  int64_t back() const { return runs_.back().Last(); }  // requires one
  int64_t operator[](int64_t position) const;

  // Returns the first position with a value greater than `value`, or size(), in
  // logarithmic time of the runs. Requires an ascending sequence.
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

  absl::InlinedVector<Run, 1> runs_;  // most are one run
  int64_t size_ = 0;
};

// A rank tells rank 0 of its shards by entries, one per shard or value. An
// entry leaves out where a shard lies if that follows from its layout and the
// rank, if every rank holds it all, or if its rows are divided evenly over all
// ranks. Such an entry names no rank, so ranks that hold the same arrays in the
// same way tell the same bytes. Only pieces that are cut in another way are
// told with their boxes.

struct Description {
  Entries
      shared;   // what names no rank, all values, and the job if it has a name
  Entries own;  // pieces with their boxes, and the node unless it is 0
};

Description Describe(const RankShards& mine, int rank, int num_ranks);

// How the box of a shard is known.
enum class Place : uint8_t {
  kBox = 0,     // box and replica number are told
  kLayout = 1,  // by the layout
  kWhole = 2,   // everywhere; the replica number is that of the rank
  kRows = 3,    // by FirstOfEven; the replica number is 0
};

struct ListedShard {
  ShardInfo info;  // box and replica number only of kBox
  Place place = Place::kBox;
  std::shared_ptr<const Layout> layout;  // of kLayout
  int32_t num_ranks = 0;                 // of kRows, the first ones
};

// One list of entries, told by any number of ranks.
struct ShardList {
  std::vector<ListedShard> shards;
  // For own entries: the number of shared ones that the rank lists before each.
  std::vector<int64_t> before;
  std::vector<ListedValue> values;
  int32_t node = 0;
  std::string job = std::string(kDefaultJob);  // of shared ones
};

// Errors: Internal - an entry is damaged.
StatusOr<ShardList> DecodeList(const Entries& entries);

// Return the shard as this rank holds it, or its box. The rank must have listed
// it.
Box BoxOnRank(const ListedShard& listed, int rank);
ShardInfo OnRank(const ListedShard& listed, int rank);

// Memory grows with the differences, not with the number of ranks.

// The lists of a rank, as positions in ListedRanks::lists.
struct RankLists {
  int32_t shared = 0;
  int32_t own = 0;
};

struct ListedRanks {
  std::vector<ShardList> lists;
  std::vector<RankLists> ranks;
};

// Decodes what rank 0 has heard: the two lists of each Description.
// Errors: those of DecodeList.
StatusOr<ListedRanks> ListRanks(const Heard& heard);

std::vector<int32_t> ListNodes(const ListedRanks& listed);

// Returns what a rank has listed, in its order.
RankShards GetRankShards(const ListedRanks& listed, int rank);

// Selected entries of each list, as ascending positions.
using RankSelection = std::vector<std::vector<int32_t>>;

// Calls fn(shard, its number at the rank) for the selected entries that the
// rank has told, in its order.
void ForEachSelected(const ListedRanks& listed, const RankSelection& selection,
                     int rank,
                     absl::FunctionRef<void(const ListedShard&, int32_t)> fn);

// An entry, and the ranks that told it, ascending.
struct ToldShard {
  const ListedShard* shard = nullptr;
  const std::vector<int32_t>* ranks = nullptr;
  int32_t list = 0;   // where it stands in the table
  int32_t entry = 0;  // in that list
};

// Calls fn(entries of one key) for each key, ascending. `ranks` is valid during
// the call.
void ForEachToldKey(const ListedRanks& listed,
                    absl::FunctionRef<void(const std::vector<ToldShard>&)> fn);

// Calls fn(shards of one key) for each key, ascending; by rank, and then in the
// order of listing. `info` is valid during the call. Ends with the first error.
Status ForEachKey(const ListedRanks& listed,
                  absl::FunctionRef<Status(const std::vector<HeldShard>&)> fn);

}  // namespace belay

#endif  // BELAY_PLAN_LISTED_RANKS_H_
