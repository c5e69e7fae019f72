// Whether replicas are equal, by a sum of each.

#ifndef BELAY_PLAN_REPLICA_CHECK_H_
#define BELAY_PLAN_REPLICA_CHECK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/shard.h"
#include "core/wire.h"
#include "plan/choose_ranks.h"
#include "plan/plan.h"

namespace belay {

// Whether replicas are equal, told by a sum of each.

// What a rank says of the values that it holds.
struct ReplicaSum {
  std::string key;
  Box box;
  uint64_t sum = 0;
  int32_t rank = 0;
};

// Which rank compares the values of a box: about as many for each of them.
int32_t ComparerOf(const ReplicaSum& sum, int num_ranks);

// Boxes of which ranks hold other values.
struct ReplicaDifferences {
  int64_t count = 0;
  std::string first;  // by key: the box, and the ranks that differ
  int32_t rank = -1;  // the first of these
};

// Compares all sums of the same key and box.
ReplicaDifferences FindDifferences(std::vector<ReplicaSum> sums);

template <typename Archive>
void Fields(Archive& archive, ReplicaSum& sum) {
  archive(sum.key, sum.box, sum.sum, sum.rank);
}
inline std::string EncodeSums(const std::vector<ReplicaSum>& sums) {
  return sums.empty() ? "" : Encode(sums);
}
inline std::vector<ReplicaSum> DecodeSums(std::string_view bytes) {
  return Decode<std::vector<ReplicaSum>>(bytes).value_or(
      std::vector<ReplicaSum>());
}
inline void PutReplicaCheck(WireWriter& out, const ReplicaCheck& check) {
  out(check);
}
inline ReplicaCheck GetReplicaCheck(WireReader& in) {
  ReplicaCheck check;
  in(check);
  return check;
}

// Which of a rank's shards others hold as well, and a number that tells whether
// they hold the same values.
//
// In:  the boxes of all arrays with their holders. Out: for each rank the
//      shards with a weight; the weights of one box add up to 0. So does what
//      the ranks make of them, each of its own values, if these are equal: one
//      sum over all ranks compares all replicas.

// By rank. Boxes without elements are left out.
std::vector<ReplicaCheck> FindReplicas(const std::vector<ArrayBoxes>& arrays,
                                       int num_ranks);

// A number for all bytes of a shard as they are stored, however they lie in
// memory. May need a little memory where they do not lie dense.
uint64_t ReplicaFingerprint(const Shard& shard, uint64_t seed = 0);

// Looks at every byte.
inline constexpr int64_t kEveryByte = -1;

// This rank's part of the sum, modulo 2^64. `number` counts the saves, equal on
// all ranks: of what is larger than kSampledBytes each save looks at other
// blocks of so many bytes, on the rank that holds most at about as many as
// there are boxes, but no less than kLeastSampled and no more than
// kMostSampled. In NumTurns saves that follow each other it looks at each byte
// once. Or kEveryByte.
uint64_t SumOfReplicas(const ReplicaCheck& check,
                       const std::vector<Shard>& shards, int64_t number);

inline constexpr int64_t kSampledBytes = 256;
inline constexpr int64_t kLeastSampled = 256;
inline constexpr int64_t kMostSampled = 1024;

// After how many saves every byte was looked at; equal on all ranks.
int64_t NumTurns(const ReplicaCheck& check);

}  // namespace belay

#endif  // BELAY_PLAN_REPLICA_CHECK_H_
