// Layouts on a mesh of more or fewer ranks than the communicator has: every way
// to save and to restore says so, on all ranks, and leaves the disk alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/async_saver.h"
#include "belay/checkpoint.h"
#include "belay/checkpoint_reader.h"
#include "belay/reader/copy_checkpoint.h"
#include "values.h"

namespace belay::mesh_size_test {
namespace {

using ::testing::HasSubstr;
using testing::IsSameEverywhere;
using testing::Names;
using testing::Ok;

constexpr int64_t kLength = 24;

class MeshSizeTest : public testing::CheckpointTest {
 protected:
  void SetUp() override {
    whole_.resize(kLength, 1);
    State state;
    state.AddReplicated("w", {kLength}, whole_);
    Ok(Save(comm_, run(), 1, state));
    if (rank_ == 0) {
      before_ = Names(run());
    }
  }

  // The same error on all ranks, with both numbers.
  void ExpectRefused(const Status& status, const Layout& layout,
                     const std::string& key = "w") {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrFormat(
                    "list \"%s\": the layout %s is for another number of ranks "
                    "(need %d, found %d); Layout::OnRanks makes one for the "
                    "communicator",
                    key, layout.ToString(), size_, layout.mesh().num_ranks())));
    EXPECT_TRUE(IsSameEverywhere(status.ToString()));
    if (rank_ == 0) {
      EXPECT_EQ(Names(run()), before_);
    }
  }

  // Layouts for so many ranks: one that cuts the array, one of which any ranks
  // hold all, and copies.
  static std::vector<Layout> LayoutsFor(int num_ranks) {
    const Mesh mesh = *Mesh::Create({{"y", num_ranks}, {"x", 1}});
    return {*Layout::Create(mesh, {{"y"}}), *Layout::Create(mesh, {{"x"}}),
            Layout::Replicated(mesh, 1)};
  }

  std::vector<Layout> WrongLayouts() const {
    std::vector<Layout> all;
    for (const int ranks : {1, size_ - 1, size_ + 1, 8}) {
      if (ranks < 1 || ranks == size_) continue;
      for (Layout& layout : LayoutsFor(ranks)) {
        all.push_back(std::move(layout));
      }
    }
    // All of it is held, twice by some.
    all.push_back(*Layout::Parse("[x] on y=8,x=2"));
    return all;
  }

  // The piece of this rank, and memory for it; on a rank that the mesh does not
  // have, memory for all.
  State StateOf(const Layout& layout) {
    const auto box = layout.LocalBox({kLength}, rank_);
    mine_.assign(box.ok() ? box->shape[0] : kLength, 1);
    State state;
    state.AddLaidOut("w", layout, {kLength}, rank_, mine_);
    return state;
  }

  std::vector<double> whole_, mine_;
  std::string before_;  // rank 0 only
};

TEST_F(MeshSizeTest, Saves) {
  AsyncSaver saver(comm_);
  PlanCache cache;
  for (const Layout& layout : WrongLayouts()) {
    SCOPED_TRACE(layout.ToString());
    const State state = StateOf(layout);
    ExpectRefused(Save(comm_, run(), 2, state).status(), layout);
    ExpectRefused(Save(comm_, run(), 2, state, {.cache = &cache}).status(),
                  layout);
    ExpectRefused(saver.Save(run(), 2, state).status(), layout);
  }
  EXPECT_TRUE(saver.Close().ok());
}

TEST_F(MeshSizeTest, Restores) {
  for (const Layout& layout : WrongLayouts()) {
    SCOPED_TRACE(layout.ToString());
    const State state = StateOf(layout);
    ExpectRefused(Restore(comm_, run(), 1, state).status(), layout);
    ExpectRefused(Restore(comm_, run(), kLatestStep, state).status(), layout);
    ExpectRefused(RestoreLatest(comm_, run(), state).status(), layout);
    State later;
    ExpectRefused(Restore(comm_, run(), 1, later,
                          {.on_open =
                               [&](const StoredStep&) {
                                 later = StateOf(layout);
                                 return absl::OkStatus();
                               }})
                      .status(),
                  layout);
  }
}

// Memory of the wrong length is not the cause.
TEST_F(MeshSizeTest, MemoryForTheRanksThatThereAre) {
  const Layout layout = LayoutsFor(2 * size_ + 1)[0];
  std::vector<double> mine(
      Layout(LayoutsFor(size_)[0]).LocalBox({kLength}, rank_)->shape[0]);
  State state;
  state.AddLaidOut("w", layout, {kLength}, rank_, mine);
  ExpectRefused(Save(comm_, run(), 2, state).status(), layout);
  ExpectRefused(Restore(comm_, run(), 1, state).status(), layout);
  Checkpoint checkpoint(comm_, {{"w", TrackedValue(layout, {kLength}, mine)}});
  ExpectRefused(checkpoint.Save(run()).status(), layout,
                "w/.ATTRIBUTES/VARIABLE_VALUE");
}

TEST_F(MeshSizeTest, Objects) {
  for (const Layout& layout : WrongLayouts()) {
    SCOPED_TRACE(layout.ToString());
    StateOf(layout);
    Checkpoint checkpoint(comm_,
                          {{"w", TrackedValue(layout, {kLength}, mine_)}});
    const std::string key = "w/.ATTRIBUTES/VARIABLE_VALUE";
    ExpectRefused(checkpoint.Save(run()).status(), layout, key);
    ExpectRefused(checkpoint.SaveAs(run() + "/any").status(), layout, key);
    ExpectRefused(checkpoint.Restore(run()).status(), layout, key);
    AsyncSaver saver(comm_);
    ExpectRefused(saver.Save(checkpoint, run()).status(), layout, key);
    EXPECT_TRUE(saver.Close().ok());
  }
}

TEST_F(MeshSizeTest, LayoutsForTheseRanksAreTaken) {
  for (const Layout& layout : LayoutsFor(size_)) {
    Ok(Save(comm_, run(), 2, StateOf(layout), {.overwrite = true}));
    Ok(Restore(comm_, run(), 2, StateOf(layout)));
    Ok(Restore(comm_, run(), 2, StateOf(layout.OnRanks(size_))));
  }
  // An array of some ranks is added by its boxes.
  const Layout half = LayoutsFor(std::max(1, size_ - 1))[0];
  const auto box = half.LocalBox({kLength}, rank_);
  mine_.assign(box.ok() ? box->shape[0] : 0, 1);
  State state;
  if (box.ok()) state.AddPiece("w", {kLength}, *box, mine_);
  Ok(Save(comm_, run(), 3, state));
}

// What is stored may have been laid out on any mesh.
TEST_F(MeshSizeTest, CopiesKeepTheirLayouts) {
  const Layout layout = LayoutsFor(size_)[0];
  Ok(Save(comm_, run(), 2, StateOf(layout)));
  const Comm alone = Ok(comm_.Split(rank_ == 0 ? 0 : 1));
  if (rank_ == 0) {
    Ok(CopyCheckpoint(alone, run(), 2, run() + "/copy", std::nullopt));
    EXPECT_EQ(Ok(ListVariables(run() + "/copy"))[0].layout, layout.ToString());
  }
}

}  // namespace
}  // namespace belay::mesh_size_test
