// Checkpoint: what is restored, when, and from what.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "belay/checkpoint.h"
#include "thing.h"
#include "values.h"

namespace belay::checkpoint_restore_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::Ok;

using ObjectsRestoreTest = testing::CheckpointTest;

TEST_F(ObjectsRestoreTest, InitializeWithRootObject) {
  float a = 1, b = 2;
  Thing root{.children = {{"v", a}}};
  Checkpoint checkpoint(comm_, root);
  Ok(checkpoint.Save(run()));

  Thing late;
  Checkpoint other(comm_, late);
  const LoadStatus status = Ok(other.Restore(run()));
  EXPECT_NE(status.AssertConsumed(), absl::OkStatus());
  late.children.emplace_back("v", b);
  EXPECT_EQ(Ok(other.RestoreDeferred()).AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(b, 1);
}

TEST_F(ObjectsRestoreTest, LateDependencyTracking) {
  float v = 123;
  Thing dependency{.children = {{"v", v}}};
  Checkpoint(comm_, {{"dep", dependency}}).Save(run()).IgnoreError();

  float late_v = 0;
  Thing late{.children = {{"v", late_v}}};
  Thing root;
  Checkpoint loading(comm_, root);
  LoadStatus status = Ok(loading.Restore(run()));
  EXPECT_EQ(status.AssertExistingObjectsMatched(), absl::OkStatus());
  EXPECT_THAT(status.AssertConsumed().message(), HasSubstr("(root).dep"));
  root.children.emplace_back("dep", late);
  EXPECT_EQ(late_v, 0);
  status = Ok(loading.RestoreDeferred());
  EXPECT_EQ(status.AssertExistingObjectsMatched(), absl::OkStatus());
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(late_v, 123);
  // What was restored once stays as the program has it.
  late_v = 7;
  EXPECT_EQ(Ok(loading.RestoreDeferred()).AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(late_v, 7);
}

TEST_F(ObjectsRestoreTest, OverlappingRestores) {
  for (const bool first_later : {false, true}) {
    const std::string dir = run() + (first_later ? "1" : "0");
    float saved = 13;
    Thing dep{.children = {{"var", saved}}};
    Thing first{.children = {{"dep", dep}}};
    Thing second{.children = {{"dep", dep}}};
    Checkpoint one(comm_, first), two(comm_, second);
    const std::string path_one = Ok(one.Save(dir)).path;
    saved = 12;
    const std::string path_two = Ok(two.SaveAs(dir + "/other")).path;

    float value = 0;
    Thing loaded{.children = {{"var", value}}};
    Thing root;
    Checkpoint both(comm_, root);
    Ok(both.Restore(first_later ? path_two : path_one));
    Ok(both.Restore(first_later ? path_one : path_two));
    root.children.emplace_back("dep", loaded);
    EXPECT_EQ(Ok(both.RestoreDeferred()).AssertConsumed(), absl::OkStatus());
    EXPECT_EQ(value, first_later ? 13 : 12);  // the last restore wins
  }
}

TEST_F(ObjectsRestoreTest, AnOlderRestoreFillsWhatANewerOneDoesNotHave) {
  float a = 1, b = 2;
  Checkpoint(comm_, {{"a", a}, {"b", b}})
      .SaveAs(dir_.File("old"))
      .IgnoreError();
  a = 10;
  Checkpoint(comm_, {{"a", a}}).SaveAs(dir_.File("new")).IgnoreError();
  Thing root;
  Checkpoint loading(comm_, root);
  Ok(loading.Restore(dir_.File("old")));
  Ok(loading.Restore(dir_.File("new")));
  a = b = 0;
  root.children = {{"a", a}, {"b", b}};
  Ok(loading.RestoreDeferred());
  EXPECT_EQ(a, 10);
  EXPECT_EQ(b, 2);
}

TEST_F(ObjectsRestoreTest, DeferredValuesOfAStepThatWasReplaced) {
  float a = 1;
  Thing root;
  Checkpoint loading(comm_, root), saving(comm_, {{"a", a}});
  Ok(saving.SaveAs(dir_.File("x")));
  Ok(loading.Restore(dir_.File("x")));
  Ok(saving.SaveAs(dir_.File("x"), {.overwrite = true}));
  root.children = {{"a", a}};
  EXPECT_THAT(loading.RestoreDeferred().status().message(),
              HasSubstr("another save has replaced the step"));
}

TEST_F(ObjectsRestoreTest, AmbiguousLoad) {
  float v = 123;
  Thing leaf{.children = {{"v", v}}};
  Checkpoint(comm_, {{"one", leaf}, {"two", leaf}}).Save(run()).IgnoreError();
  float v1 = 0, v2 = 0;
  Thing one{.children = {{"v", v1}}}, two{.children = {{"v", v2}}};
  Checkpoint split(comm_, {{"one", one}, {"two", two}});
  const LoadStatus status = Ok(split.Restore(run()));
  EXPECT_NE(status.AssertConsumed(), absl::OkStatus());
  EXPECT_NE(status.AssertExistingObjectsMatched(), absl::OkStatus());
  EXPECT_EQ(v1, 123);
  EXPECT_EQ(v2, 0);
  ASSERT_EQ(status.report().warnings.size(), 1);
  EXPECT_THAT(status.report().warnings[0],
              HasSubstr("Inconsistent references"));
}

TEST_F(ObjectsRestoreTest, AnOlderRestoreWhoseCheckpointIsGone) {
  float a = 1, b = 2;
  Ok(Checkpoint(comm_, {{"a", a}, {"b", b}}).SaveAs(dir_.File("old")));
  Ok(Checkpoint(comm_, {{"a", a}, {"c", b}}).SaveAs(dir_.File("new")));
  Thing root;
  Checkpoint loading(comm_, root);
  Ok(loading.Restore(dir_.File("old")));
  Ok(loading.Restore(dir_.File("new")));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) std::filesystem::remove_all(dir_.File("old"));
  MPI_Barrier(MPI_COMM_WORLD);
  a = b = 0;
  root.children = {{"a", a}};
  EXPECT_TRUE(Ok(loading.RestoreDeferred()).report().warnings.empty());
  EXPECT_EQ(a, 1);
  root.children.emplace_back("b", b);
  const LoadStatus status = Ok(loading.RestoreDeferred());
  EXPECT_EQ(b, 0);
  ASSERT_EQ(status.report().warnings.size(), 1);
  EXPECT_THAT(status.report().warnings[0], HasSubstr("no longer pending"));
  EXPECT_TRUE(Ok(loading.RestoreDeferred()).report().warnings.empty());
}

// A loop that asks for deferred values goes on when old steps are deleted.
TEST_F(ObjectsRestoreTest, ACheckpointThatIsGoneMattersOnlyIfItIsRead) {
  float a = 1, b = 2;
  Ok(Checkpoint(comm_, {{"a", a}, {"b", b}}).SaveAs(dir_.File("old")));
  Thing root{.children = {{"a", a}}};
  Checkpoint loading(comm_, root);
  Ok(loading.Restore(dir_.File("old")));
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank_ == 0) std::filesystem::remove_all(dir_.File("old"));
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(Ok(loading.RestoreDeferred()).report().matched.size(), 1u);
  root.children.emplace_back("b", b);
  EXPECT_TRUE(absl::IsNotFound(loading.RestoreDeferred().status()));
}

TEST_F(ObjectsRestoreTest, ObjectsCombined) {
  float v1 = 123, v2 = 123;
  Thing one{.children = {{"v", v1}}}, two{.children = {{"v", v2}}};
  Checkpoint(comm_, {{"one", one}, {"two", two}}).Save(run()).IgnoreError();
  float v = 0;
  Thing leaf{.children = {{"v", v}}};
  Checkpoint combined(comm_, {{"one", leaf}, {"two", leaf}});
  const LoadStatus status = Ok(combined.Restore(run()));
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(v, 123);
}

TEST_F(ObjectsRestoreTest, AssertConsumedNoCheckpoint) {
  float v = 1;
  auto checkpoint =
      std::make_unique<Checkpoint>(comm_, Checkpoint::Objects{{"v", v}});
  Ok(checkpoint->Save(run()));
  const LoadStatus status = Ok(checkpoint->Restore(run()));
  checkpoint.reset();
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
}

TEST_F(ObjectsRestoreTest, NoPathRestoresNothing) {
  float v = 1;
  Checkpoint checkpoint(comm_, {{"v", v}});
  EXPECT_EQ(Ok(checkpoint.Restore("")).kind(),
            LoadStatus::Kind::kInitializationOnly);
  EXPECT_EQ(Ok(checkpoint.RestoreDeferred()).kind(),
            LoadStatus::Kind::kInitializationOnly);
}

TEST_F(ObjectsRestoreTest, RestoreIncompatibleShape) {
  std::vector<float> a = {1, 2}, b = {3, 4, 5};
  double c = 6;
  Checkpoint(comm_, {{"a", a}, {"b", b}, {"c", c}}).Save(run()).IgnoreError();
  std::array<float, 3> other_a = {-1, -1, -1};
  std::vector<float> same_b(3, -1);
  float other_c = -1;
  Checkpoint wrong(comm_, {{"a", other_a}, {"b", same_b}, {"c", other_c}});
  const Status status = wrong.Restore(run()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      status.message(),
      HasSubstr(
          "2 values are stored with another dtype or shape, nothing was "
          "restored: \"a/.ATTRIBUTES/VARIABLE_VALUE\" (need f32 [3], "
          "found f32 [2]), \"c/.ATTRIBUTES/VARIABLE_VALUE\" (need f32 "
          "[], found f64 []); RestoreOptions.allow_dtype_cast converts "
          "numbers; RestoreOptions.allow_shape_mismatch restores what both "
          "shapes have in common"));
  EXPECT_THAT(std::string(status.message()),
              EndsWith(absl::StrCat(" [rank 0 of ", size_, "]")));
  EXPECT_EQ(same_b, std::vector<float>(3, -1));
  EXPECT_EQ(wrong.save_counter(), 0);
  // What failed is forgotten.
  EXPECT_EQ(Ok(wrong.RestoreDeferred()).kind(),
            LoadStatus::Kind::kInitializationOnly);
}

TEST_F(ObjectsRestoreTest, PartialRestoreWarningAttribute) {
  float v1 = 1, v2 = 2;
  Checkpoint(comm_, {{"v1", v1}, {"v2", v2}}).Save(run()).IgnoreError();
  Checkpoint partial(comm_, {{"v2", v2}});
  LoadStatus status = Ok(partial.Restore(run()));
  EXPECT_THAT(status.PartialWarning(), HasSubstr("(root).v1"));
  EXPECT_THAT(status.PartialWarning(), ::testing::Not(HasSubstr("(root).v2")));
  EXPECT_EQ(status.ExpectPartial().PartialWarning(), "");
}

TEST_F(ObjectsRestoreTest, SlotsOfAnOptimizer) {
  std::vector<float> w = {1, 2}, m = {3, 4};
  Thing model{.children = {{"w", w}}};
  Thing adam{.slots = {{"m", w, m}}};
  Checkpoint checkpoint(comm_, {{"model", model}, {"adam", adam}});
  Ok(checkpoint.Save(run()));
  std::vector<float> late_m = {0, 0};
  w = {0, 0};
  Thing bare;
  Checkpoint later(comm_, {{"model", model}, {"adam", bare}});
  EXPECT_THAT(Ok(later.Restore(run())).AssertConsumed().message(),
              HasSubstr("(root).adam's state 'm' for (root).model.w"));
  EXPECT_EQ(w[1], 2);
  bare.slots = {{"m", w, late_m}};
  EXPECT_EQ(Ok(later.RestoreDeferred()).AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(late_m[1], 4);
}

TEST_F(ObjectsRestoreTest, NameBasedSaver) {
  std::vector<float> kernel = {1, 2, 3};
  int64_t steps = 7;
  State state;
  state.AddReplicated("model/kernel", {3}, AtAddress(kernel.data()));
  state.Add("steps", steps);
  Ok(Save(comm_, run(), 5, state));
  kernel = {0, 0, 0};
  steps = 0;
  Thing model{.children = {{"kernel", kernel}}};
  Checkpoint checkpoint(comm_, {{"model", model}, {"steps", steps}});
  const LoadStatus status = Ok(checkpoint.Restore(run()));
  EXPECT_EQ(status.kind(), LoadStatus::Kind::kNameBased);
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(kernel, (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(steps, 7);
}

// Writes what another program may have written: model/kernel, model/bias and a
// compound value that belay has no array for.
void WriteFlatFile(const std::string& path) {
  const hid_t file =
      H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t group =
      H5Gcreate2(file, "model", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const hsize_t shape[] = {4, 3};
  const std::vector<double> kernel = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const int32_t bias = -7;
  const hid_t matrix = H5Screate_simple(2, shape, nullptr);
  const hid_t scalar = H5Screate(H5S_SCALAR);
  const hid_t pair = H5Tcreate(H5T_COMPOUND, 8);
  H5Tinsert(pair, "id", 0, H5T_STD_I32LE);
  H5Tinsert(pair, "x", 4, H5T_IEEE_F32LE);
  const auto create = [&](const char* name, hid_t type, hid_t space) {
    return H5Dcreate2(group, name, type, space, H5P_DEFAULT, H5P_DEFAULT,
                      H5P_DEFAULT);
  };
  const hid_t d0 = create("kernel", H5T_IEEE_F64BE, matrix);
  const hid_t d1 = create("bias", H5T_STD_I32LE, scalar);
  const hid_t d2 = create("pair", pair, scalar);
  H5Dwrite(d0, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, kernel.data());
  H5Dwrite(d1, H5T_NATIVE_INT, H5S_ALL, H5S_ALL, H5P_DEFAULT, &bias);
  for (const hid_t id : {d0, d1, d2}) H5Dclose(id);
  H5Tclose(pair);
  H5Sclose(matrix);
  H5Sclose(scalar);
  H5Gclose(group);
  H5Fclose(file);
}

TEST_F(ObjectsRestoreTest, FilesOfOtherPrograms) {
  const std::string path = dir_.File("weights.h5");
  if (rank_ == 0) WriteFlatFile(path);
  MPI_Barrier(MPI_COMM_WORLD);
  // Rows of the kernel, cut over the ranks.
  const Layout layout =
      Ok(Layout::Create(Ok(Mesh::Create({{"x", size_}})), {{"x"}, {}}));
  const Box box = Ok(layout.LocalBox({4, 3}, rank_));
  std::vector<double> rows(NumElements(box.shape), -1);
  int32_t bias = 0;
  Thing model{.children = {{"kernel", TrackedValue(layout, {4, 3}, rows)}}};
  Checkpoint checkpoint(comm_, {{"model", model}});
  LoadStatus status = Ok(checkpoint.Restore(path));
  EXPECT_EQ(status.kind(), LoadStatus::Kind::kNameBased);
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(rows[i], static_cast<double>(box.offset[0] * 3 + i));
  }
  ASSERT_EQ(status.report().unused.size(), 1);
  EXPECT_EQ(status.report().unused[0].stored_key, "model/bias");
  ASSERT_EQ(status.report().warnings.size(), 1);
  EXPECT_THAT(status.report().warnings[0], HasSubstr("model/pair"));
  // A value that comes later.
  model.children.emplace_back("bias", bias);
  status = Ok(checkpoint.RestoreDeferred());
  EXPECT_EQ(bias, -7);
  EXPECT_TRUE(status.report().unused.empty());
  EXPECT_EQ(
      checkpoint.Restore(path, {.read_sharing = ReadSharing::kOnce}).status(),
      absl::UnimplementedError(
          absl::StrCat("restore \"", path,
                       "\": for HDF5 files of other programs each rank reads "
                       "its own boxes; leave read_sharing and primary_replica "
                       "at their defaults [rank 0 of ",
                       size_, "]")));

  float pair = 0;
  Thing more{.children = {{"pair", pair}}};
  Checkpoint missing(comm_, {{"model", more}});
  EXPECT_THAT(Ok(missing.Restore(path)).AssertConsumed().message(),
              HasSubstr("model/pair"));
}

TEST_F(ObjectsRestoreTest, FilesOfOtherProgramsInAnotherForm) {
  const std::string path = dir_.File("weights.h5");
  if (rank_ == 0) WriteFlatFile(path);
  MPI_Barrier(MPI_COMM_WORLD);
  // f32 instead of f64, and a row and a column more.
  std::vector<float> kernel(5 * 4, -1);
  Thing model{.children = {{"kernel", TrackedValue(Shape{5, 4}, kernel)}}};
  Checkpoint checkpoint(comm_, {{"model", model}});
  EXPECT_EQ(checkpoint.Restore(path).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const LoadStatus status = Ok(checkpoint.Restore(
      path, {.allow_dtype_cast = true, .allow_shape_mismatch = true}));
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  ASSERT_EQ(status.report().converted.size(), 1);
  EXPECT_EQ(status.report().converted[0].found, "f64 [4, 3]");
  for (int i = 0; i < 20; ++i) {
    const bool is_stored = i / 4 < 4 && i % 4 < 3;
    EXPECT_EQ(kernel[i], is_stored ? (i / 4) * 3 + i % 4 : -1) << i;
  }
}

TEST_F(ObjectsRestoreTest, FilesThatAreNoHdf5) {
  const std::string path = dir_.File("weights.h5");
  if (rank_ == 0) std::ofstream(path) << "not an HDF5 file";
  MPI_Barrier(MPI_COMM_WORLD);
  float v = 1;
  Checkpoint checkpoint(comm_, {{"v", v}});
  EXPECT_EQ(checkpoint.Restore(path).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(checkpoint.save_counter(), 0);
}

}  // namespace
}  // namespace belay::checkpoint_restore_test
