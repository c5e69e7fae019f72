#include <gtest/gtest.h>

#include "core/program_words.h"

namespace belay::option_words_test {
namespace {

TEST(OptionWords, AreThoseOfTheLanguage) {
  const std::string message = "save \"a\": exists; set SaveOptions.overwrite";
  EXPECT_EQ(InWordsOf(&OptionWords::cpp, message), message);
  EXPECT_EQ(InWordsOf(&OptionWords::python, message),
            "save \"a\": exists; pass overwrite=True");
  EXPECT_EQ(InWordsOf(&OptionWords::c, message),
            "save \"a\": exists; set the option overwrite");
}

TEST(OptionWords, EachPlaceIsReplacedOnce) {
  const std::string twice =
      "OtherRanks::kEven, ManagerOptions.newer_steps, OtherRanks::kEven";
  EXPECT_EQ(InWordsOf(&OptionWords::python, twice),
            "other_ranks=\"even\", the option newer_steps, "
            "other_ranks=\"even\"");
}

// A longer phrase must not be split by a shorter one before it.
TEST(OptionWords, NoPhraseHidesALaterOne) {
  for (size_t i = 0; i < kOptionWords.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const std::string_view later = kOptionWords[i].cpp;
      EXPECT_EQ(later.find(kOptionWords[j].cpp), later.npos)
          << later << " has " << kOptionWords[j].cpp;
    }
  }
}

}  // namespace
}  // namespace belay::option_words_test
