#include "state/conversion_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace belay::conversion_rules_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kKeys = {"h/0/w", "h/1/w", "h/10/w", "h/2/w",
                                        "x"};

std::string OneValue(const std::string& value) {
  const StatusOr<std::vector<ConversionRule>> rules =
      ParseRules("{\"rules\": [{\"make\": {\"made\": " + value + "}}]}", kKeys);
  if (!rules.ok()) return std::string(rules.status().message());
  return rules->at(0).value.ToString();
}

TEST(ConversionRulesTest, Functions) {
  EXPECT_EQ(OneValue(R"("x")"), R"("x")");
  EXPECT_EQ(OneValue(R"({"stack": ["x", "y"]})"), R"(stack("x", "y"; axis 0))");
  EXPECT_EQ(OneValue(R"({"concat": ["x", {"transpose": "y"}], "axis": -1})"),
            R"(concat("x", transpose("y"); axis -1))");
  EXPECT_EQ(OneValue(R"({"split": "x", "axis": 1, "parts": 3, "part": 2})"),
            R"(split("x"; axis 1, part 2 of 3))");
  EXPECT_EQ(OneValue(R"({"narrow": "x", "axis": 0, "offset": 4, "length": 5})"),
            R"(narrow("x"; axis 0, 5 from 4))");
  EXPECT_EQ(OneValue(R"({"transpose": "x", "axes": [1, 0, 2]})"),
            R"(transpose("x"; 1, 0, 2))");
  EXPECT_EQ(OneValue(R"({"slice": "x", "index": "::2, ..., 1"})"),
            R"(slice("x"; [::2, ..., 1]))");
  EXPECT_EQ(OneValue(R"({"stack": ["x", {"all": "h/(.*)/w"}]})"),
            R"(stack("x", "h/0/w", "h/1/w", "h/2/w", "h/10/w"; axis 0))");
}

TEST(ConversionRulesTest, RulesInTheirOrder) {
  const StatusOr<std::vector<ConversionRule>> rules = ParseRules(
      R"({"rules": [ // the first
        {"keys": "(.*)/w", "make": {"\\1/v": "\\1/w", "\\1/u": "\\1/w"}},
        {"make": {"y": "x"}}]})",
      kKeys);
  ASSERT_TRUE(rules.ok()) << rules.status();
  std::vector<std::string> made;
  for (const ConversionRule& rule : *rules) {
    made.push_back(rule.keys + " -> " + rule.key);
  }
  EXPECT_THAT(made,
              ElementsAre(R"((.*)/w -> \1/v)", R"((.*)/w -> \1/u)", " -> y"));
}

TEST(ConversionRulesTest, MistakesSayWhere) {
  const std::string start = "rules[0].make[\"made\"]";
  EXPECT_EQ(OneValue("3").rfind(start + ": need a stored key", 0), 0u);
  const std::pair<std::string, std::string> mistakes[] = {
      {R"({"stack": "x"})", ".stack: need a list"},
      {R"({"stack": ["x"], "split": "x"})", ": two functions"},
      {R"({"stack": ["x"], "axes": 0})", R"(unknown member "axes")"},
      {R"({"stack": ["x", 3]})", ".stack[1]: need a stored key"},
      {R"({"stack": ["x"], "axis": "0"})", R"(need an integer "axis")"},
      {R"({"stack": ["x"], "axis": 18446744073709551615})", "integer"},
      {R"({"stack": ["x"], "axis": 4000000000})", "no such axis"},
      {R"({"split": "x", "axis": 0, "parts": 2})", R"(integer "part")"},
      {R"({"slice": "x"})", R"(need "index")"},
      {R"({"slice": "x", "index": "a"})", ".index: "},
      {R"({"transpose": "x", "axes": ["a"]})", ".axes: need an integer"},
      {R"({"stack": [{"all": "h/x"}]})", ".stack[0]: "},
      {R"({"stack": [{"all": "("}]})", ".stack[0]: "},
  };
  for (const auto& [value, text] : mistakes) {
    EXPECT_THAT(OneValue(value), HasSubstr(text)) << value;
    EXPECT_THAT(OneValue(value), HasSubstr(start)) << value;
  }
  const std::pair<std::string, std::string> files[] = {
      {"", "parse error"},
      {"{", "parse error"},
      {"[]", "the file: need an object"},
      {"{}", R"(need a list "rules")"},
      {R"({"rules": {}})", R"(need a list "rules")"},
      {R"({"rules": [], "x": 1})", R"(unknown member "x" (need "rules"))"},
      {R"({"rules": [3]})", "rules[0]: need an object"},
      {R"({"rules": [{}]})", R"(need an object "make")"},
      {R"({"rules": [{"make": {}}]})", R"(need an object "make")"},
      {R"({"rules": [{"keys": "", "make": {"a": "x"}}]})", "is empty"},
      {R"({"rules": [{"make": {"a": "x", "b": "x", "a": "h/0/x"}}]})",
       R"(the file: an object has the member "a" twice)"},
      {R"({"rules": [], "rules": []})", R"(member "rules" twice)"},
  };
  for (const auto& [file, text] : files) {
    EXPECT_THAT(std::string(ParseRules(file, kKeys).status().message()),
                HasSubstr(text))
        << file;
  }
}

TEST(ConversionRulesTest, NestingHasAnEnd) {
  const auto nested = [](int levels) {
    std::string value;
    for (int i = 0; i < levels; ++i) value += "{\"transpose\": ";
    value += "\"x\"";
    return OneValue(value.append(static_cast<size_t>(levels), '}'));
  };
  EXPECT_THAT(nested(60), HasSubstr("transpose(transpose("));
  EXPECT_THAT(nested(70), HasSubstr("too many functions"));
  EXPECT_THAT(nested(100000), HasSubstr("too many levels of JSON (need at "));
}

// A number of any length is not printed whole.
TEST(ConversionRulesTest, AnErrorOfTheParserIsShort) {
  const std::string number(1'000'000, '1');
  EXPECT_LT(ParseRules("{\"rules\": " + number + "}", kKeys)
                .status()
                .message()
                .size(),
            5000);
}

// Were each looked at for each, these would take minutes.
TEST(ConversionRulesTest, ThereMayBeManyMembersAndValues) {
  std::string members, objects;
  for (int i = 0; i < 300'000; ++i) {
    members += absl::StrCat("\"", i, "\":0,");
    objects += "{},";
  }
  const std::pair<std::string, std::string> files[] = {
      {"{\"rules\": [{\"make\": {" + members + "\"x\":0}}]}",
       "need a stored key"},
      {"{\"rules\": [" + objects + "{}]}", "need an object \"make\""}};
  for (const auto& [file, text] : files) {
    EXPECT_THAT(std::string(ParseRules(file, kKeys).status().message()),
                HasSubstr(text));
  }
}

// Brackets in texts and comments are no levels.
TEST(ConversionRulesTest, OnlyBracketsOfValuesNest) {
  const std::string many(1000, '[');
  const std::vector<std::string> starts = {
      "// " + many + "\n", "/*" + many + "\"*/", "//\"\r// \"\n"};
  for (const std::string& start : starts) {
    EXPECT_TRUE(ParseRules(start + R"({"rules": [{"make": {"a\\\")" + many +
                               R"(": "h/0/x"}}]} //)" + many,
                           kKeys)
                    .ok())
        << start;
  }
}

TEST(ConversionRulesTest, NumbersInTextsCount) {
  std::vector<std::string> texts = {
      "h.10",   "h.9",    "h.09", "h",
      "h.10.b", "h.10.a", "g.99", "h.100000000000000000000"};
  std::stable_sort(texts.begin(), texts.end(), IsNaturallyBefore);
  EXPECT_THAT(texts, ElementsAre("g.99", "h", "h.9", "h.09", "h.10", "h.10.a",
                                 "h.10.b", "h.100000000000000000000"));
}

}  // namespace
}  // namespace belay::conversion_rules_test
