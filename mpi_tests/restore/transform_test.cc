// Values that a restore computes from stored arrays.

#include "belay/values/transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <complex>

#include "belay/arrays/indexing.h"
#include "belay/checkpoint.h"
#include "belay/extend/transform_function.h"
#include "values.h"

namespace belay::transform_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Ok;

const Shape kShape = {12, 6};

// Element [i, j] of the array number `array`.
float At(int64_t array, int64_t i, int64_t j) {
  return static_cast<float>(1000 * array + 10 * i + j);
}

// The mean of neighbouring rows, two of which become one.
class HalveRows : public TransformFunction {
 public:
  std::string description() const override { return "halve rows"; }
  StatusOr<ArrayForm> Result(
      const std::vector<ArrayForm>& inputs) const override {
    const Shape& shape = inputs.at(0).shape;
    return ArrayForm{DType::kF64, {shape.at(0) / 2, shape.at(1)}};
  }
  StatusOr<std::vector<Box>> Needs(const std::vector<ArrayForm>&,
                                   const Box& wanted) const override {
    Box box = wanted;
    box.offset[0] *= 2;
    box.shape[0] *= 2;
    return std::vector<Box>{box};
  }
  Status Compute(const std::vector<Tensor>& inputs, const std::vector<Box>&,
                 const Box& wanted, Tensor& result) const override {
    const std::span<const float> in = inputs[0].values<float>();
    const std::span<double> out = result.values<double>();
    const auto columns = static_cast<size_t>(wanted.shape[1]);
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t first = i / columns * 2 * columns + i % columns;
      out[i] = (double{in[first]} + double{in[first + columns]}) / 2;
    }
    return absl::OkStatus();
  }
};

// Makes far more than is stored.
class Repeat : public HalveRows {
 public:
  std::string description() const override { return "repeat"; }
  StatusOr<ArrayForm> Result(const std::vector<ArrayForm>&) const override {
    return ArrayForm{DType::kF64, {int64_t{1} << 24}};
  }
};

class TransformTest : public testing::CheckpointTest {
 protected:
  // Saves "a0", "a1", "a2", each cut by rows, and some others.
  TransformTest() {
    State state;
    std::vector<std::vector<float>> memory;
    for (int64_t array = 0; array < 3; ++array) {
      std::vector<float>& rows = memory.emplace_back();
      const Box box = CutOf(kShape, 0);
      for (int64_t i = 0; i < box.shape[0]; ++i) {
        for (int64_t j = 0; j < kShape[1]; ++j) {
          rows.push_back(At(array, box.offset[0] + i, j));
        }
      }
    }
    for (size_t array = 0; array < 3; ++array) {
      state.AddPiece("a" + std::to_string(array), kShape, CutOf(kShape, 0),
                     memory[array]);
    }
    std::vector<std::complex<double>> complex = {{1, 2}, {3, 4}, {5, 6}};
    state.Add("complex", complex);
    std::string text = "text";
    state.Add("text", text);
    std::map<std::string, int> dict = {{"x", 7}};
    state.Add("dict", dict);
    float scalar = 3;
    state.Add("scalar", scalar);
    Ok(Save(comm_, run(), 1, state));
  }

  // The part of an array that this rank has if it is cut along an axis.
  Box CutOf(const Shape& shape, size_t axis) const {
    Box box = WholeBox(shape);
    box.offset[axis] = shape[axis] * rank_ / size_;
    box.shape[axis] = shape[axis] * (rank_ + 1) / size_ - box.offset[axis];
    return box;
  }

  // Restores a box of "x", which is computed, and compares each element.
  template <typename T = float>
  RestoreResult ExpectComputed(
      const Transform& transform, const Shape& shape, const Box& box,
      const std::function<double(const Shape&)>& expected,
      RestoreOptions options = {}) {
    std::vector<T> values(static_cast<size_t>(NumElements(box.shape)), T(-1));
    State state;
    state.AddPiece("x", shape, box, values);
    options.read_sharing = ReadSharing::kEachRank;
    options.args = {{"x", {.transform = transform}}};
    RestoreResult result = Ok(Restore(comm_, run(), 1, state, options));
    Shape element(shape.size(), 0);
    for (size_t i = 0; i < values.size(); ++i) {
      auto rest = static_cast<int64_t>(i);
      for (size_t axis = shape.size(); axis-- > 0;) {
        element[axis] = box.offset[axis] + rest % box.shape[axis];
        rest /= box.shape[axis];
      }
      EXPECT_EQ(values[i], static_cast<T>(expected(element)))
          << transform.ToString() << " " << ShapeText(element);
    }
    return result;
  }

  void ExpectError(const RestoreArgs& args, State& state, absl::StatusCode code,
                   const std::string& text) {
    const Status status =
        Restore(comm_, run(), 1, state, {.args = {{"x", args}}}).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  }
};

TEST_F(TransformTest, Stacks) {
  const Transform stack = Transform::Stack({"a0", "a1", "a2"});
  const auto expected = [](const Shape& at) { return At(at[0], at[1], at[2]); };
  const Shape shape = {3, 12, 6};
  for (size_t axis = 0; axis < 3; ++axis) {
    const RestoreResult result =
        ExpectComputed(stack, shape, CutOf(shape, axis), expected);
    EXPECT_EQ(result.counters.bytes, 3 * 12 * 6 * 4) << axis;
    EXPECT_THAT(result.conversions, IsEmpty());
  }
  ExpectComputed(Transform::Stack({"a0", "a2"}, -1), {12, 6, 2},
                 CutOf({12, 6, 2}, 1),
                 [](const Shape& at) { return At(2 * at[2], at[0], at[1]); });
}

// A rank that wants one row of one of three arrays reads no more.
TEST_F(TransformTest, ReadsOnlyWhatABoxNeeds) {
  const Transform stack = Transform::Stack({"a0", "a1", "a2"});
  const Box one = {{rank_ % 3, rank_, 0}, {1, 1, 6}};
  const RestoreResult result =
      ExpectComputed(stack, {3, 12, 6}, one,
                     [](const Shape& at) { return At(at[0], at[1], at[2]); });
  EXPECT_EQ(result.counters.bytes, size_ * 6 * 4);
  const Transform turned =
      Transform::Transpose(Transform::Slice("a1", *ParseIndex("::-3, 1:5")));
  const RestoreResult part = ExpectComputed(
      turned, {4, 4}, {{rank_, 0}, {1, 4}},
      [](const Shape& at) { return At(1, 11 - 3 * at[1], 1 + at[0]); });
  EXPECT_EQ(part.counters.bytes, size_ * 4 * 4);
}

TEST_F(TransformTest, ConcatsSplitsNarrowsAndTransposes) {
  ExpectComputed(
      Transform::Concat({"a1", "a0"}, 1), {12, 12}, CutOf({12, 12}, 1),
      [](const Shape& at) { return At(at[1] < 6 ? 1 : 0, at[0], at[1] % 6); });
  for (int64_t part = 0; part < 3; ++part) {
    const RestoreResult result = ExpectComputed(
        Transform::Split("a2", 1, 3, part), {12, 2}, CutOf({12, 2}, 0),
        [&](const Shape& at) { return At(2, at[0], 2 * part + at[1]); });
    EXPECT_EQ(result.counters.bytes, 12 * 2 * 4);
  }
  ExpectComputed(Transform::Narrow("a0", -2, 5, 4), {4, 6}, CutOf({4, 6}, 1),
                 [](const Shape& at) { return At(0, 5 + at[0], at[1]); });
  ExpectComputed(Transform::Transpose("a0"), {6, 12}, CutOf({6, 12}, 1),
                 [](const Shape& at) { return At(0, at[1], at[0]); });
  ExpectComputed(Transform::Slice("a0", Index{-1, NewAxis{}}), {1, 6},
                 CutOf({1, 6}, 1),
                 [](const Shape& at) { return At(0, 11, at[1]); });
  ExpectComputed(Transform::Stack({"scalar", "scalar"}), {2}, WholeBox({2}),
                 [](const Shape&) { return 3; });
  ExpectComputed(Transform::Slice("a0", *ParseIndex("4:4")), {0, 6},
                 WholeBox({0, 6}), [](const Shape&) { return 0; });
}

TEST_F(TransformTest, AppliesFunctions) {
  const Transform halved =
      Transform::Apply(std::make_shared<HalveRows>(), {"a1"});
  const auto expected = [](const Shape& at) {
    return At(1, 2 * at[0], at[1]) + 5.0;
  };
  const RestoreResult result =
      ExpectComputed<double>(halved, {6, 6}, CutOf({6, 6}, 0), expected);
  EXPECT_EQ(result.counters.bytes, 12 * 6 * 4);
  ExpectComputed<double>(Transform::Transpose(halved), {6, 6}, CutOf({6, 6}, 0),
                         [&](const Shape& at) {
                           return expected({at[1], at[0]});
                         });
  // Functions of functions, and a cast of the result.
  const Transform of_both = Transform::Apply(std::make_shared<HalveRows>(),
                                             {Transform::Concat({"a0", "a1"})});
  const RestoreResult cast = ExpectComputed<int32_t>(
      of_both, {12, 6}, CutOf({12, 6}, 1),
      [](const Shape& at) {
        return At(at[0] / 6, 2 * (at[0] % 6), at[1]) + 5.0;
      },
      {.allow_dtype_cast = true});
  ASSERT_EQ(cast.conversions.size(), 1u);
  EXPECT_EQ(cast.conversions[0].key, "x");
  EXPECT_EQ(cast.conversions[0].stored_dtype, DType::kF64);
}

TEST_F(TransformTest, CastsAndPads) {
  const auto expected = [](const Shape& at) {
    return at[0] < 6 ? At(0, at[1], at[0]) : -1;
  };
  const RestoreResult result = ExpectComputed<int16_t>(
      Transform::Transpose("a0"), {8, 10}, CutOf({8, 10}, 0), expected,
      {.allow_dtype_cast = true, .allow_shape_mismatch = true});
  ASSERT_FALSE(result.conversions.empty());
  EXPECT_EQ(result.conversions.back().key, "x");
  EXPECT_EQ(result.conversions.back().stored_shape, (Shape{6, 12}));
  EXPECT_TRUE(
      testing::IsSameEverywhere(std::to_string(result.conversions.size())));
}

// Groups of the program's key, vectors that take the length, complex numbers,
// and renaming by the same argument.
TEST_F(TransformTest, TakesGroupsAndGivesLengths) {
  std::vector<float> rows[2];
  std::vector<std::complex<double>> complex(1);
  float scalar = 0;
  State state;
  state.Add("row/0", rows[0]);
  state.Add("row/1", rows[1]);
  state.Add("z", complex);
  state.Add("s", scalar);
  const RestoreOptions options = {
      .args = {{"row/(.)", {.transform = Transform::Slice("a\\1", Index{2})}},
               {"z",
                {.transform = Transform::Slice(
                     "complex", Index{belay::Slice{{}, {}, -1}})}},
               {"s", {.transform = "scalar"}}}};
  Ok(Restore(comm_, run(), 1, state, options));
  EXPECT_THAT(rows[1], ElementsAre(1020, 1021, 1022, 1023, 1024, 1025));
  EXPECT_EQ(rows[0].size(), 6u);
  ASSERT_EQ(complex.size(), 3u);
  EXPECT_EQ(complex[0], (std::complex<double>(5, 6)));
  EXPECT_EQ(scalar, 3);
}

// The checkpoint says the lengths, so it must not say any.
TEST_F(TransformTest, LengthsAreAsWhatIsStoredAllows) {
  const std::vector<double> empty;
  std::vector<double> values;
  State state;
  state.Add("x", values);
  ExpectError(
      {.transform = Transform::Apply(std::make_shared<Repeat>(), {"a0"})},
      state, absl::StatusCode::kInvalidArgument,
      "transforms that give lengths make too many bytes of those that "
      "are stored (need at most 67403776 of 288, found 134217728)");
  EXPECT_EQ(values, empty);
}

// Whatever gives a vector its length, what lies in its memory is not written.
TEST_F(TransformTest, MemoryOfAVectorThatGrowsIsNotWritten) {
  std::vector<float> vector(4);
  std::vector<std::complex<double>> complex(1);
  State plain, computed;
  plain.Add("row", vector);
  plain.AddReplicated("scalar", {}, AtAddress(vector.data() + 1));
  computed.Add("complex", complex);
  computed.AddReplicated("one", {},
                         AtAddress(reinterpret_cast<float*>(complex.data())));
  const auto expect = [&](const State& state, const std::string& key,
                          const Index& index, const std::string& text) {
    const Status status =
        Restore(comm_, run(), 1, state,
                {.args = {{key, {.transform = Transform::Slice("a0", index)}}}})
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  };
  expect(plain, "row", Index{1},
         "restore \"scalar\": it lies in the memory of \"row\"");
  expect(computed, "one", Index{0, 0},
         "restore \"one\": it lies in the memory of \"complex\"");
}

TEST_F(TransformTest, SourcesCountAsWanted) {
  std::vector<float> x(2 * 12 * 6), other(2, -1);
  State state;
  state.AddReplicated("x", {2, 12, 6}, x);
  state.AddReplicated("other", {2}, other);
  const RestoreOptions options = {
      .missing = MismatchPolicy::kCollect,
      .unexpected = MismatchPolicy::kCollect,
      .args = {{"x", {.transform = Transform::Stack({"a0", "a1"})}},
               {"other",
                {.allow_missing = true,
                 .transform = Transform::Stack({"scalar", "b"})}}}};
  const RestoreResult result = Ok(Restore(comm_, run(), 1, state, options));
  EXPECT_THAT(result.missing, ElementsAre("b"));
  EXPECT_THAT(result.unexpected, ElementsAre("a2", "complex", "dict", "text"));
  EXPECT_THAT(other, ElementsAre(-1, -1));
  EXPECT_EQ(x[72], 1000);
}

TEST_F(TransformTest, WhatDoesNotFitMayStay) {
  std::vector<float> x(4, -1);
  State state;
  state.AddReplicated("x", {2, 2}, x);
  const RestoreResult result =
      Ok(Restore(comm_, run(), 1, state,
                 {.mismatched = MismatchPolicy::kWarn,
                  .args = {{"x", {.transform = Transform::Transpose("a0")}}}}));
  ASSERT_EQ(result.mismatched.size(), 1u);
  EXPECT_EQ(result.mismatched[0].key, "x");
  EXPECT_EQ(result.mismatched[0].stored_shape, (Shape{6, 12}));
  EXPECT_EQ(result.warnings.size(), 1u);
  EXPECT_EQ(x[0], -1);
}

TEST_F(TransformTest, MistakesAreTheSameEverywhere) {
  using Code = absl::StatusCode;
  std::vector<float> x(72);
  State state;
  state.AddReplicated("x", {6, 12}, x);
  ExpectError({.transform = Transform::Split("a0", 1, 2, 0)}, state,
              Code::kFailedPrecondition,
              "compute \"x\": split(\"a0\"; axis 1, part 0 of 2): another "
              "dtype or shape results (need f32 [6, 12], found f32 [12, 3])");
  ExpectError({.transform = Transform::Transpose("b")}, state, Code::kNotFound,
              "no array is stored under \"b\"");
  ExpectError({.transform = Transform::Transpose("text")}, state,
              Code::kFailedPrecondition, "\"text\" is a text");
  ExpectError({.transform = Transform::Transpose("dict")}, state,
              Code::kNotFound, "\"dict\"");
  ExpectError({.transform = Transform::Concat({"a0", "scalar"})}, state,
              Code::kInvalidArgument, "the shapes do not match");
  ExpectError({.transform = Transform::Transpose("a\\1")}, state,
              Code::kInvalidArgument, "\\1");
  ExpectError({.stored_key = "a0", .transform = Transform::Transpose("a0")},
              state, Code::kInvalidArgument, "exclude each other");
  std::string text;
  State of_text;
  of_text.Add("x", text);
  ExpectError({.transform = Transform::Transpose("a0")}, of_text,
              Code::kInvalidArgument, "only arrays and numbers");
  std::map<std::string, int> dict;
  State of_dict;
  of_dict.Add("x", dict);
  ExpectError({.transform = Transform::Transpose("a0")}, of_dict,
              Code::kInvalidArgument, "only arrays and numbers");
  const std::vector<float> fixed(72);
  State of_const;
  of_const.AddReplicated("x", {6, 12}, fixed);
  ExpectError({.transform = Transform::Transpose("a0")}, of_const,
              Code::kInvalidArgument, "const");
}

// What a function returns or throws on one rank is the error of all.
TEST_F(TransformTest, FunctionsThatFail) {
  class Fails : public HalveRows {
   public:
    Fails(int how, bool here) : how_(how), here_(here) {}
    StatusOr<std::vector<Box>> Needs(const std::vector<ArrayForm>& inputs,
                                     const Box& wanted) const override {
      if (here_ && how_ == 0) return std::vector<Box>();
      if (here_ && how_ == 1) return std::vector<Box>{{{0, 0}, {13, 1}}};
      return HalveRows::Needs(inputs, wanted);
    }
    Status Compute(const std::vector<Tensor>& inputs,
                   const std::vector<Box>& boxes, const Box& wanted,
                   Tensor& result) const override {
      if (here_ && how_ == 2) throw std::runtime_error("no idea");
      if (here_ && how_ == 3) result = Tensor(DType::kI8, {1});
      return HalveRows::Compute(inputs, boxes, wanted,
                                result.dtype() == DType::kI8 ? spare_ : result);
    }

   private:
    int how_;
    bool here_;
    mutable Tensor spare_{DType::kF64, {6, 6}};
  };
  std::vector<double> x(36);
  State state;
  state.AddReplicated("x", {6, 6}, x);
  const std::string texts[] = {"need 1, found 0", "reaches past", "no idea",
                               "has changed the form"};
  for (int how = 0; how < 4; ++how) {
    const Transform transform = Transform::Apply(
        std::make_shared<Fails>(how, rank_ == size_ - 1), {"a0"});
    const Status status = Restore(comm_, run(), 1, state,
                                  {.args = {{"x", {.transform = transform}}}})
                              .status();
    EXPECT_THAT(std::string(status.message()), HasSubstr("compute \"x\""));
    EXPECT_THAT(std::string(status.message()), HasSubstr(texts[how]));
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString())) << status;
  }
}

}  // namespace
}  // namespace belay::transform_test
