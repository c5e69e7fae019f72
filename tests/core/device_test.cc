#include "belay/arrays/device.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace belay::device_test {
namespace {

struct GoodRow {
  std::string_view text;
  DeviceSpec device;
  std::string_view canonical;
};

const std::vector<GoodRow>& GoodRows() {
  static const auto* const rows = new std::vector<GoodRow>{
      {"", {}, ""},
      {"/", {}, ""},
      {"/job:worker/replica:0/task:3/device:GPU:1",
       {"worker", 0, 3, "GPU", 1},
       "/job:worker/replica:0/task:3/device:GPU:1"},
      {"/job:ps/task:2", {.job = "ps", .task = 2}, "/job:ps/task:2"},
      {"/task:2/job:ps", {.job = "ps", .task = 2}, "/job:ps/task:2"},
      {"/cpu:0", {.device_type = "CPU", .device_index = 0}, "/device:CPU:0"},
      {"gpu:3", {.device_type = "GPU", .device_index = 3}, "/device:GPU:3"},
      {"/GPU", {.device_type = "GPU"}, "/device:GPU:*"},
      {"/gpu:*", {.device_type = "GPU"}, "/device:GPU:*"},
      {"tpu:1", {.device_type = "TPU", .device_index = 1}, "/device:TPU:1"},
      {"/Custom:2",
       {.device_type = "CUSTOM", .device_index = 2},
       "/device:CUSTOM:2"},
      {"/epu", {.device_type = "EPU"}, "/device:EPU:*"},
      {"/device:GPU:*", {.device_type = "GPU"}, "/device:GPU:*"},
      {"/device:cpu:0",
       {.device_type = "CPU", .device_index = 0},
       "/device:CPU:0"},
      {"/device:gpu:1",
       {.device_type = "GPU", .device_index = 1},
       "/device:GPU:1"},
      // The long form takes any type, as it is.
      {"/device:NPU:0",
       {.device_type = "NPU", .device_index = 0},
       "/device:NPU:0"},
      {"/device:tpu:0",
       {.device_type = "tpu", .device_index = 0},
       "/device:tpu:0"},
      {"/job:a/job:b", {.job = "b"}, "/job:b"},
      {"/task:1/task:2/replica:3/replica:4",
       {.replica = 4, .task = 2},
       "/replica:4/task:2"},
      {"//job:w//task:1/", {.job = "w", .task = 1}, "/job:w/task:1"},
      {"/task:2147483647", {.task = 2147483647}, "/task:2147483647"},
      {"/task:007", {.task = 7}, "/task:7"},
  };
  return *rows;
}

TEST(DeviceTest, ParsesAndPrints) {
  for (const GoodRow& row : GoodRows()) {
    SCOPED_TRACE(row.text);
    const StatusOr<DeviceSpec> device = ParseDevice(row.text);
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_EQ(*device, row.device);
    EXPECT_EQ(DeviceText(*device), row.canonical);
  }
}

TEST(DeviceTest, CanonicalTextParsesToTheSameDevice) {
  for (const GoodRow& row : GoodRows()) {
    const StatusOr<DeviceSpec> device = ParseDevice(row.canonical);
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_EQ(*device, row.device) << row.text;
  }
}

TEST(DeviceTest, AnIndexWithoutATypeIsNotPrinted) {
  EXPECT_EQ(DeviceText({.task = 1, .device_index = 4}), "/task:1");
}

TEST(DeviceTest, RefusesMalformedText) {
  const std::string no_number = "\" is not a number from 0 to 2147483647";
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"/NPU:0", "unknown part \"NPU:0\""},
      {"/device:GPU", "unknown part \"device:GPU\""},
      {"/device", "unknown part \"device\""},
      {"/device::0", "unknown part \"device::0\""},
      {"/device:GPU:0:1", "unknown part \"device:GPU:0:1\""},
      {"/Device:GPU:0", "unknown part \"Device:GPU:0\""},
      {"/job", "unknown part \"job\""},
      {"/Task:1", "unknown part \"Task:1\""},
      {"/task:1:2", "unknown part \"task:1:2\""},
      {"/job:a:b", "unknown part \"job:a:b\""},
      {"/job:w/ /task:1", "unknown part \" \""},
      {"/job:", "empty job"},
      {"/task:x", "task \"x" + no_number},
      {"/task:", "task \"" + no_number},
      {"/job:w/task:-1", "task \"-1" + no_number},
      {"/task:+1", "task \"+1" + no_number},
      {"/task:2147483648", "task \"2147483648" + no_number},
      {"/task:99999999999999999999", "task \"99999999999999999999" + no_number},
      {"/replica:-2", "replica \"-2" + no_number},
      {"/job:w/CPU:x", "device index \"x" + no_number},
      {"/CPU:", "device index \"" + no_number},
      {"/device:GPU:-1", "device index \"-1" + no_number},
      {"/CPU:0/GPU:0", "two device types, CPU and GPU"},
      {"/CPU:0/CPU:0", "two device types, CPU and CPU"},
      {"/device:NPU:0/cpu", "two device types, NPU and CPU"}};
  for (const auto& [text, cause] : rows) {
    EXPECT_EQ(
        ParseDevice(text).status(),
        absl::InvalidArgumentError("parse device \"" + text + "\": " + cause));
  }
}

TEST(DeviceTest, MergeTakesEveryPartThatIsSet) {
  const DeviceSpec base = {"worker", 1, 2, "GPU", 3};
  EXPECT_EQ(MergeDevice(base, {}), base);
  EXPECT_EQ(MergeDevice({}, base), base);
  EXPECT_EQ(MergeDevice(base, {"ps", 0, 0, "CPU", 0}),
            (DeviceSpec{"ps", 0, 0, "CPU", 0}));
  EXPECT_EQ(MergeDevice(base, {.job = "ps"}),
            (DeviceSpec{"ps", 1, 2, "GPU", 3}));
  EXPECT_EQ(MergeDevice(base, {.replica = 9}),
            (DeviceSpec{"worker", 9, 2, "GPU", 3}));
  EXPECT_EQ(MergeDevice(base, {.task = 9}),
            (DeviceSpec{"worker", 1, 9, "GPU", 3}));
  EXPECT_EQ(MergeDevice(base, {.device_type = "CPU"}),
            (DeviceSpec{"worker", 1, 2, "CPU", 3}));
  EXPECT_EQ(MergeDevice(base, {.device_index = 9}),
            (DeviceSpec{"worker", 1, 2, "GPU", 9}));
}

TEST(DeviceTest, OfARank) {
  EXPECT_EQ(DeviceText(RankDevice("world", 0, 17)),
            "/job:world/replica:0/task:17/device:CPU:0");
  EXPECT_EQ(RankDevice("w", 2, 3), (DeviceSpec{"w", 2, 3, "CPU", 0}));
}

}  // namespace
}  // namespace belay::device_test
