#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "state/type_handlers.h"

namespace belay::restore_chooser_test {
namespace {

using ::testing::HasSubstr;

RestoreChoice Chosen(const RestoreOptions& options, std::string_view key) {
  return RestoreChooser::Create(options)->Choose(key);
}

TEST(RestoreChooser, WithoutAnEntryItIsAsTheOptionsSay) {
  const RestoreChoice strict = Chosen({}, "w");
  EXPECT_FALSE(strict.skip || strict.may_be_absent || strict.tolerance.dtype ||
               strict.tolerance.lengths);
  EXPECT_EQ(strict.stored_key, "");
  const RestoreChoice loose =
      Chosen({.allow_dtype_cast = true, .allow_shape_mismatch = true}, "w");
  EXPECT_TRUE(loose.tolerance.dtype && loose.tolerance.lengths);
}

TEST(RestoreChooser, TheFirstEntryCountsAndOverridesTheOptions) {
  const RestoreOptions options{
      .allow_dtype_cast = true,
      .args = {{"a/w", {.allow_missing = true, .allow_dtype_cast = false}},
               {"a/(.*)", {.stored_key = "old/\\1/\\0"}},
               {".*", {.skip = true, .allow_shape_mismatch = true}}}};
  const RestoreChoice w = Chosen(options, "a/w");
  EXPECT_TRUE(w.may_be_absent);
  EXPECT_FALSE(w.tolerance.dtype);
  EXPECT_EQ(w.stored_key, "");
  const RestoreChoice b = Chosen(options, "a/b");
  EXPECT_EQ(b.stored_key, "old/b/a/b");
  EXPECT_TRUE(b.tolerance.dtype);
  EXPECT_FALSE(b.skip);
  const RestoreChoice c = Chosen(options, "c");
  EXPECT_TRUE(c.skip && c.tolerance.lengths);
}

TEST(RestoreChooser, APredicateSkipsToo) {
  const RestoreOptions options{
      .args = {{"b", {.skip = true}}},
      .selects = [](std::string_view key) { return key != "a"; }};
  EXPECT_TRUE(Chosen(options, "a").skip);
  EXPECT_TRUE(Chosen(options, "b").skip);
  EXPECT_FALSE(Chosen(options, "c").skip);
}

TEST(RestoreChooser, TheMostOfAllEntries) {
  EXPECT_FALSE(MostTolerance({.args = {{"a", {}}}}).dtype);
  const Tolerance most =
      MostTolerance({.args = {{"a", {.allow_dtype_cast = false}},
                              {"b", {.allow_dtype_cast = true}},
                              {"c", {.allow_shape_mismatch = false}}}});
  EXPECT_TRUE(most.dtype);
  EXPECT_FALSE(most.lengths);
}

TEST(RestoreChooser, RefusesWhatIsNoExpression) {
  const auto text = [](const RestoreOptions& options) {
    return std::string(RestoreChooser::Create(options).status().message());
  };
  EXPECT_THAT(text({.args = {{"a", {}}, {"b)", {}}}}),
              HasSubstr("keys \"b)\": not a regular expression"));
  EXPECT_THAT(text({.args = {{"(a)", {.stored_key = "\\2"}}}}),
              HasSubstr("keys \"(a)\": \"\\2\" is not a key"));
}

TEST(RestoreChooser, ArgumentsThatDifferHaveOtherBytes) {
  const std::vector<RestoreArgs> all = {{},
                                        {.skip = true},
                                        {.stored_key = "x"},
                                        {.allow_missing = true},
                                        {.allow_dtype_cast = false},
                                        {.allow_dtype_cast = true},
                                        {.allow_shape_mismatch = false},
                                        {.allow_shape_mismatch = true}};
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t j = 0; j < all.size(); ++j) {
      EXPECT_EQ(EncodeArgs({{"k", all[i]}}) == EncodeArgs({{"k", all[j]}}),
                i == j);
    }
  }
  const std::vector<RestoreArgsFor> k = {{"k", {}}};
  const std::vector<RestoreArgsFor> l = {{"l", {}}};
  EXPECT_NE(EncodeArgs(k), EncodeArgs(l));
}

}  // namespace
}  // namespace belay::restore_chooser_test
