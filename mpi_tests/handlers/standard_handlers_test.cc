// The standard handlers through Save and Restore, on several ranks.

#include "belay/handlers/standard_handlers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "belay/arrays/eigen.h"
#include "belay/arrays/mdspan.h"
#include "belay/checkpoint.h"
#include "belay/checkpoint_reader.h"
#include "handler_testing.h"
#include "strided_view.h"
#include "values.h"

namespace belay::standard_handlers_test {
namespace {

using ::testing::HasSubstr;
using testing::Ok;
using testing::Polynomial;
using testing::Polynomials;

class StandardHandlersTest : public testing::CheckpointTest {
 protected:
  // Saves a value as "v" and restores it into `found`.
  template <typename T, typename U>
  Status SaveAndRestore(T value, U& found,
                        const TypeHandlerRegistry* handlers = nullptr) {
    State state;
    state.Add("v", value);
    const auto saved =
        Save(comm_, run(), 1, state, {.overwrite = true, .handlers = handlers});
    if (!saved.ok()) return saved.status();
    State wanted;
    wanted.Add("v", found);
    return Restore(comm_, run(), 1, wanted, {.handlers = handlers}).status();
  }
  // Expects that a value comes back in the place of another one.
  template <typename T>
  void ExpectComesBack(const T& value, T found = {}) {
    EXPECT_EQ(SaveAndRestore(value, found), absl::OkStatus());
    EXPECT_TRUE(found == value);
  }
  // The typestr of "v", or "" if no handler has stored it.
  std::string StoredTypestr() {
    for (const ValueInfo& value : Ok(CheckpointReader::Open(run())).Values()) {
      if (value.key == "v") return value.typestr;
    }
    return "";
  }
};

enum class Color : uint8_t { kRed = 3, kBlue = 200 };

TEST_F(StandardHandlersTest, EnumsAndBytesAreNumbers) {
  ExpectComesBack(Color::kBlue);
  EXPECT_EQ(Ok(CheckpointReader::Open(run())).Find("v")->dtype, DType::kU8);
  ExpectComesBack(std::vector<Color>{Color::kRed, Color::kBlue},
                  std::vector<Color>(2));
  ExpectComesBack(std::vector<std::byte>{std::byte{7}, std::byte{255}},
                  std::vector<std::byte>(2));
  ExpectComesBack(std::array<int16_t, 3>{1, -2, 3});
}

TEST_F(StandardHandlersTest, OptionalsKeepWhetherTheyHaveAValue) {
  using Number = std::optional<double>;
  for (const Number& before : {Number(), Number(7)}) {
    ExpectComesBack(Number(2.5), before);
    EXPECT_EQ(StoredTypestr(), "scalar");
    ExpectComesBack(Number(), before);
    EXPECT_EQ(StoredTypestr(), "None");
  }
  ExpectComesBack(std::optional<std::string>("text"));
  ExpectComesBack(std::optional(std::vector<float>{1, 2, 3}));
  ExpectComesBack(std::optional(std::optional<int32_t>(4)));
}

TEST_F(StandardHandlersTest, AnOptionalHoldsValuesWithHandlers) {
  const TypeHandlerRegistry handlers = Polynomials();
  std::optional<Polynomial> found;
  const std::optional<Polynomial> value = Polynomial{{1, 2}, "z"};
  ASSERT_EQ(SaveAndRestore(value, found, &handlers), absl::OkStatus());
  EXPECT_EQ(found, value);
  EXPECT_EQ(StoredTypestr(), "polynomial");
  // And what was saved as an optional is restored as what it held.
  Polynomial plain;
  ASSERT_EQ(SaveAndRestore(value, plain, &handlers), absl::OkStatus());
  EXPECT_EQ(plain, value);
}

// Orbax: empty_dict_node, empty_none_node, empty_values table.
TEST_F(StandardHandlersTest, EmptyValuesKeepTheirKind) {
  ExpectComesBack(std::monostate());
  EXPECT_EQ(StoredTypestr(), "None");
  ExpectComesBack(std::map<std::string, float>(), {{"gone", 1.0f}});
  EXPECT_EQ(StoredTypestr(), "Dict");
  ExpectComesBack(std::vector<std::optional<int32_t>>(), {4, 5});
  EXPECT_EQ(StoredTypestr(), "List");
}

// Something is wanted where nothing is stored, and the other way round.
TEST_F(StandardHandlersTest, AStoredEmptyIsNotTakenForAValue) {
  double number = 4;
  const Status none = SaveAndRestore(std::monostate(), number);
  EXPECT_TRUE(absl::IsFailedPrecondition(none)) << none;
  EXPECT_THAT(std::string(none.message()),
              HasSubstr("(need f64 [], found typestr \"None\")"));
  EXPECT_EQ(number, 4);
  std::monostate nothing;
  const Status some = SaveAndRestore(4.0, nothing);
  EXPECT_TRUE(absl::IsFailedPrecondition(some)) << some;
  EXPECT_THAT(std::string(some.message()),
              HasSubstr("need typestr \"None\", found \"scalar\""));
  std::map<std::string, float> map;
  const Status list = SaveAndRestore(std::vector<std::optional<float>>(), map);
  EXPECT_THAT(std::string(list.message()),
              HasSubstr("need typestr \"Dict\", found \"List\""));
}

TEST_F(StandardHandlersTest, AnArrayDoesNotEmptyAContainer) {
  std::map<std::string, float> map = {{"kept", 1.0f}};
  const Status array = SaveAndRestore(std::vector<float>{1, 2}, map);
  EXPECT_TRUE(absl::IsFailedPrecondition(array)) << array;
  EXPECT_THAT(std::string(array.message()),
              HasSubstr("need typestr \"Dict\", found \"array\""));
  EXPECT_EQ(map.size(), 1u);
  std::vector<std::optional<float>> list = {3};
  const Status number = SaveAndRestore(4.0f, list);
  EXPECT_TRUE(absl::IsFailedPrecondition(number)) << number;
  EXPECT_EQ(list.size(), 1u);
}

TEST_F(StandardHandlersTest, RanksHaveAllAValueOrAllNone) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  std::optional<float> value;
  if (rank_ == 0) value = 1;
  State state;
  state.Add("v", value);
  const Status status = Save(comm_, run(), 1, state).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("rank 1 stores it with the handler \"None\", another "
                        "rank as an array"));
}

TEST_F(StandardHandlersTest, PartsOfTextsKeepTheirDType) {
  std::vector<std::string> names = {"a", "b"};
  float number = 1;
  State state;
  state.Add("names", names);
  state.Add("number", number);
  const Status status =
      Save(comm_, run(), 1, state,
           {.args = {{"names/bytes", {.dtype = DType::kF64}}}})
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("args \"names/bytes\": it is a part of \"names\", "
                        "whose handler \"strings\" needs its dtype again (need "
                        "u8, found f64)"));
  // A pattern means none of them.
  Ok(Save(comm_, run(), 1, state, {.args = {{".*", {.dtype = DType::kF64}}}}));
}

TEST_F(StandardHandlersTest, MapsGetTheKeysThatAreStored) {
  const std::map<std::string, std::vector<float>> values = {
      {"a/b", {1}}, {"", {2, 3}}, {"a.b", {}}, {"..", {4}}, {"a", {5, 6, 7}}};
  ExpectComesBack(values, {{"a", {0}}, {"gone", {9}}});
  ExpectComesBack(
      std::unordered_map<std::string, std::string>{{"x", "one"}, {"y", ""}});
  ExpectComesBack(
      std::map<std::string, std::map<std::string, std::optional<bool>>>{
          {"empty", {}}, {"full", {{"true", true}, {"none", std::nullopt}}}});
}

TEST_F(StandardHandlersTest, ListsGetTheLengthThatIsStored) {
  std::vector<std::vector<int32_t>> ragged;
  for (int32_t i = 0; i < 12; ++i) ragged.emplace_back(i % 5, i);
  ExpectComesBack(ragged);
  ExpectComesBack(ragged, std::vector<std::vector<int32_t>>(40));
  ExpectComesBack(std::deque<std::optional<float>>{1, std::nullopt, 3});
}

TEST_F(StandardHandlersTest, StringsAreTwoArrays) {
  using Strings = std::vector<std::string>;
  ExpectComesBack(Strings{"one", "", std::string("a\0b", 3), "four"},
                  Strings{"other"});
  const CheckpointReader reader = Ok(CheckpointReader::Open(run()));
  EXPECT_EQ(reader.Find("v/ends")->shape, Shape({4}));
  EXPECT_EQ(reader.Find("v/bytes")->shape, Shape({10}));
  ExpectComesBack(Strings(), Strings{"full"});
  ExpectComesBack(Strings{""});
  ExpectComesBack(Strings(50000, "many"));
}

TEST_F(StandardHandlersTest, BoolsAreBytesOrPacked) {
  TypeHandlerRegistry packing, plain;
  ASSERT_EQ(RegisterStandardHandlers({.pack_bools = true}, packing),
            absl::OkStatus());
  ASSERT_EQ(RegisterStandardHandlers({}, plain), absl::OkStatus());
  for (const size_t size : {0, 1, 7, 8, 9, 64, 1001}) {
    std::vector<bool> value(size);
    for (size_t i = 0; i < size; ++i) value[i] = i % 3 == 0;
    ExpectComesBack(value, std::vector<bool>(5));
    for (const auto* saving : {&packing, &plain}) {
      for (const auto* restoring : {&packing, &plain}) {
        State state;
        state.Add("v", value);
        Ok(Save(comm_, run(), 2, state,
                {.overwrite = true, .handlers = saving}));
        std::vector<bool> found(3);
        State wanted;
        wanted.Add("v", found);
        Ok(Restore(comm_, run(), 2, wanted, {.handlers = restoring}));
        EXPECT_EQ(found, value) << size;
      }
    }
  }
  EXPECT_EQ(Ok(ReadCheckpointInfo(StepFile(2, ""))).arrays[0].shape,
            Shape({1001}));
}

// In the seed, registering them anew fails for options that are absent.
TEST_F(StandardHandlersTest, TheyCanBeRegisteredAgainAndAgain) {
  TypeHandlerRegistry registry;
  for (const bool packs : {true, false, true}) {
    ASSERT_EQ(RegisterStandardHandlers({.pack_bools = packs}, registry),
              absl::OkStatus());
    EXPECT_EQ(registry.Typestrs(),
              (std::vector<std::string>{"strings", "bools"}));
  }
}

TEST_F(StandardHandlersTest, TheyAreAttributesOfObjects) {
  struct Settings {
    std::optional<float> limit = 2;
    std::optional<float> unset;
    std::vector<std::string> names = {"a", "b"};
    Color color = Color::kBlue;

    void Track(Tracker& tracker) {
      tracker.Value("limit", limit);
      tracker.Value("unset", unset);
      tracker.Value("names", names);
      tracker.Value("color", color);
    }
  };
  Settings settings;
  Checkpoint checkpoint(comm_, {{"settings", settings}});
  Ok(checkpoint.Save(run()));
  Settings found{{}, 7, {"x"}, Color::kRed};
  Checkpoint later(comm_, {{"settings", found}});
  EXPECT_EQ(Ok(later.Restore(run())).AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(found.limit, 2);
  EXPECT_FALSE(found.unset.has_value());
  EXPECT_EQ(found.names, settings.names);
  EXPECT_EQ(found.color, Color::kBlue);
}

// An array [i, j] is element (i, j), however the matrix lies in memory.
TEST_F(StandardHandlersTest, EigenMatricesAreArraysOfTheirAxes) {
  Eigen::Matrix<double, 3, 2> by_columns;
  by_columns << 1, 2, 3, 4, 5, 6;
  Eigen::MatrixXd found;
  ASSERT_EQ(SaveAndRestore(by_columns, found), absl::OkStatus());
  EXPECT_EQ(found, by_columns);
  const Tensor stored = Ok(Ok(CheckpointReader::Open(run())).ReadTensor("v"));
  EXPECT_EQ(stored.shape(), Shape({3, 2}));
  EXPECT_EQ(stored.values<double>()[1], 2);
  using ByRows =
      Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  ByRows rows;
  ASSERT_EQ(SaveAndRestore(found, rows), absl::OkStatus());
  EXPECT_EQ(rows, by_columns);
  Eigen::VectorXf vector(4), other;
  vector << 1, 2, 3, 4;
  ASSERT_EQ(SaveAndRestore(vector, other), absl::OkStatus());
  EXPECT_EQ(other, vector);
  Eigen::Matrix3d square;
  EXPECT_TRUE(absl::IsFailedPrecondition(SaveAndRestore(by_columns, square)));
}

// A view is an array like any other: what it shows may come from elsewhere.
TEST_F(StandardHandlersTest, ViewsAreArraysOfTheirAxes) {
  using View = testing::StridedView<double, 2>;
  std::vector<double> data = {1, 2, 3, 4, 5, 6}, other(6);
  View found(other.data(), {3, 2});
  ASSERT_EQ(SaveAndRestore(View(data.data(), {3, 2}), found), absl::OkStatus());
  EXPECT_EQ(other, data);
  EXPECT_EQ(StoredTypestr(), "array");
  const CheckpointReader reader = Ok(CheckpointReader::Open(run()));
  EXPECT_EQ(reader.Find("v")->shape, Shape({3, 2}));
  View turned(other.data(), {2, 3});
  EXPECT_TRUE(absl::IsFailedPrecondition(
      SaveAndRestore(View(data.data(), {3, 2}), turned)));
  const Status refused = SaveAndRestore(
      View(data.data(), {2, 2}, {size_t{rank_ == size_ - 1 ? 3u : 2u}, 1}),
      found);
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_TRUE(testing::IsSameEverywhere(refused.ToString()));
}

TEST_F(StandardHandlersTest, ViewsAreAttributesOfObjects) {
  struct Model {
    std::vector<float> data;
    testing::StridedView<float, 3> weights{data.data(), {2, 1, 2}};

    void Track(Tracker& tracker) { tracker.Value("weights", weights); }
  };
  Model model{.data = {1, 2, 3, 4}}, found{.data = std::vector<float>(4)};
  Ok(Checkpoint(comm_, {{"model", model}, {"view", model.weights}})
         .Save(run()));
  Checkpoint later(comm_, {{"model", found}, {"view", found.weights}});
  EXPECT_EQ(Ok(later.Restore(run())).AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(found.data, model.data);
}

}  // namespace
}  // namespace belay::standard_handlers_test
