// Checkpoint: TensorFlow's tests of tf.train.Checkpoint, on several ranks.

#include "belay/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "absl/strings/str_format.h"
#include "belay/checkpoint_reader.h"
#include "thing.h"
#include "values.h"

namespace belay::checkpoint_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Ok;

using ObjectsTest = testing::CheckpointTest;

TEST_F(ObjectsTest, SaveNumbersTheSteps) {
  float v = 3;
  Checkpoint checkpoint(comm_, {{"v", v}});
  EXPECT_EQ(checkpoint.save_counter(), 0);
  const SaveResult first = Ok(checkpoint.Save(run()));
  EXPECT_EQ(first.path, StepFile(1, ""));
  EXPECT_EQ(first.counters.stages.at(0).stage, "merge graphs");
  EXPECT_EQ(first.counters.stages.at(1).stage, "list");
  v = 4;
  const SaveResult second = Ok(checkpoint.Save(run()));
  EXPECT_EQ(second.path, StepFile(2, ""));
  EXPECT_EQ(second.num_arrays, 2);
  EXPECT_EQ(checkpoint.save_counter(), 2);

  float w = 0;
  Checkpoint other(comm_, {{"v", w}});
  EXPECT_EQ(Ok(other.Restore(run())).AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(w, 4);
  EXPECT_EQ(other.save_counter(), 2);
  EXPECT_EQ(Ok(other.Restore(StepFile(1, ""))).AssertConsumed(),
            absl::OkStatus());
  EXPECT_EQ(w, 3);
  EXPECT_EQ(other.save_counter(), 1);
}

TEST_F(ObjectsTest, CheckpointState) {
  float v = 3;
  Checkpoint checkpoint(comm_, {{"v", v}});
  std::vector<int64_t> steps;
  for (int64_t step = 1; step <= 10; ++step) {
    Ok(checkpoint.Save(run()));
    steps.push_back(step);
  }
  EXPECT_EQ(Ok(ListSteps(run())), steps);  // nothing is deleted
}

TEST_F(ObjectsTest, CheckpointStateChangingVarList) {
  float v = 3;
  Thing thing{.children = {{"v", v}}};
  std::array<float, 12> more = {};
  Checkpoint checkpoint(comm_, thing);
  for (int i = 1; i <= 10; ++i) {
    more[i] = 3;
    thing.children.emplace_back("var_" + std::to_string(i), more[i]);
    Ok(checkpoint.Save(run()));
  }
  v = -5;
  for (int i = 1; i <= 10; ++i) more[i] = i;
  const LoadStatus status = Ok(checkpoint.Restore(StepFile(6, "")));
  EXPECT_EQ(v, 3);
  EXPECT_EQ(more[6], 3);
  EXPECT_EQ(more[7], 7);  // not there yet when it was saved
  EXPECT_EQ(checkpoint.save_counter(), 6);
  EXPECT_THAT(status.AssertConsumed().message(), HasSubstr("var_7"));
}

TEST_F(ObjectsTest, CustomNumbering) {
  int64_t step = 0;
  Checkpoint checkpoint(comm_, {{"step", step}});
  for (; step < 10; step += 2) Ok(checkpoint.SaveAs(StepPath(run(), step)));
  EXPECT_EQ(checkpoint.save_counter(), 0);
  EXPECT_THAT(Ok(ListSteps(run())), ElementsAre(0, 2, 4, 6, 8));
  EXPECT_EQ(Ok(checkpoint.Restore(StepPath(run(), 4))).AssertConsumed(),
            absl::OkStatus());
  EXPECT_EQ(step, 4);
}

TEST_F(ObjectsTest, SaveAsDoesNotCount) {
  float v = 1;
  Checkpoint checkpoint(comm_, {{"v", v}});
  EXPECT_EQ(Ok(checkpoint.SaveAs(dir_.File("best"))).step, 0);
  EXPECT_EQ(Ok(checkpoint.SaveAs(dir_.File("best_00000012/"))).step, 12);
  EXPECT_EQ(checkpoint.SaveAs(dir_.File("best")).status().code(),
            absl::StatusCode::kAlreadyExists);
  v = 2;
  EXPECT_EQ(Ok(checkpoint.Restore(dir_.File("best"))).AssertConsumed(),
            absl::OkStatus());
  EXPECT_EQ(v, 1);
  EXPECT_EQ(checkpoint.save_counter(), 0);
  EXPECT_EQ(Ok(checkpoint.Save(dir_.path())).step, 1);
  // A checkpoint without a counter leaves the one of the program alone.
  EXPECT_EQ(Ok(checkpoint.Restore(dir_.File("best"))).AssertConsumed(),
            absl::OkStatus());
  EXPECT_EQ(checkpoint.save_counter(), 1);
  EXPECT_EQ(Ok(checkpoint.Save(dir_.path())).step, 2);
  // A counter that is stored is restored, and the next save passes the steps
  // that are there.
  Ok(checkpoint.SaveAs(dir_.File("later")));
  Ok(checkpoint.Save(dir_.path()));
  Ok(checkpoint.Restore(dir_.File("later")));
  EXPECT_EQ(checkpoint.save_counter(), 2);
  EXPECT_EQ(Ok(checkpoint.Save(dir_.path())).step, 4);
}

TEST_F(ObjectsTest, OverwriteReplacesCheckpointsOnly) {
  float v = 1;
  Checkpoint checkpoint(comm_, {{"v", v}});
  Ok(checkpoint.Save(run()));
  const std::string notes = dir_.File("notes"), file = dir_.File("file");
  if (rank_ == 0) {
    std::filesystem::create_directory(notes);
    std::ofstream(notes + "/thesis.tex") << "text";
    std::ofstream(file) << "text";
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (const std::string& path : {run(), notes, file}) {
    const Status status = checkpoint.SaveAs(path, {.overwrite = true}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << path;
    EXPECT_THAT(status.message(), HasSubstr("not a checkpoint")) << path;
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_TRUE(std::filesystem::exists(notes + "/thesis.tex"));
  EXPECT_THAT(Ok(ListSteps(run())), ElementsAre(1));
  // Neither a checkpoint nor debris with somebody else's file goes.
  const std::string step = StepFile(1, "");
  for (const std::string& place : {step, StepFile(2, "") + ".inprogress"}) {
    if (rank_ == 0) {
      std::filesystem::create_directories(place);
      std::ofstream(place + "/mine.txt") << "text";
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_THAT(checkpoint.SaveAs(step, {.overwrite = true}).status().message(),
              HasSubstr("not written by belay: \"mine.txt\""));
  EXPECT_THAT(checkpoint.SaveAs(StepFile(2, "")).status().message(),
              HasSubstr("not written by belay: \"mine.txt\""));
  EXPECT_TRUE(std::filesystem::exists(step + "/mine.txt"));
  EXPECT_TRUE(
      std::filesystem::exists(StepFile(2, "") + ".inprogress/mine.txt"));
}

TEST_F(ObjectsTest, NamesThatAreTaken) {
  float v = 1;
  Checkpoint checkpoint(comm_, {{"v", v}});
  for (const char* name : {"a.inprogress", "a.replaced", "..", "."}) {
    EXPECT_EQ(checkpoint.SaveAs(dir_.File(name)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
  EXPECT_EQ(checkpoint.SaveAs("").status().code(),
            absl::StatusCode::kInvalidArgument);
  Checkpoint counter(comm_, {{"save_counter", v}});
  EXPECT_THAT(counter.Save(run()).status().message(),
              HasSubstr("save_counter"));
}

TEST_F(ObjectsTest, AMovedCheckpointSaysSo) {
  float v = 1;
  Checkpoint checkpoint(comm_, {{"v", v}});
  Checkpoint other = std::move(checkpoint);
  EXPECT_EQ(checkpoint.save_counter(), 0);  // NOLINT: that is the test
  for (const Status& status :
       {checkpoint.Save(run()).status(), checkpoint.SaveAs(run()).status(),
        checkpoint.Restore(run()).status(),
        checkpoint.RestoreDeferred().status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  }
  Ok(other.Save(run()));
}

TEST_F(ObjectsTest, ACounterThatCannotBe) {
  int64_t save_counter = -5;
  Checkpoint(comm_, {{"save_counter", save_counter}})
      .SaveAs(dir_.File("x"))
      .IgnoreError();
  float v = 1;
  Checkpoint checkpoint(comm_, {{"v", v}});
  EXPECT_EQ(checkpoint.Restore(dir_.File("x")).status(),
            absl::DataLossError(absl::StrFormat(
                "restore \"%s\": the save counter is out of range (need 0 to "
                "%d, found -5) [rank 0 of %d]",
                dir_.File("x"), INT64_MAX - 1, size_)));
  EXPECT_EQ(checkpoint.save_counter(), 0);
  EXPECT_EQ(Ok(checkpoint.Save(run())).step, 1);
}

TEST_F(ObjectsTest, InitializeWithDataStructures) {
  std::vector<std::unique_ptr<float>> list;
  for (float value : {0, 1, 2, 3})
    list.push_back(std::make_unique<float>(value));
  std::map<std::string, double> dict = {{"first", 4}, {"second", 5}};
  std::vector<int> flat = {7, 8, 9};
  Checkpoint checkpoint(comm_, {{"v", list}, {"d", dict}, {"flat", flat}});
  Ok(checkpoint.Save(run()));
  for (auto& value : list) *value = -1;
  dict = {{"first", -1}, {"second", -1}};
  flat = {0, 0, 0};
  EXPECT_EQ(Ok(checkpoint.Restore(run())).AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(*list[3], 3);
  EXPECT_EQ(dict["second"], 5);
  EXPECT_EQ(flat, (std::vector<int>{7, 8, 9}));
}

TEST_F(ObjectsTest, InitializeWithRootObjectAndKwargs) {
  float v = 1, extra = 2;
  Thing root{.children = {{"v", v}}};
  float other_v = 9;
  Checkpoint wrong(comm_, root, {{"v", other_v}});
  EXPECT_THAT(wrong.Save(run()).status().message(),
              HasSubstr("the root has another child named \"v\""));
  EXPECT_EQ(wrong.save_counter(), 0);
  EXPECT_FALSE(std::filesystem::exists(run()));
  Checkpoint nowhere(comm_, root);
  EXPECT_THAT(nowhere.Save("").status().message(),
              HasSubstr("save \"\": the path is empty"));
  // The same object is no contradiction.
  Checkpoint checkpoint(comm_, root, {{"v", v}, {"extra", extra}});
  Ok(checkpoint.Save(run()));

  float v2 = 0, extra2 = 0;
  Thing swapped{.children = {{"extra", extra2}}};
  Checkpoint by_root(comm_, swapped, {{"v", v2}});
  EXPECT_EQ(Ok(by_root.Restore(run())).AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(v2, 1);
  EXPECT_EQ(extra2, 2);
  v2 = extra2 = 0;
  Checkpoint rootless(comm_, {{"extra", extra2}, {"v", v2}});
  EXPECT_EQ(Ok(rootless.Restore(run())).AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(v2, 1);
  EXPECT_EQ(extra2, 2);
  EXPECT_EQ(rootless.save_counter(), 1);
}

TEST_F(ObjectsTest, DependencyLoop) {
  float a = 1, b = 2;
  Thing first{.children = {{"a", a}}};
  Thing second{.children = {{"b", b}, {"first", first}}};
  first.children.emplace_back("second", second);
  Checkpoint(comm_, first).Save(run()).IgnoreError();
  a = b = 0;
  EXPECT_EQ(Ok(Checkpoint(comm_, first).Restore(run())).AssertConsumed(),
            absl::OkStatus());
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 2);
}

TEST_F(ObjectsTest, MoreComplexSaveableReturned) {
  float first = 1, second = 2;
  const auto describe = [&](Tracker& tracker) {
    tracker.Bytes(
        "both",
        [&]() -> StatusOr<std::string> {
          std::string bytes(8, '\0');
          std::memcpy(bytes.data(), &first, 4);
          std::memcpy(bytes.data() + 4, &second, 4);
          return bytes;
        },
        [&](const std::string& bytes) -> Status {
          std::memcpy(&first, bytes.data(), 4);
          std::memcpy(&second, bytes.data() + 4, 4);
          return absl::OkStatus();
        });
  };
  Checkpoint checkpoint(comm_, {{"custom", describe}});
  for (int i = 0; i < 2; ++i) {
    first = 7 + i;
    second = 8 + i;
    Ok(checkpoint.Save(run()));
    first = second = 0;
    EXPECT_EQ(Ok(checkpoint.Restore(run())).AssertConsumed(), absl::OkStatus());
    EXPECT_EQ(first, 7 + i);
    EXPECT_EQ(second, 8 + i);
  }
}

TEST_F(ObjectsTest, OpaqueStatesThatFailOnOneRank) {
  bool fails_to_get = false, fails_to_set = false;
  float v = 1;
  const auto describe = [&](Tracker& tracker) {
    tracker.Bytes(
        "rng",
        [&]() -> StatusOr<std::string> {
          if (fails_to_get) return absl::DataLossError("no state");
          return "abc";
        },
        [&](const std::string&) {
          return fails_to_set ? absl::DataLossError("bad state")
                              : absl::OkStatus();
        });
  };
  Checkpoint checkpoint(comm_, {{"custom", describe}, {"v", v}});
  fails_to_get = rank_ == size_ - 1;
  const Status got = checkpoint.Save(run()).status();
  EXPECT_EQ(got.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(got.message(), HasSubstr("no state"));
  EXPECT_FALSE(std::filesystem::exists(run()));
  fails_to_get = false;
  Ok(checkpoint.Save(run()));
  fails_to_set = rank_ == size_ - 1;
  Checkpoint again(comm_, {{"custom", describe}, {"v", v}});
  EXPECT_FALSE(again.Restore(run()).ok());
  EXPECT_EQ(again.save_counter(), 0);
  const Status set = checkpoint.Restore(run()).status();
  EXPECT_EQ(set.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(set.message(), HasSubstr("bad state"));
}

TEST_F(ObjectsTest, CkptFilesClosedAfterRestoration) {
  float v = 1;
  Checkpoint checkpoint(comm_, {{"v", v}});
  Ok(checkpoint.Save(run()));
  Ok(checkpoint.Restore(run()));
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target =
        std::filesystem::read_symlink(entry.path(), gone).string();
    EXPECT_THAT(target, ::testing::Not(HasSubstr(dir_.path())));
  }
}

TEST_F(ObjectsTest, KeysAndMetadata) {
  float v1 = 1, v2 = 2, v3 = 3;
  Thing child{.values = {{"v2", v2}}};
  Thing root{.children = {{"child", child}, {"v3", v3}},
             .values = {{"v1", v1}}};
  const std::string path = Ok(Checkpoint(comm_, root).Save(run())).path;
  const CheckpointReader reader = Ok(CheckpointReader::Open(path));
  std::vector<std::string> keys;
  for (const ArrayInfo& array : reader.info().arrays) keys.push_back(array.key);
  EXPECT_THAT(keys, ElementsAre("/.ATTRIBUTES/v1", "child/.ATTRIBUTES/v2",
                                "save_counter/.ATTRIBUTES/VARIABLE_VALUE",
                                "v3/.ATTRIBUTES/VARIABLE_VALUE"));
  const auto read = [&](const char* key) {
    return Ok(reader.ReadTensor(key)).values<float>()[0];
  };
  EXPECT_EQ(read("/.ATTRIBUTES/v1"), 1);
  EXPECT_EQ(read("child/.ATTRIBUTES/v2"), 2);
  EXPECT_EQ(read("v3/.ATTRIBUTES/VARIABLE_VALUE"), 3);
  // The objects name their values and children.
  const std::vector<ObjectInfo> objects = Ok(reader.Objects());
  ASSERT_GE(objects.size(), 2);
  ASSERT_EQ(objects[0].values.size(), 1);
  EXPECT_EQ(objects[0].values[0].name, "v1");
  EXPECT_EQ(objects[0].values[0].key, "/.ATTRIBUTES/v1");
  std::map<std::string, int64_t> children;
  for (const ObjectChild& one : objects[0].children) {
    children[one.name] = one.object;
  }
  ASSERT_EQ(children.count("child"), 1);
  const ObjectInfo& stored = objects[children["child"]];
  EXPECT_EQ(stored.path, "(root).child");
  ASSERT_EQ(stored.values.size(), 1);
  EXPECT_EQ(stored.values[0].name, "v2");
  EXPECT_EQ(stored.values[0].key, "child/.ATTRIBUTES/v2");
  root.values["v1"] = child.values["v2"] = v3 = 0;
  Ok(Checkpoint(comm_, root).Restore(path));
  EXPECT_EQ(root.values["v1"], 1);
  EXPECT_EQ(child.values["v2"], 2);
  EXPECT_EQ(v3, 3);
}

}  // namespace
}  // namespace belay::checkpoint_test
