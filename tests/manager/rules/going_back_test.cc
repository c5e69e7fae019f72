#include <gtest/gtest.h>

#include <string>

#include "manager/rules/manager_state.h"

namespace belay::going_back_test {
namespace {

TEST(GoingBackTest, ComesBack) {
  ManagerState state = {.steps = {{.step = 1}, {.step = 5}}};
  state.going_back = {.to = 1, .aside = "step.aside_0001", .deletes = true};
  const std::string text = StateText(state, "step").value();
  EXPECT_EQ(ParseState(text, "step", "read").value(), state);
  // A name that leaves the directory is none.
  std::string elsewhere = text;
  const size_t at = elsewhere.find("step.aside_0001");
  elsewhere.replace(at, 4, "../x");
  EXPECT_TRUE(absl::IsDataLoss(ParseState(elsewhere, "step", "read").status()));
}

TEST(GoingBackTest, WhatWasGivenUpIsForgotten) {
  ManagerState state = {.last_preserved = 50,
                        .steps = {{.step = 1, .time = 10, .preserved = true},
                                  {.step = 2, .time = 20},
                                  {.step = 3, .time = 50, .preserved = true}}};
  ForgetNewer(3, state);
  EXPECT_EQ(state.last_preserved, 50);
  ForgetNewer(2, state);
  EXPECT_EQ(state.steps.size(), 2);
  EXPECT_EQ(state.last_preserved, 10);
  ForgetNewer(0, state);
  EXPECT_TRUE(state.steps.empty());
}

}  // namespace
}  // namespace belay::going_back_test
