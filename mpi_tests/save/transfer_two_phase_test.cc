// Writing in two phases against a byte-for-byte oracle: pieces of any length
// on any ranks, in any number of rounds, with bytes between them that nobody
// writes.

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm_fixture.h"
#include "core/fault.h"
#include "file_bytes.h"
#include "mpi_test.h"
#include "small_state.h"
#include "storage/transfer.h"

namespace belay::testing::transfer_two_phase_test {
namespace {

constexpr char kHole = '.';

// Bytes [begin, end) of a file, and who writes them when.
struct Piece {
  int64_t begin = 0;
  int64_t end = 0;
  int rank = 0;
  int32_t round = 0;
};

char ByteAt(int64_t offset) {
  return static_cast<char>('a' + (offset * 7 + offset / 251) % 23);
}

// Pieces of up to `longest` bytes from `begin` to `end`, one byte in `holes`
// places left out between them; 0: none.
std::vector<Piece> RandomPieces(int64_t begin, int64_t end, int64_t longest,
                                int holes, int32_t rounds,
                                std::mt19937& random) {
  std::vector<Piece> pieces;
  for (int64_t at = begin; at < end;) {
    const auto length = 1 + static_cast<int64_t>(random() % longest);
    Piece piece{.begin = at, .end = std::min(end, at + length)};
    piece.rank = static_cast<int>(random() % WorldSize());
    piece.round = static_cast<int32_t>(random() % rounds);
    at = piece.end;
    if (holes == 0 || random() % holes != 0) pieces.push_back(piece);
  }
  return pieces;
}

class TwoPhaseTest : public testing::CommFixture {
 protected:
  // Writes the pieces of all ranks to a file of `size` holes.
  Status Write(const std::vector<Piece>& pieces, int64_t size, int32_t rounds) {
    if (WorldRank() == 0) {
      std::ofstream(path_, std::ios::binary) << std::string(size, kHole);
    }
    std::string bytes(size, '\0');
    for (int64_t i = 0; i < size; ++i) bytes[i] = ByteAt(i);
    const std::vector<Shard> shards = {{.key = "w",
                                        .dtype = DType::kU8,
                                        .global_shape = {size},
                                        .box = WholeBox({size}),
                                        .data = bytes.data()}};
    RankWrites writes;
    for (int32_t round = 0; round < rounds; ++round) {
      for (const Piece& piece : pieces) {
        if (piece.rank != WorldRank() || piece.round != round) continue;
        writes.bytes += piece.end - piece.begin;
        writes.orders.push_back(
            {.round = round,
             .box = {{piece.begin}, {piece.end - piece.begin}},
             .extent = {WholeBox({size}), 0}});
      }
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CommContext context{comm_, Deadline(comm_, 60, "write")};
    counts_ = {};
    const Status status =
        WriteInTwoPhases(context,
                         {.shards = shards,
                          .writes = writes,
                          .path = path_,
                          .registers = {},
                          .durable = false,
                          .rounds = rounds,
                          .memory = memory_,
                          .striping = {.stripe_bytes = stripe_bytes_}},
                         counts_);
    written_ = writes.bytes;
    messages_ = context.messages;
    MPI_Barrier(MPI_COMM_WORLD);
    return status;
  }

  // Writes, and compares the file with what plain loops make of the pieces.
  void ExpectWrites(const std::vector<Piece>& pieces, int64_t size,
                    int32_t rounds) {
    ASSERT_EQ(Write(pieces, size, rounds), absl::OkStatus());
    EXPECT_EQ(counts_.bytes, written_);
    EXPECT_EQ(counts_.collective_io, 0);
    std::string need(size, kHole);
    for (const Piece& piece : pieces) {
      for (int64_t i = piece.begin; i < piece.end; ++i) need[i] = ByteAt(i);
    }
    const std::string found = FileBytes(path_);
    ASSERT_EQ(found.size(), need.size());
    const auto [a, b] = std::mismatch(found.begin(), found.end(), need.begin());
    EXPECT_EQ(a, found.end()) << "at byte " << a - found.begin() << " need "
                              << *b << ", found " << *a;
    MPI_Barrier(MPI_COMM_WORLD);
  }

  ScratchDir scratch_;
  const std::string path_ = scratch_.File("data");
  WriteCounts counts_;
  int64_t memory_ = int64_t{256} << 20;
  int64_t stripe_bytes_ = 0;
  int64_t written_ = 0;
  int64_t messages_ = 0;
};

TEST_F(TwoPhaseTest, AnyPiecesLieWhereTheyBelong) {
  std::mt19937 random(20240608);
  for (int file = 0; file < 60; ++file) {
    SCOPED_TRACE(absl::StrCat("file ", file));
    const auto size = static_cast<int64_t>(1 + random() % 300000);
    const int64_t longest = int64_t{1} << (random() % 16);
    const auto rounds = static_cast<int32_t>(1 + random() % 3);
    const int holes = static_cast<int>(random() % 5);
    const auto begin = static_cast<int64_t>(random() % size);
    ExpectWrites(RandomPieces(begin, size, longest, holes, rounds, random),
                 size, rounds);
    if (HasFailure()) return;
  }
}

// More than one portion of rank 0, nothing or little for the others.
TEST_F(TwoPhaseTest, RanksMayHaveVeryDifferentAmounts) {
  std::mt19937 random(5);
  constexpr int64_t kSize = int64_t{20} << 20;
  std::vector<Piece> pieces =
      RandomPieces(0, kSize, int64_t{1} << 20, 0, 2, random);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i % 10 != 0) pieces[i].rank = 0;
  }
  ExpectWrites(pieces, kSize, 2);
  // Each rank writes its part, also if it has nothing of its own.
  for (Piece& piece : pieces) piece.rank = WorldSize() - 1;
  ExpectWrites(pieces, kSize, 2);
  EXPECT_GE(counts_.io_calls, 1);
}

TEST_F(TwoPhaseTest, RunsThatTouchAreWrittenTogether) {
  constexpr int64_t kRun = 512;
  constexpr int64_t kRuns = 8000;
  std::vector<Piece> pieces;
  for (int64_t i = 0; i < kRuns; ++i) {
    pieces.push_back({.begin = kRun * i,
                      .end = kRun * (i + 1),
                      .rank = static_cast<int>(i % WorldSize())});
  }
  ExpectWrites(pieces, kRun * kRuns, 1);
  // At most 1024 pieces in a call.
  const int64_t each = kRuns / WorldSize();
  EXPECT_GE(counts_.io_calls, each / 1024);
  EXPECT_LE(counts_.io_calls, each / 1024 + 2);
  EXPECT_LE(messages_, 10);
}

// Nearly all pieces lie in one range of a file of a TiB, and in one of the
// first ranges that are counted.
TEST_F(TwoPhaseTest, DomainsWeighTheSameWhereverPiecesLie) {
  constexpr int64_t kFar = int64_t{1} << 40;
  for (const int64_t place : {int64_t{0}, kFar / 3, kFar - 5000000}) {
    Segments mine;
    for (int64_t i = 0; i < 300; ++i) {
      mine.push_back({nullptr, place + 1000 * (i * WorldSize() + WorldRank()),
                      WorldRank() == 0 ? 1000 : 500});
    }
    if (WorldRank() == 0) mine.insert(mine.begin(), {nullptr, 0, 0});
    if (WorldRank() == 0) mine.push_back({nullptr, kFar, 10});
    CommContext context{comm_, Deadline(comm_, 60, "cut")};
    const auto starts = CutIntoDomains(context, 0, kFar + 10, mine);
    ASSERT_TRUE(starts.ok()) << starts.status();
    ASSERT_EQ(starts->size(), size_t(WorldSize() + 1));
    std::vector<int64_t> weights(WorldSize(), 0);
    AddWeights(mine, *starts, weights);
    EXPECT_EQ(SumAll(context, weights), absl::OkStatus());
    int64_t all = 0, most = 0;
    for (const int64_t weight : weights) {
      all += weight;
      most = std::max(most, weight);
    }
    EXPECT_LE(most, 2 * all / WorldSize() + 10000);
    EXPECT_LE(context.messages, 10);
  }
}

// All borders lie between units, however pieces lie, and if there are fewer
// units than ranks, those that get one are spread over all.
TEST_F(TwoPhaseTest, DomainsFitUnits) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  for (const int64_t unit : {kMiB, 3 * kMiB, int64_t{5} << 16}) {
    for (const int64_t units : {1, 2, 3, 50}) {
      SCOPED_TRACE(absl::StrCat(units, " units of ", unit));
      const int64_t begin = 7 * unit + 12345;
      const int64_t end = (7 + units) * unit;
      Segments mine;
      for (int64_t at = begin; at < end; at += 10000) {
        if (at / 10000 % WorldSize() != WorldRank()) continue;
        mine.push_back({nullptr, at, std::min<int64_t>(10000, end - at)});
      }
      CommContext context{comm_, Deadline(comm_, 60, "cut")};
      const std::vector<int64_t> starts =
          Ok(CutIntoDomains(context, begin, end, mine,
                            {.unit = unit, .most_weight = 100 * unit}));
      EXPECT_EQ(starts.size(), size_t(WorldSize() + 1));
      EXPECT_LE(starts.front(), begin);
      EXPECT_EQ(starts.back(), end);
      int owners = 0;
      int last_owner = -1;
      for (int rank = 0; rank < WorldSize(); ++rank) {
        EXPECT_EQ(starts[rank] % unit, 0) << rank;
        EXPECT_LE(starts[rank], starts[rank + 1]);
        if (starts[rank] == starts[rank + 1]) continue;
        ++owners;
        EXPECT_LE(rank - last_owner, (WorldSize() + owners - 1) / owners + 1);
        last_owner = rank;
      }
      EXPECT_EQ(owners, std::min<int64_t>(units, WorldSize()));
      if (owners > 1) {
        EXPECT_GE(last_owner, WorldSize() / 2);
      }
    }
  }
}

// What does not fit the memory is cut, on pages.
TEST_F(TwoPhaseTest, AUnitThatIsTooHeavyIsCut) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  Segments mine;
  for (int64_t at = 0; at < kMiB; at += 64) {
    if (at / 64 % WorldSize() == WorldRank()) mine.push_back({nullptr, at, 64});
  }
  CommContext context{comm_, Deadline(comm_, 60, "cut")};
  const std::vector<int64_t> starts = Ok(CutIntoDomains(
      context, 0, kMiB, mine, {.unit = kMiB, .most_weight = kMiB / 8}));
  std::vector<int64_t> weights(WorldSize(), 0);
  AddWeights(mine, starts, weights);
  EXPECT_EQ(SumAll(context, weights), absl::OkStatus());
  for (int rank = 0; rank < WorldSize(); ++rank) {
    EXPECT_EQ(starts[rank] % 4096, 0);
    EXPECT_LE(weights[rank], 3 * kMiB / WorldSize() + kMiB / 8);
  }
}

// Pieces that several ranks have of each stripe: one of them writes it.
TEST_F(TwoPhaseTest, EachStripeHasOneWriter) {
  std::mt19937 random(99);
  stripe_bytes_ = 320 << 10;
  const int64_t size = 21 * stripe_bytes_;
  ExpectWrites(RandomPieces(0, size, 60000, 0, 1, random), size, 1);
  CommContext context{comm_, Deadline(comm_, 60, "count")};
  std::vector<int64_t> sums = {counts_.stripes.stripes,
                               counts_.stripes.requests};
  EXPECT_EQ(SumAll(context, sums), absl::OkStatus());
  EXPECT_EQ(sums[0], 21);
  EXPECT_EQ(sums[1], 21);
}

// Short runs need many entries of lists.
TEST_F(TwoPhaseTest, MemoryIsBounded) {
  if (WorldSize() > 4) GTEST_SKIP() << "four ranks show it";
  std::mt19937 random(77);
  constexpr int64_t kSize = int64_t{24} << 20;
  for (const int64_t memory : {int64_t{1} << 20, int64_t{4} << 20}) {
    memory_ = memory;
    for (const int64_t longest : {8, 300, 100000}) {
      // Stripes that fit the memory, and such that do not.
      stripe_bytes_ = longest == 300 ? 64 << 10 : longest == 8 ? 8 << 20 : 0;
      SCOPED_TRACE(absl::StrCat("runs of up to ", longest, " bytes"));
      const int64_t end = kSize * (longest == 8 ? 1 : 4) / 24;
      std::vector<Piece> pieces =
          RandomPieces(1000, end, longest, 3, 1, random);
      pieces.push_back({.begin = kSize - 1, .end = kSize, .rank = 0});
      ExpectWrites(pieces, kSize, 1);
      EXPECT_LE(counts_.gathered_bytes, memory);
      if (WorldSize() > 1) {
        EXPECT_GT(counts_.gathered_bytes, memory / 20);
      }
      if (HasFailure()) return;
    }
  }
}

TEST_F(TwoPhaseTest, NothingToWriteIsFine) {
  ExpectWrites({}, 5000, 0);
  ExpectWrites({}, 5000, 3);
  EXPECT_EQ(counts_.io_calls, 0);
}

TEST_F(TwoPhaseTest, EveryFaultOnEveryRankIsAgreed) {
  std::mt19937 random(3);
  constexpr int64_t kSize = 100000;
  const std::vector<Piece> pieces = RandomPieces(0, kSize, 3000, 3, 2, random);
  fault::Arm(0);
  EXPECT_EQ(Write(pieces, kSize, 2), absl::OkStatus());
  int64_t points = fault::Count();
  fault::Disarm();
  MPI_Bcast(&points, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  EXPECT_GE(points, 10);
  for (int64_t point = 1; point <= points; ++point) {
    for (int rank = 0; rank < WorldSize(); ++rank) {
      fault::Arm(WorldRank() == rank ? point : 0);
      const Status status = Write(pieces, kSize, 2);
      fault::Disarm();
      const std::vector<std::string> all = GatherStatus(status);
      for (const std::string& text : all) EXPECT_EQ(text, all[0]);
      // Rank 0's number of points is not that of all.
      if (rank == 0) {
        EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
      }
    }
  }
  ExpectWrites(pieces, kSize, 2);
}

}  // namespace
}  // namespace belay::testing::transfer_two_phase_test
