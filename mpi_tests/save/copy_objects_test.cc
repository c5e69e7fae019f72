// Steps with objects that are saved out of other steps.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "belay/arrays/indexing.h"
#include "belay/checkpoint.h"
#include "belay/checkpoint_reader.h"
#include "belay/reader/copy_checkpoint.h"
#include "belay/save_restore.h"
#include "values.h"

namespace belay::copy_objects_test {
namespace {

using ::testing::ElementsAre;
using testing::Ok;

class CopyObjectsTest : public testing::CheckpointTest {};

struct Layer {
  void Track(Tracker& tracker) {
    tracker.Value("kernel", kernel);
    tracker.Value("bias", bias);
  }
  std::vector<float> kernel = std::vector<float>(6);
  std::vector<float> bias = std::vector<float>(3);
};

struct Model {
  void Track(Tracker& tracker) {
    tracker.Child("dense", dense);
    tracker.Value("config", config);
  }
  Layer dense;
  std::map<std::string, int> config;
};

struct Momentum {
  void Track(Tracker& tracker) { tracker.Value("rate", rate); }
  double rate = 0;
};

// A trainer that restores into the copy finds its objects.
TEST_F(CopyObjectsTest, APartOfThem) {
  Model model;
  model.dense.kernel = {1, 2, 3, 4, 5, 6};
  model.dense.bias = {7, 8, 9};
  model.config = {{"heads", 4}};
  Momentum momentum{0.5};
  Checkpoint checkpoint(comm_, {{"model", model}, {"momentum", momentum}});
  Ok(checkpoint.Save(run()));
  Ok(checkpoint.Save(run()));
  const std::string to = dir_.File("to");
  CopyOptions options;
  options.leave_out = {"momentum/.*"};
  const CopyResult result =
      Ok(CopyCheckpoint(comm_, run(), kLatestStep, to, {}, options));
  EXPECT_FALSE(result.without_objects);
  Model other;
  Checkpoint restored(comm_, {{"model", other}});
  const LoadStatus status = Ok(restored.Restore(to));
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(restored.save_counter(), 2);
  EXPECT_EQ(other.dense.kernel, model.dense.kernel);
  EXPECT_EQ(other.config, model.config);
  // The object that has lost its values is still there.
  EXPECT_EQ(Ok(CheckpointReader::Open(to)).Objects().value().size(), 5u);
}

TEST_F(CopyObjectsTest, TheSaveCounterComesAlong) {
  Model model;
  Checkpoint checkpoint(comm_, {{"model", model}});
  Ok(checkpoint.Save(run()));
  Ok(checkpoint.Save(run()));
  CopyOptions options;
  options.rules = {
      {.keys = "(.*kernel|.*bias|save.*)", .key = "old/\\1", .value = "\\1"}};
  const std::string to = dir_.File("to");
  const StatusOr<CopyResult> copied =
      CopyCheckpoint(comm_, run(), kLatestStep, to, {}, options);
  ASSERT_EQ(copied.status(), absl::OkStatus());
  EXPECT_EQ(copied->num_values, 2);  // with the map
  const CheckpointReader reader = Ok(CheckpointReader::Open(to));
  EXPECT_TRUE(reader.Find("save_counter/.ATTRIBUTES/VARIABLE_VALUE").ok());
}

// Made under the key of a value, an array is that value.
TEST_F(CopyObjectsTest, Rules) {
  Model model;
  model.dense.kernel = {1, 2, 3, 4, 5, 6};
  Checkpoint checkpoint(comm_, {{"model", model}});
  Ok(checkpoint.Save(run()));
  const std::string kernel = "model/dense/.ATTRIBUTES/kernel";
  const auto copy = [&](const std::string& to, const std::string& key) {
    CopyOptions options;
    options.rules = {
        {.key = key,
         .value = Transform::Slice(kernel, Index{belay::Slice{{}, {}, -1}})}};
    return Ok(CopyCheckpoint(comm_, run(), kLatestStep, dir_.File(to), {},
                             options))
        .without_objects;
  };
  EXPECT_FALSE(copy("same", kernel));
  Model other;
  Checkpoint restored(comm_, {{"model", other}});
  EXPECT_EQ(Ok(restored.Restore(dir_.File("same"))).AssertConsumed(),
            absl::OkStatus());
  EXPECT_THAT(other.dense.kernel, ElementsAre(6, 5, 4, 3, 2, 1));
  // An object that was not there: it finds its values by their keys.
  EXPECT_TRUE(copy("renamed", "model/flat/.ATTRIBUTES/kernel"));
  Layer flat;
  struct Renamed {
    void Track(Tracker& tracker) { tracker.Child("flat", *layer); }
    Layer* layer;
  } renamed{&flat};
  Checkpoint by_key(comm_, {{"model", renamed}});
  const LoadStatus status = Ok(by_key.Restore(
      dir_.File("renamed"), {.args = {{".*/bias", {.skip = true}}}}));
  EXPECT_THAT(flat.kernel, ElementsAre(6, 5, 4, 3, 2, 1));
  EXPECT_EQ(status.AssertExistingObjectsMatched(), absl::OkStatus());
}

}  // namespace
}  // namespace belay::copy_objects_test
