// What all ranks list, where most of them list the same.

#ifndef BELAY_PLAN_LISTED_RANKS_H_
#define BELAY_PLAN_LISTED_RANKS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "belay/status.h"
#include "core/list_exchange.h"
#include "core/wire.h"
#include "plan/coverage.h"
#include "plan/description.h"
#include "plan/plan.h"

namespace belay {

// Progressions: a sequence of integers as runs of equal steps. What follows a
// rule, as the ends of rows that are equally long do, takes a few words however
// long it is.

class Progressions {
 public:
  void Append(int64_t value);

  int64_t size() const { return size_; }
  int64_t back() const { return runs_.back().Last(); }  // requires one
  int64_t operator[](int64_t position) const;

  // Of an ascending sequence, the first position whose value is greater than
  // `value`; size() if there is none. In logarithmic time of the runs.
  int64_t UpperBound(int64_t value) const;

  size_t num_runs() const { return runs_.size(); }

  template <typename Archive>
  friend void Fields(Archive& archive, Progressions& all) {
    auto num_runs = static_cast<uint32_t>(all.runs_.size());
    archive(all.size_, num_runs);
    all.runs_.resize(num_runs);
    for (Run& run : all.runs_) {
      archive(run.begin, run.first, run.step, run.count);
    }
  }

 private:
  // first, first + step, ... at positions [begin, begin + count).
  struct Run {
    int64_t begin = 0;
    int64_t first = 0;
    int64_t step = 0;
    int64_t count = 0;

    int64_t Last() const { return first + step * (count - 1); }
  };

  absl::InlinedVector<Run, 1> runs_;  // most are one run
  int64_t size_ = 0;
};

// The shards of all ranks, told once where they are told alike: memory grows
// with what differs, not with the number of ranks.

// The lists of one rank, as rows of the table of all.
struct RankLists {
  int32_t shared = 0;
  int32_t own = 0;
};

struct ListedRanks {
  std::vector<ShardList> lists;
  std::vector<RankLists> ranks;
};

// Makes the table of what rank 0 has heard: the two lists of a Description.
// Errors: those of DecodeList.
StatusOr<ListedRanks> ListRanks(const Heard& heard);

// The node of each rank.
std::vector<int32_t> NodesOf(const ListedRanks& listed);

// What one rank has listed, in its order.
RankShards ShardsOf(const ListedRanks& listed, int rank);

// Some entries of each list, as ascending positions in it.
using RankSelection = std::vector<std::vector<int32_t>>;

// Calls fn(shard, its number at the rank) for those of them that one rank has
// told, in its order.
void ForEachSelected(const ListedRanks& listed, const RankSelection& selection,
                     int rank,
                     absl::FunctionRef<void(const ListedShard&, int32_t)> fn);

// One entry of the table, and who has told it, ascending.
struct ToldShard {
  const ListedShard* shard = nullptr;
  const std::vector<int32_t>* ranks = nullptr;
  int32_t list = 0;   // where it stands in the table
  int32_t entry = 0;  // in that list
};

// Calls fn(entries of one key) for each key, ascending. What `ranks` points to
// lasts as long as the call.
void ForEachToldKey(const ListedRanks& listed,
                    absl::FunctionRef<void(const std::vector<ToldShard>&)> fn);

// Calls fn(shards of one key) for each key, ascending; by rank, and then in the
// order of listing. The descriptions that the shards point to last as long as
// the call. Ends with the first error.
Status ForEachKey(const ListedRanks& listed,
                  absl::FunctionRef<Status(const std::vector<HeldShard>&)> fn);

}  // namespace belay

#endif  // BELAY_PLAN_LISTED_RANKS_H_
