#include "core/option_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>

namespace belay::option_table_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class OptionNames : public ::testing::Test {
 protected:
  ~OptionNames() override { SetLanguageOfProgram(Language::kCpp); }
};

TEST_F(OptionNames, InCpp) {
  EXPECT_EQ(OptionName(&SaveOptions::overwrite), "SaveOptions.overwrite");
  EXPECT_EQ(SetOption(&SaveOptions::overwrite), "set SaveOptions.overwrite");
  EXPECT_EQ(
      SetOption(&SaveOptions::transfer, {Transfer::kTwoPhase, Transfer::kHdf5}),
      "set SaveOptions.transfer to kTwoPhase or kHdf5");
  EXPECT_EQ(OptionSetting(&SaveOptions::file_layout, FileLayout::kPerNode),
            "file_layout = kPerNode");
  EXPECT_STREQ(BareName(&ManagerOptions::async), "async");
  EXPECT_STREQ(kAddPieceWord.InProgram(), "AddPiece");
}

TEST_F(OptionNames, InPython) {
  SetLanguageOfProgram(Language::kPython);
  EXPECT_EQ(OptionName(&SaveOptions::overwrite), "the option overwrite");
  EXPECT_EQ(SetOption(&SaveOptions::overwrite), "pass overwrite=True");
  EXPECT_EQ(
      SetOption(&SaveOptions::transfer, {Transfer::kTwoPhase, Transfer::kHdf5}),
      "pass transfer=\"two_phase\" or \"hdf5\"");
  EXPECT_EQ(OptionSetting(&SaveOptions::file_layout, FileLayout::kPerNode),
            "file_layout=\"per_node\"");
  EXPECT_STREQ(BareName(&ManagerOptions::async), "async_save");
  EXPECT_STREQ(kAddPieceWord.InProgram(), "belay.Piece");
}

TEST_F(OptionNames, InC) {
  SetLanguageOfProgram(Language::kC);
  EXPECT_EQ(OptionName(&SaveOptions::overwrite), "the option overwrite");
  EXPECT_EQ(SetOption(&SaveOptions::overwrite), "set the option overwrite");
  EXPECT_EQ(
      SetOption(&SaveOptions::transfer, {Transfer::kTwoPhase, Transfer::kHdf5}),
      "set the option transfer to two_phase or hdf5");
  EXPECT_EQ(OptionSetting(&SaveOptions::file_layout, FileLayout::kPerNode),
            "file_layout=per_node");
  EXPECT_STREQ(BareName(&ManagerOptions::async), "async_save");
}

TEST(OptionRanges, OfEachKind) {
  EXPECT_THAT(FindOutOfRange(SaveOptions()), IsEmpty());
  EXPECT_THAT(FindOutOfRange(RestoreOptions()), IsEmpty());
  EXPECT_THAT(FindOutOfRange(ManagerOptions()), IsEmpty());
  const double infinite = INFINITY;
  EXPECT_THAT(FindOutOfRange(SaveOptions{.deadline_seconds = infinite}),
              IsEmpty());
  EXPECT_THAT(
      FindOutOfRange(SaveOptions{.file_layout = static_cast<FileLayout>(3),
                                 .max_bytes_in_flight = 4095,
                                 .deadline_seconds = NAN}),
      ElementsAre("file_layout is out of range (need 0 to 2, found 3)",
                  "max_bytes_in_flight is out of range (need 4096 to "
                  "1073741824, found 4095)",
                  "deadline_seconds is out of range (need at least 0, found "
                  "nan)"));
  EXPECT_THAT(
      FindOutOfRange(ManagerOptions{
          .save_policy = {.save_on_steps = {1, -2},
                          .auto_interval = AutoInterval{.mtbf_seconds = 1,
                                                        .overhead_budget = 1}},
          .async = AsyncOptions{.max_staging_bytes = -1},
          .end_time = infinite,
          .final_save_margin = infinite,
          .retention = {.keep_time_interval = 0}}),
      ElementsAre(
          "save_on_steps is out of range (need at least 0, found -2)",
          "overhead_budget is out of range (need more than 0 and less than 1, "
          "found 1)",
          "max_staging_bytes is out of range (need at least 0, found -1)",
          "end_time is out of range (need a finite number, found inf)",
          "final_save_margin is out of range (need at least 0, found inf)",
          "keep_time_interval is out of range (need more than 0, found 0)"));
  EXPECT_EQ(CheckRanges("save \"a\"", SaveOptions{.deadline_seconds = -1}),
            absl::InvalidArgumentError("save \"a\": deadline_seconds is out of "
                                       "range (need at least 0, found -1)"));
}

template <typename T>
std::optional<T> Read(const std::string& text) {
  T value{};
  return ReadText(text, value) ? std::optional(value) : std::nullopt;
}

TEST(OptionTexts, AreReadByType) {
  EXPECT_EQ(Read<bool>("1"), true);
  EXPECT_EQ(Read<bool>("false"), false);
  EXPECT_EQ(Read<bool>("yes"), std::nullopt);
  EXPECT_EQ(Read<int64_t>("-5"), -5);
  for (const char* const bad : {"", "+5", " 5", "5 ", "5.0", "x"}) {
    EXPECT_EQ(Read<int64_t>(bad), std::nullopt) << bad;
  }
  EXPECT_EQ(Read<double>("0.5"), 0.5);
  EXPECT_EQ(Read<Transfer>("two_phase"), Transfer::kTwoPhase);
  EXPECT_EQ(Read<Transfer>("Auto"), std::nullopt);
  EXPECT_EQ(Read<std::vector<int64_t>>("3, 5 8"),
            (std::vector<int64_t>{3, 5, 8}));
  EXPECT_EQ(Read<std::vector<int64_t>>("3 five"), std::nullopt);
  EXPECT_EQ(Read<std::vector<int>>("SIGTERM,10"),
            (std::vector<int>{SIGTERM, 10}));
  EXPECT_EQ(Read<std::vector<int>>("SIGNOTHING"), std::nullopt);
  EXPECT_EQ(Read<std::optional<bool>>("true"), std::optional(true));
  EXPECT_EQ(NeededText<int64_t>(AtLeast(1)), "a whole number of at least 1");
  EXPECT_EQ(NeededText<FileLayout>(), "shared, per_node, per_task");
}

}  // namespace
}  // namespace belay::option_table_test
