#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "comm_fixture.h"
#include "mpi/collective.h"
#include "mpi_test.h"

namespace belay::agree_same_test {
namespace {

using testing::WorldRank;
using testing::WorldSize;

class AgreeSameTest : public testing::CommFixture {};

TEST_F(AgreeSameTest, ComparesAllBits) {
  for (uint64_t value : {uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0}}) {
    CommContext context = NewContext();
    EXPECT_EQ(AgreeSame(context, "step", value), absl::OkStatus());
    EXPECT_EQ(context.messages, 1);
  }
}

TEST_F(AgreeSameTest, NamesTheLowestRankThatDiffers) {
  for (int rank = 1; rank < WorldSize(); ++rank) {
    CommContext context = NewContext();
    const uint64_t mine = WorldRank() < rank ? 7 : ~uint64_t{0} - rank;
    EXPECT_EQ(
        AgreeSame(context, "step", mine),
        absl::InvalidArgumentError(absl::StrCat(
            "step differs between ranks: rank ", rank, " of ", WorldSize(),
            " has another value than rank 0 ", RankOf(rank))));
  }
}

TEST_F(AgreeSameTest, TextsAreToldOfBoth) {
  const std::string path(1000, 'p');
  CommContext context = NewContext();
  EXPECT_EQ(AgreeSameText(context, "directory", path), absl::OkStatus());
  EXPECT_EQ(context.messages, 1);
  if (WorldSize() == 1) return;
  const int last = WorldSize() - 1;
  const bool is_last = WorldRank() == last;
  // No more of a text than its end, and no more of what is compared than fits.
  EXPECT_EQ(AgreeSameText(context, "directory", is_last ? path + "/b" : "a"),
            absl::InvalidArgumentError(absl::StrCat(
                "directory differs between ranks: rank ", last, " of ",
                WorldSize(), " has \"...", path.substr(0, 278),
                "/b\", rank 0 has \"a\" ", RankOf(last))));
}

}  // namespace
}  // namespace belay::agree_same_test
