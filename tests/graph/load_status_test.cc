#include "belay/objects/load_status.h"

#include <random>

#include "gmock/gmock.h"
#include "graph_testing.h"

namespace belay::load_status_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kEnd = "/.ATTRIBUTES/VARIABLE_VALUE";

// Names come from files.
TEST(LoadReportTest, NamesDoNotSpeakToTheTerminal) {
  LoadReport report;
  report.unused.push_back({.stored_key = "a\n\x1b[2Jb", .object = "(root)"});
  report.deferred.push_back("\u202egnp");
  EXPECT_EQ(report.ToString(),
            "restored 0 of 0 values, 0 objects\n"
            "  unused        1 in the checkpoint only\n"
            "      \"a\\n\\x1b[2Jb\"\n"
            "  deferred      1 restored once the program has them\n"
            "      \\xe2\\x80\\xaegnp\n");
}

TEST(LoadStatusTest, InitializationOnly) {
  const LoadStatus status = LoadStatus::InitializationOnly();
  for (const Status& s :
       {status.AssertConsumed(), status.AssertExistingObjectsMatched(),
        status.AssertNontrivialMatch()}) {
    EXPECT_EQ(s.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(s.message(),
                HasSubstr("no checkpoint was given, so nothing was restored"));
  }
  EXPECT_EQ(status.PartialWarning(), "");
  EXPECT_EQ(status.ToString(), "restored nothing: no checkpoint was given\n");
}

// The status of one rank that restores one thing into another.
LoadStatus Restored(Thing& saved, Thing& root) {
  Restorer restorer;
  Restoration restoration = restorer.Ask(Tracked(saved).graph);
  return restorer.Continue(restoration, Tracked(root));
}

TEST(LoadStatusTest, NontrivialMatch) {
  float v = 0;
  Thing saved{.children = {{"v", v}}};
  Thing other{.children = {{"w", v}}};
  Thing bare;
  EXPECT_EQ(Restored(saved, other).AssertNontrivialMatch(),
            absl::FailedPreconditionError(
                "assert nontrivial match: nothing but the root "
                "matched a checkpointed value; without one are: (root).w"));
  EXPECT_EQ(Restored(saved, bare).AssertNontrivialMatch(),
            absl::FailedPreconditionError(
                "assert nontrivial match: nothing to load: the program has "
                "no objects with values"));
  EXPECT_EQ(Restored(saved, saved).AssertNontrivialMatch(), absl::OkStatus());
  Thing flat{.values = {{"v", 1}}};
  EXPECT_EQ(Restored(flat, flat).AssertNontrivialMatch(), absl::OkStatus());
}

// belay's own counter is in nearly every checkpoint.
TEST(LoadStatusTest, TheSaveCounterAloneIsATrivialMatch) {
  float v = 0;
  int64_t counter = 1;
  Thing saved{.children = {{"v", v}, {"save_counter", counter}}};
  Thing other{.children = {{"w", v}, {"save_counter", counter}}};
  EXPECT_THAT(Restored(saved, other).AssertNontrivialMatch().message(),
              HasSubstr("nothing but the root matched"));
  EXPECT_EQ(Restored(saved, saved).AssertNontrivialMatch(), absl::OkStatus());
}

// One value of a file that another program wrote is a match.
TEST(LoadStatusTest, NontrivialMatchByName) {
  LoadReport report;
  report.missing = {{.key = "b", .ranks = {0}}};
  EXPECT_NE(
      LoadStatus(LoadStatus::Kind::kNameBased, report).AssertNontrivialMatch(),
      absl::OkStatus());
  report.matched = {{.stored_key = "a", .key = "a"}};
  EXPECT_EQ(
      LoadStatus(LoadStatus::Kind::kNameBased, report).AssertNontrivialMatch(),
      absl::OkStatus());
}

// What one stage of a pipeline does not use another one does.
TEST(LoadStatusTest, RanksSayNothingOfWhatOthersRestore) {
  LoadReport merged;
  merged.ranks = {0, 1};
  merged.matched = {{"a", "a"}, {"b", "b"}};
  merged.unused = {{.stored_key = "c", .object = "(root).c"}};
  LoadReport mine;
  mine.ranks = {1};
  mine.matched = {{"b", "b"}};
  mine.unused = {{.stored_key = "a", .object = "(root).a"},
                 {.stored_key = "c", .object = "(root).c"}};
  mine.deferred = {"(root).a"};
  const std::string text =
      LoadStatus(LoadStatus::Kind::kObjectGraph, merged, {mine}).ToString();
  EXPECT_THAT(text, HasSubstr("rank 1: restored 1 of 1 value"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("\"a\"")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("deferred")));
  EXPECT_THAT(text, HasSubstr("\"c\""));
}

TEST(LoadStatusTest, AValueThatIsNotStored) {
  Thing saved{.values = {{"a", 1}}};
  Thing root{.values = {{"a", 1}, {"b", 2}}};
  const LoadStatus status = Restored(saved, root);
  const std::string text =
      ": not assigned a value from checkpoint: \"/.ATTRIBUTES/b\"";
  EXPECT_EQ(status.AssertExistingObjectsMatched().message(),
            "assert existing objects matched" + text);
  EXPECT_EQ(status.AssertConsumed().message(), "assert consumed" + text);
  EXPECT_EQ(status.AssertNontrivialMatch(), absl::OkStatus());
}

// TensorFlow's testPartialRestoreWarningAttribute and
// testSilencePartialWarning.
TEST(LoadStatusTest, PartialRestoreWarning) {
  float v1 = 0, v2 = 0;
  Thing saved{.children = {{"v1", v1}, {"v2", v2}}};
  Thing root{.children = {{"v2", v2}}};
  LoadStatus status = Restored(saved, root);
  EXPECT_EQ(status.PartialWarning(),
            "1 value of the checkpoint was not used; say ExpectPartial if "
            "that is fine: (root).v1: \"v1" +
                kEnd + "\"");
  EXPECT_EQ(status.ExpectPartial().PartialWarning(), "");
  EXPECT_EQ(Restored(root, root).PartialWarning(), "");
}

TEST(LoadStatusTest, LongListsAreShortened) {
  Thing saved, root;
  for (int i = 0; i < 25; ++i) {
    saved.values["v" + std::to_string(10 + i)] = 0;
  }
  EXPECT_THAT(Restored(saved, root).AssertConsumed().message(),
              HasSubstr("v19\"; and 15 more"));
}

// Two pipeline stages, and what each of them says.
TEST(LoadStatusTest, RanksTogether) {
  float a = 0, b = 0, head = 0, extra = 0;
  std::vector<float> wide(2);
  Thing saved{.children = {{"a", a}, {"b", b}, {"head", head}, {"c", wide}}};
  Thing first{.children = {{"a", a}, {"extra", extra}, {"c", wide}}};
  Thing second{.children = {{"b", b}, {"extra", extra}, {"c", a}}};
  const Restoration restoration{.saved = Tracked(saved).graph};
  std::vector<RankMatch> ranks;
  std::vector<LoadReport> reports;
  for (Thing* root : {&first, &second}) {
    const int rank = static_cast<int>(ranks.size());
    ranks.push_back(
        MatchObjects(restoration, Tracked(*root), {}, rank).rank_match);
    reports.push_back(
        MakeLoadReport(restoration.saved, {ranks.back()}).value());
  }
  EXPECT_EQ(reports[0].unused.size(), 2);
  const LoadStatus status(LoadStatus::Kind::kObjectGraph,
                          MakeLoadReport(restoration.saved, ranks).value(),
                          reports);
  const LoadReport& all = status.report();
  EXPECT_EQ(all.matched.size(), 3);
  EXPECT_THAT(all.deferred, ElementsAre("(root).head"));
  ASSERT_EQ(all.unused.size(), 1);
  EXPECT_EQ(all.unused[0].stored_key, "head" + kEnd);
  EXPECT_EQ(all.unused[0].cause, UnusedValue::Cause::kObject);
  ASSERT_EQ(all.missing.size(), 1);
  EXPECT_THAT(all.missing[0].ranks, ElementsAre(0, 1));
  ASSERT_EQ(all.incompatible.size(), 1);
  EXPECT_THAT(all.incompatible[0].ranks, ElementsAre(1));
  EXPECT_EQ(all.ToString(),
            "restored 3 of 5 values, 3 objects, over 2 ranks\n"
            "  missing       1 not in the checkpoint\n"
            "      \"extra/.ATTRIBUTES/VARIABLE_VALUE\"\n"
            "  unused        1 in the checkpoint only\n"
            "      \"head/.ATTRIBUTES/VARIABLE_VALUE\"\n"
            "  incompatible  1 of another dtype or shape\n"
            "      \"c/.ATTRIBUTES/VARIABLE_VALUE\": incompatible (need f32 "
            "[], found f32 [2]) [rank 1]\n"
            "  deferred      1 restored once the program has them\n"
            "      (root).head\n"
            "  unmatched     1 not matched by anything in the checkpoint\n"
            "      (root).extra\n");
  EXPECT_THAT(status.ToString(), HasSubstr("\nrank 1: restored 1 of 3"));
  // A rank that says what all say is not shown.
  const LoadStatus same(LoadStatus::Kind::kObjectGraph, reports[0],
                        {reports[0], reports[0], reports[1]});
  EXPECT_THAT(same.ToString(), ::testing::Not(HasSubstr("rank 0: ")));
  EXPECT_THAT(same.ToString(), HasSubstr("\nrank 1: restored"));
  ranks[1].used.pop_back();
  EXPECT_EQ(MakeLoadReport(restoration.saved, ranks).status(),
            absl::DataLossError(
                "report restore \"rank 1\": it matched another object graph "
                "(need 5 nodes and 4 values, found 5 and 3)"));
}

// Files that other programs wrote.
TEST(LoadStatusTest, NameBased) {
  float kernel = 0, bias = 0, full = 0, gone = 0;
  int64_t counter = 0;
  Thing dense{.children = {{"kernel", kernel}}, .values = {{"bias", bias}}};
  Thing root{.children = {{"dense", dense}, {"x.y", full}}};
  Restoration restoration;
  restoration.by_name = true;
  restoration.saved =
      GraphOfArrays({{.key = "/dense/kernel", .dtype = DType::kF32},
                     {.key = "dense/bias", .dtype = DType::kF32},
                     {.key = "x..y" + kEnd, .dtype = DType::kF32},
                     {.key = "other", .dtype = DType::kF32}});
  const auto by_name = LoadStatus::Kind::kNameBased;
  LiveGraph live = Tracked(root, {{"save_counter", counter}});
  const MatchResult match = MatchObjects(restoration, live, {}, 0);
  EXPECT_THAT(ReadsOf(live, match),
              ElementsAre("dense/.ATTRIBUTES/bias <- dense/bias",
                          "x..y" + kEnd + " <- x..y" + kEnd,
                          "dense/kernel" + kEnd + " <- /dense/kernel"));
  LoadStatus status = StatusOf(restoration.saved, match, by_name);
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(status.report().unused.size(), 1);
  dense.children.emplace_back("gone", gone);
  live = Tracked(root);
  status = StatusOf(restoration.saved, MatchObjects(restoration, live, {}, 0),
                    by_name);
  for (const Status& s :
       {status.AssertConsumed(), status.AssertExistingObjectsMatched()}) {
    EXPECT_THAT(s.message(), HasSubstr("\"dense/gone" + kEnd + "\""));
  }
  EXPECT_EQ(status.AssertNontrivialMatch(), absl::OkStatus());
}

TEST(LoadStatusTest, ReportAsBytes) {
  const LoadReport report{
      .ranks = {0, 2},
      .num_objects = 3,
      .matched = {{"a", "b"}, {"c", "c"}},
      .missing = {{"d", {1, 2}}},
      .unused = {{"e", "(root).e", UnusedValue::Cause::kSlot}},
      .incompatible = {{"f", "g", "f32 [2]", "f64 [2]", {0}}},
      .converted = {{"l", "l", "f32 []", "bf16 []", {2}}},
      .deferred = {"(root).h"},
      .unmatched_objects = {"(root).i", "(root).j"},
      .warnings = {"k"}};
  const std::string bytes = Encode(report);
  const auto decoded = Decode<LoadReport>(bytes);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->ToString(), report.ToString());
  EXPECT_EQ(decoded->ranks, report.ranks);
  EXPECT_EQ(decoded->unused[0].cause, UnusedValue::Cause::kSlot);
  EXPECT_EQ(Encode(*decoded), bytes);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(Decode<LoadReport>(bytes.substr(0, size)).has_value());
  }
}

TEST(LoadStatusTest, RankMatchAsBytes) {
  float v = 1, w = 2;
  std::vector<double> d(2);
  Thing saved{.children = {{"v", v}, {"w", w}, {"d", v}}};
  Thing root{.children = {{"v", v}, {"d", d}, {"new", w}}};
  const Restoration restoration{.saved = Tracked(saved).graph};
  const MatchResult match = MatchObjects(restoration, Tracked(root), {}, 3);
  const std::string bytes = Encode(match.rank_match);
  const auto decoded = Decode<RankMatch>(bytes);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->rank, 3);
  EXPECT_EQ(Encode(*decoded), bytes);
  EXPECT_EQ(MakeLoadReport(restoration.saved, {*decoded})->ToString(),
            MakeLoadReport(restoration.saved, {match.rank_match})->ToString());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(Decode<RankMatch>(bytes.substr(0, size)).has_value());
  }
  std::mt19937_64 rng(2);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = bytes;
    damaged[rng() % damaged.size()] = static_cast<char>(rng());
    const auto read = Decode<RankMatch>(damaged);
    if (!read) continue;
    const auto report = MakeLoadReport(restoration.saved, {*read});
    if (!report.ok()) {
      EXPECT_EQ(report.status().code(), absl::StatusCode::kDataLoss);
    }
  }
}

}  // namespace
}  // namespace belay::load_status_test
