// Devices of shards: what a policy sees of job, mesh and rank, what a program
// names itself, and that files do not depend on any of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "belay/checkpoint.h"
#include "belay/extend/state.h"
#include "policy_fixture.h"

namespace belay::device_test {
namespace {

using testing::FileBytes;
using testing::IsSameEverywhere;
using testing::Made;
using testing::Pieces;

class DeviceTest : public testing::PolicyTest {
 protected:
  DeviceTest() {
    options_.overwrite = true;
    options_.sharding_policy = Made([&](const Pieces& pieces) {
      for (const ShardableTensor& piece : pieces) {
        seen_.push_back(absl::StrCat(piece.key, " ", DeviceText(piece.device),
                                     " node ", piece.node));
      }
      return std::vector<ShardGroup>{pieces};
    });
  }
  ~DeviceTest() override {
    unsetenv("BELAY_JOB_NAME");
    unsetenv("SOURCE_DATE_EPOCH");
  }

  // Saves one array "w" of a row per rank with these devices.
  StatusOr<SaveResult> SaveRow(const DeviceSpec& device) {
    State state;
    AddShard(state, {.key = "w",
                     .dtype = DType::kF32,
                     .global_shape = {size_},
                     .box = {{rank_}, {1}},
                     .device = device,
                     .data = &row_});
    seen_.clear();
    auto saved = Save(comm_, run(), 1, state, options_);
    EXPECT_TRUE(IsSameEverywhere(saved.status().ToString()));
    return saved;
  }

  float row_ = 1;
  std::vector<std::string> seen_;  // rank 0 only
};

TEST_F(DeviceTest, TheJobHasTheNameOfItsVariable) {
  for (const auto& [name, job] : {std::pair("", "belay"),
                                  {"fine tuning", "fine tuning"},
                                  {"a:b", "a_b"}}) {
    setenv("BELAY_JOB_NAME", name, 1);
    ASSERT_TRUE(SaveRow({}).ok());
    std::vector<std::string> need;
    for (int rank = 0; rank < size_ && rank_ == 0; ++rank) {
      need.push_back(absl::StrCat("w /job:", job, "/replica:0/task:", rank,
                                  "/device:CPU:0 node 0"));
    }
    EXPECT_EQ(seen_, need);
  }
}

TEST_F(DeviceTest, WhatTheProgramNamesStays) {
  ASSERT_TRUE(
      SaveRow({.job = absl::StrCat("job", rank_), .device_type = "gpu"}).ok());
  std::vector<std::string> need;
  for (int rank = 0; rank < size_ && rank_ == 0; ++rank) {
    need.push_back(absl::StrCat("w /job:job", rank, "/replica:0/task:", rank,
                                "/device:GPU:0 node 0"));
  }
  EXPECT_EQ(seen_, need);
}

TEST_F(DeviceTest, AMeshTellsTheReplica) {
  const auto mesh = Mesh::Create({{"x", size_}, {"y", 1}});
  const auto columns = Layout::Create(*mesh, {{"y"}});  // every rank holds all
  State state;
  std::vector<uint8_t> all(8192 * size_);
  state.AddLaidOut("w", *columns, {std::ssize(all)}, rank_,
                   AtAddress(all.data()));
  ASSERT_TRUE(Save(comm_, run(), 1, state, options_).ok());
  std::vector<std::string> need;
  for (int rank = 0; rank < size_ && rank_ == 0; ++rank) {
    need.push_back(absl::StrCat("w /job:belay/replica:", rank, "/task:", rank,
                                "/device:CPU:0 node 0"));
  }
  EXPECT_EQ(seen_, need);
  // The same of a value of an object; the counter is no copy of a layout.
  seen_.clear();
  Checkpoint checkpoint(
      comm_, {{"w", TrackedValue(*columns, {std::ssize(all)}, all)}});
  ASSERT_TRUE(checkpoint.SaveAs(StepFile(2, ""), options_).ok());
  for (std::string& text : need) {
    text.replace(0, 1, "w/.ATTRIBUTES/VARIABLE_VALUE");
  }
  EXPECT_EQ(seen_, need);
}

TEST_F(DeviceTest, AnotherTaskIsAnErrorOfAll) {
  const auto saved = SaveRow({.task = rank_ == size_ - 1 ? size_ : rank_});
  EXPECT_EQ(saved.status(),
            absl::InvalidArgumentError(absl::StrCat(
                "list \"w\": device \"/task:", size_,
                "\": the task is not this rank (need ", size_ - 1, ", found ",
                size_, ") [rank ", size_ - 1, " of ", size_, "]")));
}

TEST_F(DeviceTest, APlanHoldsForTheSameDevices) {
  PlanCache cache;
  options_.cache = &cache;
  options_.sharding_policy.parameters = {{"version", "1"}};
  for (const auto& [index, reused] :
       {std::pair(0, false), {0, true}, {1, false}, {1, true}}) {
    const auto saved = SaveRow({.device_index = index});
    ASSERT_TRUE(saved.ok()) << saved.status();
    EXPECT_EQ(saved->plan_reused, reused);
    EXPECT_EQ(seen_.empty(), reused || rank_ != 0);
  }
}

// Under the default policy nothing on disk speaks of devices.
TEST_F(DeviceTest, FilesDoNotDependOnThem) {
  options_.sharding_policy = ShardByTask();
  options_.array_layout = ArrayLayout::kCanonical;
  setenv("SOURCE_DATE_EPOCH", "1700000000", 1);
  std::vector<std::pair<std::string, std::string>> files;
  for (const char* name : {"one", "two"}) {
    setenv("BELAY_JOB_NAME", name, 1);
    ASSERT_TRUE(SaveRow({.device_index = *name}).ok());
    files.emplace_back(FileBytes(StepFile(1, "data_00000_of_00001.h5")),
                       FileBytes(StepFile(1, "index.h5")));
    MPI_Barrier(MPI_COMM_WORLD);
  }
  EXPECT_GT(files[0].first.size(), size_t{0});
  EXPECT_TRUE(files[0] == files[1]);
}

}  // namespace
}  // namespace belay::device_test
