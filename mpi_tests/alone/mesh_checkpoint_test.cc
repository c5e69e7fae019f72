// Checkpoint: tensors that are laid out on a mesh, as DTensor's tests of
// d_checkpoint have them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "belay/checkpoint.h"
#include "belay/checkpoint_manager.h"
#include "belay/checkpoint_reader.h"
#include "values.h"

namespace belay {
namespace {

using ::testing::HasSubstr;
using testing::Ok;

// A mesh of all ranks whose first axis has two ranks, if that can be.
Mesh TwoByN(int size) {
  const int x = size % 2 == 0 ? 2 : 1;
  return Ok(Mesh::Create({{"x", x}, {"y", size / x}}));
}

// The four ways in which the tests cut a matrix.
std::vector<LayoutAxes> AllSpecs() {
  return {{{"x"}, {}}, {{}, {"x"}}, {{"x"}, {"y"}}, {{}, {}}};
}

// This rank's piece of a matrix, whose element i is base + i.
struct Piece {
  Piece(const Mesh& mesh, const LayoutAxes& axes, const Shape& global, int rank,
        float base)
      : layout(Ok(Layout::Create(mesh, axes))),
        shape(global),
        box(Ok(layout.LocalBox(shape, rank))),
        values(NumElements(box.shape), -1) {
    Fill(base);
  }

  void Track(Tracker& tracker) {
    tracker.Value(kVariableValue, layout, shape, values);
  }

  std::vector<float> Expected(float base) const {
    std::vector<float> expected;
    for (int64_t i = 0; i < box.shape[0]; ++i) {
      for (int64_t j = 0; j < box.shape[1]; ++j) {
        const int64_t row = box.offset[0] + i, column = box.offset[1] + j;
        expected.push_back(base + static_cast<float>(row * shape[1] + column));
      }
    }
    return expected;
  }
  void Fill(float base) { values = Expected(base); }
  void Zero() { values.assign(values.size(), 0); }

  Layout layout;
  Shape shape;
  Box box;
  std::vector<float> values;
};

class MeshTest : public testing::CheckpointTest {
 protected:
  Piece Make(const LayoutAxes& axes, const Shape& shape, float base) const {
    return Piece(mesh_, axes, shape, rank_, base);
  }

  const Mesh mesh_ = TwoByN(size_);
};

TEST_F(MeshTest, CheckpointSimple) {
  for (const Shape& shape : {Shape{4, 8}, Shape{2, 4}}) {
    for (const LayoutAxes& axes : AllSpecs()) {
      Piece v = Make(axes, shape, 1);
      Checkpoint checkpoint(comm_, {{"v", v}});
      const std::string path =
          Ok(checkpoint.Save(run(), {.overwrite = true})).path;
      v.Zero();
      EXPECT_EQ(Ok(checkpoint.Restore(path)).AssertConsumed(),
                absl::OkStatus());
      EXPECT_EQ(v.values, v.Expected(1));
    }
  }
}

TEST_F(MeshTest, CheckpointWrite) {
  Piece v = Make({{"x"}, {"y"}}, {4, 8}, 1);
  Checkpoint checkpoint(comm_, {{"v", v}});
  Ok(checkpoint.SaveAs(dir_.File("v")));
  v.Zero();
  EXPECT_EQ(Ok(checkpoint.Restore(dir_.File("v"))).AssertConsumed(),
            absl::OkStatus());
  EXPECT_EQ(v.values, v.Expected(1));
}

TEST_F(MeshTest, CheckpointRestoreWithDifferentLayout) {
  for (const LayoutAxes& from : AllSpecs()) {
    Piece saved = Make(from, {4, 8}, 3);
    const std::string path =
        Ok(Checkpoint(comm_, {{"v", saved}}).Save(run(), {.overwrite = true}))
            .path;
    for (const LayoutAxes& to : AllSpecs()) {
      Piece v = Make(to, {4, 8}, 0);
      EXPECT_EQ(
          Ok(Checkpoint(comm_, {{"v", v}}).Restore(path)).AssertConsumed(),
          absl::OkStatus());
      EXPECT_EQ(v.values, v.Expected(3));
    }
  }
}

TEST_F(MeshTest, CheckpointRestoreOnAnotherMesh) {
  const Shape shape{5, 7};  // nothing divides it
  Piece saved = Make({{"x"}, {"y"}}, shape, 3);
  Ok(Checkpoint(comm_, {{"v", saved}}).Save(run()));
  const Mesh line = Ok(Mesh::Create({{"all", size_}}));
  const Mesh turned = Ok(Mesh::Create({mesh_.axes()[1], mesh_.axes()[0]}));
  const std::vector<std::pair<Mesh, LayoutAxes>> others = {
      {line, {{"all"}, {}}},
      {line, {{}, {"all"}}},
      {turned, {{"y", "x"}, {}}},
      {turned, {{"x"}, {"y"}}}};
  for (const auto& [mesh, axes] : others) {
    Piece v(mesh, axes, shape, rank_, 0);
    EXPECT_EQ(Ok(Checkpoint(comm_, {{"v", v}}).Restore(run())).AssertConsumed(),
              absl::OkStatus());
    EXPECT_EQ(v.values, v.Expected(3));
  }
}

TEST_F(MeshTest, PlainValuesAreReplicated) {
  std::vector<float> plain = {1, 2, 3, 4, 5, 6};
  const TrackedValue whole(Shape{2, 3}, plain);
  Ok(Checkpoint(comm_, {{"v", whole}}).Save(run()));
  Piece v = Make({{"x"}, {"y"}}, {2, 3}, 0);
  EXPECT_EQ(Ok(Checkpoint(comm_, {{"v", v}}).Restore(run())).AssertConsumed(),
            absl::OkStatus());
  EXPECT_EQ(v.values, v.Expected(1));
  v.Fill(5);
  Ok(Checkpoint(comm_, {{"v", v}}).Save(run(), {.overwrite = true}));
  EXPECT_EQ(
      Ok(Checkpoint(comm_, {{"v", whole}}).Restore(run())).AssertConsumed(),
      absl::OkStatus());
  EXPECT_EQ(plain, (std::vector<float>{5, 6, 7, 8, 9, 10}));
}

TEST_F(MeshTest, CheckpointInATrainLoop) {
  for (int epoch = 0; epoch < 5; ++epoch) {
    // All objects are new in every epoch.
    Piece cut = Make({{"x"}, {"y"}}, {4, 8}, 0);
    Piece replicated = Make({{}, {}}, {4, 8}, 0);
    int64_t step = -1;
    Checkpoint checkpoint(
        comm_, {{"cut", cut}, {"replicated", replicated}, {"step", step}});
    if (epoch > 0) {
      EXPECT_EQ(Ok(checkpoint.Restore(run())).AssertConsumed(),
                absl::OkStatus());
      EXPECT_EQ(step, epoch - 1);
      EXPECT_EQ(cut.values, cut.Expected(static_cast<float>(epoch)));
      EXPECT_EQ(replicated.values,
                replicated.Expected(static_cast<float>(epoch + 9)));
    }
    cut.Fill(static_cast<float>(epoch + 1));
    replicated.Fill(static_cast<float>(epoch + 10));
    step = epoch;
    EXPECT_EQ(Ok(checkpoint.Save(run())).step, epoch + 1);
  }
}

TEST_F(MeshTest, CheckpointManager) {
  Piece cut = Make({{"x"}, {"y"}}, {4, 8}, 0);
  Checkpoint checkpoint(comm_, {{"cut", cut}});
  auto manager = CheckpointManager::Create(checkpoint, run(),
                                           {.retention = {.max_to_keep = 1}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  for (const float base : {1.0f, 2.0f}) {
    cut.Fill(base);
    EXPECT_EQ(Ok(manager->Save()).outcome, SaveOutcome::kSaved);
  }
  cut.Zero();
  EXPECT_EQ(Ok(manager->RestoreOrInitialize()).step, 2);
  EXPECT_EQ(cut.values, cut.Expected(2));
  EXPECT_EQ(manager->Steps(), std::vector<int64_t>({2}));
}

TEST_F(MeshTest, SaveAsBf16) {
  Piece v = Make({{"x"}, {"y"}}, {4, 8}, 1);  // all are exact in bf16
  int64_t step = 7;
  Checkpoint checkpoint(comm_, {{"v", v}, {"step", step}});
  const std::string path =
      Ok(checkpoint.Save(run(), {.float32_as_bfloat16 = true})).path;
  const CheckpointReader reader = Ok(CheckpointReader::Open(path));
  EXPECT_EQ(Ok(reader.Find("v/.ATTRIBUTES/VARIABLE_VALUE")).dtype,
            DType::kBF16);
  v.Zero();
  step = 0;
  const Status refused = checkpoint.Restore(path).status();
  EXPECT_THAT(refused.message(), HasSubstr("need f32 [4, 8], found bf16"));
  const LoadStatus status =
      Ok(checkpoint.Restore(path, {.allow_dtype_cast = true}));
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(v.values, v.Expected(1));
  EXPECT_EQ(step, 7);
  EXPECT_THAT(status.ToString(),
              HasSubstr("\"v/.ATTRIBUTES/VARIABLE_VALUE\": f32 [4, 8] from "
                        "bf16 [4, 8]\n"));
  // The structure is the same as before, so is the plan.
  EXPECT_TRUE(
      Ok(checkpoint.Save(run(), {.float32_as_bfloat16 = true})).plan_reused);
}

TEST_F(MeshTest, PaddedVocabulary) {
  Piece saved = Make({{"x"}, {}}, {10, 4}, 1);
  const std::string path =
      Ok(Checkpoint(comm_, {{"v", saved}}).Save(run())).path;
  for (const int64_t rows : {8, 16}) {
    Piece v = Make({{"x"}, {"y"}}, {rows, 4}, 0);
    v.Zero();
    Checkpoint checkpoint(comm_, {{"v", v}});
    EXPECT_EQ(checkpoint.Restore(path).status().code(),
              absl::StatusCode::kFailedPrecondition);
    const LoadStatus status =
        Ok(checkpoint.Restore(path, {.allow_shape_mismatch = true}));
    EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
    ASSERT_EQ(status.report().converted.size(), 1);
    std::vector<float> expected = v.Expected(1);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (expected[i] > 40) expected[i] = 0;  // was not stored
    }
    EXPECT_EQ(v.values, expected);
  }
}

TEST_F(MeshTest, ReplicasAreWrittenOnce) {
  Piece v = Make({{}, {"y"}}, {64, 64}, 1);
  const SaveResult saved = Ok(Checkpoint(comm_, {{"v", v}}).SaveAs(run()));
  EXPECT_EQ(saved.counters.bytes, 64 * 64 * 4);
}

TEST_F(MeshTest, AMeshOfAnotherNumberOfRanks) {
  const Mesh mesh = Ok(Mesh::Create({{"x", size_ + 1}}));
  Piece v(mesh, {{"x"}, {}}, {16, 8}, rank_, 1);
  const Status status = Checkpoint(comm_, {{"v", v}}).Save(run()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr("v/.ATTRIBUTES/VARIABLE_VALUE"));
}

}  // namespace
}  // namespace belay
