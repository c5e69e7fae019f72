#include "mpi/all_to_all.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "comm_fixture.h"
#include "core/fault.h"
#include "mpi_test.h"
#include "sanitizers.h"

namespace belay::all_to_all_test {
namespace {

using testing::WorldRank;
using testing::WorldSize;

// The bytes that `from` gives to `to`.
std::vector<std::byte> Letter(int from, int to, int64_t size) {
  std::vector<std::byte> bytes(size);
  for (int64_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<std::byte>(from * 31 + to * 101 + i * 7 + i / 251);
  }
  return bytes;
}

using SizeOf = std::function<int64_t(int from, int to)>;

// The bytes from this rank to each.
struct Outbox {
  explicit Outbox(const SizeOf& size) {
    for (int to = 0; to < WorldSize(); ++to) {
      letters.push_back(Letter(WorldRank(), to, size(WorldRank(), to)));
    }
    spans.assign(letters.begin(), letters.end());
  }

  std::vector<std::vector<std::byte>> letters;
  std::vector<std::span<const std::byte>> spans;
};

class AllToAllTest : public testing::CommFixture {
 protected:
  // Exchanges letters of these sizes and compares them; returns the context.
  CommContext ExpectDelivery(const SizeOf& size, int64_t part_bytes = 1 << 20) {
    CommContext context = NewContext();
    context.part_bytes = part_bytes;
    const Outbox outbox(size);
    const StatusOr<ReceivedBytes> received =
        AllToAll(context, absl::OkStatus(), outbox.spans);
    EXPECT_EQ(received.status(), absl::OkStatus());
    if (!received.ok()) return context;
    EXPECT_EQ(received->offsets.size(), static_cast<size_t>(WorldSize()) + 1);
    for (int from = 0; from < WorldSize(); ++from) {
      const std::span<const std::byte> got = received->From(from);
      EXPECT_EQ(std::vector<std::byte>(got.begin(), got.end()),
                Letter(from, WorldRank(), size(from, WorldRank())))
          << "from rank " << from;
    }
    return context;
  }
};

TEST_F(AllToAllTest, EveryRankGetsItsBytesOfEveryOther) {
  const SizeOf size = [](int from, int to) { return 10 + 3 * from + 5 * to; };
  const CommContext context = ExpectDelivery(size);
  EXPECT_EQ(context.messages, 4);  // sizes, room, bytes, agreement
  int64_t sent = 0;
  for (int to = 0; to < WorldSize(); ++to) {
    if (to != WorldRank()) sent += size(WorldRank(), to);
  }
  EXPECT_EQ(context.bytes_sent, sent);
}

TEST_F(AllToAllTest, NothingToAnyone) {
  const CommContext context = ExpectDelivery([](int, int) { return 0; });
  EXPECT_EQ(context.messages, 4);
  EXPECT_EQ(context.bytes_sent, 0);
}

TEST_F(AllToAllTest, SomeRanksGiveOrGetNothing) {
  ExpectDelivery([](int from, int) { return from == 0 ? 1000 : 0; });
  ExpectDelivery([](int, int to) { return to == WorldSize() - 1 ? 77 : 0; });
  ExpectDelivery([](int from, int to) { return from == to ? 5 : 0; });
  ExpectDelivery([](int from, int to) { return (from + to) % 2; });
}

TEST_F(AllToAllTest, LargeBytesTravelInPartsOfOneCall) {
  const SizeOf size = [](int from, int to) {
    return (from == to ? 0 : 300000) + 1000 * from + to;
  };
  EXPECT_EQ(ExpectDelivery(size, 1000).messages, 4);
  EXPECT_EQ(ExpectDelivery(size, 7).messages, 4);
  // At the edges of a part.
  for (int64_t bytes : {99, 100, 101, 200}) {
    ExpectDelivery([&](int, int) { return bytes; }, 100);
  }
}

TEST_F(AllToAllTest, BytesMayLieAnywhere) {
  // Receives into the ends of separate buffers, out of order.
  CommContext context = NewContext();
  const Outbox outbox([](int from, int to) { return 40 + from - to; });
  std::vector<std::vector<std::byte>> inbox(WorldSize());
  std::vector<std::span<std::byte>> from;
  for (int rank = WorldSize() - 1; rank >= 0; --rank) inbox[rank].resize(60);
  for (int rank = 0; rank < WorldSize(); ++rank) {
    from.push_back(std::span(inbox[rank]).subspan(20 - rank + WorldRank()));
  }
  ASSERT_EQ(ExchangeBytes(context, outbox.spans, from), absl::OkStatus());
  EXPECT_EQ(context.messages, 2);
  for (int rank = 0; rank < WorldSize(); ++rank) {
    EXPECT_EQ(std::vector<std::byte>(from[rank].begin(), from[rank].end()),
              Letter(rank, WorldRank(), 40 + rank - WorldRank()));
  }
}

TEST_F(AllToAllTest, CountsReachTheirRank) {
  CommContext context = NewContext();
  std::vector<int64_t> to(WorldSize());
  for (int rank = 0; rank < WorldSize(); ++rank) {
    to[rank] = (int64_t{1} << 40) * WorldRank() + rank;
  }
  const StatusOr<std::vector<int64_t>> counts =
      ExchangeCounts(context, absl::OkStatus(), to);
  ASSERT_EQ(counts.status(), absl::OkStatus());
  EXPECT_EQ(context.messages, 1);
  for (int rank = 0; rank < WorldSize(); ++rank) {
    EXPECT_EQ((*counts)[rank], (int64_t{1} << 40) * rank + WorldRank());
  }
}

TEST_F(AllToAllTest, AFailureOfAnyRankIsEverybodysAndNothingMoves) {
  const Outbox outbox([](int, int) { return 10; });
  for (int failing = 0; failing < WorldSize(); ++failing) {
    CommContext context = NewContext();
    const bool fails = WorldRank() == failing;
    const StatusOr<ReceivedBytes> received =
        fails ? AllToAll(context, absl::OutOfRangeError("row 7"), {})
              : AllToAll(context, absl::OkStatus(), outbox.spans);
    EXPECT_EQ(received.status(),
              absl::OutOfRangeError("row 7 " + RankOf(failing)));
    EXPECT_EQ(context.messages, 3);  // sizes, lowest failing rank, its text
    EXPECT_EQ(context.bytes_sent, 0);
  }
}

TEST_F(AllToAllTest, OfManyFailuresTheLowestRankIsTold) {
  CommContext context = NewContext();
  EXPECT_EQ(
      AllToAll(context, absl::NotFoundError(absl::StrCat("x", WorldRank())), {})
          .status(),
      absl::NotFoundError("x0 " + RankOf(0)));
}

TEST_F(AllToAllTest, ARankWithoutMemoryIsEverybodysAndNothingMoves) {
  if (!testing::kCanRunOutOfMemory) {
    GTEST_SKIP() << testing::kEndsWithoutMemory;
  }
  // Rank 0 says that it has more for one rank than any memory holds.
  for (int poor = 0; poor < WorldSize(); ++poor) {
    CommContext context = NewContext();
    const Outbox outbox([](int, int) { return 10; });
    std::vector<std::span<const std::byte>> to = outbox.spans;
    const size_t most = size_t{1} << 60;
    if (WorldRank() == 0) to[poor] = {to[poor].data(), most};
    EXPECT_EQ(AllToAll(context, absl::OkStatus(), to).status(),
              absl::ResourceExhaustedError(
                  absl::StrCat("no memory for ", most + 10 * (WorldSize() - 1),
                               " bytes from other ranks ", RankOf(poor))));
    EXPECT_EQ(context.bytes_sent, 0);
  }
}

TEST_F(AllToAllTest, RanksThatDisagreeMoveNothing) {
  const Outbox outbox([](int, int) { return 10; });
  for (int other = 1; other < WorldSize(); ++other) {
    CommContext context = NewContext();
    const uint64_t mine = WorldRank() < other ? 7 : 8 + WorldRank() % 2;
    EXPECT_EQ(
        AllToAll(context, absl::OkStatus(), outbox.spans, {"shape", mine})
            .status(),
        absl::InvalidArgumentError(absl::StrCat(
            "shape differs between ranks: rank ", other, " of ", WorldSize(),
            " has another value than rank 0 ", RankOf(other))));
    EXPECT_EQ(context.bytes_sent, 0);
  }
}

TEST_F(AllToAllTest, AFailureCountsMoreThanADisagreement) {
  CommContext context = NewContext();
  const int last = WorldSize() - 1;
  const bool fails = WorldRank() == last;
  EXPECT_EQ(ExchangeCounts(context,
                           fails ? absl::NotFoundError("x") : absl::OkStatus(),
                           std::vector<int64_t>(WorldSize()),
                           {"shape", static_cast<uint64_t>(WorldRank())})
                .status(),
            absl::NotFoundError("x " + RankOf(last)));
}

TEST_F(AllToAllTest, EveryFaultIsAgreedAndTheNextExchangeWorks) {
  const SizeOf size = [](int from, int to) { return from + 2 * to; };
  fault::Arm(0);
  ExpectDelivery(size);
  const int64_t points = fault::Count();
  fault::Disarm();
  EXPECT_EQ(points, 4);  // sizes, room, bytes, agreement
  const Outbox outbox(size);
  for (int64_t point = 1; point <= points; ++point) {
    for (int failing = 0; failing < WorldSize(); ++failing) {
      CommContext context = NewContext();
      if (WorldRank() == failing) fault::Arm(point);
      const Status status =
          AllToAll(context, absl::OkStatus(), outbox.spans).status();
      fault::Disarm();
      const std::string site = point == 1   ? "MPI_Ialltoall"
                               : point == 3 ? "MPI_Ialltoallw"
                                            : "agree";
      EXPECT_EQ(status, absl::InternalError(site + ": injected fault " +
                                            RankOf(failing)));
      ExpectDelivery(size);
    }
  }
}

}  // namespace
}  // namespace belay::all_to_all_test
