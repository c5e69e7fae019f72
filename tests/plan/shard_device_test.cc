#include <gtest/gtest.h>

#include <climits>

#include "plan/shards.h"

namespace belay::shard_device_test {
namespace {

// The devices of rank 2 of job "train" once completed, or the message.
std::vector<std::string> AllCompleted(std::vector<Shard> shards) {
  const Status status = CompleteDevices(shards, "train", 2);
  if (!status.ok()) {
    EXPECT_TRUE(absl::IsInvalidArgument(status));
    return {std::string(status.message())};
  }
  std::vector<std::string> texts;
  for (const Shard& shard : shards) texts.push_back(DeviceText(shard.device));
  return texts;
}

std::string Completed(const DeviceSpec& device) {
  return AllCompleted({Shard{.key = "w", .device = device}})[0];
}

DeviceSpec Parsed(std::string_view text) { return ParseDevice(text).value(); }

TEST(CompleteDevicesTest, WhatIsLeftOpenIsFilledIn) {
  const std::string task = "/job:train/replica:0/task:2";
  EXPECT_EQ(Completed(DeviceSpec()), task + "/device:CPU:0");
  EXPECT_EQ(Completed(Parsed("/gpu:3")), task + "/device:GPU:3");
  EXPECT_EQ(Completed(Parsed("/GPU")), task + "/device:GPU:0");
  EXPECT_EQ(Completed({.device_index = 5}), task + "/device:CPU:5");
  EXPECT_EQ(Completed({.device_type = "gpu"}), task + "/device:GPU:0");
  EXPECT_EQ(Completed({.replica = 7}),
            "/job:train/replica:7/task:2/device:CPU:0");
  const std::string full = "/job:ps/replica:1/task:2/device:NPU:9";
  EXPECT_EQ(Completed(Parsed(full)), full);
}

TEST(CompleteDevicesTest, ALayoutTellsTheReplica) {
  std::vector<Shard> shards(4);
  for (Shard& shard : shards) shard.replica = 3;
  shards[0].layout = "[x] on x=2,y=4";
  shards[1].layout = shards[0].layout;
  shards[1].device.replica = 0;  // the program knows better
  shards[2].layout = shards[0].layout;
  shards[2].replica = int64_t{INT_MAX} + 1;  // refused by the planner
  const std::string task = "/task:2/device:CPU:0";
  EXPECT_EQ(AllCompleted(shards),
            (std::vector<std::string>{
                "/job:train/replica:3" + task, "/job:train/replica:0" + task,
                "/job:train/replica:0" + task, "/job:train/replica:0" + task}));
}

TEST(CompleteDevicesTest, TheJobOfOneShardIsThatOfAll) {
  EXPECT_EQ(
      AllCompleted(
          {Shard{.key = "a"}, Shard{.key = "b", .device = Parsed("/job:ps")}}),
      (std::vector<std::string>{"/job:ps/replica:0/task:2/device:CPU:0",
                                "/job:ps/replica:0/task:2/device:CPU:0"}));
}

TEST(CompleteDevicesTest, WhatCannotBeIsRefused) {
  const auto refused = [](const DeviceSpec& device, const char* cause) {
    EXPECT_EQ(Completed(device),
              "list \"w\": device \"" + DeviceText(device) + "\": " + cause);
  };
  refused({.task = 5}, "the task is not this rank (need 2, found 5)");
  refused({.task = -1}, "the task is not this rank (need 2, found -1)");
  refused({.replica = -1}, "replica (need at least 0, found -1)");
  refused({.device_type = "CPU", .device_index = -2},
          "device index (need at least 0, found -2)");
  refused({.job = ""}, "job (need a name without '/' and ':', found \"\")");
  refused({.job = "a/task:3"},
          "job (need a name without '/' and ':', found \"a/task:3\")");
  refused({.job = "a:b"},
          "job (need a name without '/' and ':', found \"a:b\")");
  refused({.device_type = "GPU:1"},
          "device type (need a name without '/' and ':', found \"GPU:1\")");
  refused({.device_type = ""},
          "device type (need a name without '/' and ':', found \"\")");
  EXPECT_EQ(AllCompleted({Shard{.key = "a", .device = Parsed("/job:x")},
                          Shard{.key = "b", .device = Parsed("/job:y/CPU:0")}}),
            (std::vector<std::string>{
                "list \"b\": device \"/job:y/device:CPU:0\": a rank is a task "
                "of one job (need \"x\" as key \"a\", found \"y\")"}));
}

// Rank 0 finds the device again from what travels.
TEST(OwnDeviceTest, MergedWithTheDefaultItIsTheDevice) {
  const DeviceSpec base = DefaultDevice("train", 2, "[x] on x=3", 1);
  EXPECT_EQ(DeviceText(base), "/job:train/replica:1/task:2/device:CPU:0");
  EXPECT_EQ(OwnDevice(base, base), "");
  for (const char* text : {"/replica:1", "/replica:4", "/gpu:0", "/CPU:7",
                           "/replica:0/device:NPU:2"}) {
    const DeviceSpec device = MergeDevice(base, Parsed(text));
    const std::string own = OwnDevice(device, base);
    EXPECT_EQ(MergeDevice(base, Parsed(own)), device) << text << ": " << own;
  }
  EXPECT_EQ(OwnDevice(MergeDevice(base, Parsed("/gpu:3")), base),
            "/device:GPU:3");
}

}  // namespace
}  // namespace belay::shard_device_test
