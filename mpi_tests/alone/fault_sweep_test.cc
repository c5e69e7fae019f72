// Makes every fault point of Save and Restore fail on every rank, one at a
// time. BELAY_SWEEP_STRIDE=1 takes every point of every configuration; the
// plain run takes every point of the default one and a sample of the others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <ostream>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "fault_points.h"
#include "format/paths.h"
#include "small_state.h"

namespace {

bool can_swap = true;

}  // namespace

// The library's calls land here: some file systems cannot exchange names.
extern "C" int renameat2(int from_dir, const char* from, int to_dir,
                         const char* to, unsigned flags) noexcept {
  if (can_swap) {
    return static_cast<int>(
        syscall(SYS_renameat2, from_dir, from, to_dir, to, flags));
  }
  errno = EINVAL;
  return -1;
}

namespace belay::testing {
namespace {

constexpr int64_t kOldSeed = 5;
constexpr int64_t kNewSeed = 6;
struct Configuration {
  std::string name;
  SaveOptions options;
  bool warm = false;  // a PlanCache whose plan holds
  bool swaps = true;  // the file system can exchange two names
  int64_t stride = 1;
  int64_t scale = 1;  // of the new values; else what is saved has changed
  bool odd = false;   // one rank has a value that others do not have
};

void PrintTo(const Configuration& configuration, std::ostream* out) {
  *out << configuration.name;
}

// Another dtype, which holds the values exactly, and chunks.
std::vector<Configuration> ConfigurationsWithArgs() {
  const std::vector<SaveArgsFor> args = {
      {"model/rows", {.chunk_byte_size = 40}},
      {"model/columns",
       {.dtype = DType::kF64, .write_chunk_shape = Shape{1, 1}}},
      {".*", {.chunk_byte_size = 16}}};
  const SaveOptions any = {.args = args};
  const SaveOptions each = {.file_layout = FileLayout::kPerTask, .args = args};
  const SaveOptions hdf5 = {.args = args, .transfer = Transfer::kHdf5};
  const SaveOptions two_phase = {.args = args, .transfer = Transfer::kTwoPhase};
  return {{.name = "Args", .options = any, .stride = 13},
          {.name = "ArgsWarm", .options = any, .warm = true, .stride = 5},
          {.name = "ArgsHdf5", .options = hdf5, .stride = 31},
          {.name = "ArgsTwoPhase", .options = two_phase, .stride = 19},
          {.name = "ArgsPerTask", .options = each, .stride = 23}};
}

// Some of the values in chunks that pass filters.
std::vector<Configuration> ConfigurationsWithFilters() {
  const std::vector<SaveArgsFor> args = {
      {"model/.*", {.chunk_byte_size = 40, .filters = Deflate()}}};
  const SaveOptions shared = {.args = args};
  const SaveOptions each = {
      .file_layout = FileLayout::kPerTask, .args = args, .read_back = true};
  const SaveOptions hdf5 = {.args = args, .transfer = Transfer::kHdf5};
  return {{.name = "Filters", .options = shared, .stride = 7},
          {.name = "FiltersHdf5", .options = hdf5, .stride = 37},
          {.name = "FiltersPerTask", .options = each, .stride = 23}};
}

// Data files that MPI-IO creates.
std::vector<Configuration> ConfigurationsWithHints() {
  const SaveOptions shared = {.mpi_io_hints = {{"striping_factor", "2"}}};
  const SaveOptions each = {.file_layout = FileLayout::kPerTask,
                            .mpi_io_hints = {{"striping_factor", "2"}}};
  return {{.name = "Hints", .options = shared, .stride = 41},
          {.name = "HintsWarm", .options = shared, .warm = true, .stride = 7},
          {.name = "HintsPerTask", .options = each, .stride = 41}};
}

std::vector<Configuration> Configurations() {
  const SaveOptions one_file_each = {.file_layout = FileLayout::kPerTask};
  const SaveOptions hdf5 = {.transfer = Transfer::kHdf5};
  const SaveOptions hdf5_each = {.file_layout = FileLayout::kPerTask,
                                 .transfer = Transfer::kHdf5};
  const SaveOptions collective = {.transfer = Transfer::kCollective};
  const SaveOptions independent = {.transfer = Transfer::kIndependent};
  // Several files for each rank.
  const SaveOptions groups = {.sharding_policy = MaxShardSize(48)};
  const SaveOptions groups_each = {.file_layout = FileLayout::kPerTask,
                                   .sharding_policy = MaxShardSize(48)};
  const SaveOptions hdf5_groups = {.sharding_policy = MaxShardSize(48),
                                   .transfer = Transfer::kHdf5};
  return {
      {.name = "Default", .options = {}},
      {.name = "Warm", .options = {}, .warm = true},
      {.name = "Collective", .options = collective, .stride = 11},
      {.name = "Independent", .options = independent, .stride = 11},
      {.name = "IndependentWarm",
       .options = independent,
       .warm = true,
       .stride = 3},
      {.name = "Hdf5", .options = hdf5, .stride = 7},
      {.name = "Hdf5Warm", .options = hdf5, .warm = true, .stride = 3},
      {.name = "PerTask", .options = one_file_each, .stride = 13},
      {.name = "PerTaskWarm",
       .options = one_file_each,
       .warm = true,
       .stride = 3},
      {.name = "PerTaskHdf5", .options = hdf5_each, .stride = 17},
      {.name = "PerNode",
       .options = {.file_layout = FileLayout::kPerNode},
       .stride = 13},
      {.name = "Groups", .options = groups, .stride = 13},
      {.name = "GroupsWarm", .options = groups, .warm = true, .stride = 7},
      {.name = "GroupsHdf5", .options = hdf5_groups, .stride = 41},
      {.name = "PerTaskGroups", .options = groups_each, .stride = 29},
      {.name = "PerTaskGroupsWarm",
       .options = groups_each,
       .warm = true,
       .stride = 7},
      {.name = "ReadBack", .options = {.read_back = true}, .stride = 19},
      {.name = "Replicas", .options = {.check_replicas = true}, .stride = 19},
      {.name = "NoChecksums",
       .options = {.checksums = false, .durable = false},
       .stride = 23},
      {.name = "Overwrite", .options = {.overwrite = true}, .stride = 17},
      {.name = "OverwriteWarm",
       .options = {.overwrite = true},
       .warm = true,
       .stride = 3},
      {.name = "OverwriteByRenames",
       .options = {.overwrite = true},
       .warm = true,
       .swaps = false,
       .stride = 3},
  };
}

// What ranks tell rank 0: what has changed, and what differs from rank 0's.
std::vector<Configuration> ConfigurationsOfLists() {
  return {{.name = "Changed",
           .options = {.overwrite = true},
           .warm = true,
           .stride = 3,
           .scale = 2},
          {.name = "Odd", .options = {}, .stride = 3, .odd = true}};
}

std::vector<Configuration> AllConfigurations() {
  std::vector<Configuration> all;
  for (const std::vector<Configuration>& some :
       {Configurations(), ConfigurationsOfLists(), ConfigurationsWithArgs(),
        ConfigurationsWithHints(), ConfigurationsWithFilters()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

// Those whose files are not the same as another's.
std::vector<Configuration> ConfigurationsOfFiles() {
  std::vector<Configuration> all = AllConfigurations();
  std::erase_if(all, [](const Configuration& configuration) {
    return configuration.warm || configuration.options.overwrite;
  });
  return all;
}

class FaultSweepTest : public ::testing::TestWithParam<Configuration> {
 protected:
  static void SetUpTestSuite() { UseMemory(); }

  void SetUp() override {
    scratch_ = std::make_unique<ScratchDir>();
    comm_ = Comm::Duplicate(MPI_COMM_WORLD).value();
    options_ = GetParam().options;
    options_.deadline_seconds = 20;
    if (GetParam().warm) options_.cache = &cache_;
    can_swap = GetParam().swaps;
    ASSERT_EQ(SaveSeed(1, kOldSeed), absl::OkStatus());
  }
  void TearDown() override {
    can_swap = true;
    EXPECT_TRUE(comm_.Close().ok());
  }

  Status SaveSeed(int64_t step, int64_t seed) {
    SmallValues values(seed, seed == kNewSeed ? GetParam().scale : 1);
    State state = values.state();
    int64_t odd = seed;
    if (GetParam().odd && WorldRank() == 1) state.Add("odd", odd);
    const StatusOr<SaveResult> result =
        Save(comm_, dir(), step, state, options_);
    if (result.ok()) plan_reused_ = result->plan_reused;
    return result.status();
  }

  // Step 2 is absent, or holds the old values if it is to be overwritten.
  void Prepare() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (options_.overwrite) {
      EXPECT_EQ(SaveSeed(2, kOldSeed), absl::OkStatus());
    } else if (WorldRank() == 0) {
      std::filesystem::remove_all(dir() + "/" + StepName(2));
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  std::set<std::string> Names() {
    MPI_Barrier(MPI_COMM_WORLD);  // rank 0 may still clean up
    std::set<std::string> names = NamesIn(dir());
    MPI_Barrier(MPI_COMM_WORLD);
    return names;
  }

  void ExpectNothingHappened() {
    std::set<std::string> expected = {StepName(1)};
    if (options_.overwrite) expected.insert(StepName(2));
    EXPECT_EQ(Names(), expected);
    EXPECT_TRUE(RestoresAs(comm_, dir(), 1, kOldSeed));
    if (options_.overwrite) {
      EXPECT_TRUE(RestoresAs(comm_, dir(), 2, kOldSeed));
    }
    EXPECT_EQ(SaveSeed(2, kNewSeed), absl::OkStatus());
    ExpectCommitted({StepName(1), StepName(2)});
  }

  void ExpectCommitted(const std::set<std::string>& names) {
    EXPECT_EQ(Names(), names);
    EXPECT_TRUE(RestoresNew());
  }

  bool RestoresNew() {
    return RestoresAs(comm_, dir(), 2, kNewSeed, GetParam().scale);
  }

  // Returns whether the save succeeded in spite of the fault.
  bool Try(int rank, int64_t n) {
    SCOPED_TRACE(absl::StrCat("point ", n, " of rank ", rank));
    Prepare();
    const Status status =
        WithFault(rank, n, [&] { return SaveSeed(2, kNewSeed); });
    ExpectAgreed(status, rank);
    if (!status.ok()) {
      ExpectNothingHappened();
      return false;
    }
    std::set<std::string> names = Names();
    left_debris_ += std::erase_if(names, IsInProgress);
    EXPECT_EQ(names, (std::set<std::string>{StepName(1), StepName(2)}));
    EXPECT_TRUE(RestoresNew());
    return true;
  }

  std::string dir() const { return scratch_->File("run"); }

  std::unique_ptr<ScratchDir> scratch_;
  Comm comm_;
  PlanCache cache_;
  SaveOptions options_;
  bool plan_reused_ = false;
  int64_t left_debris_ = 0;
};

class SaveFaultTest : public FaultSweepTest {};
class RestoreFaultTest : public FaultSweepTest {};

TEST_P(SaveFaultTest, EverySaveFailsEverywhereOrNowhere) {
  Prepare();
  fault::Arm(0);
  EXPECT_EQ(SaveSeed(2, kNewSeed), absl::OkStatus());
  const std::vector<int64_t> counts = CountOfEachRank(fault::Count());
  fault::Disarm();
  EXPECT_EQ(plan_reused_, GetParam().warm && GetParam().scale == 1);
  int64_t tried = 0;
  int64_t harmless = 0;
  for (int rank = 0; rank < WorldSize(); ++rank) {
    bool is_committed = false;
    for (int64_t n : PointsToTake(counts[rank], StrideOr(GetParam().stride))) {
      const bool succeeded = Try(rank, n);
      // Only what comes after the commit may fail without harm.
      EXPECT_TRUE(succeeded || !is_committed) << "rank " << rank << ": " << n;
      is_committed = succeeded;
      harmless += succeeded ? 1 : 0;
      ++tried;
      if (!OnAllRanks(!HasFailure())) return;
    }
  }
  EXPECT_GT(tried, harmless);
  // Counters are combined in two exchanges; rank 0 looks for debris and removes
  // it as well.
  EXPECT_LE(harmless, 4 * WorldSize() + 2);
  EXPECT_LE(left_debris_, 1);
  if (WorldRank() == 0) {
    printf("%s: points %s; tried %ld, harmless %ld\n", GetParam().name.c_str(),
           absl::StrJoin(counts, " ").c_str(), tried, harmless);
  }
}

TEST_P(RestoreFaultTest, EveryRestoreFailsEverywhere) {
  SmallValues values(kOldSeed);
  const State state = values.state();
  const auto restore = [&] {
    return Restore(comm_, dir(), kLatestStep, state,
                   {.allow_dtype_cast = true, .deadline_seconds = 20})
        .status();
  };
  fault::Arm(0);
  EXPECT_TRUE(restore().ok());
  const std::vector<int64_t> counts = CountOfEachRank(fault::Count());
  fault::Disarm();
  for (int rank = 0; rank < WorldSize(); ++rank) {
    for (int64_t n :
         PointsToTake(counts[rank], StrideOr(GetParam().stride), 0)) {
      SCOPED_TRACE(absl::StrCat("point ", n, " of rank ", rank));
      const Status status = WithFault(rank, n, restore);
      ExpectAgreed(status, rank);
      EXPECT_FALSE(status.ok());
      EXPECT_TRUE(RestoresAs(comm_, dir(), kLatestStep, kOldSeed));
      if (!OnAllRanks(!HasFailure())) return;
    }
  }
}

std::string NameOf(const ::testing::TestParamInfo<Configuration>& info) {
  return info.param.name;
}

INSTANTIATE_TEST_SUITE_P(All, SaveFaultTest,
                         ::testing::ValuesIn(AllConfigurations()), NameOf);
INSTANTIATE_TEST_SUITE_P(All, RestoreFaultTest,
                         ::testing::ValuesIn(ConfigurationsOfFiles()), NameOf);

}  // namespace
}  // namespace belay::testing
