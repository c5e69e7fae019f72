#include "core/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace belay::log_test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

using Messages = std::vector<std::pair<LogLevel, std::string>>;

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override {
    unsetenv("BELAY_LOG");
    SetLogSink(nullptr);
  }

  void Listen(LogLevel least) {
    SetLogSink(
        [this](LogLevel level, std::string_view message) {
          messages_.emplace_back(level, message);
        },
        least);
  }

  static void LogAll() {
    Log(LogLevel::kDebug, "d");
    Log(LogLevel::kInfo, "i");
    Log(LogLevel::kWarning, "w");
    Log(LogLevel::kError, "e");
  }

  Messages messages_;
};

TEST_F(LogTest, MessagesBelowTheLevelAreLeftOut) {
  Listen(LogLevel::kWarning);
  LogAll();
  EXPECT_THAT(messages_, ElementsAre(Pair(LogLevel::kWarning, "w"),
                                     Pair(LogLevel::kError, "e")));
  EXPECT_FALSE(IsLogged(LogLevel::kInfo));
  EXPECT_TRUE(IsLogged(LogLevel::kError));
  messages_.clear();
  Listen(LogLevel::kDebug);
  LogAll();
  EXPECT_EQ(messages_.size(), 4);
}

TEST_F(LogTest, AWrongLevelIsTold) {
  for (const char* const name :
       {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    unsetenv(name);
  }
  const auto printed_with = [](const char* level) {
    setenv("BELAY_LOG", level, 1);
    ::testing::internal::CaptureStderr();
    SetLogSink(nullptr);
    LogAll();
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(printed_with("foo\x1b"),
            "belay: warning: BELAY_LOG is no level (need debug, info, warning, "
            "error or none, found \"foo\\x1b\"); it counts as not set\n"
            "belay: warning: w\n");
  EXPECT_EQ(printed_with("foo\x1b"), "belay: warning: w\n");  // once
  EXPECT_EQ(printed_with(""), "belay: warning: w\n");
  EXPECT_EQ(printed_with("none"), "");
  setenv("PMI_RANK", "3", 1);
  EXPECT_EQ(printed_with("DEBUG"), "belay: warning: w\n");
  unsetenv("PMI_RANK");
}

TEST_F(LogTest, WhatSpeaksToATerminalIsShown) {
  Listen(LogLevel::kInfo);
  Log(LogLevel::kInfo, "a\x1b[2J");
  EXPECT_THAT(messages_, ElementsAre(Pair(LogLevel::kInfo, "a\\x1b[2J")));
}

TEST_F(LogTest, WhatASinkThrowsIsIgnored) {
  SetLogSink([](LogLevel, std::string_view) { throw std::runtime_error("x"); });
  Log(LogLevel::kError, "e");
  Listen(LogLevel::kInfo);
  Log(LogLevel::kError, "e");
  EXPECT_EQ(messages_.size(), 1);
}

TEST_F(LogTest, WithoutASinkTheEnvironmentDecides) {
  const auto printed = [] {
    SetLogSink(nullptr);
    ::testing::internal::CaptureStderr();
    LogAll();
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(printed(), "belay: warning: w\n");
  setenv("BELAY_LOG", "warning", 1);
  EXPECT_EQ(printed(), "belay: warning: w\nbelay: error: e\n");
  setenv("BELAY_LOG", "debug", 1);
  EXPECT_EQ(printed(),
            "belay: debug: d\nbelay: info: i\nbelay: warning: w\n"
            "belay: error: e\n");
  setenv("BELAY_LOG", "none", 1);
  EXPECT_EQ(printed(), "");
  setenv("BELAY_LOG", "loud", 1);
  EXPECT_EQ(printed(), "belay: warning: w\n");
}

}  // namespace
}  // namespace belay::log_test
