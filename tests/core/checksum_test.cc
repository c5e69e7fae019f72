#include "core/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace belay::checksum_test {
namespace {

using Bytes = std::vector<uint8_t>;
using Registers = std::vector<uint32_t>;

Bytes RandomBytes(int64_t size, std::mt19937_64& random) {
  Bytes bytes(static_cast<size_t>(size));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

int64_t Uniform(int64_t low, int64_t high, std::mt19937_64& random) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// One bit at a time, straight from the definition.
uint32_t BitwiseRegister(uint32_t state, const Bytes& bytes) {
  for (uint8_t byte : bytes) {
    state ^= byte;
    for (int i = 0; i < 8; ++i) {
      state = (state >> 1) ^ ((state & 1) ? 0x82F63B78u : 0u);
    }
  }
  return state;
}

uint32_t Crc32c(const Bytes& bytes) {
  return StandardCrc(CrcRegister(0, bytes.data(), bytes.size()), bytes.size());
}

// The standard CRC of every block, each taken in one go.
Registers BlockCrcs(const Bytes& array) {
  Registers crcs;
  for (size_t i = 0; i < array.size(); i += kBlockBytes) {
    const size_t size = std::min<size_t>(kBlockBytes, array.size() - i);
    crcs.push_back(~CrcRegisterPortable(0xFFFFFFFF, array.data() + i, size));
  }
  return crcs;
}

Registers Standard(Registers registers, int64_t array_bytes) {
  for (size_t i = 0; i < registers.size(); ++i) {
    const int64_t start = static_cast<int64_t>(i) * kBlockBytes;
    const int64_t size = std::min(kBlockBytes, array_bytes - start);
    registers[i] = StandardCrc(registers[i], static_cast<uint64_t>(size));
  }
  return registers;
}

struct Piece {
  int64_t offset;
  int64_t size;
};

// Sums the runs, dealt to `parts` independent BlockSums, then xors the parts.
Registers SumOfParts(const Bytes& array, const std::vector<Piece>& runs,
                     size_t parts) {
  const auto bytes = static_cast<int64_t>(array.size());
  Registers total(static_cast<size_t>(NumBlocks(bytes)));
  for (size_t part = 0; part < parts; ++part) {
    Registers mine(total.size());
    {
      BlockSum sum(bytes, mine);
      for (size_t i = part; i < runs.size(); i += parts) {
        sum.Add(runs[i].offset, array.data() + runs[i].offset, runs[i].size);
      }
    }
    for (size_t i = 0; i < total.size(); ++i) total[i] ^= mine[i];
  }
  return Standard(total, bytes);
}

TEST(Crc32cTest, KnownVectors) {
  const std::string digits = "123456789";
  Bytes ascending(32);
  std::iota(ascending.begin(), ascending.end(), uint8_t{0});
  EXPECT_EQ(Crc32c(Bytes(digits.begin(), digits.end())), 0xE3069283u);
  EXPECT_EQ(Crc32c(Bytes(32, 0x00)), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(Bytes(32, 0xFF)), 0x62A8AB43u);
  EXPECT_EQ(Crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(Crc32c(Bytes(ascending.rbegin(), ascending.rend())), 0x113FDB5Cu);
  EXPECT_EQ(Crc32c({}), 0u);
}

TEST(CrcRegisterTest, HardwareEqualsPortableAndBitwise) {
  std::mt19937_64 random(1);
  const Bytes pool = RandomBytes(9000, random);
  for (int64_t size = 0; size < 1200; ++size) {
    const int64_t start = Uniform(0, 64, random);
    const auto state = static_cast<uint32_t>(random());
    const Bytes bytes(pool.begin() + start, pool.begin() + start + size);
    const uint8_t* data = pool.data() + start;
    const uint32_t expected = BitwiseRegister(state, bytes);
    ASSERT_EQ(CrcRegister(state, data, bytes.size()), expected) << size;
    ASSERT_EQ(CrcRegisterPortable(state, data, bytes.size()), expected) << size;
  }
}

TEST(CrcRegisterTest, EveryAlignmentOfLongBuffers) {
  std::mt19937_64 random(2);
  const Bytes pool = RandomBytes(300'000, random);
  for (size_t start = 0; start < 64; ++start) {
    const size_t size = static_cast<size_t>(Uniform(4096, 290'000, random));
    ASSERT_EQ(CrcRegister(7, pool.data() + start, size),
              CrcRegisterPortable(7, pool.data() + start, size))
        << start << " " << size;
  }
}

TEST(CrcRegisterTest, ContinuesARegisterAcrossAnyCut) {
  std::mt19937_64 random(3);
  const Bytes bytes = RandomBytes(10'000, random);
  const uint32_t whole = CrcRegister(0, bytes.data(), bytes.size());
  for (int i = 0; i < 200; ++i) {
    const auto cut = static_cast<size_t>(Uniform(0, 10'000, random));
    const uint32_t first = CrcRegister(0, bytes.data(), cut);
    ASSERT_EQ(CrcRegister(first, bytes.data() + cut, bytes.size() - cut),
              whole);
  }
}

#if defined(__x86_64__)
// Bytes 16 to 31 of the first vector registers, which functions may change.
__attribute__((target("avx"), noinline)) bool UpperHalvesAreInUse() {
  alignas(16) std::array<uint64_t, 16> upper;
  asm volatile(
      "vextractf128 $1, %%ymm0, (%0)\n"
      "vextractf128 $1, %%ymm1, 16(%0)\n"
      "vextractf128 $1, %%ymm2, 32(%0)\n"
      "vextractf128 $1, %%ymm3, 48(%0)\n"
      "vextractf128 $1, %%ymm4, 64(%0)\n"
      "vextractf128 $1, %%ymm5, 80(%0)\n"
      "vextractf128 $1, %%ymm6, 96(%0)\n"
      "vextractf128 $1, %%ymm7, 112(%0)\n"
      :
      : "r"(upper.data())
      : "memory");
  return std::ranges::any_of(upper, [](uint64_t word) { return word != 0; });
}

// Where they stay in use, the processor runs the program's own loops slower.
TEST(CrcRegisterTest, LeavesNoVectorRegisterInUse) {
  if (!__builtin_cpu_supports("avx")) GTEST_SKIP() << "no AVX here";
  std::mt19937_64 random(4);
  const Bytes bytes = RandomBytes(1 << 16, random);
  uint32_t state = 0;
  for (const size_t size : {100, 1000, 1 << 16}) {
    state = CrcRegister(state, bytes.data(), size);
    EXPECT_FALSE(UpperHalvesAreInUse()) << size << " bytes, " << state;
  }
}
#endif

TEST(CrcAppendZerosTest, EqualsZeroBytes) {
  std::mt19937_64 random(4);
  const Bytes zeros(70'000);
  for (int i = 0; i < 500; ++i) {
    const auto count = static_cast<size_t>(
        i < 300 ? int64_t{i} : Uniform(300, 70'000, random));
    const auto state = static_cast<uint32_t>(random());
    ASSERT_EQ(CrcAppendZeros(state, count),
              CrcRegisterPortable(state, zeros.data(), count))
        << count;
  }
}

TEST(CrcAppendZerosTest, HugeDistancesAdd) {
  const uint64_t huge = uint64_t{1} << 62;
  const uint32_t twice = CrcAppendZeros(CrcAppendZeros(0xABCDEF01, huge), huge);
  EXPECT_EQ(CrcAppendZeros(0xABCDEF01, 2 * huge), twice);
  EXPECT_EQ(CrcAppendZeros(CrcAppendZeros(1, huge - 5), 5),
            CrcAppendZeros(1, huge));
  EXPECT_EQ(CrcAppendZeros(0, huge), 0u);
}

TEST(NumBlocksTest, RoundsUp) {
  EXPECT_EQ(NumBlocks(0), 0);
  EXPECT_EQ(NumBlocks(1), 1);
  EXPECT_EQ(NumBlocks(kBlockBytes), 1);
  EXPECT_EQ(NumBlocks(kBlockBytes + 1), 2);
  EXPECT_EQ(NumBlocks(INT64_MAX), int64_t{1} << 43);
}

class BlockSumTest : public ::testing::Test {
 protected:
  BlockSumTest() : array_(RandomBytes(3 * kBlockBytes + 12'345, random_)) {}

  int64_t bytes() const { return static_cast<int64_t>(array_.size()); }

  void ExpectBlocks(const std::vector<Piece>& runs, size_t parts = 1) {
    EXPECT_EQ(SumOfParts(array_, runs, parts), BlockCrcs(array_));
  }

  // Cuts the array into pieces of `low` to `high` bytes.
  std::vector<Piece> Cut(int64_t low, int64_t high) {
    std::vector<Piece> runs;
    for (int64_t offset = 0; offset < bytes();) {
      const int64_t size =
          std::min(Uniform(low, high, random_), bytes() - offset);
      runs.push_back({offset, size});
      offset += size;
    }
    return runs;
  }

  // Columns of `widths[i]` bytes of a matrix, one column after the other.
  std::vector<Piece> Columns(const std::vector<int64_t>& widths) {
    const int64_t row = std::accumulate(widths.begin(), widths.end(), 0);
    std::vector<Piece> runs;
    int64_t first = 0;
    for (int64_t width : widths) {
      for (int64_t at = first; at < bytes(); at += row) {
        runs.push_back({at, std::min(width, bytes() - at)});
      }
      first += width;
    }
    return runs;
  }

  std::mt19937_64 random_{5};
  Bytes array_;
};

TEST_F(BlockSumTest, OneRunAcrossAllBlocks) { ExpectBlocks({{0, bytes()}}); }

TEST_F(BlockSumTest, EmptyRunsChangeNothing) {
  ExpectBlocks({{0, 0}, {0, bytes()}, {bytes(), 0}, {17, 0}});
}

TEST_F(BlockSumTest, ItGoesOnWithArraysThatAreCutAlikeOrNot) {
  std::optional<BlockSum> sum;
  std::vector<Registers> of_one_sum(40), of_many;
  for (size_t i = 0; i < of_one_sum.size(); ++i) {
    const int64_t size =
        i % 3 == 0 ? 4096 : Uniform(1, 2 * kBlockBytes, random_);
    const int64_t first = size / 4, length = size - size / 2;
    of_one_sum[i].resize(NumBlocks(size));
    Registers& alone = of_many.emplace_back(NumBlocks(size));
    BlockSum(size, alone).Add(first, array_.data() + first, length);
    if (sum) {
      sum->Restart(size, of_one_sum[i]);
    } else {
      sum.emplace(size, of_one_sum[i]);
    }
    sum->Add(first, array_.data() + first, length);
  }
  sum.reset();
  EXPECT_EQ(of_one_sum, of_many);
}

TEST_F(BlockSumTest, ContiguousRuns) { ExpectBlocks(Cut(1, 9000)); }

TEST_F(BlockSumTest, Columns) {
  ExpectBlocks(Columns({64, 192}));
  ExpectBlocks(Columns({4096, 4096, 4096}));
  ExpectBlocks(Columns({1000, 1, 23, 7}));
}

TEST_F(BlockSumTest, SliversOfOneByte) {
  ExpectBlocks(Columns(std::vector<int64_t>(5, 1)));
}

TEST_F(BlockSumTest, RowsLongerThanABlock) {
  ExpectBlocks(Columns({kBlockBytes - 3, kBlockBytes + 10}));
}

TEST_F(BlockSumTest, RunsThatEndOrBeginAtABlockBorder) {
  const int64_t half = kBlockBytes / 2;
  ExpectBlocks({{half, half},
                {kBlockBytes, kBlockBytes},
                {2 * kBlockBytes + 1, bytes() - 2 * kBlockBytes - 1},
                {2 * kBlockBytes, 1},
                {0, half}});
}

TEST_F(BlockSumTest, DescendingOrder) {
  std::vector<Piece> runs = Cut(1, 5000);
  std::reverse(runs.begin(), runs.end());
  ExpectBlocks(runs);
}

TEST_F(BlockSumTest, RandomCutsInRandomOrderFromSeveralSums) {
  for (int i = 0; i < 30; ++i) {
    const int64_t high = int64_t{1} << Uniform(6, 21, random_);
    std::vector<Piece> runs = Cut(1, high);
    if (i % 3 != 0) std::shuffle(runs.begin(), runs.end(), random_);
    ExpectBlocks(runs, static_cast<size_t>(Uniform(1, 7, random_)));
  }
}

TEST_F(BlockSumTest, RandomArraySizes) {
  for (int i = 0; i < 60; ++i) {
    const int64_t near = Uniform(0, 2, random_) * kBlockBytes;
    array_ = RandomBytes(near + Uniform(0, 40, random_), random_);
    std::vector<Piece> runs = Cut(1, 200'000);
    std::shuffle(runs.begin(), runs.end(), random_);
    ExpectBlocks(runs, 2);
  }
}

TEST_F(BlockSumTest, FlushCompletesAndMoreMayFollow) {
  Registers registers(static_cast<size_t>(NumBlocks(bytes())));
  BlockSum sum(bytes(), registers);
  sum.Add(0, array_.data(), 1000);
  sum.Flush();
  const Registers first = registers;
  sum.Flush();
  EXPECT_EQ(registers, first);
  sum.Add(1000, array_.data() + 1000, bytes() - 1000);
  sum.Flush();
  EXPECT_EQ(Standard(registers, bytes()), BlockCrcs(array_));
}

TEST_F(BlockSumTest, OneFlippedBitChangesOnlyItsBlock) {
  const Registers before = BlockCrcs(array_);
  array_[static_cast<size_t>(kBlockBytes) + 77] ^= 0x10;
  const Registers after = SumOfParts(array_, Columns({64, 192}), 3);
  EXPECT_EQ(after[0], before[0]);
  EXPECT_NE(after[1], before[1]);
  EXPECT_EQ(after[2], before[2]);
  EXPECT_EQ(after[3], before[3]);
}

}  // namespace
}  // namespace belay::checksum_test
