// Checkpoint: objects that differ between ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>

#include "belay/checkpoint.h"
#include "belay/checkpoint_reader.h"
#include "thing.h"
#include "values.h"

namespace belay::checkpoint_ranks_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::Ok;

// Layers that are dealt to the ranks, as the stages of a pipeline hold them.
struct Stage {
  std::map<std::string, std::vector<float>> layers;
  int64_t step = 0;

  void Track(Tracker& tracker) {
    tracker.Child("layers", layers);
    tracker.Value("step", step);
  }
};

class RanksTest : public testing::CheckpointTest {
 protected:
  // `count` layers, of which this rank has those that `owner` gives it.
  Stage Deal(int count, const std::function<int(int)>& owner) const {
    Stage stage;
    for (int i = 0; i < count; ++i) {
      if (owner(i) != rank_) continue;
      auto& values = stage.layers[std::to_string(i)];
      for (int j = 0; j <= i; ++j) values.push_back(100.F * i + j);
    }
    return stage;
  }

  // The same before a restore.
  static void Spoil(Stage& stage) {
    for (auto& [name, values] : stage.layers) {
      for (float& value : values) value = -1;
    }
    stage.step = -1;
  }

  void ExpectDealt(const Stage& stage, const Stage& expected) {
    EXPECT_EQ(stage.layers, expected.layers);
    EXPECT_EQ(stage.step, 42);
  }

  // Expects the same error on all ranks, and nothing written.
  void ExpectRefused(Checkpoint& checkpoint, absl::StatusCode code,
                     const std::string& text) {
    const Status status = checkpoint.Save(run()).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(status.message(), HasSubstr(text));
    ExpectSameOnAll(status);
    EXPECT_FALSE(std::filesystem::exists(run()));
  }

  void ExpectSameOnAll(const Status& status) {
    char text[4096] = {};
    status.ToString().copy(text, sizeof(text) - 1);
    MPI_Bcast(text, sizeof(text), MPI_CHAR, 0, MPI_COMM_WORLD);
    EXPECT_EQ(status.ToString().substr(0, sizeof(text) - 1), text);
  }
};

TEST_F(RanksTest, PipelineStagesMoveToOtherRanks) {
  constexpr int kLayers = 7;
  Stage saved = Deal(kLayers, [&](int i) { return i % size_; });
  saved.step = 42;
  Ok(Checkpoint(comm_, saved).Save(run()));
  // In blocks, backwards; then everything on one rank.
  for (const auto& owner : std::vector<std::function<int(int)>>{
           [&](int i) { return size_ - 1 - i * size_ / kLayers; },
           [&](int) { return size_ - 1; }}) {
    Stage stage = Deal(kLayers, owner);
    const Stage expected = stage;
    Spoil(stage);
    const LoadStatus status = Ok(Checkpoint(comm_, stage).Restore(run()));
    EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
    EXPECT_EQ(status.report().matched.size(), kLayers + 2);
    ExpectDealt(stage, expected);
  }
}

TEST_F(RanksTest, WhatNoRankHasIsUnused) {
  Stage saved = Deal(4, [&](int i) { return i % size_; });
  Ok(Checkpoint(comm_, saved).Save(run()));
  Stage stage = Deal(3, [&](int i) { return i % size_; });
  const LoadStatus status = Ok(Checkpoint(comm_, stage).Restore(run()));
  EXPECT_THAT(status.AssertConsumed().message(), HasSubstr("(root).layers.3"));
  ASSERT_EQ(status.report().unused.size(), 1);
  EXPECT_EQ(status.report().unused[0].stored_key,
            "layers/3/.ATTRIBUTES/VARIABLE_VALUE");
  // Every rank has its own report.
  ASSERT_EQ(status.rank_reports().size(), 1);
  const LoadReport& own = status.rank_reports()[0];
  EXPECT_EQ(own.ranks, std::vector<int>{rank_});
  EXPECT_EQ(own.matched.size(), stage.layers.size() + 2);
}

TEST_F(RanksTest, WhatOnlyOneRankMisses) {
  Stage saved = Deal(3, [&](int i) { return i % size_; });
  Ok(Checkpoint(comm_, saved).Save(run()));
  Stage stage = Deal(3, [&](int i) { return i % size_; });
  if (rank_ == size_ - 1) stage.layers["new"] = {5};
  const LoadStatus status = Ok(Checkpoint(comm_, stage).Restore(run()));
  ASSERT_EQ(status.report().missing.size(), 1);
  EXPECT_EQ(status.report().missing[0].key,
            "layers/new/.ATTRIBUTES/VARIABLE_VALUE");
  EXPECT_EQ(status.report().missing[0].ranks, std::vector<int>{size_ - 1});
  ExpectSameOnAll(status.AssertConsumed());
  ExpectSameOnAll(status.AssertExistingObjectsMatched());
  EXPECT_FALSE(status.AssertExistingObjectsMatched().ok());
}

TEST_F(RanksTest, OneObjectByTwoPathsOnOneRank) {
  // Rank 0 reaches the table by a shorter path than the others do.
  std::vector<float> table = {1, 2, 3};
  Thing embed{.children = {{"table", table}}};
  Thing root;
  if (rank_ == 0) root.children.emplace_back("a", table);
  root.children.emplace_back("embed", embed);
  Checkpoint checkpoint(comm_, root);
  const std::string path = Ok(checkpoint.Save(run())).path;
  const CheckpointReader reader = Ok(CheckpointReader::Open(path));
  EXPECT_TRUE(reader.Has("a/.ATTRIBUTES/VARIABLE_VALUE"));
  EXPECT_FALSE(reader.Has("embed/table/.ATTRIBUTES/VARIABLE_VALUE"));
  table = {0, 0, 0};
  EXPECT_EQ(Ok(checkpoint.Restore(run())).AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(table, (std::vector<float>{1, 2, 3}));
}

TEST_F(RanksTest, AShapeThatIsWrongOnOneRank) {
  std::vector<float> v = {1, 2}, w = {3};
  Ok(Checkpoint(comm_, {{"v", v}, {"w", w}}).Save(run()));
  std::array<float, 3> wrong = {-1, -1, -1};
  w = {-1};
  ObjectRef v_here = v;
  if (rank_ == size_ - 1) v_here = ObjectRef(wrong);
  Checkpoint checkpoint(comm_, {{"v", v_here}, {"w", w}});
  const Status status = checkpoint.Restore(run()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  std::string text = "(need f32 [3], found f32 [2])";
  if (size_ > 1) text += " [rank " + std::to_string(size_ - 1) + "]";
  EXPECT_THAT(status.message(), HasSubstr(text));
  ExpectSameOnAll(status);
  EXPECT_EQ(w, std::vector<float>{-1});
}

TEST_F(RanksTest, MistakesOfOneRankFailEverywhere) {
  float v = 0, w = 0;
  const bool bad = rank_ == size_ - 1;
  {
    Thing root{.children = {{"v", v}}};
    if (bad) root.children.emplace_back("v", w);
    Checkpoint checkpoint(comm_, root);
    ExpectRefused(checkpoint, absl::StatusCode::kInvalidArgument, "\"v\"");
  }
  {
    ObjectRef null = static_cast<float*>(nullptr);
    Checkpoint checkpoint(comm_, {{"v", bad ? null : ObjectRef(v)}});
    ExpectRefused(checkpoint, absl::StatusCode::kInvalidArgument, "null");
  }
  {
    Thing root{.children = {{bad ? "" : "v", v}}};
    Checkpoint checkpoint(comm_, root);
    ExpectRefused(checkpoint, absl::StatusCode::kInvalidArgument, "name");
  }
  if (size_ > 1) {
    std::vector<float> values(bad ? 3 : 2);
    Checkpoint checkpoint(comm_, {{"v", values}});
    ExpectRefused(checkpoint, absl::StatusCode::kInvalidArgument,
                  "v/.ATTRIBUTES/VARIABLE_VALUE");
  }
}

TEST_F(RanksTest, NamesWithAnyCharacters) {
  float v = 1;
  Thing root{.children = {{"a/b.c", v}, {".ATTRIBUTES", v}, {"ä ö", v}}};
  float other = 2;
  root.children.emplace_back("%x@", other);
  Checkpoint checkpoint(comm_, root);
  Ok(checkpoint.Save(run()));
  v = other = 0;
  EXPECT_EQ(Ok(checkpoint.Restore(run())).AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(v, 1);
  EXPECT_EQ(other, 2);
}

TEST_F(RanksTest, ARootThatIsGivenTwice) {
  float v = 1;
  Thing root{.children = {{"v", v}}};
  // TensorFlow has such an edge in every checkpoint of a root.
  Checkpoint checkpoint(comm_, root, {{"root", root}});
  Ok(checkpoint.Save(run()));
  v = 0;
  EXPECT_EQ(Ok(checkpoint.Restore(run())).AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(v, 1);
}

TEST_F(RanksTest, PathsThatDifferBetweenRanks) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  float v = 1;
  Checkpoint checkpoint(comm_, {{"v", v}});
  const Status saved =
      checkpoint.Save(rank_ == 1 ? dir_.File("other") : run()).status();
  EXPECT_EQ(saved.code(), absl::StatusCode::kInvalidArgument);
  ExpectSameOnAll(saved);
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
  Ok(checkpoint.Save(run()));
  const Status restored =
      checkpoint.Restore(rank_ == 1 ? dir_.File("other") : run()).status();
  EXPECT_EQ(restored.code(), absl::StatusCode::kInvalidArgument);
  ExpectSameOnAll(restored);
  // A rank without a path, and one that has not restored anything.
  const Status none = checkpoint.Restore(rank_ == 1 ? "" : run()).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kInvalidArgument);
  ExpectSameOnAll(none);
  Checkpoint other(comm_, {{"v", v}});
  Ok(checkpoint.Restore(run()));
  const Status deferred =
      (rank_ == 1 ? other : checkpoint).RestoreDeferred().status();
  EXPECT_EQ(deferred.code(), absl::StatusCode::kInvalidArgument);
  ExpectSameOnAll(deferred);
}

TEST_F(RanksTest, AFailedSaveKeepsTheNumber) {
  float v = 1;
  Checkpoint checkpoint(comm_, {{"v", v}});
  EXPECT_EQ(checkpoint.Save(dir_.File("no/such")).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(checkpoint.save_counter(), 0);
  EXPECT_EQ(Ok(checkpoint.Save(run())).step, 1);
  Checkpoint other(comm_, {{"v", v}});
  EXPECT_EQ(other.Save(run()).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(other.save_counter(), 0);
}

TEST_F(RanksTest, ObjectsThatComeAndGo) {
  Stage stage = Deal(3, [&](int i) { return i % size_; });
  Checkpoint checkpoint(comm_, stage);
  EXPECT_FALSE(Ok(checkpoint.Save(run())).plan_reused);
  EXPECT_TRUE(Ok(checkpoint.Save(run())).plan_reused);
  // One rank gets a layer more; a layer moves to another rank; one goes.
  if (rank_ == size_ - 1) stage.layers["9"] = {9, 9};
  EXPECT_FALSE(Ok(checkpoint.Save(run())).plan_reused);
  EXPECT_TRUE(Ok(checkpoint.Save(run())).plan_reused);
  stage = Deal(3, [&](int i) { return size_ - 1 - i % size_; });
  const SaveResult moved = Ok(checkpoint.Save(run()));
  EXPECT_EQ(moved.num_arrays, 5);
  EXPECT_EQ(moved.step, 5);
  const Stage expected = stage;
  Spoil(stage);
  EXPECT_EQ(Ok(checkpoint.Restore(run())).AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(stage.layers, expected.layers);
}

TEST_F(RanksTest, ObjectsThatAreNamedTwiceInOneProgram) {
  // Ranks that use different Checkpoints of equal objects still agree.
  float v = 1;
  Checkpoint a(comm_, {{"v", v}}), b(comm_, {{"v", v}});
  Ok(a.SaveAs(dir_.File("1")));
  Ok(b.SaveAs(dir_.File("2")));
  Checkpoint& mine = rank_ == 0 ? a : b;
  Ok(mine.SaveAs(dir_.File("3")));
  v = 0;
  EXPECT_EQ(Ok(mine.Restore(dir_.File("3"))).AssertConsumed(),
            absl::OkStatus());
  EXPECT_EQ(v, 1);
}

TEST_F(RanksTest, DamageIsNoticed) {
  std::vector<float> v(1000, 3);
  Checkpoint checkpoint(comm_, {{"v", v}});
  const std::string path = Ok(checkpoint.Save(run())).path;
  if (rank_ == 0) {
    std::filesystem::resize_file(
        path + "/index.h5", std::filesystem::file_size(path + "/index.h5") / 2);
  }
  const Status status = checkpoint.Restore(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  ExpectSameOnAll(status);
  EXPECT_EQ(checkpoint.Restore(dir_.File("none")).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace belay::checkpoint_ranks_test
