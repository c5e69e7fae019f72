// Damage of a committed step: every flipped, cut or foreign byte ends in a
// clean Status or in the right values, never in a crash or in wrong ones.

#include <gtest/gtest.h>

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "belay/checkpoint_reader.h"
#include "format/index_columns.h"
#include "values.h"

namespace belay {
namespace {

using testing::FileBytes;
using testing::IsSameEverywhere;
using testing::PutFile;
using testing::Values;

constexpr char kData[] = "data_00000_of_00001.h5";
constexpr int64_t kBlock = 1 << 20;

class IndexDamageTest : public testing::CheckpointTest {
 protected:
  void SetUp() override {
    values_.AddCut("big", DType::kU8, {2 * kBlock + 5}, 0, rank_, size_);
    values_.AddCut("columns", DType::kF32, {30, 70}, 1, rank_, size_);
    values_.AddWhole("copies/a", DType::kF64, {9});
    values_.AddText("text", 100);
    for (int64_t step : {1, 2}) SaveStep(step);
    index_ = FileBytes(Index());
    data_ = FileBytes(Data());
    MPI_Barrier(MPI_COMM_WORLD);
  }

  void SaveStep(int64_t step) {
    values_.Fill(step);
    const auto saved = Save(comm_, run(), step, values_.MakeState(),
                            {.durable = false, .cache = &cache_});
    ASSERT_TRUE(saved.ok()) << saved.status();
  }

  std::string Index() const { return StepFile(1, "index.h5"); }
  std::string Data() const { return StepFile(1, kData); }

  // Rank 0 replaces a file between two barriers.
  void Replace(const std::string& path, const std::string& bytes) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) PutFile(path, bytes);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  void Remove(const std::string& path) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) std::filesystem::remove(path);
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // Restores step 1; the same Status on all ranks.
  Status TryRestore() {
    values_.Spoil(1);
    const Status status =
        Restore(comm_, run(), 1, values_.MakeState()).status();
    EXPECT_TRUE(IsSameEverywhere(status.ToString())) << status;
    return status;
  }

  // The damage is found, and step 2 is well.
  void ExpectDamage(absl::StatusCode code, const std::string& message) {
    EXPECT_EQ(TryRestore(),
              Status(code, absl::StrCat(message, "; no earlier step is there",
                                        " [rank 0 of ", size_, "]")));
    ExpectRestores(values_, 2, 2);
  }
  void ExpectDamageIn(const std::string& path, const std::string& cause) {
    ExpectDamage(absl::StatusCode::kDataLoss,
                 absl::StrCat("read \"", path, "\": ", cause));
  }

  // Where the only copy of `bytes` is in the index.
  size_t Find(const std::string& bytes) {
    const size_t at = index_.find(bytes);
    EXPECT_NE(at, index_.npos);
    EXPECT_EQ(index_.find(bytes, at + 1), index_.npos);
    return at;
  }

  Values values_;
  PlanCache cache_;
  std::string index_;
  std::string data_;
};

TEST_F(IndexDamageTest, AForeignIndex) {
  std::string bytes = index_;
  bytes[Find(kIndexMagic)] = 'B';
  Replace(Index(), bytes);
  ExpectDamageIn(Index(),
                 "not the index of a belay checkpoint (need magic \"belay "
                 "checkpoint\", found \"Belay checkpoint\")");
  Replace(Index(), data_);
  ExpectDamageIn(Index(),
                 "not the index of a belay checkpoint (need magic \"belay "
                 "checkpoint\", found none)");
}

// A newer belay: the words "1, 0" of the version become "2, 7".
TEST_F(IndexDamageTest, ANewerFormat) {
  const uint32_t now[] = {kFormatMajor, kFormatMinor};
  const uint32_t newer[] = {kFormatMajor + 1, 7};
  const std::string needle(reinterpret_cast<const char*>(now), sizeof(now));
  bool found = false;
  for (size_t at = index_.find(needle, Find(kIndexMagic));
       at != index_.npos && !found; at = index_.find(needle, at + 1)) {
    std::string bytes = index_;
    bytes.replace(at, sizeof(newer), reinterpret_cast<const char*>(newer),
                  sizeof(newer));
    Replace(Index(), bytes);
    const Status status = TryRestore();
    found = absl::IsUnimplemented(status);
    if (!found) continue;
    EXPECT_EQ(
        status.message(),
        absl::StrCat("read \"", Index(), "\": written in format ", newer[0],
                     ".7, a newer one than this belay "
                     "understands; use a newer belay (need format ",
                     kFormatMajor, ", found ", newer[0], ") [rank 0 of ", size_,
                     "]"));
    EXPECT_TRUE(
        absl::IsUnimplemented(ReadCheckpointInfo(StepFile(1, "")).status()));
  }
  EXPECT_TRUE(found);
}

TEST_F(IndexDamageTest, TheIndexOfAnotherStep) {
  Replace(Index(), FileBytes(StepFile(2, "index.h5")));
  ExpectDamage(absl::StatusCode::kDataLoss,
               absl::StrCat("restore \"", StepFile(1, ""),
                            "\": the index is of another step (need 1, found "
                            "2); to restore a copy pass the path of the step "
                            "itself with kLatestStep"));
}

TEST_F(IndexDamageTest, AMissingOrTruncatedIndex) {
  const size_t all = index_.size();
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{8}, size_t{47}, size_t{100},
                       all / 4, all / 2, all - 1000, all - 1}) {
    Replace(Index(), index_.substr(0, bytes));
    const Status status = TryRestore();
    EXPECT_TRUE(absl::IsDataLoss(status)) << bytes << ": " << status;
    const std::string cause =
        absl::StrCat("read \"", Index(), "\": the index is damaged: ");
    EXPECT_TRUE(absl::StartsWith(status.message(), cause)) << status;
    EXPECT_EQ(status.message().rfind(Index()), 6) << status;  // once
  }
  Replace(Index(), std::string(all, '\0'));
  EXPECT_TRUE(absl::IsDataLoss(TryRestore()));
  Remove(Index());
  const Status missing = TryRestore();
  EXPECT_TRUE(absl::IsNotFound(missing)) << missing;
  EXPECT_EQ(missing.message(),
            absl::StrCat("restore \"", StepFile(1, ""),
                         "\": the step has no index.h5; parts of it were "
                         "deleted, or not copied [rank 0 of ",
                         size_, "]"));
  ExpectRestores(values_, 2, 2);
}

TEST_F(IndexDamageTest, AnyFlippedBitOfTheIndex) {
  std::mt19937 random(7);
  int refused = 0;
  constexpr int kFlips = 400;
  for (int flip = 0; flip < kFlips; ++flip) {
    std::string bytes = index_;
    const size_t at = random() % bytes.size();
    const unsigned bit = random() % 8;
    bytes[at] = static_cast<char>(bytes[at] ^ (1U << bit));
    Replace(Index(), bytes);
    SCOPED_TRACE(absl::StrCat("bit ", bit, " of byte ", at));
    const Status status = TryRestore();
    if (status.ok()) {
      EXPECT_EQ(values_.CountWrong(1), 0);
      continue;
    }
    ++refused;
    EXPECT_NE(status.code(), absl::StatusCode::kOk);
    EXPECT_FALSE(absl::IsInvalidArgument(status)) << status;
    EXPECT_TRUE(absl::EndsWith(status.message(),
                               absl::StrCat("[rank 0 of ", size_, "]")))
        << status;
  }
  EXPECT_GT(refused, 20);
  Replace(Index(), index_);
  ExpectRestores(values_, 1, 1);
}

TEST_F(IndexDamageTest, DataFilesOfAnotherSize) {
  const auto size = static_cast<int64_t>(data_.size());
  const auto expect = [&](const std::string& what, int64_t found) {
    ExpectDamage(absl::StatusCode::kDataLoss,
                 absl::StrCat("open \"", Data(), "\": the data file is ", what,
                              " (need ", size, " bytes, found ", found, ")"));
  };
  Replace(Data(), data_.substr(0, size - 1));
  expect("truncated", size - 1);
  Replace(Data(), "");
  expect("truncated", 0);
  Replace(Data(), data_ + "x");
  expect("too long", size + 1);
  Remove(Data());
  ExpectDamage(
      absl::StatusCode::kDataLoss,
      absl::StrCat("open \"", Data(), "\": the data file is missing (need ",
                   size, " bytes, found none)"));
}

// Restore names key, block, box and file; so does VerifyCheckpoint.
TEST_F(IndexDamageTest, OneFlippedBitOfTheData) {
  const std::string row = testing::PatternText("big", 2 * kBlock + 5, 1);
  const size_t first = data_.find(row.substr(0, 1000));
  ASSERT_NE(first, data_.npos);
  std::string bytes = data_;
  bytes[first + kBlock + 99] ^= 4;
  Replace(Data(), bytes);
  const Status status = TryRestore();
  EXPECT_TRUE(absl::IsDataLoss(status));
  const std::string cause = absl::StrCat(
      "checksum of key \"big\", block 1 (box \"1048576,1048576\") in file "
      "\"",
      kData, "\" does not match (need 0x");
  EXPECT_TRUE(absl::StartsWith(
      status.message(),
      absl::StrCat("restore \"", StepFile(1, ""), "\": ", cause)))
      << status;
  EXPECT_TRUE(absl::EndsWith(status.message(),
                             absl::StrCat("; 1 damaged block in all; no "
                                          "earlier step is there [rank 0 of ",
                                          size_, "]")))
      << status;
  const auto verified = VerifyCheckpoint(StepFile(1, ""));
  ASSERT_TRUE(verified.ok()) << verified.status();
  ASSERT_EQ(verified->damage.size(), 1);
  EXPECT_TRUE(absl::StartsWith(verified->damage[0], cause));
  EXPECT_EQ(verified->blocks, 6);
  RestoreOptions trusting;
  trusting.checksums = false;
  EXPECT_EQ(Restore(comm_, run(), 1, values_.MakeState(), trusting).status(),
            absl::OkStatus());
  ExpectRestores(values_, 2, 2);
}

// Any flip in an array's bytes is found; one elsewhere in the file harms
// nothing.
TEST_F(IndexDamageTest, AnyFlippedBitOfTheData) {
  std::mt19937 random(11);
  int found = 0;
  for (int flip = 0; flip < 20; ++flip) {
    std::string bytes = data_;
    bytes[random() % bytes.size()] ^= 1 << random() % 8;
    Replace(Data(), bytes);
    const Status status = TryRestore();
    if (status.ok()) {
      EXPECT_EQ(values_.CountWrong(1), 0);
    } else {
      ++found;
      EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    }
  }
  EXPECT_GE(found, 15);
}

}  // namespace
}  // namespace belay
