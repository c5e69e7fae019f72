#include "mpi/collective.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <new>

#include "absl/strings/str_cat.h"
#include "comm_fixture.h"
#include "core/fault.h"
#include "mpi_test.h"
#include "pipeline/stages.h"

namespace belay::collective_test {
namespace {

using testing::WorldRank;
using testing::WorldSize;

// Finds no memory on the last rank, once rank 0 has sent it.
struct LargeValue {
  std::string text;
};

template <typename Archive>
void Fields(Archive& archive, LargeValue& value) {
  archive(value.text);
  if (std::is_same_v<Archive, WireReader> && WorldRank() == WorldSize() - 1) {
    throw std::bad_alloc();
  }
}

class Collective : public testing::CommFixture {};

// Bytes that tell where they come from, longer than the part size used here.
std::string Pattern(int rank, int64_t size) {
  std::string bytes(size, '\0');
  for (int64_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>(rank * 31 + i * 7 + i / 251);
  }
  return bytes;
}

TEST_F(Collective, AgreeIsOkWithOneMessage) {
  CommContext context = NewContext();
  EXPECT_EQ(Agree(context, absl::OkStatus()), absl::OkStatus());
  EXPECT_EQ(context.messages, 1);
}

TEST_F(Collective, AgreeTellsOfEachRankAlone) {
  for (int rank = 0; rank < WorldSize(); ++rank) {
    CommContext context = NewContext();
    const Status mine = WorldRank() == rank
                            ? absl::NotFoundError("open \"x\": no such file")
                            : absl::OkStatus();
    EXPECT_EQ(Agree(context, mine),
              absl::NotFoundError("open \"x\": no such file " + RankOf(rank)));
  }
}

TEST_F(Collective, NamesInDamagedFilesForgeNoLines) {
  CommContext context = NewContext();
  EXPECT_EQ(Agree(context, absl::DataLossError("read \"a\nb\": damaged")),
            absl::DataLossError("read \"a\\nb\": damaged " + RankOf(0)));
  EXPECT_EQ(Agree(context, absl::InvalidArgumentError("two\nlines")),
            absl::InvalidArgumentError("two\nlines " + RankOf(0)));
}

TEST_F(Collective, AgreeTakesTheLowestRank) {
  CommContext context = NewContext();
  const int first = WorldSize() / 2;
  const Status mine =
      WorldRank() >= first
          ? absl::DataLossError(absl::StrCat("read: bad on ", WorldRank()))
          : absl::OkStatus();
  EXPECT_EQ(Agree(context, mine),
            absl::DataLossError(
                absl::StrCat("read: bad on ", first, " ", RankOf(first))));
}

TEST_F(Collective, AgreeNamesTheRankOnce) {
  CommContext context = NewContext();
  const Status mine =
      WorldRank() == last() ? absl::AbortedError("stop") : absl::OkStatus();
  const Status agreed = Agree(context, mine);
  EXPECT_EQ(agreed, absl::AbortedError("stop " + RankOf(last())));
  EXPECT_EQ(Agree(context, agreed), agreed);
}

TEST_F(Collective, AgreeKeepsTextThatOnlyLooksLikeARank) {
  CommContext context = NewContext();
  for (const char* text : {"a [rank 1 of]", "a [rank x of 2]", "a [rank 1 of 2",
                           "a [rank  of ]", "]", "", "a [rank 1 of 2] b]"}) {
    EXPECT_EQ(Agree(context, absl::UnknownError(text)),
              absl::UnknownError(absl::StrCat(text, " ", RankOf(0))));
  }
}

TEST_F(Collective, AgreeCarriesLongMessagesWhole) {
  CommContext context = NewContext();
  context.part_bytes = 100;
  const std::string text(10000, 'e');
  EXPECT_EQ(Agree(context, absl::InvalidArgumentError(text)),
            absl::InvalidArgumentError(text + " " + RankOf(0)));
}

TEST_F(Collective, OnRootRunsOnRankZeroOnly) {
  CommContext context = NewContext();
  int runs = 0;
  EXPECT_EQ(OnRoot(context,
                   [&] {
                     ++runs;
                     return absl::OkStatus();
                   }),
            absl::OkStatus());
  EXPECT_EQ(runs, WorldRank() == 0 ? 1 : 0);
  EXPECT_EQ(OnRoot(context, [] { return absl::AlreadyExistsError("step 7"); }),
            absl::AlreadyExistsError("step 7 " + RankOf(0)));
  EXPECT_EQ(OnRoot(context, []() -> Status { throw std::bad_alloc(); }),
            absl::ResourceExhaustedError(
                "no memory for what rank 0 does for all " + RankOf(0)));
}

TEST_F(Collective, BroadcastOfAnySizeFromAnyRoot) {
  for (int root : {0, last()}) {
    for (int64_t size : {0, 1, 55, 56, 57, 999, 1000, 1001, 5432}) {
      CommContext context = NewContext();
      context.part_bytes = 500;
      std::string bytes =
          WorldRank() == root ? Pattern(root, size) : std::string("old");
      EXPECT_EQ(Broadcast(context, bytes, root), absl::OkStatus());
      EXPECT_EQ(bytes, Pattern(root, size)) << size;
    }
  }
}

TEST_F(Collective, BroadcastOfFewBytesIsOneMessageAndTheAgreement) {
  CommContext context = NewContext();
  std::string bytes = WorldRank() == 0 ? Pattern(0, 56) : "";
  EXPECT_EQ(Broadcast(context, bytes), absl::OkStatus());
  EXPECT_EQ(context.messages, 2);
}

// Sizes differ between ranks; those of the odd ranks go in several parts.
int64_t SizeOf(int rank) { return rank % 2 == 1 ? 3001 + rank : 9 * rank; }

TEST_F(Collective, GatherKeepsTheOrderOfRanks) {
  CommContext context = NewContext();
  context.part_bytes = 1000;
  StatusOr<std::vector<std::string>> all =
      Gather(context, Pattern(WorldRank(), SizeOf(WorldRank())));
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), WorldRank() == 0 ? WorldSize() : 0);
  for (size_t rank = 0; rank < all->size(); ++rank) {
    EXPECT_EQ((*all)[rank], Pattern(rank, SizeOf(rank))) << rank;
  }
}

TEST_F(Collective, GatherOfLargePiecesInOnePart) {
  CommContext context = NewContext();
  StatusOr<std::vector<std::string>> all =
      Gather(context, Pattern(WorldRank(), 3 << 20));
  ASSERT_TRUE(all.ok()) << all.status();
  for (size_t rank = 0; rank < all->size(); ++rank) {
    EXPECT_TRUE((*all)[rank] == Pattern(rank, 3 << 20)) << rank;
  }
}

TEST_F(Collective, ScatterGivesEachRankItsPart) {
  CommContext context = NewContext();
  context.part_bytes = 1000;
  std::vector<std::string> parts;
  for (int rank = 0; WorldRank() == 0 && rank < WorldSize(); ++rank) {
    parts.push_back(Pattern(rank, SizeOf(rank)));
  }
  StatusOr<std::string> mine = Scatter(context, parts);
  ASSERT_TRUE(mine.ok()) << mine.status();
  EXPECT_EQ(*mine, Pattern(WorldRank(), SizeOf(WorldRank())));
}

TEST_F(Collective, ScatterNeedsOnePartPerRank) {
  CommContext context = NewContext();
  EXPECT_EQ(
      Scatter(context, std::vector<std::string>(WorldSize() + 1)).status(),
      absl::InvalidArgumentError(
          absl::StrCat("scatter: one part per rank (need ", WorldSize(),
                       ", found ", WorldSize() + 1, ") ", RankOf(0))));
}

TEST_F(Collective, XorToRootInParts) {
  CommContext context = NewContext();
  context.part_bytes = 40;
  std::vector<uint32_t> values(27);
  std::vector<uint32_t> expected(27);
  for (uint32_t i = 0; i < values.size(); ++i) {
    values[i] = 2654435761u * (i + 1) * (WorldRank() + 3);
    for (int r = 0; r < WorldSize(); ++r) {
      expected[i] ^= 2654435761u * (i + 1) * (r + 3);
    }
  }
  EXPECT_EQ(XorToRoot(context, std::span<uint32_t>(values)), absl::OkStatus());
  EXPECT_EQ(context.messages, 4);
  if (WorldRank() == 0) {
    EXPECT_EQ(values, expected);
  }
}

TEST_F(Collective, ReductionsInParts) {
  const int64_t n = WorldSize();
  const int64_t mine = WorldRank();
  constexpr int64_t kBig = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> values = {mine, -mine, mine == 0 ? kBig : 0};
  std::vector<int64_t> sum = values;
  CommContext context = NewContext();
  context.part_bytes = 16;
  EXPECT_EQ(SumAll(context, std::span<int64_t>(sum)), absl::OkStatus());
  EXPECT_EQ(sum,
            (std::vector<int64_t>{n * (n - 1) / 2, -n * (n - 1) / 2, kBig}));
  EXPECT_EQ(context.messages, 2);
  std::vector<int64_t> least = values;
  EXPECT_EQ(MinAll(context, std::span<int64_t>(least)), absl::OkStatus());
  EXPECT_EQ(least, (std::vector<int64_t>{0, 1 - n, n == 1 ? kBig : 0}));
  std::vector<int64_t> most = values;
  EXPECT_EQ(MaxAll(context, std::span<int64_t>(most)), absl::OkStatus());
  EXPECT_EQ(most, (std::vector<int64_t>{n - 1, 0, kBig}));
  EXPECT_EQ(SumAll(context, {}), absl::OkStatus());
}

// All ranks get the error of one rank instead of the values.
TEST_F(Collective, ReductionsAndComparisonsAgreeOnAStatus) {
  for (int rank = 0; rank < WorldSize(); ++rank) {
    const Status mine =
        WorldRank() < rank ? absl::OkStatus() : absl::AbortedError("enough");
    const Status all = absl::AbortedError("enough " + RankOf(rank));
    CommContext context = NewContext();
    std::vector<int64_t> values = {5};
    EXPECT_EQ(SumAll(context, values, mine), all);
    EXPECT_EQ(MinAll(context, values, mine), all);
    EXPECT_EQ(MaxAll(context, values, mine), all);
    EXPECT_EQ(values[0], 5);
    EXPECT_EQ(AgreeSame(context, "step", WorldRank(), mine), all);
  }
}

TEST_F(Collective, FromRootTellsTheResultOrTheError) {
  for (int64_t size : {0, 1, 54, 55, 56, 57, 5432}) {
    CommContext context = NewContext();
    context.part_bytes = 500;
    const auto message =
        FromRootInParts(context, [&]() -> StatusOr<RootMessages> {
          RootMessages messages{.common = Pattern(0, size)};
          for (int rank = 0; rank < WorldSize(); ++rank) {
            messages.parts.push_back(Pattern(rank, SizeOf(rank)));
          }
          return messages;
        });
    ASSERT_TRUE(message.ok()) << message.status();
    EXPECT_EQ(message->common, Pattern(0, size));
    EXPECT_EQ(message->part, Pattern(WorldRank(), SizeOf(WorldRank())));
  }
  CommContext context = NewContext();
  const auto bytes =
      FromRoot(context, []() -> StatusOr<std::string> { return "few"; });
  EXPECT_EQ(*bytes, "few");
  EXPECT_EQ(context.messages, 2);
  const auto failed = FromRoot(context, []() -> StatusOr<std::string> {
    return absl::AlreadyExistsError("step 7");
  });
  EXPECT_EQ(failed.status(), absl::AlreadyExistsError("step 7 " + RankOf(0)));
  EXPECT_EQ(context.messages, 3);
  EXPECT_TRUE(absl::IsResourceExhausted(
      FromRoot(context, []() -> StatusOr<std::string> {
        throw std::bad_alloc();
      }).status()));
  const auto incomplete =
      FromRootInParts(context, []() -> StatusOr<RootMessages> {
        return RootMessages{.parts = std::vector<std::string>(WorldSize() + 1)};
      });
  EXPECT_EQ(incomplete.status(),
            absl::InvalidArgumentError(
                absl::StrCat("scatter: one part per rank (need ", WorldSize(),
                             ", found ", WorldSize() + 1, ") ", RankOf(0))));
}

struct Operation {
  std::string name;
  std::function<Status(CommContext&)> run;
  std::vector<std::string> sites;  // the fault points it passes, in order
};

Status TellAll(CommContext& context) {
  const auto work = []() -> StatusOr<std::string> {
    return std::string(2000, 'b');
  };
  return FromRoot(context, work).status();
}

Status TellEach(CommContext& context) {
  const auto work = [&]() -> StatusOr<RootMessages> {
    return RootMessages{.parts =
                            std::vector<std::string>(context.size(), "part")};
  };
  return FromRootInParts(context, work).status();
}

Status RunScatter(CommContext& context) {
  return Scatter(context, std::vector<std::string>(context.size(), "part"))
      .status();
}

std::vector<Operation> AllOperations() {
  static int64_t number = 1;
  static uint32_t bits = 1;
  return {
      {"Agree",
       [](CommContext& t) { return Agree(t, absl::OkStatus()); },
       {"agree"}},
      {"AgreeSame",
       [](CommContext& t) { return AgreeSame(t, "step", 7); },
       {"agree"}},
      {"OnRoot",
       [](CommContext& t) {
         return OnRoot(t, [] { return absl::OkStatus(); });
       },
       {"agree"}},
      {"Broadcast",
       [](CommContext& t) {
         std::string bytes(t.is_root() ? 2000 : 0, 'b');
         return Broadcast(t, bytes);
       },
       {"MPI_Ibcast", "agree"}},
      {"Gather",
       [](CommContext& t) {
         return Gather(t, std::string(t.rank() * 100, 'g')).status();
       },
       {"MPI_Igather", "agree"}},
      {"Scatter", RunScatter, {"MPI_Iscatter", "agree"}},
      {"FromRoot", TellAll, {"MPI_Ibcast", "agree"}},
      {"FromRootInParts", TellEach, {"MPI_Iscatter", "MPI_Ibcast", "agree"}},
      {"XorToRoot",
       [](CommContext& t) {
         return XorToRoot(t, {&bits, 1});
       },
       {"MPI_Ireduce", "agree"}},
      {"SumAll",
       [](CommContext& t) {
         return SumAll(t, {&number, 1});
       },
       {"MPI_Iallreduce"}},
      {"MinAll",
       [](CommContext& t) {
         return MinAll(t, {&number, 1});
       },
       {"MPI_Iallreduce"}},
      {"MaxAll",
       [](CommContext& t) {
         return MaxAll(t, {&number, 1});
       },
       {"MPI_Iallreduce"}},
  };
}

TEST_F(Collective, ValueTooLargeForOneRank) {
  CommContext context = NewContext();
  const auto large = ShareFromRoot<LargeValue>(
      context,
      [] {
        return StatusOr<LargeValue>(LargeValue{std::string(1 << 20, 'x')});
      },
      "a large value");
  EXPECT_EQ(large.status(),
            absl::ResourceExhaustedError(absl::StrCat(
                "no memory for a large value ", RankOf(WorldSize() - 1))));
}

TEST_F(Collective, EveryFaultOnEveryRankIsAgreed) {
  for (const Operation& operation : AllOperations()) {
    CommContext context = NewContext();
    fault::Arm(0);
    EXPECT_EQ(operation.run(context), absl::OkStatus()) << operation.name;
    const int64_t points = fault::Count();
    EXPECT_EQ(points, std::ssize(operation.sites)) << operation.name;
    for (int64_t point = 1; point <= points; ++point) {
      for (int rank = 0; rank < WorldSize(); ++rank) {
        fault::Arm(WorldRank() == rank ? point : 0);
        EXPECT_EQ(
            operation.run(context),
            absl::InternalError(absl::StrCat(
                operation.sites[point - 1], ": injected fault ", RankOf(rank))))
            << operation.name;
      }
    }
    fault::Disarm();
    EXPECT_EQ(operation.run(context), absl::OkStatus()) << operation.name;
  }
}

}  // namespace
}  // namespace belay::collective_test
