// What a copy of a checkpoint has, and memory for it.

#ifndef BELAY_STATE_COPY_PLAN_H_
#define BELAY_STATE_COPY_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/shard.h"
#include "belay/handlers/type_handler.h"
#include "belay/reader/copy_options.h"
#include "belay/state.h"
#include "belay/status.h"
#include "belay/values/transform.h"
#include "core/keys.h"
#include "core/wire.h"
#include "plan/plan.h"
#include "state/transform.h"

namespace belay {

// Which values a copy of a checkpoint has.
//
// In:  what the index says, and the options. Out: values that are copied as
//      they are, and arrays that rules make, with what each is computed from.

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
  // Those that stand alone, with what is inside them; ascending by key.
  std::vector<StoredValue> values;
  std::vector<std::string> layouts;  // by value, of an array; "": none
  std::vector<MadeArray> made;       // ascending by key
  // Of arrays of structs, by the key that they get (plan/plan.h).
  std::map<std::string, std::string> fields;
  int64_t num_used = 0;  // read by rules, and not copied
  int64_t num_left_out = 0;
};
// All but `values`.
template <typename Archive>
void Fields(Archive& archive, CopyPlan& plan) {
  archive(plan.layouts, plan.made, plan.fields, plan.num_used,
          plan.num_left_out);
}

// `always` is the key of a value that is copied whatever the options say.
// Errors: those of CopyCheckpoint about keys and rules.
StatusOr<CopyPlan> PlanCopy(const SavedCheckpoint& saved,
                            const CopyOptions& options,
                            std::string_view always);

// What the rules compute for the keys that they match.
class RuleValues {
 public:
  // Borrows the rules.
  // Errors: InvalidArgument - `keys` is no expression, or `key` or `value`
  //   speak of groups that it does not have, or a rule has no value.
  static StatusOr<RuleValues> Create(const std::vector<ConversionRule>& rules);

  // Whether a rule is applied to this key.
  bool Matches(size_t rule, std::string_view key) const;
  Status CheckMatches(size_t rule,
                      const std::vector<std::string_view>& keys) const;

  // What it makes of it, which it matches, or of nothing if it has no `keys`.
  std::string KeyFor(size_t rule, const std::string& matched) const;
  Transform ValueFor(size_t rule, const std::string& matched) const;

 private:
  const std::vector<ConversionRule>* rules_ = nullptr;
  std::vector<KeyPatterns> patterns_;  // by rule, one each
};

// For messages between ranks.
std::string EncodeCopyPlan(const CopyPlan& plan);
CopyPlan DecodeCopyPlan(std::string_view bytes);

// The part of a copy that one rank carries.
//
// In:  the values of a copy. Out: a piece of each array for each rank, and
//      values of the same typestr that consist of such pieces.

// One rank's pieces of all arrays, of values that are copied and of those that
// are made, in that order. Neither copied nor moved: shards borrow from it.
struct CopiedPieces {
  CopiedPieces() = default;
  CopiedPieces(const CopiedPieces&) = delete;
  CopiedPieces& operator=(const CopiedPieces&) = delete;

  // Without memory. A value has several.
  std::vector<Shard> shards;
  std::vector<size_t>
      value_of;  // by shard; those made count on from the values
  std::deque<std::string> texts;
  int64_t bytes = 0;        // memory for all of them, as PlaceIn lays them out
  int64_t array_bytes = 0;  // of them, without gaps
  int64_t total_bytes = 0;  // of all ranks, without gaps
};

// Large arrays are cut along an axis, others go to the ranks in turns.
void CutForCopy(const CopyPlan& plan, int rank, int num_ranks,
                CopiedPieces& pieces);

// Gives the shards their places in memory of `pieces.bytes`.
void PlaceIn(std::byte* memory, CopiedPieces& pieces);

// What is read: each piece under its whole key.
State ListForReading(const CopiedPieces& pieces);

// What is saved: values under their typestr. Moves the shards out of `pieces`,
// as there may be very many.
State ListForCopy(const CopyPlan& plan, CopiedPieces& pieces);

}  // namespace belay

#endif  // BELAY_STATE_COPY_PLAN_H_
