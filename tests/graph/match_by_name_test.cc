// Matching with the arrays of a file that has no graph.
#include "gmock/gmock.h"
#include "graph/graph_match.h"
#include "graph_testing.h"

namespace belay::match_by_name_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string kEnd = "/.ATTRIBUTES/VARIABLE_VALUE";

// A match with arrays of these names.
MatchResult MatchByName(const LiveGraph& live,
                        const std::vector<std::string>& names) {
  std::vector<GraphAttribute> arrays;
  for (const std::string& name : names) {
    arrays.push_back({.name = name, .key = name, .dtype = DType::kF32});
  }
  return MatchObjects({.saved = GraphOfArrays(arrays), .by_name = true}, live,
                      {}, 0);
}

TEST(MatchByNameTest, OneArrayIsGivenToOneValue) {
  float p = 0, q = 0;
  Thing a1{.children = {{"b/c", p}}}, a2{.children = {{"c", q}}};
  Thing root{.children = {{"a", a1}, {"a/b", a2}}};
  const LiveGraph live = Tracked(root);
  const MatchResult match = MatchByName(live, {"a/b/c"});
  EXPECT_THAT(ReadsOf(live, match), ElementsAre("a/b.Sc" + kEnd + " <- a/b/c"));
  EXPECT_THAT(match.rank_match.missing, ElementsAre("a.Sb/c" + kEnd));
  EXPECT_THAT(match.rank_match.warnings,
              ElementsAre("Ambiguous names: \"a/b/c\" of the checkpoint is "
                          "\"a/b.Sc" +
                          kEnd + "\", so it cannot be \"a.Sb/c" + kEnd + "\""));
}

TEST(MatchByNameTest, TheExactNameOfAnArrayGoesFirst) {
  float x = 0, slashed = 0;
  Thing root{.children = {{"/x", slashed}, {"x", x}}};
  const LiveGraph live = Tracked(root);
  const std::string plain = "x" + kEnd, other = ".Sx" + kEnd;
  for (const auto& names :
       std::vector<std::vector<std::string>>{{"x", "/x"}, {"/x", "x"}}) {
    const MatchResult match = MatchByName(live, names);
    EXPECT_THAT(ReadsOf(live, match),
                ElementsAre(other + " <- /x", plain + " <- x"));
    EXPECT_THAT(match.rank_match.warnings, IsEmpty());
  }
  const MatchResult match = MatchByName(live, {"x"});
  EXPECT_THAT(ReadsOf(live, match), ElementsAre(plain + " <- x"));
  EXPECT_THAT(match.rank_match.missing, ElementsAre(other));
  // Without an exact one the slash does not count.
  root.children = {{"x", x}};
  EXPECT_THAT(ReadsOf(Tracked(root), MatchByName(Tracked(root), {"/x"})),
              ElementsAre(plain + " <- /x"));
}

}  // namespace
}  // namespace belay::match_by_name_test
