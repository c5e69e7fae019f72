// Hints reach the creation of every data file, seen between the library and
// MPI.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "belay/values/save_args.h"
#include "mpi/mpi_file.h"
#include "small_state.h"

namespace belay {
namespace {

using Hints = std::map<std::string, std::string>;

// What this rank has created by MPI-IO since it was cleared: hints by file.
std::map<std::string, Hints> created;
// All opens on this rank alone.
int opens_alone = 0;
// What the next creation on this rank returns.
int next_code = MPI_SUCCESS;

Hints HintsOf(MPI_Info info) {
  Hints hints;
  int count = 0;
  if (info != MPI_INFO_NULL) PMPI_Info_get_nkeys(info, &count);
  for (int i = 0; i < count; ++i) {
    char key[MPI_MAX_INFO_KEY + 1] = {};
    char value[MPI_MAX_INFO_VAL + 1] = {};
    int found = 0;
    PMPI_Info_get_nthkey(info, i, key);
    PMPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
    hints[key] = value;
  }
  return hints;
}

}  // namespace
}  // namespace belay

extern "C" int MPI_File_open(MPI_Comm comm, const char* path, int mode,
                             MPI_Info info, MPI_File* file) {
  int size = 0;
  PMPI_Comm_size(comm, &size);
  if (comm == MPI_COMM_SELF) ++belay::opens_alone;
  if ((mode & MPI_MODE_CREATE) != 0) {
    belay::created[std::filesystem::path(path).filename()] =
        belay::HintsOf(info);
    const int code = std::exchange(belay::next_code, MPI_SUCCESS);
    if (code != MPI_SUCCESS) return code;
  }
  return PMPI_File_open(comm, path, mode, info, file);
}

namespace belay::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kSeed = 3;

class MpiIoHintsTest : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_TRUE(comm_.Close().ok()); }

  Status SaveStep(int64_t step, const SaveOptions& options) {
    created.clear();
    opens_alone = 0;
    SmallValues values(kSeed);
    return Save(comm_, run(), step, values.state(), options).status();
  }

  // The names of all data files of the step.
  std::set<std::string> DataFiles(int64_t step) const {
    std::set<std::string> names;
    const std::string path = run() + "/step_0000000" + std::to_string(step);
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("data_")) names.insert(name);
    }
    return names;
  }

  // That MPI-IO has created each data file once, on one rank, with `hints`.
  void ExpectCreated(int64_t step, const Hints& hints) {
    EXPECT_FALSE(DataFiles(step).empty());
    for (const std::string& name : DataFiles(step)) {
      const int mine = created.contains(name) ? 1 : 0;
      int all = 0;
      MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      EXPECT_EQ(all, 1) << name;
    }
    for (const auto& [name, found] : created) {
      EXPECT_EQ(found, hints) << name;
      EXPECT_TRUE(DataFiles(step).contains(name)) << name;
    }
    EXPECT_EQ(opens_alone, created.size());
  }

  std::string run() const { return scratch_.File("run"); }

  ScratchDir scratch_;
  Comm comm_ = Ok(Comm::Duplicate(MPI_COMM_WORLD));
};

class EveryWayTest
    : public MpiIoHintsTest,
      public ::testing::WithParamInterface<std::tuple<FileLayout, Transfer>> {
 protected:
  static SaveOptions Options() {
    return {.file_layout = std::get<0>(GetParam()),
            .transfer = std::get<1>(GetParam())};
  }
};

TEST_P(EveryWayTest, DataFilesAreCreatedWithThem) {
  SaveOptions options = Options();
  PlanCache cache;
  options.cache = &cache;
  options.mpi_io_hints = {{"striping_factor", "8"},
                          {"striping_unit", "4194304"}};
  // The second step makes its files from those of the first.
  for (const int64_t step : {1, 2}) {
    EXPECT_EQ(SaveStep(step, options), absl::OkStatus());
    ExpectCreated(step, options.mpi_io_hints);
    EXPECT_TRUE(RestoresAs(comm_, run(), step, kSeed));
  }
}

TEST_P(EveryWayTest, WithoutThemMpiCreatesNothing) {
  EXPECT_EQ(SaveStep(1, Options()), absl::OkStatus());
  EXPECT_TRUE(created.empty());
  EXPECT_EQ(opens_alone, 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryWayTest,
    ::testing::Combine(
        ::testing::Values(FileLayout::kShared, FileLayout::kPerNode,
                          FileLayout::kPerTask),
        ::testing::Values(Transfer::kAuto, Transfer::kIndependent,
                          Transfer::kTwoPhase, Transfer::kCollective,
                          Transfer::kHdf5)));

// Files with filters are made by HDF5.
TEST_F(MpiIoHintsTest, AlsoFilesWithFilters) {
  const SaveOptions options = {
      .args = {{"model/.*", {.chunk_byte_size = 40, .filters = Deflate()}}},
      .mpi_io_hints = {{"striping_factor", "8"}}};
  EXPECT_EQ(SaveStep(1, options), absl::OkStatus());
  ExpectCreated(1, options.mpi_io_hints);
  EXPECT_TRUE(RestoresAs(comm_, run(), 1, kSeed));
}

TEST_F(MpiIoHintsTest, AnUnknownHintIsIgnored) {
  EXPECT_EQ(SaveStep(1, {.mpi_io_hints = {{"no_such_hint", "deep"}}}),
            absl::OkStatus());
  EXPECT_TRUE(RestoresAs(comm_, run(), 1, kSeed));
}

TEST_F(MpiIoHintsTest, AnErrorOfMpiIsToldToAll) {
  const std::vector<std::pair<int, absl::StatusCode>> codes = {
      {MPI_ERR_QUOTA, absl::StatusCode::kResourceExhausted},
      {MPI_ERR_IO, absl::StatusCode::kUnavailable}};
  for (const auto& [of_mpi, code] : codes) {
    if (WorldRank() == WorldSize() - 1) next_code = of_mpi;
    const Status status =
        SaveStep(1, {.file_layout = FileLayout::kPerTask,
                     .mpi_io_hints = {{"striping_factor", "8"}}});
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("create \""));
    for (const std::string& text : GatherStatus(status)) {
      EXPECT_EQ(text, status.ToString());
    }
    EXPECT_FALSE(std::filesystem::exists(run() + "/step_00000001"));
  }
}

TEST_F(MpiIoHintsTest, OneThatMpiCannotTakeIsRefused) {
  const Status status = SaveStep(1, {.mpi_io_hints = {{"", "8"}}});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("set hint: key"));
}

TEST_F(MpiIoHintsTest, AFileThatIsThereIsLeftAlone) {
  const std::string path = scratch_.File(std::to_string(WorldRank()));
  std::ofstream(path) << "mine";
  EXPECT_EQ(CreateFileWithHints(path, {}).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(std::filesystem::file_size(path), 4);
}

}  // namespace
}  // namespace belay::testing
