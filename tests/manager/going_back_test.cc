#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "manager/manager_state.h"

namespace belay::going_back_test {
namespace {

TEST(GoingBackTest, ComesBack) {
  ManagerState state = {.steps = {{.step = 1}, {.step = 5}}};
  state.going_back = {.to = 1, .aside = "step.aside_0001", .deletes = true};
  const std::string text = StateText(state, "step").value();
  EXPECT_EQ(ParseState(text, "step", "read").value(), state);
  // A name that leaves the directory is none.
  for (const std::string name :
       {"../x", "..", ".", "", "/tmp", "step.aside_0001/../..", "x\\u0000"}) {
    std::string elsewhere = text;
    const std::string_view own = "step.aside_0001";
    elsewhere.replace(elsewhere.find(own), own.size(), name);
    EXPECT_EQ(ParseState(elsewhere, "step", "read").status(),
              absl::DataLossError(
                  "read: the state is damaged (aside); restore the file from a "
                  "copy, or move it away: then the existing steps stay and are "
                  "never deleted"))
        << name;
  }
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
