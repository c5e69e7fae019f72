// What a restore does about values that are missing, unexpected or mismatched.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "belay/checkpoint.h"
#include "belay/values/restore_values.h"
#include "handler_testing.h"
#include "values.h"

namespace belay::strictness_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Ok;
using testing::Polynomial;
using testing::Polynomials;
using Names = std::vector<std::string>;

constexpr MismatchPolicy kMismatchPolicies[] = {
    MismatchPolicy::kError, MismatchPolicy::kWarn, MismatchPolicy::kCollect,
    MismatchPolicy::kIgnore};

// Stored are "n" of i64, "w" of f32 cut over the ranks, "text" and two
// polynomials.
class StrictnessTest : public testing::CheckpointTest {
 protected:
  StrictnessTest() {
    int64_t n = 7;
    std::vector<float> w(2, static_cast<float>(rank_));
    std::string text = "held";
    Polynomial p = {{1, 2}, "x"}, q = {{3}, "y"};
    State state = List(n, w);
    state.Add("text", text);
    state.Add("p", p);
    state.Add("q", q);
    Ok(Save(comm_, run(), 1, state, {.handlers = &handlers_}));
  }

  template <typename N, typename W>
  State List(N& n, std::vector<W>& w) {
    State state;
    state.Add("n", n);
    state.AddPiece("w", {2 * size_}, Box{{2 * rank_}, {2}},
                   AtAddress(w.data()));
    return state;
  }

  StatusOr<RestoreResult> Into(const State& state, RestoreOptions options) {
    options.handlers = &handlers_;
    StatusOr<RestoreResult> result = Restore(comm_, run(), 1, state, options);
    if (!result.ok()) {
      EXPECT_TRUE(testing::IsSameEverywhere(result.status().ToString()));
    }
    return result;
  }

  void ExpectError(const State& state, const RestoreOptions& options,
                   absl::StatusCode code, const std::string& text) {
    const Status status = Into(state, options).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  const TypeHandlerRegistry handlers_ = Polynomials();
  int64_t n_ = -1;
  std::vector<float> w_ = {-1, -1};
};

TEST_F(StrictnessTest, WhatIsMissing) {
  float absent = 5;
  Polynomial other = {{9}, "z"};
  State state = List(n_, w_);
  // Only one rank has them.
  if (rank_ == size_ - 1) {
    state.Add("absent", absent);
    state.Add("other", other);
  }
  for (const MismatchPolicy policy : kMismatchPolicies) {
    SCOPED_TRACE(static_cast<int>(policy));
    n_ = -1;
    if (policy == MismatchPolicy::kError) {
      ExpectError(state, {}, absl::StatusCode::kNotFound, "\"other\"");
      continue;
    }
    const RestoreResult result = Ok(Into(state, {.missing = policy}));
    EXPECT_EQ(n_, 7);
    EXPECT_EQ(w_[0], static_cast<float>(rank_));
    EXPECT_EQ(absent, 5);
    EXPECT_EQ(other, (Polynomial{{9}, "z"}));
    const bool is_told = policy != MismatchPolicy::kIgnore;
    EXPECT_EQ(result.missing, is_told ? Names({"absent", "other"}) : Names());
    EXPECT_EQ(result.warnings,
              policy == MismatchPolicy::kWarn
                  ? Names({"\"absent\" is not stored and stays as it is",
                           "\"other\" is not stored and stays as it is"})
                  : Names());
  }
}

TEST_F(StrictnessTest, WhatIsUnexpected) {
  Polynomial p;
  std::string text;
  State state = List(n_, w_);
  if (rank_ == 0) state.Add("p", p);
  for (const MismatchPolicy policy : kMismatchPolicies) {
    SCOPED_TRACE(static_cast<int>(policy));
    if (policy == MismatchPolicy::kError) {
      ExpectError(state, {.unexpected = policy},
                  absl::StatusCode::kFailedPrecondition,
                  "2 stored values are wanted by no rank: \"q\", \"text\"");
      continue;
    }
    n_ = -1;
    const RestoreResult result = Ok(Into(state, {.unexpected = policy}));
    EXPECT_EQ(n_, 7);
    const bool is_told = policy != MismatchPolicy::kIgnore;
    EXPECT_EQ(result.unexpected, is_told ? Names({"q", "text"}) : Names());
    EXPECT_EQ(result.warnings.size(),
              policy == MismatchPolicy::kWarn ? 2u : 0u);
  }
  // What is skipped is expected; of a value of which a part is wanted, the
  // others are not.
  std::vector<double> coefficients(1);
  state.Add("text", text);
  state.Add("q/coefficients", coefficients);
  EXPECT_THAT(
      Ok(Into(state, {.unexpected = MismatchPolicy::kCollect})).unexpected,
      ElementsAre("q/variable"));
  std::string variable;
  state.Add("q/variable", variable);
  text = "";
  const RestoreResult result =
      Ok(Into(state, {.unexpected = MismatchPolicy::kError,
                      .args = {{"text", {.skip = true}}}}));
  EXPECT_THAT(result.unexpected, IsEmpty());
  EXPECT_EQ(text, "");
}

TEST_F(StrictnessTest, WhatIsMismatched) {
  double n = -1;                // another dtype
  std::vector<float> w(3, -1);  // another shape
  float text = -1;              // a number for a text
  Polynomial p;
  State state;
  state.Add("n", n);
  state.AddPiece("w", {3 * size_}, Box{{3 * rank_}, {3}}, AtAddress(w.data()));
  if (rank_ == 0) state.Add("text", text);
  state.Add("p", p);
  for (const MismatchPolicy policy : kMismatchPolicies) {
    SCOPED_TRACE(static_cast<int>(policy));
    if (policy == MismatchPolicy::kError) {
      ExpectError(state, {.mismatched = policy},
                  absl::StatusCode::kFailedPrecondition, "the stored ");
      continue;
    }
    p = {};
    const RestoreResult result = Ok(Into(state, {.mismatched = policy}));
    EXPECT_EQ(n, -1);
    EXPECT_EQ(w[2], -1);
    EXPECT_EQ(text, -1);
    EXPECT_EQ(p, (Polynomial{{1, 2}, "x"}));
    if (policy == MismatchPolicy::kIgnore) {
      EXPECT_THAT(result.mismatched, IsEmpty());
      continue;
    }
    ASSERT_EQ(result.mismatched.size(), 3u);
    EXPECT_EQ(result.mismatched[0],
              (Conversion{"n", DType::kF64, {}, DType::kI64, {}}));
    EXPECT_EQ(result.mismatched[1].key, "text");
    EXPECT_EQ(result.mismatched[2].stored_shape, (Shape{2 * size_}));
    if (policy == MismatchPolicy::kWarn) {
      EXPECT_EQ(
          result.warnings.at(0),
          "\"n\" stays as it is: its stored dtype or shape differs (need f64 "
          "[], found i64 [])");
    }
  }
  // What may be converted is no mismatch.
  const RestoreResult result =
      Ok(Into(state, {.allow_dtype_cast = true,
                      .mismatched = MismatchPolicy::kCollect}));
  EXPECT_EQ(n, 7);
  EXPECT_EQ(result.mismatched.size(), 2u);
}

// Slots beside their variable are values of their own.
TEST_F(StrictnessTest, WhatLiesBelowAWantedArrayIsUnexpected) {
  std::vector<float> w = {1, 2}, m = {3, 4};
  State saved, wanted;
  saved.Add("w", w);
  saved.Add("w/m", m);
  wanted.Add("w", w);
  Ok(Save(comm_, run(), 3, saved));
  const RestoreResult result = Ok(Restore(
      comm_, run(), 3, wanted, {.unexpected = MismatchPolicy::kCollect}));
  EXPECT_THAT(result.unexpected, ElementsAre("w/m"));
}

// One stored array for two of the program, of which one may be converted.
TEST_F(StrictnessTest, EachValueHasItsOwnTolerance) {
  double a = -1, b = -1;
  State state;
  state.Add("a", a);
  state.Add("b", b);
  const RestoreResult result = Ok(Into(
      state, {.mismatched = MismatchPolicy::kCollect,
              .args = {{"a", {.stored_key = "n", .allow_dtype_cast = true}},
                       {"b", {.stored_key = "n"}}}}));
  EXPECT_EQ(a, 7);
  EXPECT_EQ(b, -1);
  EXPECT_EQ(result.mismatched.size(), 1u);
}

TEST_F(StrictnessTest, WhatAHandlerListsIsNeverMismatched) {
  std::map<std::string, std::vector<float>> stored = {{"x", {1}}};
  State saved;
  saved.Add("map", stored);
  Ok(Save(comm_, run(), 3, saved));
  std::map<std::string, std::vector<double>> found;
  State wanted;
  wanted.Add("map", found);
  const Status status =
      Restore(comm_, run(), 3, wanted, {.mismatched = MismatchPolicy::kWarn})
          .status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

// A text of the program keeps its length where a number is stored.
TEST_F(StrictnessTest, AMismatchedTextStaysAsItIs) {
  std::string n = "mine";
  State state;
  state.Add("n", n);
  Ok(Into(state, {.mismatched = MismatchPolicy::kIgnore}));
  EXPECT_EQ(n, "mine");
}

TEST_F(StrictnessTest, RanksMayWantOtherForms) {
  double wide = -1;
  int64_t right = -1;
  State state;
  if (rank_ == 0) {
    state.Add("n", wide);
  } else {
    state.Add("n", right);
  }
  const RestoreResult result =
      Ok(Into(state, {.mismatched = MismatchPolicy::kCollect}));
  EXPECT_EQ(wide, -1);
  EXPECT_EQ(right, rank_ == 0 ? -1 : 7);
  EXPECT_EQ(result.mismatched.size(), 1u);
}

// Megatron's StrictHandling: the modes, and what they say of a state that
// lacks three stored values and has one that is not stored.
TEST_F(StrictnessTest, TheModesOfMegatron) {
  struct Mode {
    const char* name;
    RestoreOptions options;
    bool fails;
    size_t missing, unexpected, warnings;
  };
  using enum MismatchPolicy;
  const std::vector<Mode> modes = {
      {"assume_ok_unexpected", {}, true, 0, 0, 0},
      {"log_unexpected", {.missing = kWarn}, false, 1, 0, 1},
      {"log_all", {.missing = kWarn, .unexpected = kWarn}, false, 1, 3, 4},
      {"raise_unexpected", {.missing = kError}, true, 0, 0, 0},
      {"raise_all", {.missing = kError, .unexpected = kError}, true, 0, 0, 0},
      // What raise_all adds.
      {"raise missing",
       {.missing = kIgnore, .unexpected = kError},
       true,
       0,
       0,
       0},
      {"return_unexpected", {.missing = kCollect}, false, 1, 0, 0},
      {"return_all",
       {.missing = kCollect, .unexpected = kCollect},
       false,
       1,
       3,
       0},
      {"ignore_all",
       {.missing = kIgnore, .unexpected = kIgnore},
       false,
       0,
       0,
       0}};
  float absent = 5;
  State state = List(n_, w_);
  state.Add("absent", absent);
  for (const Mode& mode : modes) {
    SCOPED_TRACE(mode.name);
    const auto result = Into(state, mode.options);
    EXPECT_EQ(result.ok(), !mode.fails) << result.status();
    if (!result.ok()) continue;
    EXPECT_EQ(result->missing.size(), mode.missing);
    EXPECT_EQ(result->unexpected.size(), mode.unexpected);
    EXPECT_EQ(result->warnings.size(), mode.warnings);
  }
}

TEST_F(StrictnessTest, MistakesAreTheSameEverywhere) {
  const auto invalid = absl::StatusCode::kInvalidArgument;
  const State state = List(n_, w_);
  ExpectError(state, {.missing = MismatchPolicy{4}}, invalid,
              "missing is out of range (need 0 to 3, found 4)");
  if (size_ > 1) {
    ExpectError(state,
                {.unexpected = rank_ == 1 ? MismatchPolicy::kWarn
                                          : MismatchPolicy::kCollect},
                invalid, "the option unexpected");
  }
  const Status values =
      RestoreValues(comm_, run(), 1, {}, {.missing = MismatchPolicy::kWarn})
          .status();
  EXPECT_THAT(std::string(values.message()),
              HasSubstr("say it by ArrayRestoreArgs"));
}

// Objects have the LoadStatus, which tells and asserts the same.
TEST_F(StrictnessTest, OfObjectsWhatIsMismatchedStaysAsItIs) {
  float a = 2;
  int64_t b = 3;
  const auto stored = [&](Tracker& tracker) {
    tracker.Value("a", a);
    tracker.Value("b", b);
  };
  Ok(Checkpoint(comm_, stored).SaveAs(StepFile(2, "")));
  double other = -1;
  int64_t same = -1;
  const auto wanted = [&](Tracker& tracker) {
    tracker.Value("a", other);
    tracker.Value("b", same);
  };
  Checkpoint checkpoint(comm_, wanted);
  const LoadStatus status = Ok(checkpoint.Restore(
      StepFile(2, ""), {.mismatched = MismatchPolicy::kWarn}));
  EXPECT_THAT(status.report().warnings,
              ElementsAre(HasSubstr("stays as it is")));
  EXPECT_EQ(other, -1);
  EXPECT_EQ(same, 3);
  EXPECT_EQ(status.report().incompatible.size(), 1u);
  EXPECT_FALSE(status.AssertConsumed().ok());
  const Status refused =
      checkpoint
          .Restore(StepFile(2, ""), {.unexpected = MismatchPolicy::kError})
          .status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("the option unexpected"),
                    HasSubstr("ask the LoadStatus")));
}

}  // namespace
}  // namespace belay::strictness_test
