#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "comm_fixture.h"
#include "core/fault.h"
#include "mpi/collective.h"
#include "mpi_test.h"

namespace belay::all_gather_test {
namespace {

using testing::WorldRank;
using testing::WorldSize;

class AllGatherTest : public testing::CommFixture {};

// Bytes that tell where they come from.
std::string Pattern(int rank, int64_t size) {
  std::string bytes(size, '\0');
  for (int64_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>(rank * 31 + i * 7 + i / 251);
  }
  return bytes;
}

int64_t SizeOf(int rank) { return rank % 2 == 1 ? 3001 + rank : 9 * rank; }

TEST_F(AllGatherTest, GivesEveryRankTheBytesOfEveryRank) {
  for (int64_t part_bytes : {100, 1000, 1 << 30}) {
    CommContext context = NewContext();
    context.part_bytes = part_bytes;
    const auto all =
        AllGather(context, Pattern(WorldRank(), SizeOf(WorldRank())));
    ASSERT_TRUE(all.ok()) << all.status();
    ASSERT_EQ(all->size(), WorldSize());
    for (int rank = 0; rank < WorldSize(); ++rank) {
      EXPECT_EQ((*all)[rank], Pattern(rank, SizeOf(rank))) << rank;
    }
    EXPECT_EQ(context.bytes_sent, SizeOf(WorldRank()) * (WorldSize() - 1));
  }
}

// Three parts of each rank, of 100, 0 and 3 MiB bytes, in turns.
struct Dealt {
  static constexpr int64_t kBytes[] = {100, 0, 3 << 20};

  Dealt() {
    for (int turn = 0; turn < 3; ++turn) mine.push_back(Of(turn, WorldRank()));
    for (int turn = 0; turn < 3; ++turn) {
      for (int rank = 0; rank < WorldSize(); ++rank) {
        result += std::string(kBytes[turn], '?');
        expected += Of(turn, rank);
      }
    }
    int64_t at = 0;
    for (int turn = 0; turn < 3; ++turn) {
      for (int rank = 0; rank < WorldSize(); ++rank) {
        const bool own = rank == WorldRank();
        parts.push_back(
            {.rank = rank,
             .bytes = kBytes[turn],
             .source = own ? reinterpret_cast<std::byte*>(mine[turn].data())
                           : nullptr,
             .target = reinterpret_cast<std::byte*>(result.data()) + at});
        at += kBytes[turn];
      }
    }
  }
  static std::string Of(int turn, int rank) {
    return Pattern(7 * turn + rank, kBytes[turn]);
  }

  std::vector<std::string> mine;
  std::string result;
  std::string expected;
  std::vector<GatherPart> parts;
};

TEST_F(AllGatherTest, PutsPartsInTheirPlacesOnEveryRank) {
  Dealt dealt;
  CommContext context = NewContext();
  context.part_bytes = 1000003;
  EXPECT_EQ(GatherParts(context, dealt.parts, -1), absl::OkStatus());
  EXPECT_TRUE(dealt.result == dealt.expected);
  EXPECT_EQ(context.bytes_sent, ((3 << 20) + 100) * (WorldSize() - 1));
}

TEST_F(AllGatherTest, PutsPartsInTheirPlacesOnOneRank) {
  for (int to = 0; to < WorldSize(); ++to) {
    Dealt dealt;
    const std::string before = dealt.result;
    if (WorldRank() != to) {
      for (GatherPart& part : dealt.parts) part.target = nullptr;
    }
    CommContext context = NewContext();
    EXPECT_EQ(GatherParts(context, dealt.parts, to), absl::OkStatus());
    EXPECT_TRUE(dealt.result == (WorldRank() == to ? dealt.expected : before));
    EXPECT_EQ(context.bytes_sent, WorldRank() == to ? 0 : (3 << 20) + 100);
  }
}

TEST_F(AllGatherTest, OwnPartsMayLieInTheirPlace) {
  std::vector<int64_t> values(WorldSize(), -1);
  values[WorldRank()] = 100 + WorldRank();
  std::vector<GatherPart> parts;
  for (int rank = 0; rank < WorldSize(); ++rank) {
    auto* place = reinterpret_cast<std::byte*>(&values[rank]);
    parts.push_back(
        {.rank = rank, .bytes = 8, .source = place, .target = place});
  }
  CommContext context = NewContext();
  EXPECT_EQ(GatherParts(context, parts, -1), absl::OkStatus());
  for (int rank = 0; rank < WorldSize(); ++rank) {
    EXPECT_EQ(values[rank], 100 + rank);
  }
}

TEST_F(AllGatherTest, EveryFaultOnEveryRankIsAgreed) {
  const std::function<Status(CommContext&)> run = [](CommContext& context) {
    return AllGather(context, "four").status();
  };
  constexpr const char* kSites[] = {"MPI_Iallgather", "agree", "MPI_Isend",
                                    "agree"};
  for (int64_t point = 1; point <= 4; ++point) {
    for (int rank = 0; rank < WorldSize(); ++rank) {
      CommContext context = NewContext();
      fault::Arm(WorldRank() == rank ? point : 0);
      EXPECT_EQ(run(context), absl::InternalError(absl::StrCat(
                                  kSites[point - 1], ": injected fault [rank ",
                                  rank, " of ", WorldSize(), "]")));
    }
  }
  fault::Arm(0);
  CommContext context = NewContext();
  EXPECT_EQ(run(context), absl::OkStatus());
  EXPECT_EQ(fault::Count(), 4);
  EXPECT_EQ(context.messages, 4);
  fault::Disarm();
}

}  // namespace
}  // namespace belay::all_gather_test
