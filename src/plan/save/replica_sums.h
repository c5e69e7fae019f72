// Whether replicas are equal, told by a sum of each. Pure.

#ifndef BELAY_PLAN_SAVE_REPLICA_SUMS_H_
#define BELAY_PLAN_SAVE_REPLICA_SUMS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"

namespace belay {

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

// For messages between ranks; a rank says of many boxes.
std::string EncodeSums(const std::vector<ReplicaSum>& sums);
std::vector<ReplicaSum> DecodeSums(std::string_view bytes);

}  // namespace belay

#endif  // BELAY_PLAN_SAVE_REPLICA_SUMS_H_
