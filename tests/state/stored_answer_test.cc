#include "state/stored_answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/wire.h"
#include "handler_testing.h"
#include "plan/plan.h"
#include "state/type_handlers.h"

namespace belay::stored_answer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::Polynomial;
using testing::Polynomials;

// An array, arrays below "group", and a value "p" of two of them.
SavedCheckpoint Saved() {
  SavedCheckpoint saved;
  for (const char* key : {"group/x", "n", "p/coefficients", "p/variable"}) {
    saved.arrays.push_back({.key = key, .dtype = DType::kI32, .shape = {2}});
  }
  saved.values = {.key = {"p"},
                  .typestr = {"polynomial"},
                  .node = {-1},
                  .name = {""},
                  .part_value = {0, 0},
                  .part_name = {"coefficients", "variable"},
                  .part_array = {2, 3}};
  return saved;
}

// Polynomials and numbers that the program has under these keys; all but those
// of `needed` may be absent, and "old" is called "p" in the checkpoint.
class Program {
 public:
  Program(const std::vector<std::string>& handled,
          const std::vector<std::string>& plain,
          const std::vector<std::string>& needed = {})
      : polynomials_(handled.size()), numbers_(plain.size()) {
    State state;
    const TypeHandlerRegistry registry = Polynomials();
    for (size_t i = 0; i < handled.size(); ++i) {
      state.Add(handled[i], polynomials_[i]);
    }
    for (size_t i = 0; i < plain.size(); ++i) state.Add(plain[i], numbers_[i]);
    values =
        ChooseValues(state, *GetHandlers(&registry), [&](std::string_view key) {
          return RestoreChoice{
              .skip = key == "skipped",
              .may_be_absent =
                  std::find(needed.begin(), needed.end(), key) == needed.end(),
              .stored_key = key == "old" ? "p" : ""};
        }).value();
  }

  ValuesToRead values;

 private:
  std::vector<Polynomial> polynomials_;
  std::vector<int32_t> numbers_;
};

std::vector<std::string> HandledKeys(const ValuesToRead& values) {
  std::vector<std::string> keys;
  for (const HandledValue& value : values.handled) keys.push_back(value.key);
  return keys;
}

std::vector<std::string> PlainKeys(const ValuesToRead& values) {
  std::vector<std::string> keys;
  for (const Shard& shard : values.shards) keys.push_back(shard.key);
  return keys;
}

TEST(StoredAnswerTest, WhatIsAskedIsWhatIsToBeRead) {
  const Program program({"q", "p", "skipped", "old"}, {"n", "m", "l"},
                        {"p", "l"});
  const StoredQuestion question = MakeQuestion(program.values);
  EXPECT_THAT(question.handled, ElementsAre("p"));
  EXPECT_THAT(question.optional_handled, ElementsAre("p", "q"));
  EXPECT_THAT(question.optional_plain, ElementsAre("m", "n"));
  EXPECT_THAT(PlainKeys(program.values), ElementsAre("n", "m", "l"));
}

TEST(StoredAnswerTest, RanksMayAskForOtherThings) {
  const Program one({"p", "q"}, {"n"}), other({"q", "group"}, {"m"});
  const StoredQuestion all = MergeQuestions(
      {Encode(MakeQuestion(one.values)), Encode(MakeQuestion(other.values))});
  EXPECT_THAT(all.optional_handled, ElementsAre("group", "p", "q"));
  EXPECT_THAT(all.optional_plain, ElementsAre("m", "n"));
  const StoredAnswer answer =
      Decode<StoredAnswer>(Encode(AnswerQuestion(Saved(), all).value()))
          .value();
  EXPECT_THAT(answer.missing, ElementsAre("m", "q"));
  ASSERT_EQ(answer.stored.size(), 2);
  EXPECT_EQ(answer.stored[0].typestr, kGroupTypestr);
  EXPECT_EQ(answer.stored[1].key, "p");
}

TEST(StoredAnswerTest, WhatIsAbsentIsLeftOut) {
  Program program({"q", "p"}, {"m", "n", "p"});
  const StoredAnswer answer =
      AnswerQuestion(Saved(), MakeQuestion(program.values)).value();
  LeaveOut(answer, program.values);
  EXPECT_THAT(HandledKeys(program.values), ElementsAre("p"));
  // No array is stored under "p", but something is: an error, later.
  EXPECT_THAT(PlainKeys(program.values), ElementsAre("n", "p"));
  EXPECT_EQ(program.values.tolerances.size(), 2);
}

// What is a value for a handler may be nothing for an array, and a value that
// has to be there is not left out because another one need not.
TEST(StoredAnswerTest, TheSameKeyForBoth) {
  Program program({"group"}, {"group", "m"}, {"m"});
  StoredAnswer answer =
      AnswerQuestion(Saved(), MakeQuestion(program.values)).value();
  EXPECT_THAT(answer.missing, ElementsAre("group"));
  answer.missing = {"group", "m"};  // as another rank has it
  LeaveOut(answer, program.values);
  EXPECT_THAT(HandledKeys(program.values), ElementsAre("group"));
  EXPECT_THAT(PlainKeys(program.values), ElementsAre("m"));
}

TEST(StoredAnswerTest, WhatHasToBeThereIsAnErrorOtherwise) {
  const Program program({"q"}, {}, {"q"});
  EXPECT_EQ(
      AnswerQuestion(Saved(), MakeQuestion(program.values)).status().code(),
      absl::StatusCode::kNotFound);
  EXPECT_THAT(AnswerQuestion(Saved(), {})->stored, IsEmpty());
}

}  // namespace
}  // namespace belay::stored_answer_test
