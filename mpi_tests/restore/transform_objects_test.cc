// Values of objects that a restore computes from stored arrays.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "belay/checkpoint.h"
#include "belay/values/transform.h"
#include "values.h"

namespace belay::transform_objects_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Ok;

class TransformObjectsTest : public testing::CheckpointTest {};

struct Model {
  void Track(Tracker& tracker) {
    tracker.Value("query", query);
    tracker.Value("key", key);
    tracker.Value("bias", bias);
  }
  std::vector<float> query = std::vector<float>(2);
  std::vector<float> key = std::vector<float>(2);
  std::vector<float> bias = {7};
};

struct OldModel {
  void Track(Tracker& tracker) {
    tracker.Value("qk", qk);
    tracker.Value("bias", bias);
  }
  std::vector<float> qk = {1, 2, 3, 4};
  std::vector<float> bias = {5};
};

TEST_F(TransformObjectsTest, ValuesAreSplit) {
  OldModel old_model;
  Checkpoint old(comm_, {{"model", old_model}});
  Ok(old.Save(dir_.File("objects")));
  Model model;
  Checkpoint checkpoint(comm_, {{"model", model}});
  const std::string qk = "\\1/qk";
  const RestoreOptions options = {
      .args = {{"(.*)/query", {.transform = Transform::Split(qk, 0, 2, 0)}},
               {"(.*)/key", {.transform = Transform::Split(qk, 0, 2, 1)}}}};
  const LoadStatus status =
      Ok(checkpoint.Restore(dir_.File("objects"), options));
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(status.AssertExistingObjectsMatched(), absl::OkStatus());
  EXPECT_THAT(model.query, ElementsAre(1, 2));
  EXPECT_THAT(model.key, ElementsAre(3, 4));
  EXPECT_THAT(model.bias, ElementsAre(5));
  const Status wrong =
      checkpoint
          .Restore(
              dir_.File("objects"),
              {.args = {{"(.*)/query", {.transform = Transform::Stack({qk})}}}})
          .status();
  EXPECT_FALSE(wrong.ok());
  EXPECT_THAT(std::string(wrong.message()), HasSubstr("[1, 4]"));
  const LoadStatus missing = Ok(checkpoint.Restore(
      dir_.File("objects"),
      {.args = {{".*/query", {.transform = Transform::Split("qk", 0, 2, 0)}},
                {".*/key", {.skip = true}}}}));
  EXPECT_FALSE(missing.AssertExistingObjectsMatched().ok());
}

}  // namespace
}  // namespace belay::transform_objects_test
