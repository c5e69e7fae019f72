// Plans copies of checkpoints: the values to copy, and each rank's pieces.

#ifndef BELAY_STATE_COPY_PLAN_H_
#define BELAY_STATE_COPY_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "belay/extend/shard.h"
#include "belay/extend/transform_function.h"
#include "belay/extend/type_handler.h"
#include "belay/reader/copy_options.h"
#include "belay/state.h"
#include "belay/status.h"
#include "belay/values/transform.h"
#include "core/keys.h"
#include "core/wire.h"
#include "plan/plan.h"
#include "state/transform.h"

namespace belay {

// An array that a rule makes.
struct MadeArray {
  std::string key;
  int32_t rule = 0;
  std::string matched;  // the stored key that the rule was applied to
  ArrayForm form;
};
template <typename Archive>
void Fields(Archive& archive, MadeArray& made) {
  archive(made.key, made.rule, made.matched, made.form);
}

struct CopyPlan {
  // The copied values, including the values inside them; ascending by key.
  std::vector<StoredValue> values;
  std::vector<std::string> layouts;  // per value; "" for none
  std::vector<MadeArray> made;       // ascending by key
  // The fields of arrays of structs (plan/plan.h), by key in the copy.
  std::map<std::string, std::string> fields;
  int64_t num_used = 0;  // not copied, but read by rules
  int64_t num_left_out = 0;
};
template <typename Archive>
void Fields(Archive& archive, CopyPlan& plan) {
  archive(plan.values, plan.layouts, plan.made, plan.fields, plan.num_used,
          plan.num_left_out);
}

// The value under the key `always` is copied regardless of the options. Errors:
// those of CopyCheckpoint about keys and rules.
StatusOr<CopyPlan> PlanCopy(const SavedCheckpoint& saved,
                            const CopyOptions& options,
                            std::string_view always);

class RuleValues {
 public:
  // Borrows the rules.
  // Errors: InvalidArgument - a malformed expression, a reference to a group
  // that the expression does not have, or a rule that sets no value.
  static StatusOr<RuleValues> Create(const std::vector<ConversionRule>& rules);

  bool Matches(size_t rule, std::string_view key) const;
  Status CheckMatches(size_t rule,
                      const std::vector<std::string_view>& keys) const;

  // Return the key and the value that a rule makes for `matched`, a key that it
  // matches. If the rule has no `keys`, `matched` is "".
  std::string KeyFor(size_t rule, const std::string& matched) const;
  Transform ValueFor(size_t rule, const std::string& matched) const;

 private:
  const std::vector<ConversionRule>* rules_ = nullptr;
  std::vector<KeyPatterns> patterns_;  // one per rule
};

// One rank's pieces of all arrays: first of the copied arrays, then of those
// that rules make. Not copyable or movable: the shards point into it.
struct CopiedPieces {
  CopiedPieces() = default;
  CopiedPieces(const CopiedPieces&) = delete;
  CopiedPieces& operator=(const CopiedPieces&) = delete;

  std::vector<Shard> shards;
  // Per shard: an index of CopyPlan::values, continued by CopyPlan::made.
  std::vector<size_t> value_of;
  std::deque<std::string> texts;
  int64_t bytes = 0;        // the memory that PlaceIn needs
  int64_t array_bytes = 0;  // the same without gaps
  int64_t total_bytes = 0;  // on all ranks, without gaps
};

// Cuts each large array along one axis, and assigns every other array to one
// rank.
void CutForCopy(const CopyPlan& plan, int rank, int num_ranks,
                CopiedPieces& pieces);

void PlaceIn(std::byte* memory, CopiedPieces& pieces);

// Lists each piece under its full key, for reading.
State ListForReading(const CopiedPieces& pieces);

// Lists the values under their typestr, for saving. Moves the shards out of
// `pieces`, because there may be very many.
State ListForCopy(const CopyPlan& plan, CopiedPieces& pieces);

}  // namespace belay

#endif  // BELAY_STATE_COPY_PLAN_H_
