// Values that are stored with another dtype or shape than the program's.

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>

#include "absl/strings/str_cat.h"
#include "belay/checkpoint_reader.h"
#include "belay/extend/state.h"
#include "converted_matrix.h"
#include "h5_testing.h"

namespace belay::conversion_test {
namespace {

using testing::AsBF16;
using testing::AsItIs;
using testing::ConversionTest;
using testing::kBoth;
using testing::kCast;
using testing::kOtherShape;
using testing::Piece;
using testing::ValueAt;

TEST_F(ConversionTest, SavesF32AsBF16InEveryLayoutAndTransfer) {
  int64_t seed = 0;
  for (FileLayout file_layout :
       {FileLayout::kShared, FileLayout::kPerNode, FileLayout::kPerTask}) {
    for (ArrayLayout array_layout :
         {ArrayLayout::kAuto, ArrayLayout::kCanonical}) {
      for (Transfer transfer : {Transfer::kCollective, Transfer::kIndependent,
                                Transfer::kHdf5, Transfer::kTwoPhase}) {
        const SaveResult saved =
            SaveMatrix(++seed, {.file_layout = file_layout,
                                .array_layout = array_layout,
                                .float32_as_bfloat16 = true,
                                .transfer = transfer,
                                .read_back = true});
        EXPECT_EQ(saved.counters.bytes, kRows * kColumns * 2);
        // That of the rank with most rows.
        EXPECT_EQ(saved.counters.staged_bytes,
                  ((kRows - 1) / size_ + 1) * kColumns * 2);
        const RestoreResult restored =
            ExpectRestored(Matrix(1), seed, kCast, AsBF16);
        // A rank reads its columns piece by piece.
        EXPECT_GT(restored.counters.staged_bytes, 0);
        EXPECT_LE(restored.counters.staged_bytes,
                  kRows * ((kColumns - 1) / size_ + 1) * 2);
        EXPECT_EQ(restored.blocks_verified, 1);
        ExpectRestored(Piece<double>({kRows, kColumns}, 0, rank_, size_), seed,
                       kCast, AsBF16);
      }
    }
  }
}

TEST_F(ConversionTest, OnlyF32IsStoredAsBF16) {
  std::vector<double> doubles = {1.1, 2.2};
  std::complex<float> complex = {0.1f, 0.2f};
  float scalar = 0.1f;
  std::string text = "text";
  State state;
  state.AddReplicated("doubles", {2}, AtAddress(doubles.data()));
  state.Add("complex", complex);
  state.Add("scalar", scalar);
  state.Add("text", text);
  const auto saved =
      Save(comm_, run(), 1, state, {.float32_as_bfloat16 = true});
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(scalar, 0.1f);
  doubles = {};
  doubles.resize(2);
  complex = {};
  text = "";
  const RestoreResult restored = RestoreStep(state, kCast);
  EXPECT_EQ(doubles, (std::vector<double>{1.1, 2.2}));
  EXPECT_EQ(complex, std::complex<float>(0.1f, 0.2f));
  EXPECT_EQ(scalar, AsBF16(0.1f));
  EXPECT_EQ(text, "text");
  EXPECT_EQ(restored.conversions,
            (std::vector<Conversion>{{.key = "scalar",
                                      .dtype = DType::kF32,
                                      .stored_dtype = DType::kBF16}}));
}

TEST_F(ConversionTest, OtherReadersSeeBF16) {
  SaveMatrix(3, {.float32_as_bfloat16 = true});
  const auto reader = CheckpointReader::Open(StepFile(1, ""));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->info().arrays.at(0).dtype, DType::kBF16);
  if (rank_ != 0) return;
  const auto values = h5::Python(StepFile(1, "index.h5"), {"w"})["w"]["values"];
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    EXPECT_EQ(values[i / kColumns][i % kColumns].get<float>(),
              AsBF16(ValueAt(3 + i)));
  }
}

TEST_F(ConversionTest, WithoutTheOptionsADifferenceIsAnError) {
  SaveMatrix(0, {.float32_as_bfloat16 = true});
  Piece<float> same = Matrix(0);
  Piece<float> larger = Matrix(0, {kRows + 1, kColumns});
  ExpectRefused(same.state(), {}, absl::StatusCode::kFailedPrecondition,
                "\"w\": the stored dtype differs (need f32, found bf16");
  ExpectRefused(same.state(), kOtherShape,
                absl::StatusCode::kFailedPrecondition,
                "\"w\": the stored dtype differs (need f32, found bf16");
  ExpectRefused(larger.state(), kCast, absl::StatusCode::kFailedPrecondition,
                "\"w\": the stored shape differs (need [25, 10], found [24, "
                "10]");
}

TEST_F(ConversionTest, PaddedArraysGrowAndShrinkAlongAnyAxis) {
  for (const bool as_bf16 : {false, true}) {
    SaveMatrix(5, {.float32_as_bfloat16 = as_bf16});
    for (const Shape& shape :
         {Shape{kRows + 9, kColumns}, Shape{kRows - 9, kColumns},
          Shape{kRows, kColumns + 3}, Shape{kRows, 1},
          Shape{kRows + 40, kColumns - 4}, Shape{7, kColumns + 30}}) {
      for (const int axis : {0, 1}) {
        SCOPED_TRACE(absl::StrCat(ShapeText(shape), ", axis ", axis));
        const RestoreResult restored = ExpectRestored(
            Matrix(axis, shape), 5, kBoth, as_bf16 ? AsBF16 : AsItIs);
        EXPECT_EQ(restored.conversions,
                  (std::vector<Conversion>{
                      {.key = "w",
                       .dtype = DType::kF32,
                       .shape = shape,
                       .stored_dtype = as_bf16 ? DType::kBF16 : DType::kF32,
                       .stored_shape = {kRows, kColumns}}}));
        const int64_t stored =
            std::min(shape[0], kRows) * std::min(shape[1], kColumns);
        EXPECT_EQ(restored.counters.bytes, stored * (as_bf16 ? 2 : 4));
      }
    }
  }
}

TEST_F(ConversionTest, WhatIsStoredAsWantedIsNotConverted) {
  SaveMatrix(6, {});
  const RestoreResult restored = ExpectRestored(Matrix(1), 6, kBoth, AsItIs);
  EXPECT_TRUE(restored.conversions.empty());
  EXPECT_EQ(restored.counters.staged_bytes, 0);
}

TEST_F(ConversionTest, EachRankMayWantItsOwnForm) {
  SaveMatrix(7, {});
  std::vector<double> doubles(kRows * kColumns);
  std::vector<float> floats(kRows * kColumns);
  State state;
  if (rank_ == 0) {
    state.AddReplicated("w", {kRows, kColumns}, AtAddress(floats.data()));
  } else {
    state.AddReplicated("w", {kRows, kColumns}, AtAddress(doubles.data()));
  }
  const RestoreResult restored = RestoreStep(state, kCast);
  EXPECT_EQ(restored.conversions.size(), size_ == 1 ? 0 : 1);
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    ASSERT_EQ(rank_ == 0 ? floats[i] : doubles[i], ValueAt(7 + i));
  }
}

TEST_F(ConversionTest, APlanIsReusedWhileTheOptionStays) {
  PlanCache cache;
  for (int64_t seed = 1; seed <= 6; ++seed) {
    const bool as_bf16 = seed <= 3;
    const SaveResult saved =
        SaveMatrix(seed, {.float32_as_bfloat16 = as_bf16, .cache = &cache});
    EXPECT_EQ(saved.plan_reused, seed != 1 && seed != 4) << seed;
    ExpectRestored(Matrix(1), seed, kCast, as_bf16 ? AsBF16 : AsItIs);
  }
}

TEST_F(ConversionTest, WhatDoesNotConvertIsRefusedOnAllRanks) {
  std::complex<float> complex = {1, 2};
  float real = 0;
  std::string text = "3";
  State saved;
  saved.Add("complex", complex);
  saved.Add("real", real);
  saved.Add("text", text);
  ASSERT_TRUE(Save(comm_, run(), 1, saved).ok());
  const auto want = [&](const std::string& key, DType dtype,
                        const Shape& shape) {
    static double memory[8];
    State state;
    AddShard(state, {.key = key,
                     .dtype = dtype,
                     .global_shape = shape,
                     .box = WholeBox(shape),
                     .data = memory});
    return state;
  };
  ExpectRefused(want("complex", DType::kF32, {}), kBoth,
                absl::StatusCode::kFailedPrecondition,
                "the stored dtype differs (need f32, found c64");
  ExpectRefused(want("text", DType::kI64, {}), kBoth,
                absl::StatusCode::kFailedPrecondition,
                "the stored dtype differs (need i64, found string");
  ExpectRefused(want("real", DType::kF32, {1}), kBoth,
                absl::StatusCode::kFailedPrecondition,
                "the stored shape differs (need [1], found []");
  ExpectRefused(want("absent", DType::kF32, {1}), kBoth,
                absl::StatusCode::kNotFound, "\"absent\"");
}

TEST_F(ConversionTest, ABoxOutsideTheWantedShapeIsRefused) {
  SaveMatrix(0, {});
  std::vector<float> values(kRows * kColumns);
  State state;
  const int64_t first = rank_ == size_ - 1 ? 1 : 0;
  state.AddPiece("w", {kRows - 1, kColumns},
                 {{first, 0}, {kRows - 1, kColumns}}, AtAddress(values.data()));
  ExpectRefused(state, kOtherShape, absl::StatusCode::kOutOfRange,
                absl::StrCat("plan \"w\": rank ", size_ - 1, ": "));
}

}  // namespace
}  // namespace belay::conversion_test
