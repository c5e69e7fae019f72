// Arguments for single values of a restore: Orbax's partial restore,
// placeholders and transformations.

#include "belay/values/restore_args.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "belay/checkpoint.h"
#include "values.h"

namespace belay::restore_args_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Ok;

// Some values, each rank with a piece of `w`.
struct Flat {
  explicit Flat(int rank, int size, float first = -1)
      : w(2, first + static_cast<float>(rank)), total{2 * size} {}

  State List(int rank, const std::string& prefix = "") {
    State state;
    state.AddPiece(prefix + "w", total, Box{{2 * rank}, {2}},
                   AtAddress(w.data()));
    state.Add(prefix + "n", n);
    state.Add(prefix + "text", text);
    return state;
  }

  std::vector<float> w;
  Shape total;
  int64_t n = -1;
  std::string text = "mine";
};

class RestoreArgsTest : public testing::CheckpointTest {
 protected:
  RestoreArgsTest() {
    Flat saved = Stored();
    Ok(Save(comm_, run(), 1, saved.List(rank_)));
  }

  Flat Stored() const {
    Flat stored(rank_, size_, 10);
    stored.n = 7;
    stored.text = "held";
    return stored;
  }
  Flat Mine() const { return Flat(rank_, size_); }

  StatusOr<RestoreResult> Into(Flat& flat, const RestoreOptions& options,
                               const std::string& prefix = "") {
    return Restore(comm_, run(), 1, flat.List(rank_, prefix), options);
  }
};

TEST_F(RestoreArgsTest, PartialRestoreWithPlaceholder) {
  Flat flat = Mine();
  const RestoreResult result =
      Ok(Into(flat, {.args = {{"n|text", {.skip = true}}}}));
  EXPECT_EQ(result.num_arrays, 1);
  EXPECT_EQ(flat.w, Stored().w);
  EXPECT_EQ(flat.n, -1);
  EXPECT_EQ(flat.text, "mine");
}

TEST_F(RestoreArgsTest, PartialRestoreByPredicate) {
  Flat flat = Mine();
  // The last rank wants less than the others.
  const bool is_last = rank_ == size_ - 1;
  Ok(Into(flat, {.selects = [&](std::string_view key) {
            return key == "n" || (key == "w" && !is_last);
          }}));
  EXPECT_EQ(flat.w, is_last ? Mine().w : Stored().w);
  EXPECT_EQ(flat.n, 7);
  EXPECT_EQ(flat.text, "mine");
}

TEST_F(RestoreArgsTest, NothingIsLeft) {
  Flat flat = Mine();
  EXPECT_EQ(Ok(Into(flat, {.args = {{".*", {.skip = true}}}})).num_arrays, 0);
  EXPECT_EQ(flat.n, -1);
}

TEST_F(RestoreArgsTest, RenamesWithGroups) {
  Flat flat = Mine();
  const RestoreResult result =
      Ok(Into(flat, {.args = {{"new/(.*)", {.stored_key = "\\1"}}}}, "new/"));
  EXPECT_EQ(flat.w, Stored().w);
  EXPECT_EQ(flat.text, "held");
  EXPECT_THAT(result.missing, IsEmpty());
}

TEST_F(RestoreArgsTest, DefaultsForWhatIsNotStored) {
  Flat flat = Mine();
  Flat fresh = Mine();
  State state = flat.List(rank_);
  if (rank_ == 0) state.Add("fresh/n", fresh.n);
  state.AddPiece("fresh/w", fresh.total, Box{{2 * rank_}, {2}},
                 AtAddress(fresh.w.data()));
  RestoreOptions options{
      .args = {{KeyPrefix("fresh/"), {.allow_missing = true}}, {".*", {}}}};
  const RestoreResult result = Ok(Restore(comm_, run(), 1, state, options));
  EXPECT_THAT(result.missing, ElementsAre("fresh/n", "fresh/w"));
  EXPECT_EQ(flat.w, Stored().w);
  EXPECT_EQ(fresh.w, Mine().w);
  // Without it, what is not stored is an error.
  EXPECT_TRUE(absl::IsNotFound(Restore(comm_, run(), 1, state, {}).status()));
}

TEST_F(RestoreArgsTest, EachValueToleratesItsOwn) {
  int32_t n = -1;
  std::vector<double> w(2, -1);
  State state;
  state.Add("n", n);
  state.AddPiece("w", Shape{2 * size_}, Box{{2 * rank_}, {2}},
                 AtAddress(w.data()));
  const Status status = Restore(comm_, run(), 1, state,
                                {.args = {{"n", {.allow_dtype_cast = true}}}})
                            .status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"w\""));
  const RestoreResult result = Ok(Restore(
      comm_, run(), 1, state, {.args = {{"n|w", {.allow_dtype_cast = true}}}}));
  EXPECT_EQ(n, 7);
  EXPECT_EQ(w[1], 10 + rank_);
  EXPECT_EQ(result.conversions.size(), 2u);
  EXPECT_TRUE(absl::IsFailedPrecondition(
      Restore(comm_, run(), 1, state,
              {.allow_dtype_cast = true,
               .args = {{"n", {.allow_dtype_cast = false}}}})
          .status()));
}

TEST_F(RestoreArgsTest, MistakesAreTheSameEverywhere) {
  Flat flat = Mine();
  const auto expect = [&](const RestoreOptions& options, absl::StatusCode code,
                          const std::string& text) {
    const Status status = Into(flat, options).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_TRUE(testing::IsSameEverywhere(std::string(status.message())));
  };
  using Code = absl::StatusCode;
  expect({.args = {{"tex", {.skip = true}}}}, Code::kInvalidArgument,
         "RestoreOptions.args \"tex\": matches no key (need one of 3)");
  expect({.args = {{"(", {}}}}, Code::kInvalidArgument,
         "not a regular expression");
  expect({.args = {{"n", {.stored_key = "m"}}}}, Code::kNotFound, "\"m\"");
  expect({.selects = [&](std::string_view) -> bool {
           if (rank_ == size_ - 1) throw std::runtime_error("odd");
           return true;
         }},
         Code::kInternal, "odd");
  if (size_ == 1) return;
  expect({.args = {{rank_ == 0 ? "n" : "w", {.skip = true}}}},
         Code::kInvalidArgument, "the option args");
}

// A key that one rank alone has is a key.
TEST_F(RestoreArgsTest, AnEntryForAValueOfOneRank) {
  Flat flat = Mine();
  int64_t extra = -1;
  State state = flat.List(rank_);
  if (rank_ == size_ - 1) state.Add("extra", extra);
  Ok(Restore(comm_, run(), 1, state,
             {.args = {{"extra", {.stored_key = "n"}}}}));
  EXPECT_EQ(extra, rank_ == size_ - 1 ? 7 : -1);
}

struct Layer {
  std::vector<float> kernel, bias;
  void Track(Tracker& tracker) {
    tracker.Child("kernel", kernel);
    tracker.Child("bias", bias);
  }
};

std::string KeyOf(const std::string& object) {
  return object + "/.ATTRIBUTES/VARIABLE_VALUE";
}

class RestoreArgsOfObjectsTest : public testing::CheckpointTest {
 protected:
  RestoreArgsOfObjectsTest() {
    Layer layer{.kernel = {1, 2}, .bias = {3}};
    Ok(Checkpoint(comm_, {{"old", layer}}).Save(run()));
  }
};

TEST_F(RestoreArgsOfObjectsTest, ObjectsThatWereRenamed) {
  Layer layer{.kernel = {0, 0}, .bias = {0}};
  Checkpoint checkpoint(comm_, {{"new", layer}});
  const LoadStatus status = Ok(checkpoint.Restore(
      run(), {.args = {{"new/(.*)", {.stored_key = "old/\\1"}}}}));
  EXPECT_THAT(layer.kernel, ElementsAre(1, 2));
  EXPECT_THAT(layer.bias, ElementsAre(3));
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus()) << status.ToString();
  EXPECT_EQ(status.report().matched.size(), 3u);
  // Nothing waits for an object "old".
  EXPECT_THAT(status.report().deferred, IsEmpty());
}

TEST_F(RestoreArgsOfObjectsTest, ValuesThatAreSkipped) {
  Layer layer{.kernel = {0, 0}, .bias = {0}};
  Checkpoint checkpoint(comm_, {{"old", layer}});
  const LoadStatus status =
      Ok(checkpoint.Restore(run(), {.args = {{".*bias.*", {.skip = true}}}}));
  EXPECT_THAT(layer.kernel, ElementsAre(1, 2));
  EXPECT_THAT(layer.bias, ElementsAre(0));
  EXPECT_THAT(status.report().skipped, ElementsAre(KeyOf("old/bias")));
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus()) << status.ToString();
}

TEST_F(RestoreArgsOfObjectsTest, ValuesThatAreNotStored) {
  Layer old{.kernel = {0, 0}, .bias = {0}}, head{.kernel = {5}, .bias = {6}};
  Checkpoint checkpoint(comm_, {{"old", old}, {"head", head}});
  EXPECT_NE(Ok(checkpoint.Restore(run())).AssertConsumed(), absl::OkStatus());
  const LoadStatus status = Ok(checkpoint.Restore(
      run(), {.args = {{KeyPrefix("head/"), {.allow_missing = true}}}}));
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus()) << status.ToString();
  EXPECT_THAT(status.report().defaulted,
              ElementsAre(KeyOf("head/kernel"), KeyOf("head/bias")));
  EXPECT_THAT(head.kernel, ElementsAre(5));
}

TEST_F(RestoreArgsOfObjectsTest, MistakesAreTheSameEverywhere) {
  Layer layer{.kernel = {0, 0}, .bias = {0}};
  Checkpoint checkpoint(comm_, {{"old", layer}});
  const Status status =
      checkpoint.Restore(run(), {.args = {{"old/kernel", {}}}}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr(KeyOf("old/kernel")));
  EXPECT_EQ(layer.bias[0], 0);
}

// Tied weights: two keys for one array.
// What is not stored keeps the value of the program, and is not compared.
TEST_F(RestoreArgsTest, TwoKeysInOneMemoryThatIsLargerThanWhatIsStored) {
  std::vector<double> stored = {1, 2, 3};
  State small, large;
  small.AddReplicated("a", {3}, stored);
  small.AddReplicated("b", {3}, stored);
  Ok(Save(comm_, run(), 4, small));
  std::vector<double> padded(5, 7);
  large.AddReplicated("a", {5}, padded);
  large.AddReplicated("b", {5}, padded);
  Ok(Restore(comm_, run(), 4, large, {.allow_shape_mismatch = true}));
  EXPECT_EQ(padded, (std::vector<double>{1, 2, 3, 7, 7}));
}

TEST_F(RestoreArgsTest, TwoKeysInOneMemoryNeedEqualValues) {
  std::vector<double> a = {1, 2, 3}, b = {1, 2, 4};
  const auto state = [](std::vector<double>& first,
                        std::vector<double>& second) {
    State both;
    both.Add("a", first);
    both.Add("b", second);
    return both;
  };
  Ok(Save(comm_, run(), 2, state(a, a)));
  Ok(Save(comm_, run(), 3, state(a, b)));
  std::vector<double> tied(3), other(3);
  Ok(Restore(comm_, run(), 2, state(tied, tied)));
  EXPECT_EQ(tied, a);
  // On one rank only, and the error is on all.
  const bool mine = rank_ == size_ - 1;
  const Status status =
      Restore(comm_, run(), 3, state(tied, mine ? tied : other)).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("step_00000003\": \"a\" and \"b\" have the same "
                        "memory, and different values are stored for them: "
                        "give one of them its own memory, or leave it out "
                        "with RestoreArgs::skip"));
  Ok(Restore(comm_, run(), 3, state(tied, tied),
             {.args = {{"a", {.skip = true}}}}));
  EXPECT_EQ(tied, b);
  Ok(Restore(comm_, run(), 3, state(tied, tied),
             {.args = {{"b", {.stored_key = "a"}}}}));
  EXPECT_EQ(tied, a);
  Ok(Restore(comm_, run(), 3, state(tied, other)));
  EXPECT_EQ(tied, a);
  EXPECT_EQ(other, b);
}

// Values of an object that share memory if `is_tied`.
struct Tied {
  std::vector<float> in, out;
  bool is_tied = false;

  void Track(Tracker& tracker) {
    tracker.Value("in", in);
    tracker.Value("out", is_tied ? in : out);
  }
};

TEST_F(RestoreArgsOfObjectsTest, TwoValuesInOneMemoryNeedEqualValues) {
  Tied both{.in = {1, 2}, .out = {1, 2}};
  Tied tied{.in = {0, 0}, .out = {}, .is_tied = true};
  Checkpoint stored(comm_, {{"model", both}});
  Checkpoint checkpoint(comm_, {{"model", tied}});
  Ok(stored.Save(run() + "_tied"));
  Ok(checkpoint.Restore(run() + "_tied"));
  EXPECT_THAT(tied.in, ElementsAre(1, 2));
  both.out = {1, 5};
  Ok(stored.Save(run() + "_different"));
  const Status status = checkpoint.Restore(run() + "_different").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("have the same memory, and different values"));
}

}  // namespace
}  // namespace belay::restore_args_test
