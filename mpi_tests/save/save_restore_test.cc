// Save and Restore on one set of ranks: every type, shape, cut and option.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "values.h"

namespace belay::save_restore_test {
namespace {

using ::testing::HasSubstr;
using testing::Ok;
using testing::SumOverRanks;
using testing::Values;

constexpr DType kNumeric[] = {
    DType::kF16,    DType::kBF16, DType::kF32, DType::kF64, DType::kF8E4M3,
    DType::kF8E5M2, DType::kI8,   DType::kI16, DType::kI32, DType::kI64,
    DType::kU8,     DType::kU16,  DType::kU32, DType::kU64, DType::kBool,
    DType::kC64,    DType::kC128};

class SaveRestoreTest : public testing::CheckpointTest {
 protected:
  SaveResult ExpectSaves(Values& values, int64_t step,
                         const SaveOptions& options) {
    const auto saved = Save(comm_, run(), step, values.MakeState(), options);
    EXPECT_TRUE(saved.ok()) << saved.status();
    return saved.ok() ? *saved : SaveResult{};
  }

  // 80 arrays of all types and shapes, held in many ways; 19 of them empty.
  Values Everything() {
    Values values;
    for (DType dtype : kNumeric) {
      const std::string name(DTypeName(dtype));
      values.AddWhole("scalar/" + name, dtype, {});
      values.AddCut("rows/" + name, dtype, {13, 5}, 0, rank_, size_);
      values.AddCut("columns/" + name, dtype, {4, 11}, 1, rank_, size_);
      values.AddWhole("empty/" + name, dtype, {3, 0, 2});
    }
    values.AddText("text/empty", 0);
    values.AddText("text/short", 5);
    values.AddText("text/long", (1 << 20) + 77);
    AddOddCuts(values);
    return values;
  }

  // Several pieces per rank, ranks without any, uneven cuts and replicas.
  void AddOddCuts(Values& values) {
    for (int64_t row = 0; row < 17; ++row) {
      if (row % size_ != rank_) continue;
      values.Add("striped", DType::kI32, {17, 3}, {{row, 0}, {1, 3}});
    }
    if (rank_ == size_ - 1) {
      values.Add("last", DType::kF64, {7}, {{0}, {7}});
      values.Add("zero", DType::kF64, {0, 4}, {{0, 0}, {0, 4}});
    }
    const int64_t first = size_ == 1 ? 40 : 23;
    if (rank_ == 0) {
      values.Add("uneven", DType::kU16, {5, 40}, {{0, 0}, {5, first}});
    } else if (rank_ == 1) {
      values.Add("uneven", DType::kU16, {5, 40}, {{0, first}, {5, 40 - first}});
    }
    const int64_t x = size_ % 2 == 0 ? 2 : 1;
    const auto mesh = Mesh::Create({{"x", x}, {"y", size_ / x}});
    for (const LayoutAxes& axes :
         {LayoutAxes{{"x"}, {}}, LayoutAxes{{}, {"y"}},
          LayoutAxes{{"y"}, {"x"}}, LayoutAxes{{"x", "y"}, {}}}) {
      const auto layout = Layout::Create(*mesh, axes);
      values.AddLaidOut("mesh/" + layout->ToString(), DType::kF32, {9, 10},
                        *layout, rank_);
    }
    const Layout copies = Layout::Replicated(*mesh, 2);
    values.AddLaidOut("copies", DType::kF32, {300, 1000}, copies, rank_);
  }
};

TEST_F(SaveRestoreTest, AllTypesInAllLayoutsAndTransfers) {
  Values values = Everything();
  int64_t step = 0;
  for (FileLayout file :
       {FileLayout::kShared, FileLayout::kPerNode, FileLayout::kPerTask}) {
    for (ArrayLayout array : {ArrayLayout::kAuto, ArrayLayout::kCanonical}) {
      for (Transfer transfer : {Transfer::kCollective, Transfer::kIndependent,
                                Transfer::kHdf5, Transfer::kTwoPhase}) {
        SCOPED_TRACE(
            absl::StrCat("layouts ", file, " ", array, " transfer ", transfer));
        values.Fill(++step);
        const SaveResult saved = ExpectSaves(values, step,
                                             {.file_layout = file,
                                              .array_layout = array,
                                              .transfer = transfer,
                                              .durable = false});
        EXPECT_EQ(saved.step, step);
        EXPECT_EQ(saved.path, StepFile(step, ""));
        EXPECT_EQ(saved.num_arrays, 80);
        EXPECT_FALSE(saved.plan_reused);
        const RestoreResult restored = ExpectRestores(values, step, step);
        EXPECT_EQ(restored.num_arrays, 61);
        EXPECT_EQ(restored.blocks_partial, 0);
        EXPECT_EQ(restored.step, step);
      }
    }
  }
  EXPECT_EQ(
      *ListSteps(run()),
      std::vector<int64_t>({1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                            13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24}));
  ExpectRestores(values, kLatestStep, step);
  ExpectRestores(values, 7, 7);
}

TEST_F(SaveRestoreTest, RestoresTextsOfAnyLengthBefore) {
  std::string text = std::string("a\0b", 3) + '\0';
  std::string none;
  std::string many(3 << 20, 'x');
  const std::string need = text, long_need = many;
  State state;
  state.Add("text", text);
  state.Add("none", none);
  state.Add("many", many);
  ASSERT_EQ(Save(comm_, run(), 0, state).status(), absl::OkStatus());
  text = "something longer than what is stored";
  none = "full";
  many.clear();
  ASSERT_EQ(Restore(comm_, run(), 0, state).status(), absl::OkStatus());
  EXPECT_EQ(text, need);
  EXPECT_EQ(none, "");
  EXPECT_TRUE(many == long_need);
}

TEST_F(SaveRestoreTest, NothingAtAll) {
  Values nothing;
  const SaveResult saved = ExpectSaves(nothing, 3, {});
  EXPECT_EQ(saved.num_arrays, 0);
  EXPECT_EQ(saved.rounds, 0);
  EXPECT_EQ(saved.counters.files, 0);
  EXPECT_EQ(ExpectRestores(nothing, 3, 0).num_arrays, 0);
}

TEST_F(SaveRestoreTest, OddSettings) {
  Values values;
  values.AddCut("rows", DType::kF32, {301, 70}, 0, rank_, size_);
  values.AddCut("columns", DType::kI64, {70, 301}, 1, rank_, size_);
  values.AddText("text", 9000);
  int64_t step = 0;
  const SaveOptions settings[] = {
      {.checksums = false, .durable = false},
      {.durable = true, .read_back = true},
      {.file_layout = FileLayout::kPerTask, .durable = true, .read_back = true},
      {.mpi_io_hints = {{"romio_cb_write", "enable"}, {"cb_nodes", "1"}}}};
  for (const SaveOptions& options : settings) {
    values.Fill(++step);
    ExpectSaves(values, step, options);
    const RestoreResult restored = ExpectRestores(values, step, step);
    EXPECT_EQ(restored.blocks_verified, options.checksums ? 3 : 0);
  }
  const State state = values.MakeState();
  const auto restored = Restore(comm_, run(), 2, state, {.checksums = false});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(restored->blocks_verified, 0);
  EXPECT_EQ(values.CountWrong(2), 0);
}

TEST_F(SaveRestoreTest, ManyRoundsOfFourKibibytes) {
  Values values;
  values.AddCut("rows", DType::kF32, {64, 700}, 0, rank_, size_);
  values.AddCut("columns", DType::kC128, {70, 301}, 1, rank_, size_);
  values.AddText("text", 50000);
  const int64_t need = SumOverRanks(values.num_bytes()) / size_ / 4096;
  int64_t step = 0;
  for (Transfer transfer : {Transfer::kCollective, Transfer::kIndependent,
                            Transfer::kHdf5, Transfer::kTwoPhase}) {
    for (FileLayout layout : {FileLayout::kShared, FileLayout::kPerNode}) {
      values.Fill(++step);
      const SaveResult saved = ExpectSaves(values, step,
                                           {.file_layout = layout,
                                            .transfer = transfer,
                                            .max_bytes_in_flight = 4096,
                                            .durable = false});
      EXPECT_GE(saved.rounds, need / 2);
      EXPECT_LE(saved.rounds, 4 * need + 8);
      if (transfer == Transfer::kCollective) {
        EXPECT_EQ(saved.counters.collective_io, saved.rounds);
      }
      if (transfer == Transfer::kIndependent ||
          transfer == Transfer::kTwoPhase) {
        EXPECT_EQ(saved.counters.collective_io, 0);
      }
      EXPECT_EQ(saved.transfer, transfer);
      ExpectRestores(values, step, step);
    }
  }
}

TEST_F(SaveRestoreTest, OverwriteReplacesTheStep) {
  Values values;
  values.AddCut("a", DType::kF32, {40}, 0, rank_, size_);
  values.Fill(1);
  ExpectSaves(values, 5, {});
  values.Fill(2);
  EXPECT_EQ(Save(comm_, run(), 5, values.MakeState()).status(),
            absl::AlreadyExistsError(absl::StrCat(
                "save \"", StepFile(5, ""),
                "\": the step is committed already; choose another number or "
                "set SaveOptions.overwrite [rank 0 of ",
                size_, "]")));
  ExpectRestores(values, 5, 1);
  values.Fill(2);
  ExpectSaves(values, 5, {.overwrite = true});
  ExpectRestores(values, 5, 2);
  values.Fill(3);
  ExpectSaves(values, 6, {.overwrite = true});
  ExpectRestores(values, kLatestStep, 3);
  EXPECT_EQ(testing::Names(run()), "step_00000005 step_00000006");
}

// A directory that holds a step is one, whatever its name.
TEST_F(SaveRestoreTest, AnyDirectoryThatHoldsAStep) {
  Values values;
  values.AddWhole("a", DType::kF32, {4});
  for (int64_t step : {3, 5}) {
    values.Fill(static_cast<uint64_t>(step));
    ExpectSaves(values, step, {});
  }
  const auto copy_of_3 = [&](const std::string& name) {
    if (rank_ == 0) {
      std::filesystem::copy(StepFile(3, ""), run() + "/" + name,
                            std::filesystem::copy_options::recursive);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return run() + "/" + name;
  };
  const auto expect_3 = [&](const std::string& path) {
    values.Spoil(3);
    const RestoreResult restored =
        Ok(Restore(comm_, path, kLatestStep, values.MakeState()));
    EXPECT_EQ(values.CountWrong(3), 0);
    EXPECT_EQ(restored.step, 3);
    EXPECT_EQ(restored.path, path);
  };
  expect_3(StepFile(3, ""));
  expect_3(copy_of_3("best"));
  // A copy under another number says whose it is, and is no other step.
  const std::string renamed = copy_of_3("step_00000009");
  expect_3(renamed);
  for (const std::optional<int64_t> step : {std::optional<int64_t>(9), {}}) {
    const Status status =
        Restore(comm_, run(), step, values.MakeState()).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("the index is of another step (need 9, found 3); to "
                          "restore a copy pass the path of the step itself "
                          "with kLatestStep"));
  }
  ExpectRestores(values, 5, 5);
}

TEST_F(SaveRestoreTest, ASaveThatRunsIsNoStep) {
  Values values;
  values.AddWhole("a", DType::kF32, {4});
  values.Fill(1);
  ExpectSaves(values, 3, {});
  if (rank_ == 0) {
    std::filesystem::copy(StepFile(3, ""), StepFile(3, "") + ".inprogress",
                          std::filesystem::copy_options::recursive);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const Status status = Restore(comm_, StepFile(3, "") + ".inprogress/",
                                kLatestStep, values.MakeState())
                            .status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("not committed"));
}

// The names of steps: at least eight digits, at most all that int64_t has.
TEST_F(SaveRestoreTest, TheLargestStep) {
  Values values;
  values.AddWhole("a", DType::kF32, {4});
  for (int64_t step : {int64_t{0}, int64_t{123456789}, INT64_MAX}) {
    values.Fill(1);
    ExpectSaves(values, step, {});
    ExpectRestores(values, kLatestStep, 1);
  }
  EXPECT_EQ(*ListSteps(run()), std::vector<int64_t>({0, 123456789, INT64_MAX}));
}

// Rank counts of results are sums or maxima over all ranks, equal everywhere.
TEST_F(SaveRestoreTest, CountersAddUp) {
  Values values;
  values.AddCut("rows", DType::kF32, {4 * size_, 100}, 0, rank_, size_);
  values.AddWhole("copies", DType::kF64, {1000});
  values.Fill(1);
  const int64_t bytes = 4 * size_ * 100 * 4 + 8000;
  const SaveResult saved = ExpectSaves(values, 1, {});
  EXPECT_EQ(saved.counters.bytes, bytes);
  EXPECT_EQ(saved.counters.files, 1);
  EXPECT_EQ(saved.rounds, 1);
  EXPECT_EQ(saved.transfer, Transfer::kTwoPhase);
  EXPECT_EQ(saved.counters.collective_io, 0);
  EXPECT_GE(saved.counters.io_calls, 1);
  EXPECT_LE(saved.counters.io_calls, 2 * size_);
  EXPECT_GT(saved.counters.peak_memory_bytes, 1 << 20);
  std::string stages;
  for (const StageTime& time : saved.counters.stages) {
    EXPECT_GE(time.seconds, 0) << time.stage;
    absl::StrAppend(&stages, time.stage, " ");
  }
  EXPECT_EQ(stages, size_ == 1
                        ? "list plan reserve write verify commit "
                        : "list plan compare reserve write verify commit ");
  EXPECT_EQ(saved.transfer_note, "");
  const RestoreResult restored = ExpectRestores(values, 1, 1);
  EXPECT_EQ(restored.counters.files, 1);
  EXPECT_EQ(restored.counters.bytes, 4 * size_ * 100 * 4 + 8000 * size_);
  EXPECT_EQ(restored.blocks_verified, 2);
  const SaveResult per_task =
      ExpectSaves(values, 2, {.file_layout = FileLayout::kPerTask});
  EXPECT_EQ(per_task.counters.files, size_);
  EXPECT_EQ(per_task.counters.bytes, bytes);
}

// What is sent does not depend on the number of variables.
TEST_F(SaveRestoreTest, MessagesDoNotGrowWithVariables) {
  std::vector<int64_t> messages[2];
  // The first save of a communicator finds out which ranks share a node.
  Values one;
  one.AddCut("one", DType::kF32, {8, 3}, 0, rank_, size_);
  ExpectSaves(one, 100, {.durable = false});
  for (int many : {0, 1}) {
    Values values;
    for (int i = 0; i < (many ? 500 : 5); ++i) {
      values.AddCut(absl::StrCat("v", i), DType::kF32, {8, 3}, 0, rank_, size_);
    }
    values.Fill(1);
    int64_t step = 10 * many;
    PlanCache cache;
    for (Transfer transfer :
         {Transfer::kCollective, Transfer::kIndependent, Transfer::kTwoPhase}) {
      for (int repeat = 0; repeat < 2; ++repeat) {
        const SaveResult saved = ExpectSaves(
            values, ++step,
            {.transfer = transfer, .durable = false, .cache = &cache});
        EXPECT_EQ(saved.plan_reused, repeat == 1);
        messages[many].push_back(saved.counters.messages);
      }
    }
    messages[many].push_back(ExpectRestores(values, step, 1).counters.messages);
  }
  EXPECT_EQ(messages[0], messages[1]);
  EXPECT_LT(messages[0][1], messages[0][0]);
}

// Groups that do not wait for each other: the first one saves more often.
TEST_F(SaveRestoreTest, GroupsOfRanksSaveAtATime) {
  const int group = rank_ % 2;
  Comm comm = *comm_.Split(group);
  const std::string dir = absl::StrCat(run(), "_of_group_", group);
  const int64_t steps = group == 0 ? 6 : 3;
  std::vector<double> rows(1000, comm_.rank());
  State state;
  state.AddPiece("rows", {1000 * comm.size()}, {{1000 * comm.rank()}, {1000}},
                 AtAddress(rows.data()));
  for (int64_t step = 0; step < steps; ++step) {
    rows[0] = static_cast<double>(step);
    EXPECT_EQ(Save(comm, dir, step, state, {.durable = false}).status(),
              absl::OkStatus());
  }
  rows.assign(rows.size(), -1);
  EXPECT_EQ(Restore(comm, dir, kLatestStep, state).status(), absl::OkStatus());
  EXPECT_EQ(rows[0], static_cast<double>(steps - 1));
  EXPECT_EQ(std::count(rows.begin() + 1, rows.end(), comm_.rank()), 999);
  EXPECT_EQ(comm.Close(), absl::OkStatus());
}

}  // namespace
}  // namespace belay::save_restore_test
