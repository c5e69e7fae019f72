// Arguments for single values that have handlers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

#include "belay/checkpoint.h"
#include "belay/values/restore_args.h"
#include "handler_testing.h"
#include "values.h"

namespace belay::handled_args_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Ok;
using testing::Polynomial;
using testing::Polynomials;
using testing::RegistryOf;

const Polynomial kMine{{-1}, "mine"};
using Texts = std::vector<std::string>;

class HandledArgsTest : public testing::CheckpointTest {
 protected:
  HandledArgsTest() {
    Polynomial p = p_, q = q_;
    Texts texts = texts_;
    int64_t n = 7;
    State state;
    state.Add("old/p", p);
    state.Add("old/q", q);
    state.Add("old/texts", texts);
    state.Add("n", n);
    Ok(Save(comm_, run(), 1, state, {.handlers = &handlers_}));
  }

  StatusOr<RestoreResult> Into(const State& state, RestoreOptions options) {
    options.handlers = &handlers_;
    return Restore(comm_, run(), 1, state, options);
  }
  void ExpectError(const State& state, const RestoreOptions& options,
                   absl::StatusCode code, const std::string& text) {
    const Status status = Into(state, options).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_TRUE(testing::IsSameEverywhere(std::string(status.message())));
  }

  const TypeHandlerRegistry handlers_ = Polynomials();
  const Polynomial p_{{1, 2, 3}, "t"}, q_{{4}, "u"};
  const Texts texts_ = {"one", "", "three"};
};

using Code = absl::StatusCode;

TEST_F(HandledArgsTest, SkippedOnesStayAsTheyAre) {
  Polynomial p = kMine, q = kMine;
  Texts texts = {"mine"};
  State state;
  state.Add("old/p", p);
  state.Add("old/q", q);
  state.Add("old/texts", texts);
  const RestoreResult result =
      Ok(Into(state, {.args = {{"old/(q|texts)", {.skip = true}}}}));
  EXPECT_EQ(p, p_);
  EXPECT_EQ(q, kMine);
  EXPECT_THAT(texts, ElementsAre("mine"));
  EXPECT_EQ(result.num_arrays, 2);
  EXPECT_EQ(Ok(Into(state, {.args = {{".*", {.skip = true}}}})).num_arrays, 0);
  EXPECT_EQ(q, kMine);
}

// What is skipped need not be stored, and needs no handler that would take it.
TEST_F(HandledArgsTest, OfSkippedOnesNothingIsAsked) {
  Polynomial absent = kMine, q = kMine;
  Texts other_type = {"mine"};
  State state;
  state.Add("absent", absent);
  state.Add("old/p", other_type);
  state.Add("old/q", q);
  Ok(Into(state, {.args = {{"absent|old/p", {.skip = true}}}}));
  EXPECT_EQ(absent, kMine);
  EXPECT_THAT(other_type, ElementsAre("mine"));
  EXPECT_EQ(q, q_);
}

TEST_F(HandledArgsTest, RenamesWithGroups) {
  Polynomial p = kMine, q = kMine, again = kMine;
  Texts texts;  // which asks again when it knows its length
  State state;
  state.Add("new/p", p);
  state.Add("new/q", q);
  state.Add("new/texts", texts);
  state.Add("again", again);
  const RestoreResult result =
      Ok(Into(state, {.args = {{"new/(.*)", {.stored_key = "old/\\1"}},
                               {"again", {.stored_key = "old/p"}}}}));
  EXPECT_EQ(p, p_);
  EXPECT_EQ(q, q_);
  EXPECT_EQ(texts, texts_);
  EXPECT_EQ(again, p_);
  EXPECT_THAT(result.missing, IsEmpty());
}

TEST_F(HandledArgsTest, DefaultsForWhatIsNotStored) {
  Polynomial p = kMine, fresh = kMine, moved = kMine;
  Texts texts = {"mine"};
  int64_t n = -1, number = -1;
  State state;
  state.Add("old/p", p);
  state.Add("n", n);
  state.Add("fresh/number", number);
  state.Add("moved", moved);
  // One that the last rank alone has, and one that all others have.
  if (rank_ == size_ - 1) state.Add("fresh/p", fresh);
  if (rank_ != size_ - 1 || size_ == 1) state.Add("fresh/texts", texts);
  const RestoreResult result = Ok(Into(
      state, {.args = {{"moved", {.stored_key = "gone", .allow_missing = true}},
                       {".*", {.allow_missing = true}}}}));
  EXPECT_THAT(result.missing,
              ElementsAre("fresh/number", "fresh/p", "fresh/texts", "gone"));
  EXPECT_EQ(p, p_);
  EXPECT_EQ(n, 7);
  EXPECT_EQ(fresh, kMine);
  EXPECT_EQ(moved, kMine);
  EXPECT_THAT(texts, ElementsAre("mine"));
  EXPECT_EQ(number, -1);
}

// Something else than what is wanted is no reason for a default.
TEST_F(HandledArgsTest, WhatIsStoredOtherwiseIsNotMissing) {
  float number = -1;
  State plain, list;
  plain.Add("old/p", number);
  const RestoreOptions optional = {.args = {{".*", {.allow_missing = true}}}};
  ExpectError(plain, optional, Code::kFailedPrecondition,
              "found typestr \"polynomial\"");
  EXPECT_EQ(number, -1);
  Texts texts;
  list.Add("old/p", texts);
  ExpectError(list, optional, Code::kFailedPrecondition,
              "need typestr \"strings\", found \"polynomial\"");
  // Two values are one in the checkpoint, and one of them has to be there.
  Polynomial a, b;
  State both;
  both.Add("a", a);
  both.Add("b", b);
  ExpectError(both,
              {.args = {{"a", {.stored_key = "gone", .allow_missing = true}},
                        {"b", {.stored_key = "gone"}}}},
              Code::kNotFound, "plan \"gone\": key is not in the");
}

TEST_F(HandledArgsTest, PartialRestoreByPredicate) {
  Polynomial p = kMine, q = kMine;
  int64_t n = -1;
  State state;
  state.Add("old/p", p);
  state.Add("old/q", q);
  state.Add("n", n);
  const bool is_last = rank_ == size_ - 1;
  std::vector<std::string> asked;
  Ok(Into(state, {.selects = [&](std::string_view key) {
            asked.emplace_back(key);
            return key != "old/q" && (is_last || key != "old/p");
          }}));
  EXPECT_EQ(p, is_last ? p_ : kMine);
  EXPECT_EQ(q, kMine);
  EXPECT_EQ(n, 7);
  // About values, not about what they consist of.
  EXPECT_THAT(asked, ElementsAre("old/p", "old/q", "n"));
}

// What a handler lists may be stored as other numbers where its value says so.
TEST_F(HandledArgsTest, EachValueToleratesItsOwn) {
  std::vector<float> coefficients = {1, 2.5f};
  std::string variable = "s";
  State fields;
  for (const std::string key : {"a", "b"}) {
    fields.Add(key + "/coefficients", coefficients);
    fields.Add(key + "/variable", variable);
  }
  Ok(Save(comm_, run(), 1, fields, {.overwrite = true}));
  const Polynomial expected{{1, 2.5}, "s"};
  Polynomial a = kMine, b = kMine;
  State state;
  state.Add("a", a);
  state.Add("b", b);
  ExpectError(state, {}, Code::kFailedPrecondition, "coefficients");
  ExpectError(state, {.args = {{"a", {.allow_dtype_cast = true}}}},
              Code::kFailedPrecondition,
              "plan \"b/coefficients\": the stored dtype or shape differs, and "
              "its arguments do not allow that");
  const RestoreResult result =
      Ok(Into(state, {.args = {{"a|b", {.allow_dtype_cast = true}}}}));
  EXPECT_EQ(a, expected);
  EXPECT_EQ(b, expected);
  ASSERT_EQ(result.conversions.size(), 2);
  EXPECT_EQ(result.conversions[0].key, "a/coefficients");
  EXPECT_EQ(result.conversions[0].stored_dtype, DType::kF32);
  b = kMine;
  Ok(Into(state, {.allow_dtype_cast = true, .args = {{"b", {.skip = true}}}}));
  EXPECT_EQ(b, kMine);
}

TEST_F(HandledArgsTest, EachValueOfAnObjectToleratesItsOwn) {
  std::optional<float> a = 2, b = 3;
  std::optional<double> wanted_a, wanted_b;
  const auto root = [](auto& first, auto& second) {
    return [&](Tracker& tracker) {
      tracker.Value("a", first);
      tracker.Value("b", second);
    };
  };
  const auto saved = root(a, b);
  const auto wanted = root(wanted_a, wanted_b);
  Ok(Checkpoint(comm_, saved).SaveAs(StepFile(2, "")));
  Checkpoint checkpoint(comm_, wanted);
  const Status refused =
      checkpoint
          .Restore(StepFile(2, ""),
                   {.args = {{".*/a", {.allow_dtype_cast = true}}}})
          .status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("ATTRIBUTES/b\""));
  EXPECT_TRUE(testing::IsSameEverywhere(refused.ToString()));
  const LoadStatus status = Ok(checkpoint.Restore(
      StepFile(2, ""), {.args = {{".*/[ab]", {.allow_dtype_cast = true}}}}));
  ASSERT_EQ(status.report().converted.size(), 2u) << status.ToString();
  EXPECT_EQ(status.report().converted[0].needed, "f64 []");
  EXPECT_EQ(status.report().converted[0].found, "f32 []");
  EXPECT_EQ(wanted_a, 2);
  EXPECT_EQ(wanted_b, 3);
}

// The program does not know that it has a save counter.
TEST_F(HandledArgsTest, TheSaveCounterAlwaysComesAlong) {
  float a = 2;
  const auto root = [&](Tracker& tracker) { tracker.Value("a", a); };
  Checkpoint saving(comm_, root);
  std::string path;
  for (int i = 0; i < 3; ++i) path = Ok(saving.Save(StepFile(2, ""))).path;
  for (const RestoreOptions& options : std::vector<RestoreOptions>{
           {.args = {{".*", {.skip = true}}}},
           {.args = {{"(.*)/a", {.stored_key = "\\1/a"}}}},
           {.selects = [](std::string_view) { return false; }}}) {
    Checkpoint checkpoint(comm_, root);
    Ok(checkpoint.Restore(path, options));
    EXPECT_EQ(checkpoint.save_counter(), 3);
  }
}

// bf16 has 8 bits: 257 would come back as 256.
TEST_F(HandledArgsTest, TheSaveCounterIsStoredAsItIs) {
  float a = 2;
  const auto root = [&](Tracker& tracker) { tracker.Value("a", a); };
  Checkpoint saving(comm_, root);
  SaveOptions options{.args = {{".*", {.dtype = DType::kBF16}}},
                      .durable = false};
  std::string path;
  for (int i = 0; i < 257; ++i) {
    path = Ok(saving.Save(StepFile(2, ""), options)).path;
  }
  Checkpoint checkpoint(comm_, root);
  Ok(checkpoint.Restore(path, {.allow_dtype_cast = true}));
  EXPECT_EQ(checkpoint.save_counter(), 257);
  EXPECT_EQ(a, 2);
}

TEST_F(HandledArgsTest, MistakesAreTheSameEverywhere) {
  Polynomial p = kMine;
  int64_t n = -1;
  State state;
  state.Add("old/p", p);
  state.Add("n", n);
  ExpectError(state, {.args = {{"old/x", {.skip = true}}}},
              Code::kInvalidArgument,
              "RestoreOptions.args \"old/x\": matches no key (need one of 2); "
              "close to it: "
              "\"old/p\"");
  // The parts of a value have no arguments of their own.
  ExpectError(state, {.args = {{"old/p/variable", {.skip = true}}}},
              Code::kInvalidArgument, "matches no key (need one of 2)");
  ExpectError(state, {.args = {{"old/p", {.stored_key = "old/pp"}}}},
              Code::kNotFound,
              "plan \"old/pp\": key is not in the checkpoint; close to it: "
              "\"old/p\"");
  ExpectError(state, {.args = {{"old/p", {.stored_key = "\\1"}}}},
              Code::kInvalidArgument, "not a key to be made from it");
  ExpectError(state, {.selects = [&](std::string_view key) -> bool {
                if (rank_ == size_ - 1 && key == "old/p") {
                  throw std::runtime_error("odd");
                }
                return true;
              }},
              Code::kInternal, "odd");
  EXPECT_EQ(p, kMine);
  EXPECT_EQ(n, -1);
  if (size_ == 1) return;
  ExpectError(state, {.args = {{rank_ == 0 ? "n" : "old/p", {.skip = true}}}},
              Code::kInvalidArgument, "the option args");
  ExpectError(state, {.args = {{"old/p", {.allow_missing = rank_ == 0}}}},
              Code::kInvalidArgument, "the option args");
  // A key that one rank alone has is a key.
  State more;
  more.Add("n", n);
  if (rank_ == size_ - 1) more.Add("alone", p);
  Ok(Into(more, {.args = {{"alone", {.stored_key = "old/p"}}}}));
  EXPECT_EQ(p, rank_ == size_ - 1 ? p_ : kMine);
}

// A map is one value, whatever it holds.
TEST_F(HandledArgsTest, MapsAreWholeValues) {
  std::map<std::string, float> map = {{"a", 1.0f}}, other = {{"b", 2.0f}};
  State state;
  state.Add("map", map);
  Ok(Save(comm_, run(), 2, state));
  State wanted;
  wanted.Add("m", other);
  Ok(Restore(comm_, run(), 2, wanted,
             {.args = {{"m", {.stored_key = "map"}}}}));
  EXPECT_EQ(other, map);
}

}  // namespace
}  // namespace belay::handled_args_test
