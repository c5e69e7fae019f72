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

// Returns the rank that compares the sums of a box. Boxes are spread evenly
// over the ranks.
int32_t ChooseComparer(const ReplicaSum& sum, int num_ranks);

// Boxes whose values differ between ranks.
struct ReplicaDifferences {
  int64_t count = 0;
  std::string first;  // describes the first box, by key, and its ranks
  int32_t rank = -1;  // the lowest rank that differs
};

ReplicaDifferences FindDifferences(std::vector<ReplicaSum> sums);

template <typename Archive>
void Fields(Archive& archive, ReplicaSum& sum) {
  archive(sum.key, sum.box, sum.sum, sum.rank);
}

// Returns the shards of each rank that other ranks hold as well, with weights.
// Omits boxes without elements. The weights of one box add up to 0. So do the
// weighted sums of its values on all ranks if the values are equal: one sum
// over all ranks compares all replicas.

std::vector<ReplicaCheck> FindReplicas(const std::vector<ArrayBoxes>& arrays,
                                       int num_ranks);

// Returns a fingerprint of the bytes as they are stored, regardless of their
// layout in memory. Needs a small buffer if they are not contiguous.
uint64_t ReplicaFingerprint(const Shard& shard, uint64_t seed = 0);

inline constexpr int64_t kEveryByte = -1;

// Returns this rank's part of the sum, modulo 2^64. `number` is the number of
// the save, equal on all ranks, or kEveryByte. Shards of more than
// kSampledBytes are sampled: each save checks different blocks of that size.
// The rank that holds the most bytes checks about one block for each box, but
// at least kLeastSampled and at most kMaxSampled blocks. NumTurns successive
// saves check each byte once.
uint64_t SumReplicas(const ReplicaCheck& check,
                     const std::vector<Shard>& shards, int64_t number);

inline constexpr int64_t kSampledBytes = 256;
inline constexpr int64_t kLeastSampled = 256;
inline constexpr int64_t kMaxSampled = 1024;

// Returns the number of saves that together check every byte; equal on all
// ranks.
int64_t NumTurns(const ReplicaCheck& check);

}  // namespace belay

#endif  // BELAY_PLAN_REPLICA_CHECK_H_
