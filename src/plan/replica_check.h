// Checks whether replicas are equal, by sums of their values.

#ifndef BELAY_PLAN_REPLICA_CHECK_H_
#define BELAY_PLAN_REPLICA_CHECK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/extend/shard.h"
#include "core/wire.h"
#include "plan/choose_ranks.h"

namespace belay {

// The sum of the values of a box that a rank holds.
struct ReplicaSum {
  std::string key;
  Box box;
  uint64_t sum = 0;
  int32_t rank = 0;
};

// Returns the rank that compares the values of a box: about as many for each.
int32_t ChooseComparer(const ReplicaSum& sum, int num_ranks);

// Boxes whose values differ between ranks.
struct ReplicaDifferences {
  int64_t count = 0;
  std::string first;  // by key: the box, and the ranks that differ
  int32_t rank = -1;  // the first of these
};

ReplicaDifferences FindDifferences(std::vector<ReplicaSum> sums);

template <typename Archive>
void Fields(Archive& archive, ReplicaSum& sum) {
  archive(sum.key, sum.box, sum.sum, sum.rank);
}

// Returns by rank the shards that others hold as well, with weights; boxes
// without elements are left out. The weights of one box add up to 0, and so do
// the weighted sums of its values on all ranks if these are equal: one sum over
// all ranks compares all replicas.

std::vector<ReplicaCheck> FindReplicas(const std::vector<ArrayBoxes>& arrays,
                                       int num_ranks);

// Returns a number for all bytes as they are stored, whatever their layout in
// memory. May need a little memory where they do not lie dense.
uint64_t ReplicaFingerprint(const Shard& shard, uint64_t seed = 0);

inline constexpr int64_t kEveryByte = -1;

// Returns this rank's part of the sum, modulo 2^64. `number` counts the saves,
// equal on all ranks, or is kEveryByte. Each save samples other blocks of
// kSampledBytes of each larger shard: on the rank that holds most about as many
// as there are boxes, within kLeastSampled and kMaxSampled. NumTurns
// successive saves look at each byte once.
uint64_t SumReplicas(const ReplicaCheck& check,
                     const std::vector<Shard>& shards, int64_t number);

inline constexpr int64_t kSampledBytes = 256;
inline constexpr int64_t kLeastSampled = 256;
inline constexpr int64_t kMaxSampled = 1024;

// Returns after how many saves every byte was checked; equal on all ranks.
int64_t NumTurns(const ReplicaCheck& check);

}  // namespace belay

#endif  // BELAY_PLAN_REPLICA_CHECK_H_
