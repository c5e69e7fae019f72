// PlanCache: what is reused, and what is noticed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "values.h"

namespace belay {
namespace {

using testing::Values;

class PlanCacheTest : public testing::CheckpointTest {
 protected:
  // Saves as the next step and restores it; returns whether the plan was
  // reused.
  bool Reuses(Values& values) {
    values.Fill(++step_);
    options_.cache = &cache_;
    const auto saved = Save(comm_, run(), step_, values.MakeState(), options_);
    EXPECT_TRUE(saved.ok()) << saved.status();
    ExpectRestores(values, step_, step_);
    return saved.ok() && saved->plan_reused;
  }

  Values SomeValues() {
    Values values;
    values.AddCut("rows", DType::kF32, {64, 70}, 0, rank_, size_);
    values.AddCut("columns", DType::kU8, {40, 28}, 1, rank_, size_);
    values.AddWhole("copies", DType::kF64, {90});
    values.AddText("text", 30);
    const Layout layout =
        *Layout::Create(*Mesh::Create({{"x", size_}}), {{}, {"x"}});
    values.AddLaidOut("laid out", DType::kF32, {3, 20}, layout, rank_);
    return values;
  }

  int64_t step_ = 0;
  PlanCache cache_;
  SaveOptions options_{.durable = false};
};

TEST_F(PlanCacheTest, NewValuesReuseThePlan) {
  Values values = SomeValues();
  for (FileLayout layout :
       {FileLayout::kShared, FileLayout::kPerNode, FileLayout::kPerTask}) {
    for (Transfer transfer : {Transfer::kCollective, Transfer::kIndependent,
                              Transfer::kHdf5, Transfer::kTwoPhase}) {
      options_.file_layout = layout;
      options_.transfer = transfer;
      EXPECT_FALSE(Reuses(values));
      EXPECT_TRUE(Reuses(values));
      EXPECT_TRUE(Reuses(values));
    }
  }
}

TEST_F(PlanCacheTest, OtherMemoryOfTheSameStructureReusesThePlan) {
  Values values = SomeValues();
  EXPECT_FALSE(Reuses(values));
  Values others = SomeValues();
  EXPECT_TRUE(Reuses(others));
}

TEST_F(PlanCacheTest, AChangeOnOneRankIsNoticed) {
  Values values = SomeValues();
  EXPECT_FALSE(Reuses(values));
  Values more = SomeValues();
  if (rank_ == size_ - 1) more.Add("more", DType::kI8, {3}, {{0}, {3}});
  EXPECT_FALSE(Reuses(more));
  EXPECT_TRUE(Reuses(more));
  EXPECT_FALSE(Reuses(values));
}

// What one rank may change without another one knowing of it. All arrays that
// only this rank has are called "own..."; the rest is the same on all ranks.
struct Change {
  std::string name;
  std::function<void(Values&)> add_own;
};

std::vector<Change> Changes(int rank, int size) {
  const std::string key = absl::StrCat("own", rank);
  const auto own = [key](DType dtype, Shape shape, int64_t replica = 0,
                         std::string layout = "") {
    return [=](Values& values) {
      values.Add(key, dtype, shape, WholeBox(shape), replica, layout);
    };
  };
  return {
      {"dtype", own(DType::kI32, {6})},
      {"shape", own(DType::kF32, {2, 3})},
      {"replica", own(DType::kF32, {6}, 17)},
      {"layout", own(DType::kF32, {6}, 0, absl::StrCat("[-] on x=", size))},
      {"box",
       [key](Values& values) {
         values.Add(key, DType::kF32, {6}, {{0}, {2}});
         values.Add(key, DType::kF32, {6}, {{2}, {4}});
       }},
      {"key",
       [key](Values& values) {
         values.Add(key + "b", DType::kF32, {6}, {{0}, {6}});
       }},
      {"removed", [](Values&) {}},
      {"added",
       [key, own](Values& values) {
         own(DType::kF32, {6})(values);
         values.Add(key + "c", DType::kU8, {}, {});
       }},
      {"order",
       [key](Values& values) {
         values.Add(key, DType::kF32, {6}, {{2}, {4}});
         values.Add(key, DType::kF32, {6}, {{0}, {2}});
       }},
  };
}

TEST_F(PlanCacheTest, EveryChangeOnEachRankAloneIsNoticed) {
  for (int changing = 0; changing < size_; ++changing) {
    for (const Change& change : Changes(rank_, size_)) {
      SCOPED_TRACE(absl::StrCat(change.name, " on rank ", changing));
      Values values = SomeValues();
      values.Add(absl::StrCat("own", rank_), DType::kF32, {6}, {{0}, {6}});
      Values changed = SomeValues();
      if (rank_ == changing) {
        change.add_own(changed);
      } else {
        changed.Add(absl::StrCat("own", rank_), DType::kF32, {6}, {{0}, {6}});
      }
      EXPECT_FALSE(Reuses(values));
      EXPECT_TRUE(Reuses(values));
      EXPECT_FALSE(Reuses(changed));
      EXPECT_TRUE(Reuses(changed));
      if (testing::SumOverRanks(HasFailure() ? 1 : 0) > 0) return;
    }
  }
}

// Ranks that hold different structures: the error is the same everywhere, the
// last step stands, and the cache goes on.
TEST_F(PlanCacheTest, WhatDoesNotFitOnEachRankAloneIsRefused) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  const std::vector<std::pair<std::string, std::function<void(Values&)>>>
      changes = {
          {"ranks disagree on the dtype",
           [](Values& values) {
             values.Add("new", DType::kI32, {6}, {{0}, {6}},
                        State::kReplicaIsRank);
           }},
          {"ranks disagree on the shape",
           [](Values& values) {
             values.Add("new", DType::kF32, {7}, {{0}, {7}},
                        State::kReplicaIsRank);
           }},
          {"shards overlap",
           [](Values& values) {
             values.Add("new", DType::kF32, {6}, {{1}, {2}});
           }},
          {"ranks disagree on the text length",
           [](Values& values) { values.AddText("text too", 4); }},
      };
  Values values = SomeValues();
  values.AddWhole("new", DType::kF32, {6});
  values.AddText("text too", 3);
  EXPECT_FALSE(Reuses(values));
  for (int changing = 0; changing < size_; ++changing) {
    for (const auto& [error, add] : changes) {
      SCOPED_TRACE(absl::StrCat(error, " on rank ", changing));
      Values other = SomeValues();
      if (rank_ == changing) {
        add(other);
      } else {
        other.AddWhole("new", DType::kF32, {6});
        other.AddText("text too", 3);
      }
      const Status status =
          Save(comm_, run(), 1000, other.MakeState(), options_).status();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
      EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(error));
      EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
      EXPECT_FALSE(Reuses(values));
      EXPECT_TRUE(Reuses(values));
      if (testing::SumOverRanks(HasFailure() ? 1 : 0) > 0) return;
    }
  }
}

TEST_F(PlanCacheTest, OtherArgumentsOnOneRankAreRefused) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  Values values = SomeValues();
  EXPECT_FALSE(Reuses(values));
  for (int changing = 0; changing < size_; ++changing) {
    SaveOptions options = options_;
    if (rank_ == changing) options.args = {{"rows", {.dtype = DType::kF64}}};
    const Status status =
        Save(comm_, run(), 1000, values.MakeState(), options).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr("the option args differs"));
    EXPECT_TRUE(Reuses(values));  // nothing has become of it
  }
}

// A rank that has lost its cache, or has another's.
TEST_F(PlanCacheTest, ANewCacheOnOneRankIsNoticed) {
  Values values = SomeValues();
  EXPECT_FALSE(Reuses(values));
  for (int changing = 0; changing < size_; ++changing) {
    PlanCache lost;
    if (rank_ == changing) std::swap(lost, cache_);
    EXPECT_FALSE(Reuses(values));
    EXPECT_TRUE(Reuses(values));
    // One that is sound, but of an older plan than those of others.
    if (rank_ == changing) std::swap(lost, cache_);
    EXPECT_EQ(Reuses(values), size_ == 1);
    EXPECT_TRUE(Reuses(values));
  }
}

TEST_F(PlanCacheTest, AnotherTextLengthIsNoticed) {
  Values values;
  values.AddText("text", 30);
  EXPECT_FALSE(Reuses(values));
  Values longer;
  longer.AddText("text", 31);
  EXPECT_FALSE(Reuses(longer));
  EXPECT_TRUE(Reuses(longer));
}

TEST_F(PlanCacheTest, AnotherOptionIsNoticed) {
  Values values = SomeValues();
  EXPECT_FALSE(Reuses(values));
  options_.checksums = false;
  EXPECT_FALSE(Reuses(values));
  EXPECT_TRUE(Reuses(values));
  options_.checksums = true;
  options_.max_bytes_in_flight = 4096;
  EXPECT_FALSE(Reuses(values));
  EXPECT_TRUE(Reuses(values));
  options_.array_layout = ArrayLayout::kCanonical;
  EXPECT_FALSE(Reuses(values));
}

TEST_F(PlanCacheTest, TheOrderOfListingIsStructure) {
  Values values;
  values.AddCut("a", DType::kF32, {64}, 0, rank_, size_);
  values.AddCut("b", DType::kF32, {64}, 0, rank_, size_);
  EXPECT_FALSE(Reuses(values));
  Values swapped;
  swapped.AddCut("b", DType::kF32, {64}, 0, rank_, size_);
  swapped.AddCut("a", DType::kF32, {64}, 0, rank_, size_);
  EXPECT_FALSE(Reuses(swapped));
}

// A failed save leaves a cache that plans anew and works.
TEST_F(PlanCacheTest, SurvivesFailedSaves) {
  Values values = SomeValues();
  EXPECT_FALSE(Reuses(values));
  EXPECT_TRUE(absl::IsAlreadyExists(
      Save(comm_, run(), step_, values.MakeState(), options_).status()));
  Values gap;
  if (rank_ == 0) gap.Add("gap", DType::kU8, {2}, {{0}, {1}});
  EXPECT_TRUE(absl::IsInvalidArgument(
      Save(comm_, run(), 100, gap.MakeState(), options_).status()));
  EXPECT_FALSE(Reuses(values));
  EXPECT_TRUE(Reuses(values));
}

// Rank 0 is another process: what only rank 0 keeps is elsewhere.
TEST_F(PlanCacheTest, AnotherOrderOfTheRanksIsNoticed) {
  Values values;
  values.AddCut("a", DType::kF32, {64}, 0, rank_, size_);
  EXPECT_FALSE(Reuses(values));
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, size_ - rank_, &reversed);
  Comm other = *Comm::Duplicate(reversed);
  values.Fill(77);
  const auto saved = Save(other, run(), 77, values.MakeState(), options_);
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(saved->plan_reused, size_ == 1);
  ExpectRestores(values, 77, 77);
  EXPECT_EQ(other.Close(), absl::OkStatus());
  MPI_Comm_free(&reversed);
}

// Two communicators of two that share the process of rank 1: each plans its own
// save, although its ranks list the same shards as in the other.
TEST_F(PlanCacheTest, AnotherCommunicatorIsNoticed) {
  const auto save = [&](bool member, int key) {
    MPI_Comm raw = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, member ? 0 : MPI_UNDEFINED, key, &raw);
    if (raw == MPI_COMM_NULL) return;
    Comm context = *Comm::Duplicate(raw);
    Values values;
    values.AddCut("a", DType::kF32, {64}, 0, context.rank(), context.size());
    values.Fill(++step_);
    const auto saved = Save(context, run(), 10 + step_, values.MakeState(),
                            {.durable = false, .cache = &cache_});
    EXPECT_TRUE(saved.ok()) << saved.status();
    EXPECT_FALSE(saved.ok() && saved->plan_reused);
    EXPECT_EQ(context.Close(), absl::OkStatus());
    MPI_Comm_free(&raw);
  };
  if (size_ < 3) GTEST_SKIP() << "needs three ranks";
  save(rank_ == 0 || rank_ == 1, rank_);  // 0, 1
  if (rank_ == 2) ++step_;
  save(rank_ == 1 || rank_ == 2, 3 - rank_);  // 2, 1
}

}  // namespace
}  // namespace belay
