// Replicas that are compared before one of them is saved.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/arrays/layout.h"
#include "belay/arrays/mesh.h"
#include "belay/checkpoint.h"
#include "values.h"

namespace belay::check_replicas_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Ok;

constexpr Shape::value_type kRows = 6, kColumns = 4;

// Values that all ranks hold, a matrix of which two halves of the ranks hold a
// replica each where they are even, and a piece that each has alone.
struct Values {
  explicit Values(int rank_of, int ranks)
      : rank(rank_of), size(ranks), parts(ranks % 2 == 0 ? ranks / 2 : ranks) {
    const Layout layout = MatrixLayout();
    const Box box = layout.LocalBox({kRows, kColumns}, rank).value();
    for (int64_t i = 0; i < NumElements(box.shape); ++i) {
      matrix.push_back(static_cast<float>(box.offset[0] * kColumns + i));
    }
    own = {rank, rank};
  }

  Layout MatrixLayout() const {
    return Layout::Create(
               Mesh::Create({{"replica", size / parts}, {"part", parts}})
                   .value(),
               {{"part"}, {}})
        .value();
  }

  State List() {
    State state;
    state.Add("n", n);
    state.Add("text", text);
    state.AddLaidOut("matrix", MatrixLayout(), {kRows, kColumns}, rank,
                     AtAddress(matrix.data()));
    state.AddPiece("own", {2 * size}, Box{{2 * rank}, {2}},
                   AtAddress(own.data()));
    return state;
  }

  int rank, size, parts;
  double n = 1.5;
  std::string text = "equal";
  std::vector<float> matrix;
  std::vector<int32_t> own;
};

class CheckReplicasTest : public testing::CheckpointTest {
 protected:
  Status SaveChecked(Values& values, PlanCache* cache = nullptr) {
    const Status status =
        Save(comm_, run(), 1, values.List(),
             {.overwrite = true, .check_replicas = true, .cache = cache})
            .status();
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
    return status;
  }
  void ExpectDiffer(Values& values, const std::string& text) {
    const Status status = SaveChecked(values);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
  int last() const { return size_ - 1; }
};

TEST_F(CheckReplicasTest, EqualOnesAreSaved) {
  Values values(rank_, size_);
  PlanCache cache;
  EXPECT_EQ(SaveChecked(values, &cache), absl::OkStatus());
  EXPECT_EQ(SaveChecked(values, &cache), absl::OkStatus());
}

TEST_F(CheckReplicasTest, OneBitIsADifference) {
  if (size_ == 1) return;
  Values values(rank_, size_);
  values.n = 0.0;
  if (rank_ == last()) values.n = -0.0;
  ExpectDiffer(values,
               absl::StrCat("replicas of \"n\" differ (need the values of ",
                            size_ == 2 ? "rank 0" : "ranks 0"));
  Values text(rank_, size_);
  if (rank_ == last()) text.text = "Equal";
  // Whoever has compared them, the rank that differs is the one to look at.
  ExpectDiffer(
      text,
      absl::StrCat("found others on rank ", last(),
                   "); 1 such box in all; the part of an array that a rank "
                   "holds is saved by AddPiece, what each rank has of its own "
                   "by AddPerRank or Tracker::PerRank, and what may differ, if "
                   "only in its last bits, by AddFromRank0 or FromRank0, which "
                   "save the value of rank 0 [rank ",
                   last(), " of ", size_, "]"));
  EXPECT_EQ(Save(comm_, run(), 2, text.List(),
                 {.overwrite = true, .check_replicas = false})
                .status(),
            absl::OkStatus());
}

TEST_F(CheckReplicasTest, APartOfAReplicaDiffers) {
  if (size_ % 2 != 0) return;
  Values values(rank_, size_);
  if (rank_ == last() && !values.matrix.empty()) values.matrix.back() += 1;
  if (kRows / values.parts == 0) return;
  ExpectDiffer(values,
               absl::StrCat("(need the values of rank ", values.parts - 1,
                            ", found others on rank ", last(), ")"));
}

// The first thing that an MPI program writes: what each rank has of its own,
// under the name of a value that all of them hold.
TEST_F(CheckReplicasTest, WhatEachRankHasOfItsOwnIsRefused) {
  if (size_ == 1) return;
  std::vector<double> own(100000, rank_);
  std::map<std::string, double> in_a_map = {{"k", rank_ + 0.5}};
  std::vector<std::string> texts = {absl::StrCat("rank ", rank_)};
  const auto expect_refused = [&](const Status& status,
                                  const std::string& key) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(absl::StrCat("replicas of \"", key)),
                      HasSubstr("AddPerRank")));
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  };
  const auto save = [&](auto& value) {
    State state;
    state.Add("x", value);
    return Save(comm_, run(), 1, state).status();
  };
  expect_refused(save(own), "x\"");
  expect_refused(save(in_a_map), "x/k");
  expect_refused(save(texts), "x/");
  Checkpoint objects(comm_, {{"x", own}});
  expect_refused(objects.Save(run()).status(), "x/.ATTRIBUTES");
  EXPECT_FALSE(std::filesystem::exists(StepFile(1, "")));
}

// Later saves compare what is small, and samples of the rest, for nothing.
TEST_F(CheckReplicasTest, RanksThatDriftApartAreFound) {
  if (size_ == 1) return;
  std::vector<float> weights(50000, 1);
  double rate = 0.5;
  State state;
  state.Add("weights", weights);
  state.Add("rate", rate);
  PlanCache cache;
  const auto save = [&](int64_t step) {
    return Save(comm_, run(), step, state, {.cache = &cache});
  };
  Ok(save(1));
  const SaveResult second = Ok(save(2));
  EXPECT_TRUE(second.plan_reused);
  EXPECT_LE(second.counters.agreement_bytes, 64);
  if (rank_ == last()) rate += 1;
  const Status small = save(3).status();
  EXPECT_THAT(std::string(small.message()), HasSubstr("replicas of \"rate\""));
  rate = 0.5;
  Ok(save(3));
  Ok(save(4));
  if (rank_ == last()) weights.assign(weights.size(), 2);
  const Status large = save(5).status();
  EXPECT_THAT(std::string(large.message()),
              HasSubstr("replicas of \"weights\""));
  EXPECT_THAT(*ListSteps(run()), ElementsAre(1, 2, 3, 4));
}

// After a save that was refused every byte is compared again.
TEST_F(CheckReplicasTest, WhatWasRefusedIsComparedWhole) {
  if (size_ == 1) return;
  std::vector<float> weights(50000, 1);
  double rate = 0.5;
  State state;
  state.Add("weights", weights);
  state.Add("rate", rate);
  PlanCache cache;
  Ok(Save(comm_, run(), 1, state, {.cache = &cache}));
  if (rank_ == last()) {
    rate = 1;
    weights[12345] = 2;
  }
  EXPECT_FALSE(Save(comm_, run(), 2, state, {.cache = &cache}).ok());
  rate = 0.5;
  const Status status =
      Save(comm_, run(), 2, state, {.cache = &cache}).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("replicas of \"weights\""));
}

TEST_F(CheckReplicasTest, ANamedReplicaMayHaveAnotherLength) {
  std::string text(static_cast<size_t>(rank_ + 1), 'x');
  std::vector<float> list(static_cast<size_t>(rank_ + 2), 1);
  State state;
  state.Add("text", text);
  state.Add("list", list);
  Ok(Save(comm_, run(), 1, state,
          {.args = {{".*", {.primary_replica = last()}}}}));
  Ok(Restore(comm_, run(), 1, state));
  EXPECT_EQ(text, std::string(static_cast<size_t>(size_), 'x'));
  EXPECT_EQ(list.size(), static_cast<size_t>(size_ + 1));
}

// What is stored of a container has what all ranks hold in it.
TEST_F(CheckReplicasTest, OtherEntriesOnOtherRanksAreRefused) {
  if (size_ == 1) return;
  std::map<std::string, double> map = {{"all", 1}};
  std::vector<std::string> empty;
  std::map<std::string, std::vector<std::string>> texts = {{"all", empty}};
  std::vector<std::map<std::string, double>> list(2, map);
  if (rank_ == last()) {
    map["mine"] = 2;
    texts["mine"] = empty;
    list.resize(3);
  }
  const auto save = [&](auto& value, std::optional<bool> check) {
    State state;
    state.Add("x", value);
    return Save(comm_, run(), 1, state,
                {.overwrite = true, .check_replicas = check})
        .status();
  };
  const auto expect_refused = [&](const Status& status,
                                  const std::string& entry) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr("replicas of \"x\": ranks hold different entries"),
              HasSubstr(absl::StrCat("\"", entry, "\" is on rank ", last(),
                                     " only"))));
  };
  expect_refused(save(map, {}), "mine");
  expect_refused(save(texts, {}), "mine");
  expect_refused(save(list, {}), "2");
  EXPECT_EQ(save(map, false), absl::OkStatus());  // the entries of all ranks
  map.clear();
  State state;
  state.Add("x", map);
  Ok(Restore(comm_, run(), 1, state));
  EXPECT_EQ(map, (std::map<std::string, double>{{"all", 1}, {"mine", 2}}));
}

// One replica may be chosen: all of it is stored, and nothing of the others.
TEST_F(CheckReplicasTest, TheReplicaThatIsWrittenMayBeNamed) {
  std::vector<double> own(100000, rank_);
  State state;
  state.Add("x", own);
  const auto save = [&](int64_t replica) {
    return Save(
        comm_, run(), 1, state,
        {.args = {{"x", {.primary_replica = replica}}}, .overwrite = true});
  };
  for (int replica = 0; replica < size_; ++replica) {
    own.assign(own.size(), rank_);
    Ok(save(replica));
    Ok(Restore(comm_, run(), 1, state));
    EXPECT_THAT(own, ::testing::Each(replica));
  }
  const Status status = save(size_).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("has no such replica (need "
                                     "primary_replica ",
                                     size_, ", found 0")));
}

// A step that was there stays as it was.
TEST_F(CheckReplicasTest, TheOldStepStays) {
  if (size_ == 1) return;
  Values values(rank_, size_);
  ASSERT_EQ(SaveChecked(values), absl::OkStatus());
  if (rank_ == 0) values.n = 7;
  EXPECT_FALSE(SaveChecked(values).ok());
  double n = 0;
  State state;
  state.Add("n", n);
  Ok(Restore(comm_, run(), 1, state, {}));
  EXPECT_EQ(n, 1.5);
}

}  // namespace
}  // namespace belay::check_replicas_test
