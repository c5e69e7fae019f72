// Conversions on ranks that disagree, run out of memory or fail.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <new>

#include "absl/strings/str_cat.h"
#include "converted_matrix.h"
#include "core/fault.h"
#include "storage/file_system.h"

namespace {

constexpr size_t kNone = SIZE_MAX;
// An allocation of just this many bytes fails.
size_t refused_bytes = kNone;
// So do those of one object that takes this many bytes or more.
size_t refused_from = kNone;

}  // namespace

void* operator new(size_t bytes) {
  void* memory = bytes >= refused_from ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

void* operator new[](size_t bytes) {
  void* memory = bytes == refused_bytes ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// Inlined, it would look to the compiler as if it did not match.
[[gnu::noinline]] void operator delete[](void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}

namespace belay {
namespace {

using testing::AsBF16;
using testing::ConversionTest;
using ::testing::HasSubstr;
using testing::kBoth;
using testing::kCast;
using testing::Piece;

TEST_F(ConversionTest, RanksMustPassTheSameOptions) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  Piece<float> matrix = Matrix(0);
  const bool mine = rank_ == size_ - 1;
  const Status status =
      Save(comm_, run(), 1, matrix.state(), {.float32_as_bfloat16 = mine})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the option float32_as_bfloat16 differs"));
  SaveMatrix(0, {});
  ExpectRefused(matrix.state(), {.allow_dtype_cast = mine},
                absl::StatusCode::kInvalidArgument,
                "the option allow_dtype_cast differs");
  ExpectRefused(matrix.state(), {.allow_shape_mismatch = mine},
                absl::StatusCode::kInvalidArgument,
                "the option allow_shape_mismatch differs");
}

TEST_F(ConversionTest, NoMemoryOnAnyRankIsAgreed) {
  constexpr int64_t kBytes = 77774;  // told from all other allocations
  constexpr int64_t kRefused = kBytes + 2 * kPlaces;  // of staging memory
  std::vector<float> floats(kBytes / 2, 1);
  State state;
  state.AddPiece("v", {kBytes / 2 * size_},
                 {{kBytes / 2 * rank_}, {kBytes / 2}},
                 AtAddress(floats.data()));
  const SaveOptions options = {.float32_as_bfloat16 = true, .durable = false};
  for (int rank = 0; rank < size_; ++rank) {
    const std::string place = absl::StrCat("[rank ", rank, " of ", size_, "]");
    if (rank_ == rank) refused_bytes = kRefused;
    const Status saved = Save(comm_, run(), 1, state, options).status();
    refused_bytes = kNone;
    EXPECT_EQ(saved.code(), absl::StatusCode::kResourceExhausted) << saved;
    EXPECT_THAT(std::string(saved.message()), HasSubstr(place));
    EXPECT_THAT(std::string(saved.message()),
                HasSubstr("no memory for 77774 bytes to stage \"v\""));
  }
  ASSERT_TRUE(Save(comm_, run(), 1, state, options).ok());
  for (int rank = 0; rank < size_; ++rank) {
    if (rank_ == rank) refused_bytes = kRefused;
    ExpectRefused(state, kCast, absl::StatusCode::kResourceExhausted,
                  absl::StrCat("[rank ", rank, " of ", size_, "]"));
    refused_bytes = kNone;
  }
  RestoreStep(state, kCast);
}

// What a rank needs to list very many values, before it has told anybody.
TEST_F(ConversionTest, NoMemoryToListValuesIsAgreed) {
  std::vector<float> values(3000);
  State state;
  for (size_t i = 0; i < values.size(); ++i) {
    state.Add(absl::StrCat("value ", i), values[i]);
  }
  for (const size_t bytes : {size_t{1} << 20, size_t{100'000}}) {
    for (int rank = 0; rank < size_; ++rank) {
      if (rank_ == rank) refused_from = bytes;
      const Status saved = Save(comm_, run(), 1, state).status();
      refused_from = kNone;
      EXPECT_EQ(saved.code(), absl::StatusCode::kResourceExhausted) << saved;
      EXPECT_THAT(std::string(saved.message()),
                  HasSubstr(absl::StrCat("[rank ", rank, " of ", size_, "]")));
    }
  }
  EXPECT_TRUE(Save(comm_, run(), 1, state).ok());
}

// Memory through which it would only be faster.
TEST_F(ConversionTest, WhatNeedsNoMemoryIsRestoredWithoutIt) {
  constexpr int64_t kValues = 1 << 18;  // of each rank: 1 MiB
  std::vector<float> floats(kValues, static_cast<float>(rank_));
  State state;
  state.AddPiece("v", {kValues * size_}, {{kValues * rank_}, {kValues}},
                 AtAddress(floats.data()));
  ASSERT_TRUE(Save(comm_, run(), 1, state, {.durable = false}).ok());
  for (const bool refuse : {false, true}) {
    floats.assign(kValues, -1);
    refused_bytes = refuse ? (size_t{512} << 10) + 2 * kPlaces : kNone;
    const auto restored = Restore(comm_, run(), 1, state);
    refused_bytes = kNone;
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(std::count(floats.begin(), floats.end(), rank_), kValues);
    EXPECT_TRUE(!refuse || restored->counters.staged_bytes == 0);
  }
}

// Every fault point of every rank: the same error everywhere, and no hang.
TEST_F(ConversionTest, EveryFaultIsAgreed) {
  SaveMatrix(1, {.float32_as_bfloat16 = true});
  Piece<float> target = Matrix(1, {kRows + 5, kColumns});
  int64_t step = 1;
  const auto save = [&] {
    Piece<float> matrix = Matrix(0);
    return Save(comm_, run(), ++step, matrix.state(),
                {.float32_as_bfloat16 = true, .durable = false})
        .status();
  };
  const auto restore = [&] {
    return Restore(comm_, run(), 1, target.state(), kBoth).status();
  };
  for (const std::function<Status()>& work :
       {std::function<Status()>(save), std::function<Status()>(restore)}) {
    fault::Arm(0);
    EXPECT_EQ(work(), absl::OkStatus());
    std::vector<int64_t> counts(size_);
    const int64_t mine = fault::Count();
    MPI_Allgather(&mine, 1, MPI_INT64_T, counts.data(), 1, MPI_INT64_T,
                  MPI_COMM_WORLD);
    for (int rank = 0; rank < size_; ++rank) {
      for (int64_t number = 1; number <= counts[rank]; number += 3) {
        fault::Arm(rank_ == rank ? number : 0);
        const Status status = work();
        fault::Disarm();
        EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
        // Some failures do no harm, such as those of write-back.
        if (!status.ok()) {
          EXPECT_THAT(std::string(status.message()),
                      HasSubstr("injected fault"));
        }
      }
    }
  }
  ExpectRestored(Matrix(0), 1, kBoth, AsBF16);
}

}  // namespace
}  // namespace belay
