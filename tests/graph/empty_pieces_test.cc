// Arrays given by pointers that have no element on some ranks.
#include <algorithm>
#include <array>
#include <functional>
#include <random>

#include "gmock/gmock.h"
#include "graph/merge.h"
#include "graph_testing.h"

namespace belay::empty_pieces_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kRanks = 3;  // of which the last one has no row
const Shape kShape = {2, 3};
const std::string kEnd = "/.ATTRIBUTES/VARIABLE_VALUE";

Layout Rows() {
  return *Layout::Create(*Mesh::Create({{"x", kRanks}}), {{"x"}, {}});
}

// The memory of one rank, from which arrays are cut one after the other.
struct Arena {
  explicit Arena(int of_rank) : rank(of_rank) {}

  int64_t length() const {
    return NumElements(Rows().LocalBox(kShape, rank)->shape);
  }
  float* Cut() { return memory.data() + length() * num_arrays++; }
  TrackedValue Next() { return TrackedValue(Rows(), kShape, AtAddress(Cut())); }
  // Several of these are one object.
  TrackedValue Tied() {
    return TrackedValue(Rows(), kShape,
                        AtAddress(length() > 0 ? memory.data() : nullptr));
  }

  int rank;
  int num_arrays = 1;  // the first one is for Tied
  std::array<float, 100> memory = {};
};

StatusOr<LiveGraph> Track(int rank, Thing& root,
                          const std::vector<Attached>& attached = {}) {
  return TrackObjects(root, rank, attached);
}

// Merges what the ranks have, in this order.
StatusOr<MergedGraph> Merge(const std::vector<LiveGraph>& lives,
                            const std::vector<int>& order = {0, 1, 2}) {
  std::vector<const ObjectGraph*> graphs;
  for (const LiveGraph& live : lives) graphs.push_back(&live.graph);
  StatusOr<MergedGraph> merged = MergeGraphs(ListRanks(graphs, order));
  if (merged.ok()) {
    EXPECT_EQ(CheckGraph(merged->graph), absl::OkStatus());
    for (const GraphNode& node : merged->graph.nodes) {
      EXPECT_FALSE(node.is_empty);
    }
  }
  return merged;
}

// What a rank has: the root's children by name, and slots "m" for them.
using Describe = std::function<Thing(Arena&)>;
std::vector<LiveGraph> TrackAll(const Describe& describe) {
  std::vector<LiveGraph> lives;
  for (int rank = 0; rank < kRanks; ++rank) {
    Arena arena(rank);
    Thing root = describe(arena);
    StatusOr<LiveGraph> live = Track(rank, root);
    EXPECT_EQ(live.status(), absl::OkStatus());
    if (!live.ok()) return std::vector<LiveGraph>(kRanks);
    EXPECT_EQ(CheckGraph(live->graph), absl::OkStatus());
    lives.push_back(*std::move(live));
  }
  return lives;
}

Thing Distinct(Arena& arena) {
  return {.children = {{"a", arena.Next()}, {"b", arena.Next()}}};
}

Thing Tied(Arena& arena) {
  return {.children = {{"a", arena.Tied()}, {"b", arena.Tied()}}};
}

// The same array in a file without a graph.
Thing TiedWithSlash(Arena& arena) {
  return {.children = {{"a", arena.Tied()}, {"/a", arena.Tied()}}};
}

TEST(EmptyPiecesTest, ArraysOfOneArenaStayApart) {
  const std::vector<LiveGraph> lives = TrackAll(Distinct);
  for (const std::vector<int>& order : {std::vector{0, 1, 2}, {2, 1, 0}}) {
    const auto merged = Merge(lives, order);
    ASSERT_EQ(merged.status(), absl::OkStatus());
    EXPECT_THAT(KeysOf(merged->graph), ElementsAre("a" + kEnd, "b" + kEnd));
    EXPECT_THAT(merged->renames, ::testing::Each(IsEmpty()));
  }
}

TEST(EmptyPiecesTest, TiedArraysWithoutMemoryAreOne) {
  const std::vector<LiveGraph> lives = TrackAll(Tied);
  EXPECT_EQ(lives[0].graph.nodes.size(), 2);
  EXPECT_EQ(lives[2].graph.nodes.size(), 3);
  for (const std::vector<int>& order : {std::vector{0, 1, 2}, {2, 1, 0}}) {
    const auto merged = Merge(lives, order);
    ASSERT_EQ(merged.status(), absl::OkStatus());
    EXPECT_THAT(KeysOf(merged->graph), ElementsAre("a" + kEnd));
    EXPECT_EQ(merged->graph.nodes[0].children.size(), 2);
    const auto& renames = merged->renames[order[0] == 2 ? 0 : 2];
    EXPECT_THAT(renames, ElementsAre(std::pair("b" + kEnd, "a" + kEnd)));
  }
}

TEST(EmptyPiecesTest, RanksThatHaveSomethingStillHaveToAgree) {
  std::vector<LiveGraph> lives = TrackAll(Distinct);
  lives[1] = std::move(TrackAll(Tied)[1]);
  for (const std::vector<int>& order : {std::vector{0, 1, 2}, {2, 1, 0}}) {
    const Status status = Merge(lives, order).status();
    EXPECT_EQ(status,
              absl::InvalidArgumentError(
                  "merge object graphs \"(root)\": \"(root).a\" and "
                  "\"(root).b\" are two objects on rank 0, and one object on "
                  "rank 1"));
  }
}

TEST(EmptyPiecesTest, TiedArraysHaveOneShape) {
  std::vector<LiveGraph> lives = TrackAll(Tied);
  Arena arena(2);
  Thing other{
      .children = {
          {"a", arena.Tied()},
          {"b", TrackedValue(Rows(), {2, 4},
                             AtAddress(static_cast<float*>(nullptr)))}}};
  lives[2] = *Track(2, other);
  for (const std::vector<int>& order : {std::vector{0, 1, 2}, {2, 1, 0}}) {
    const Status status = Merge(lives, order).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("f32 [2, 4] on rank 2"));
  }
}

TEST(EmptyPiecesTest, ObjectsKeepTheirIdentity) {
  std::vector<float> none, other;
  Thing root{.children = {{"a", TrackedValue(Rows(), kShape, none)},
                          {"b", TrackedValue(Rows(), kShape, none)},
                          {"c", TrackedValue(Rows(), kShape, other)}}};
  const LiveGraph live = *Track(2, root);
  EXPECT_EQ(live.graph.nodes.size(), 3);
  for (const GraphNode& node : live.graph.nodes) EXPECT_FALSE(node.is_empty);
}

TEST(EmptyPiecesTest, AnArrayIsKnownByItsFirstPieceWithElements) {
  std::array<float, 3> row = {};
  const Box none = {{1, 0}, {0, 3}}, first = {{0, 0}, {1, 3}};
  float* const anything = row.data() + 2;
  const TrackedValue two = TrackedValue(kShape, none, AtAddress(anything))
                               .AddPiece(first, AtAddress(row.data()));
  const TrackedValue one = TrackedValue(kShape, first, AtAddress(row.data()));
  EXPECT_EQ(two.id(0), one.id(0));
  EXPECT_EQ(TrackedValue(kShape, none, AtAddress(anything))
                .AddPiece(none, AtAddress(anything))
                .id(0),
            ObjectId());
  Thing root{.children = {{"a", one}, {"b", two}}};
  EXPECT_EQ(Track(0, root)->graph.nodes.size(), 2);
}

TEST(EmptyPiecesTest, AnAttachedPieceMayBeAChildAsWell) {
  for (int rank = 0; rank < kRanks; ++rank) {
    Arena arena(rank);
    Thing root{.children = {{"a", arena.Tied()}}};
    const auto live = Track(rank, root, {{"a", arena.Tied()}});
    ASSERT_EQ(live.status(), absl::OkStatus());
    EXPECT_EQ(live->graph.nodes.size(), 2);
    // Another one is not the child.
    float other = 0;
    EXPECT_FALSE(Track(rank, root, {{"a", other}}).ok());
  }
}

TEST(EmptyPiecesTest, RanksTellThatTheyAreEmpty) {
  const std::vector<LiveGraph> lives = TrackAll(Distinct);
  const ObjectGraph& graph = lives[2].graph;
  EXPECT_FALSE(graph.nodes[0].is_empty);
  EXPECT_TRUE(graph.nodes[1].is_empty && graph.nodes[2].is_empty);
  const StatusOr<ObjectGraph> read = DecodeGraph(EncodeGraph(graph));
  ASSERT_EQ(read.status(), absl::OkStatus());
  EXPECT_EQ(*read, graph);
  EXPECT_EQ(lives[0].graph.nodes.size(), graph.nodes.size());
  EXPECT_NE(GraphFingerprint(lives[0].graph), GraphFingerprint(graph));
}

// An optimizer with a slot for each of two variables.
struct Trained {
  Trained(Arena& arena, bool tied)
      : a(tied ? arena.Tied() : arena.Next()),
        b(tied ? arena.Tied() : arena.Next()) {
    adam.slots = {{"m", a, arena.Next()}};
    if (!tied) adam.slots.emplace_back("m", b, arena.Next());
    root.children = {{"a", a}, {"b", b}, {"adam", adam}};
  }
  Trained(const Trained&) = delete;

  TrackedValue a, b;
  Thing adam, root;
};

std::vector<LiveGraph> TrackTrained(bool tied) {
  std::vector<LiveGraph> lives;
  for (int rank = 0; rank < kRanks; ++rank) {
    Arena arena(rank);
    Trained trained(arena, tied);
    StatusOr<LiveGraph> live = Track(rank, trained.root);
    EXPECT_EQ(live.status(), absl::OkStatus());
    lives.push_back(live.ok() ? *std::move(live) : LiveGraph());
  }
  return lives;
}

TEST(EmptyPiecesTest, SlotsComeFromTheRanksThatHaveTheVariable) {
  for (const bool tied : {false, true}) {
    const std::vector<LiveGraph> lives = TrackTrained(tied);
    for (const std::vector<int>& order : {std::vector{0, 1, 2}, {2, 1, 0}}) {
      const auto merged = Merge(lives, order);
      ASSERT_EQ(merged.status(), absl::OkStatus());
      std::vector<std::string> keys = {"a" + kEnd, "b" + kEnd,
                                       "a/.OPTIMIZER_SLOT/adam/m" + kEnd,
                                       "b/.OPTIMIZER_SLOT/adam/m" + kEnd};
      if (tied) keys = {keys[0], keys[2]};
      EXPECT_EQ(KeysOf(merged->graph), keys);
    }
  }
}

TEST(EmptyPiecesTest, ASlotWithElementsNeedsItsVariable) {
  for (int rank = 0; rank < kRanks; ++rank) {
    Arena arena(rank);
    Trained trained(arena, false);
    float step = 0;
    trained.adam.slots.emplace_back("step", trained.b, step);
    EXPECT_EQ(Track(rank, trained.root).status(),
              rank < 2 ? absl::OkStatus()
                       : absl::InvalidArgumentError(
                             "track \"(root).adam\": slot \"step\" has "
                             "elements on rank 2, but its variable has none "
                             "there, so nothing tells whether it is (root).a "
                             "or (root).b: give the variable as an object, "
                             "such as a vector"));
  }
}

TEST(EmptyPiecesTest, ASlotNeedsAVariableThatIsAChild) {
  for (int rank = 0; rank < kRanks; ++rank) {
    Arena arena(rank);
    Trained trained(arena, false);
    trained.root.children = {{"adam", trained.adam}};
    EXPECT_THAT(std::string(Track(rank, trained.root).status().message()),
                HasSubstr("slot \"m\" is for a variable that is not a child"));
    // What is null where it has elements is a mistake, not empty.
    const TrackedValue null(kShape, AtAddress(static_cast<float*>(nullptr)));
    trained.adam.slots = {{"m", null, arena.Next()}};
    EXPECT_FALSE(Track(rank, trained.root).ok());
  }
}

// On the rank without elements, from what was one object or two.
TEST(EmptyPiecesTest, NothingIsMissingWhereThereIsNothing) {
  for (const bool tied : {false, true}) {
    const std::vector<LiveGraph> lives = TrackTrained(tied);
    for (int rank = 0; rank < kRanks; ++rank) {
      const LiveGraph& live = lives[static_cast<size_t>(rank)];
      Restorer restorer;
      Restoration restoration = restorer.Ask(Merge(lives)->graph);
      for (int i = 0; i < 2; ++i) {  // once more changes nothing
        const MatchResult match =
            MatchObjects(restoration, live, restorer.restored, rank);
        const LoadStatus status = restorer.Continue(restoration, live, {});
        EXPECT_THAT(status.report().warnings, IsEmpty());
        EXPECT_THAT(status.report().missing, IsEmpty());
        EXPECT_THAT(status.report().unmatched_objects, IsEmpty());
        EXPECT_THAT(status.report().deferred, IsEmpty());
        EXPECT_EQ(match.reads.empty(), i == 1);
      }
    }
  }
}

TEST(EmptyPiecesTest, WhatIsNoLongerOneIsToldByThoseWhoHaveIt) {
  const ObjectGraph saved = Merge(TrackAll(Tied))->graph;
  const std::vector<LiveGraph> lives = TrackAll(Distinct);
  for (int rank = 0; rank < kRanks; ++rank) {
    Restorer restorer;
    Restoration restoration = restorer.Ask(saved);
    const LoadStatus status =
        restorer.Continue(restoration, lives[static_cast<size_t>(rank)], {});
    EXPECT_EQ(status.report().warnings.size(), rank < 2 ? 1 : 0);
    EXPECT_EQ(status.report().missing.size(), rank < 2 ? 1 : 0);
  }
}

TEST(EmptyPiecesTest, WhatIsNotStoredIsMissing) {
  Arena some(0), none(2);
  Thing saved{.children = {{"a", some.Next()}}};
  const ObjectGraph graph = Track(0, saved)->graph;
  Thing root{.children = {{"a", none.Next()}, {"c", none.Next()}}};
  Restorer restorer;
  Restoration restoration = restorer.Ask(graph);
  const LoadStatus status = restorer.Continue(restoration, *Track(2, root), {});
  ASSERT_EQ(status.report().missing.size(), 1);
  EXPECT_EQ(status.report().missing[0].key, "c" + kEnd);
}

TEST(EmptyPiecesTest, NamesOfOtherPrograms) {
  const ObjectGraph arrays = GraphOfArrays(
      {{.name = "a", .key = "a", .dtype = DType::kF32, .shape = kShape}});
  for (const auto& [describe, missing] :
       {std::pair<Describe, int>{Tied, 0}, {TiedWithSlash, 0}, {Distinct, 1}}) {
    const std::vector<LiveGraph> lives = TrackAll(describe);
    for (int rank = 0; rank < kRanks; ++rank) {
      const Restoration restoration{.saved = arrays, .by_name = true};
      const RankMatch match =
          MatchObjects(restoration, lives[static_cast<size_t>(rank)], {}, rank)
              .rank_match;
      EXPECT_EQ(match.missing.size(), rank < 2 ? missing : 0);
      EXPECT_THAT(match.warnings, IsEmpty());
    }
  }
}

// Random rows on random ranks, of arrays of which some are one; pointers to
// where there is nothing lead anywhere.
TEST(EmptyPiecesTest, ArraysAreOneWhereverTheirRowsAre) {
  std::mt19937_64 rng(7);
  const auto draw = [&rng](size_t n) { return static_cast<size_t>(rng() % n); };
  for (int i = 0; i < 200; ++i) {
    const size_t num_ranks = 1 + draw(5), num_arrays = 1 + draw(4);
    // Of each name the array; and of each array the ranks of its two rows.
    std::vector<size_t> named(1 + draw(6));
    for (size_t& array : named) array = draw(num_arrays);
    std::vector<std::array<size_t, 2>> owners(num_arrays);
    for (auto& rows : owners) rows = {draw(num_ranks), draw(num_ranks)};
    std::vector<std::array<float, 100>> memories(num_ranks);
    std::vector<LiveGraph> lives;
    std::vector<int> order;
    for (size_t rank = 0; rank < num_ranks; ++rank) {
      Thing root;
      for (size_t n = 0; n < named.size(); ++n) {
        const auto& rows = owners[named[n]];
        const int64_t first = rows[0] == rank ? 0 : 1;
        const int64_t count = (rows[0] == rank) + (rows[1] == rank);
        float* begin = memories[rank].data() + 6 * named[n];
        if (count == 0) begin = draw(2) ? nullptr : memories[rank].data();
        root.children.emplace_back(
            "n" + std::to_string(n),
            TrackedValue(kShape, {{first, 0}, {count, 3}}, AtAddress(begin)));
      }
      StatusOr<LiveGraph> live = Track(static_cast<int>(rank), root);
      ASSERT_EQ(live.status(), absl::OkStatus());
      lives.push_back(*std::move(live));
      order.push_back(static_cast<int>(rank));
    }
    std::shuffle(order.begin(), order.end(), rng);
    const auto merged = Merge(lives, order);
    ASSERT_EQ(merged.status(), absl::OkStatus());
    for (size_t a = 0; a < named.size(); ++a) {
      for (size_t b = 0; b < a; ++b) {
        const auto& children = merged->graph.nodes[0].children;
        EXPECT_EQ(children[a].node == children[b].node, named[a] == named[b]);
      }
    }
  }
}

}  // namespace
}  // namespace belay::empty_pieces_test
