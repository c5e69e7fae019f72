#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "plan/stored_objects.h"
#include "state/rank_rows.h"

namespace belay::id_holders_test {
namespace {

// The rank of the even part that an id is in.
TEST(IdHoldersTest, HoldersAreThoseOfEvenParts) {
  for (const int64_t total : {1, 2, 5, 7, 100, 1001, 65537}) {
    for (const int ranks : {1, 2, 3, 7, 64, 200}) {
      IdBlock block;
      block.total = total;
      std::vector<int64_t> ids(static_cast<size_t>(total));
      std::iota(ids.begin(), ids.end(), 0);
      const std::vector<int32_t> holders = FindHolders(block, ids, ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        const int64_t first = FirstOfEven(total, rank, ranks);
        const int64_t end = FirstOfEven(total, rank + 1, ranks);
        ASSERT_EQ(std::count(holders.begin(), holders.end(), rank),
                  end - first);
        for (int64_t id = first; id < end; ++id) {
          ASSERT_EQ(holders[static_cast<size_t>(id)], rank);
        }
      }
    }
  }
}

TEST(IdHoldersTest, LargeIdsAndSomeRanks) {
  IdBlock block;
  block.total = (int64_t{1} << 50) + 12345;
  block.holders = {2, 5, 6};
  for (int64_t place = 0; place < 3; ++place) {
    const int64_t first = FirstOfEven(block.total, place, 3);
    const int64_t last = FirstOfEven(block.total, place + 1, 3) - 1;
    const int32_t rank = block.holders[static_cast<size_t>(place)];
    const std::vector<int64_t> ids = {first, first + 1, last - 1, last};
    EXPECT_EQ(FindHolders(block, ids, 9), std::vector<int32_t>(4, rank));
  }
  EXPECT_EQ(NumHolders(block, 9), 3);
}

}  // namespace
}  // namespace belay::id_holders_test
