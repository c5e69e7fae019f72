// Shared files that are striped, as hints say it, and written by several nodes,
// as this program makes them from the ranks of one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "values.h"

namespace belay {
namespace {

// How many ranks share a node, from rank 0 on; 0: all.
int ranks_per_node = 0;

}  // namespace
}  // namespace belay

extern "C" int MPI_Comm_split_type(MPI_Comm comm, int type, int key,
                                   MPI_Info info, MPI_Comm* made) {
  if (type != MPI_COMM_TYPE_SHARED || belay::ranks_per_node == 0) {
    return PMPI_Comm_split_type(comm, type, key, info, made);
  }
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  return PMPI_Comm_split(comm, rank / belay::ranks_per_node, key, made);
}

namespace belay::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int64_t kMiB = int64_t{1} << 20;

class StripingTest : public CheckpointTest {
 protected:
  // A communicator remembers its nodes.
  ~StripingTest() override { ranks_per_node = 0; }

  // Each rank gets `each` bytes of one array, one behind the other.
  static void AddRows(int64_t each, Values& values) {
    values.AddCut("rows", DType::kU8, {WorldSize() * each}, 0, WorldRank(),
                  WorldSize());
  }

  static SaveOptions Striped(int64_t stripe_bytes, PlanCache* cache = nullptr) {
    return {.durable = false,
            .mpi_io_hints = {{"striping_unit", absl::StrCat(stripe_bytes)},
                             {"striping_factor", "3"}},
            .cache = cache};
  }

  SaveResult SaveAndRestore(Values& values, int64_t step,
                            const SaveOptions& options) {
    values.Fill(step);
    const SaveResult saved =
        Ok(Save(comm_, run(), step, values.MakeState(), options));
    values.Spoil(step);
    EXPECT_TRUE(Restore(comm_, run(), step, values.MakeState()).ok());
    EXPECT_EQ(values.CountWrong(step), 0);
    EXPECT_TRUE(IsSameEverywhere(
        absl::StrCat(saved.ToString(), saved.counters.stripe_writers, " ",
                     saved.counters.stripe_requests, " ",
                     saved.counters.busiest_server_requests)));
    return saved;
  }
};

// More than half of the stripes belong to two ranks each.
TEST_F(StripingTest, NodesThatShareStripesAreGathered) {
  ranks_per_node = 1;
  Values values;
  AddRows(3 * kMiB / 2, values);
  PlanCache cache;
  for (int64_t step : {1, 2}) {
    const SaveResult saved =
        SaveAndRestore(values, step, Striped(kMiB, &cache));
    EXPECT_EQ(saved.plan_reused, step == 2);
    const TransferCounters& counters = saved.counters;
    EXPECT_GE(counters.stripes, 3 * size_ / 2);
    EXPECT_LE(counters.stripes, 3 * size_ / 2 + 2);
    EXPECT_EQ(counters.stripe_servers, 3);
    EXPECT_GE(counters.busiest_server_requests * 3, counters.stripe_requests);
    EXPECT_LE(counters.busiest_server_requests, counters.stripe_requests);
    EXPECT_THAT(saved.ToString(), HasSubstr("\nstripes: "));
    EXPECT_THAT(saved.ToString(), HasSubstr(" at the busiest of 3"));
    if (step == 2) {
      EXPECT_LE(counters.agreement_bytes, 64);
    }
    if (size_ == 1) {
      EXPECT_EQ(saved.transfer, Transfer::kIndependent);
      EXPECT_EQ(saved.transfer_note, "");
      continue;
    }
    EXPECT_EQ(saved.transfer, Transfer::kTwoPhase);
    EXPECT_THAT(saved.transfer_note,
                StartsWith("two phases, as nodes would else share"));
    EXPECT_THAT(saved.transfer_note,
                HasSubstr("stripes of 1.0 MiB (striping_unit)"));
    EXPECT_THAT(saved.ToString(), HasSubstr(saved.transfer_note));
    // Each has one writer, and gets its bytes in one request.
    EXPECT_EQ(counters.stripe_writers, counters.stripes);
    EXPECT_EQ(counters.stripe_requests, counters.stripes);
  }
}

TEST_F(StripingTest, OfOneNodeRanksWriteForThemselves) {
  Values values;
  AddRows(3 * kMiB / 2, values);
  const SaveResult saved = SaveAndRestore(values, 1, Striped(kMiB));
  EXPECT_EQ(saved.transfer, Transfer::kIndependent);
  EXPECT_EQ(saved.transfer_note, "");
  EXPECT_GE(saved.counters.stripe_writers,
            saved.counters.stripes + (size_ - 1) / 2);
}

// Of 16 stripes and more of each rank at most two are another's too.
TEST_F(StripingTest, NodesThatWriteWholeStripesWriteForThemselves) {
  ranks_per_node = 1;
  Values values;
  AddRows(kMiB, values);
  const SaveResult saved = SaveAndRestore(values, 1, Striped(64 << 10));
  EXPECT_EQ(saved.transfer, Transfer::kIndependent);
  const TransferCounters& counters = saved.counters;
  EXPECT_GE(counters.stripes, 16 * size_);
  EXPECT_LE(counters.stripes, 16 * size_ + 1);
  EXPECT_GE(counters.stripe_writers, counters.stripes);
  EXPECT_LE(counters.stripe_writers, counters.stripes + size_ - 1);
  EXPECT_GE(counters.stripe_requests, counters.stripe_writers);
  if (size_ == 1) return;
  EXPECT_THAT(saved.transfer_note,
              StartsWith("positional writes, as nodes share only"));
  EXPECT_THAT(saved.transfer_note,
              HasSubstr("stripes of 64.0 KiB (striping_unit)"));
}

// Columns of 16 KiB: runs are long enough, but no stripe is one node's alone.
TEST_F(StripingTest, ColumnsAreGathered) {
  ranks_per_node = 1;
  Values values;
  values.AddCut("columns", DType::kU8, {300, size_ * 16384}, 1, rank_, size_);
  SaveOptions options = Striped(kMiB);
  options.array_layout = ArrayLayout::kCanonical;
  const SaveResult saved = SaveAndRestore(values, 1, options);
  EXPECT_EQ(saved.transfer,
            size_ == 1 ? Transfer::kIndependent : Transfer::kTwoPhase);
  if (size_ > 1) {
    EXPECT_EQ(saved.counters.stripe_writers, saved.counters.stripes);
    EXPECT_THAT(saved.transfer_note,
                HasSubstr(absl::StrCat(saved.counters.stripes, " of ",
                                       saved.counters.stripes, " stripes")));
  }
  options.transfer = Transfer::kIndependent;
  const SaveResult positional = SaveAndRestore(values, 2, options);
  EXPECT_EQ(positional.transfer_note, "");
  EXPECT_EQ(positional.counters.stripes, saved.counters.stripes);
  // All write to each, but for the last one that may have few rows.
  EXPECT_GE(positional.counters.stripe_writers,
            size_ * (saved.counters.stripes - 2));
}

// Files of one node each have no stripe that another node writes.
TEST_F(StripingTest, FilesOfOneNodeAreNotCounted) {
  ranks_per_node = 1;
  Values values;
  AddRows(3 * kMiB / 2, values);
  for (const FileLayout layout : {FileLayout::kPerNode, FileLayout::kPerTask}) {
    SaveOptions options = Striped(kMiB);
    options.file_layout = layout;
    const SaveResult saved =
        SaveAndRestore(values, static_cast<int64_t>(layout), options);
    EXPECT_EQ(saved.transfer, Transfer::kIndependent);
    EXPECT_EQ(saved.transfer_note, "");
    EXPECT_EQ(saved.counters.stripes, 0);
    EXPECT_EQ(saved.counters.stripe_requests, 0);
    EXPECT_FALSE(absl::StrContains(saved.ToString(), "stripes"));
  }
}

// Short runs are gathered anywhere; on stripes, into those.
TEST_F(StripingTest, ShortRunsGoToWholeStripes) {
  ranks_per_node = 1;
  Values values;
  values.AddCut("short", DType::kU8, {20000, size_ * 100}, 1, rank_, size_);
  SaveOptions options = Striped(64 << 10);
  options.array_layout = ArrayLayout::kCanonical;
  const SaveResult saved = SaveAndRestore(values, 1, options);
  if (size_ == 1) return;
  EXPECT_EQ(saved.transfer, Transfer::kTwoPhase);
  EXPECT_THAT(saved.transfer_note, HasSubstr("runs are short"));
  EXPECT_EQ(saved.counters.stripe_writers, saved.counters.stripes);
}

// With MPI-IO nobody but that knows what goes where.
TEST_F(StripingTest, RequestsOfMpiIoAreNotCounted) {
  ranks_per_node = 1;
  Values values;
  AddRows(3 * kMiB / 2, values);
  SaveOptions options = Striped(kMiB);
  options.transfer = Transfer::kCollective;
  const SaveResult saved = SaveAndRestore(values, 1, options);
  EXPECT_EQ(saved.transfer, Transfer::kCollective);
  EXPECT_EQ(saved.transfer_note, "");
  EXPECT_EQ(saved.counters.stripes, 0);
  EXPECT_EQ(saved.counters.stripe_writers, 0);
}

}  // namespace
}  // namespace belay::testing
