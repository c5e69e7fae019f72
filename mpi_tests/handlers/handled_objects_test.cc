// Values with handlers as attributes of objects, through Checkpoint.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "belay/checkpoint.h"
#include "belay/checkpoint_reader.h"
#include "handler_testing.h"
#include "values.h"

namespace belay::handled_objects_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Ok;
using testing::Polynomial;
using testing::Polynomials;
using testing::RegistryOf;

// An object with a value of each kind.
struct Layer {
  Polynomial activation{{1, 2}, "x"};
  float rate = 0.5f;

  void Track(Tracker& tracker) {
    tracker.Value("activation", activation);
    tracker.Value("rate", rate);
  }
};

class HandledObjectsTest : public testing::CheckpointTest {
 protected:
  const TypeHandlerRegistry handlers_ = Polynomials();
};

TEST_F(HandledObjectsTest, AttributesWithHandlersComeBack) {
  std::map<std::string, Layer> layers;
  layers["a"].activation = {{3, 4, 5}, "t"};
  layers["b"].rate = 2;
  Polynomial alone{{9}, "alone"};
  Checkpoint checkpoint(comm_, {{"layers", layers}, {"alone", alone}});
  const SaveResult saved = Ok(checkpoint.Save(run(), {.handlers = &handlers_}));
  EXPECT_EQ(saved.num_arrays, 2 * 3 + 2 + 1);  // and the save counter

  std::map<std::string, Layer> others = {{"a", {}}, {"b", {}}};
  Polynomial other;
  Checkpoint later(comm_, {{"layers", others}, {"alone", other}});
  const LoadStatus status = Ok(later.Restore(run(), {.handlers = &handlers_}));
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(others["a"].activation, layers["a"].activation);
  EXPECT_EQ(others["b"].rate, 2);
  EXPECT_EQ(other, alone);
  EXPECT_EQ(status.report().matched.size(), 6);
}

// Each stage has the whole time for itself, also after the graphs are merged.
TEST_F(HandledObjectsTest, ASaveMayTakeLongerThanItsStages) {
  if (size_ != 2) return;  // it is long
  class Slow : public testing::PolynomialHandler {
   public:
    Status ListForSave(Polynomial& value, State& parts) const override {
      std::this_thread::sleep_for(std::chrono::milliseconds(2500));
      return PolynomialHandler::ListForSave(value, parts);
    }
    Status Finalize(const std::string&) const override {
      std::this_thread::sleep_for(std::chrono::milliseconds(2500));
      return absl::OkStatus();
    }
  };
  const TypeHandlerRegistry slow =
      RegistryOf({EntryFor<Polynomial>(std::make_shared<Slow>())});
  Polynomial value;
  Checkpoint checkpoint(comm_, {{"value", value}});
  Ok(checkpoint.Save(run(), {.handlers = &slow, .deadline_seconds = 4}));
}

TEST_F(HandledObjectsTest, TheGraphNamesThem) {
  Layer layer;
  Checkpoint checkpoint(comm_, {{"layer", layer}});
  Ok(checkpoint.Save(run(), {.handlers = &handlers_}));
  const CheckpointReader reader = Ok(CheckpointReader::Open(run()));
  const std::vector<ObjectInfo> objects = Ok(reader.Objects());
  ASSERT_EQ(objects[1].path, "(root).layer");
  ASSERT_EQ(objects[1].values.size(), 2);
  EXPECT_EQ(objects[1].values[0].name, "rate");
  EXPECT_EQ(objects[1].values[1].name, "activation");
  EXPECT_EQ(objects[1].values[1].key, "layer/.ATTRIBUTES/activation");
}

TEST_F(HandledObjectsTest, ATypeWithoutHandlerIsAMistakeOnAllRanks) {
  Layer layer;
  float number = 1;
  Checkpoint checkpoint(comm_, rank_ == size_ - 1
                                   ? ObjectRef(layer)
                                   : ObjectRef([&](Tracker& tracker) {
                                       tracker.Value("rate", number);
                                     }));
  const TypeHandlerRegistry none;
  const Status status = checkpoint.Save(run(), {.handlers = &none}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("list \"/.ATTRIBUTES/activation\": no handler for type "
                        "belay::testing::Polynomial: register one with "
                        "RegisterTypeHandler<belay::testing::Polynomial>"));
}

TEST_F(HandledObjectsTest, MissingAndUnusedOnesAreReported) {
  Layer layer;
  float rate = 0;
  const auto plain = [&](Tracker& tracker) { tracker.Value("rate", rate); };
  Checkpoint with(comm_, {{"layer", layer}});
  Ok(with.SaveAs(StepFile(1, ""), {.handlers = &handlers_}));
  Checkpoint without(comm_, {{"layer", plain}});
  Ok(without.SaveAs(StepFile(2, "")));

  const LoadReport unused = Ok(without.Restore(StepFile(1, ""))).report();
  ASSERT_EQ(unused.unused.size(), 1);
  EXPECT_EQ(unused.unused[0].stored_key, "layer/.ATTRIBUTES/activation");
  EXPECT_EQ(unused.unused[0].cause, UnusedValue::Cause::kAttribute);
  const LoadReport missing =
      Ok(with.Restore(StepFile(2, ""), {.handlers = &handlers_})).report();
  ASSERT_EQ(missing.missing.size(), 1);
  EXPECT_EQ(missing.missing[0].key, "layer/.ATTRIBUTES/activation");
}

TEST_F(HandledObjectsTest, ThoseOfObjectsThatComeLaterAreDeferred) {
  Layer layer;
  layer.activation = {{1, 2, 3, 4}, "late"};
  Checkpoint checkpoint(comm_, {{"layer", layer}});
  Ok(checkpoint.Save(run(), {.handlers = &handlers_}));
  std::unique_ptr<Layer> late;
  const auto root = [&](Tracker& tracker) {
    if (late != nullptr) tracker.Child("layer", late);
  };
  Checkpoint later(comm_, root);
  const LoadReport report =
      Ok(later.Restore(run(), {.handlers = &handlers_})).report();
  EXPECT_THAT(report.deferred, ElementsAre("(root).layer"));
  late = std::make_unique<Layer>();
  const LoadStatus status = Ok(later.RestoreDeferred({.handlers = &handlers_}));
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(late->activation, layer.activation);
}

// A number where the checkpoint has a value with a handler.
TEST_F(HandledObjectsTest, ANumberInItsPlaceIsIncompatible) {
  Layer layer;
  double number = 1;
  const auto plain = [&](Tracker& tracker) {
    tracker.Value("activation", number);
  };
  Checkpoint with(comm_, {{"layer", layer}});
  Ok(with.Save(run(), {.handlers = &handlers_}));
  Checkpoint without(comm_, {{"layer", plain}});
  const Status status = without.Restore(run()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("\"layer/.ATTRIBUTES/activation\" (need f64 [], found "
                        "type polynomial)"));
  EXPECT_EQ(number, 1);
}

TEST_F(HandledObjectsTest, AValueOfAnotherTypestrIsRefused) {
  Layer layer;
  Checkpoint checkpoint(comm_, {{"layer", layer}});
  Ok(checkpoint.Save(run(), {.handlers = &handlers_}));
  layer.rate = 7;
  const TypeHandlerRegistry others = RegistryOf({EntryFor<Polynomial>(
      std::make_shared<testing::PolynomialHandler>("other"))});
  const Status status =
      checkpoint.Restore(run(), {.handlers = &others}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("need typestr \"other\", found \"polynomial\""));
  EXPECT_EQ(layer.rate, 7);
}

// Of a checkpoint that was saved without objects.
TEST_F(HandledObjectsTest, TheyAreMatchedByNameWithoutAGraph) {
  Polynomial value{{5, 6}, "named"};
  float rate = 3;
  State state;
  state.Add("layer/activation", value);
  state.Add("layer/rate", rate);
  ASSERT_EQ(Save(comm_, run(), 1, state, {.handlers = &handlers_}).status(),
            absl::OkStatus());
  Layer layer;
  Checkpoint checkpoint(comm_, {{"layer", layer}});
  const LoadStatus status =
      Ok(checkpoint.Restore(run(), {.handlers = &handlers_}));
  EXPECT_EQ(status.kind(), LoadStatus::Kind::kNameBased);
  EXPECT_THAT(status.report().missing, IsEmpty());
  EXPECT_THAT(status.report().unused, IsEmpty());
  EXPECT_EQ(layer.activation, value);
  EXPECT_EQ(layer.rate, 3);
}

// Ranks that hold different objects, and reach one by different paths.
TEST_F(HandledObjectsTest, RanksMayHoldDifferentObjects) {
  Layer shared, own;
  shared.activation = {{1}, "shared"};
  own.activation = {{static_cast<double>(rank_)}, absl::StrCat("of ", rank_)};
  const auto root = [&](Tracker& tracker) {
    if (rank_ > 0) tracker.Child("first", shared);
    tracker.Child("second", shared);
    if (rank_ == 0) tracker.Child("first", shared);
    tracker.Child(absl::StrCat("rank ", rank_), own);
  };
  Checkpoint checkpoint(comm_, root);
  Ok(checkpoint.Save(run(), {.handlers = &handlers_}));
  const Layer saved = own;
  own.activation = shared.activation = {};
  const LoadStatus status =
      Ok(checkpoint.Restore(run(), {.handlers = &handlers_}));
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(own.activation, saved.activation);
  EXPECT_EQ(shared.activation.variable, "shared");
}

TEST_F(HandledObjectsTest, RanksMustUseTheSameHandler) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  const TypeHandlerRegistry others = RegistryOf({EntryFor<Polynomial>(
      std::make_shared<testing::PolynomialHandler>("other"))});
  Layer layer;
  Checkpoint checkpoint(comm_, {{"layer", layer}});
  const Status status =
      checkpoint.Save(run(), {.handlers = rank_ == 0 ? &handlers_ : &others})
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("\"layer/.ATTRIBUTES/activation\" is of type "
                        "polynomial on rank 0 and of type other on rank"));
}

// As children they would be objects without children, of no kind.
TEST_F(HandledObjectsTest, EmptyContainersThatAreAttributesKeepTheirKind) {
  using Map = std::map<std::string, float>;
  using List = std::vector<std::optional<float>>;
  Map map, found_map = {{"gone", 1.0f}};
  List list, found_list = {2.0f};
  const auto tracked = [](Map& a, List& b) {
    return [&](Tracker& tracker) {
      tracker.Value("map", a);
      tracker.Value("list", b);
    };
  };
  const auto saved = tracked(map, list);
  const auto wanted = tracked(found_map, found_list);
  Ok(Checkpoint(comm_, saved).Save(run()));
  Checkpoint later(comm_, wanted);
  EXPECT_EQ(Ok(later.Restore(run())).AssertConsumed(), absl::OkStatus());
  EXPECT_THAT(found_map, IsEmpty());
  EXPECT_THAT(found_list, IsEmpty());
  const auto swapped = [&](Tracker& tracker) {
    tracker.Value("list", map);
    tracker.Value("map", list);
  };
  const Status status = Checkpoint(comm_, swapped).Restore(run()).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("a value of another"));
}

}  // namespace
}  // namespace belay::handled_objects_test
