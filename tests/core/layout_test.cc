#include "belay/arrays/layout.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "box_oracle.h"
#include "gtest/gtest.h"

namespace belay::layout_test {
namespace {

Mesh MakeMesh(std::vector<MeshAxis> axes) {
  return Mesh::Create(std::move(axes)).value();
}

Layout MakeLayout(const Mesh& mesh, LayoutAxes axes) {
  return Layout::Create(mesh, std::move(axes)).value();
}

// The boxes of all ranks as text, in the order of the ranks.
std::vector<std::string> BoxTexts(const Layout& layout, const Shape& shape) {
  std::vector<std::string> texts;
  for (int rank = 0; rank < layout.mesh().num_ranks(); ++rank) {
    texts.push_back(BoxText(layout.LocalBox(shape, rank).value()));
  }
  return texts;
}

std::vector<int64_t> Replicas(const Layout& layout) {
  std::vector<int64_t> replicas;
  for (int rank = 0; rank < layout.mesh().num_ranks(); ++rank) {
    replicas.push_back(layout.Replica(rank));
  }
  return replicas;
}

using Texts = std::vector<std::string>;
using Numbers = std::vector<int64_t>;

TEST(LayoutTest, CutsRows) {
  const Layout rows = MakeLayout(MakeMesh({{"x", 2}, {"y", 2}}), {{"x"}, {}});
  EXPECT_EQ(BoxTexts(rows, {4, 3}),
            (Texts{"0,2:0,3", "0,2:0,3", "2,2:0,3", "2,2:0,3"}));
  EXPECT_EQ(rows.NumParts(0), 2);
  EXPECT_EQ(rows.NumParts(1), 1);
  EXPECT_EQ(rows.NumReplicas(), 2);
  EXPECT_EQ(Replicas(rows), (Numbers{0, 1, 0, 1}));
  EXPECT_EQ(rows.ToString(), "[x,-] on x=2,y=2");
}

TEST(LayoutTest, CutsColumnsByTheFirstMeshAxis) {
  const Layout columns =
      MakeLayout(MakeMesh({{"x", 2}, {"y", 2}}), {{}, {"x"}});
  EXPECT_EQ(BoxTexts(columns, {4, 3}),
            (Texts{"0,4:0,2", "0,4:0,2", "0,4:2,1", "0,4:2,1"}));
}

TEST(LayoutTest, CutsBothAxes) {
  const Layout grid =
      MakeLayout(MakeMesh({{"x", 2}, {"y", 2}}), {{"y"}, {"x"}});
  EXPECT_EQ(BoxTexts(grid, {4, 6}),
            (Texts{"0,2:0,3", "2,2:0,3", "0,2:3,3", "2,2:3,3"}));
  EXPECT_EQ(grid.NumReplicas(), 1);
  EXPECT_EQ(Replicas(grid), (Numbers{0, 0, 0, 0}));
}

TEST(LayoutTest, SeveralMeshAxesCutOneArrayAxisOutermostFirst) {
  const Mesh mesh = MakeMesh({{"x", 2}, {"y", 3}});
  const Layout xy = MakeLayout(mesh, {{"x", "y"}});
  EXPECT_EQ(BoxTexts(xy, {12}),
            (Texts{"0,2", "2,2", "4,2", "6,2", "8,2", "10,2"}));
  EXPECT_EQ(xy.NumParts(0), 6);
  EXPECT_EQ(xy.ToString(), "[x+y] on x=2,y=3");
  const Layout yx = MakeLayout(mesh, {{"y", "x"}});
  EXPECT_EQ(BoxTexts(yx, {12}),
            (Texts{"0,2", "4,2", "8,2", "2,2", "6,2", "10,2"}));
}

TEST(LayoutTest, UnevenLengths) {
  const Layout layout = MakeLayout(MakeMesh({{"x", 4}}), {{"x"}});
  EXPECT_EQ(BoxTexts(layout, {10}), (Texts{"0,3", "3,3", "6,2", "8,2"}));
  EXPECT_EQ(BoxTexts(layout, {2}), (Texts{"0,1", "1,1", "2,0", "2,0"}));
  EXPECT_EQ(BoxTexts(layout, {0}), (Texts{"0,0", "0,0", "0,0", "0,0"}));
  EXPECT_EQ(
      BoxTexts(layout, {9223372036854775807}),
      (Texts{"0,2305843009213693952", "2305843009213693952,2305843009213693952",
             "4611686018427387904,2305843009213693952",
             "6917529027641081856,2305843009213693951"}));
}

TEST(LayoutTest, ReplicasCountAlongTheUnusedAxes) {
  const Layout layout =
      MakeLayout(MakeMesh({{"a", 2}, {"b", 2}, {"c", 3}}), {{"b"}});
  EXPECT_EQ(layout.NumReplicas(), 6);
  EXPECT_EQ(Replicas(layout), (Numbers{0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}));
}

TEST(LayoutTest, ReplicatedHoldsEverythingEverywhere) {
  const Layout layout = Layout::Replicated(MakeMesh({{"x", 3}}), 2);
  EXPECT_EQ(layout.ndim(), 2);
  EXPECT_EQ(BoxTexts(layout, {4, 3}), (Texts(3, "0,4:0,3")));
  EXPECT_EQ(layout.NumReplicas(), 3);
  EXPECT_EQ(Replicas(layout), (Numbers{0, 1, 2}));
  EXPECT_EQ(layout.ToString(), "[-,-] on x=3");
}

TEST(LayoutTest, ScalarsAndTheMeshOfOneRank) {
  const Layout scalar = Layout::Replicated(MakeMesh({{"x", 2}}), 0);
  EXPECT_EQ(scalar.LocalBox({}, 1).value(), Box{});
  EXPECT_EQ(scalar.NumReplicas(), 2);
  EXPECT_EQ(scalar.ToString(), "[] on x=2");
  const Layout single = Layout::Replicated(Mesh(), 1);
  EXPECT_EQ(single.LocalBox({5}, 0).value(), (Box{{0}, {5}}));
  EXPECT_EQ(single.NumReplicas(), 1);
  EXPECT_EQ(single.Replica(0), 0);
}

TEST(LayoutTest, EqualityIsByMeshAndAxes) {
  const Mesh mesh = MakeMesh({{"x", 2}, {"y", 2}});
  EXPECT_EQ(MakeLayout(mesh, {{"x"}}), MakeLayout(mesh, {{"x"}}));
  EXPECT_NE(MakeLayout(mesh, {{"x"}}), MakeLayout(mesh, {{"y"}}));
  EXPECT_NE(MakeLayout(mesh, {{"x"}}),
            MakeLayout(MakeMesh({{"x", 2}, {"y", 3}}), {{"x"}}));
}

TEST(LayoutTest, RefusesUnknownAndRepeatedMeshAxes) {
  const Mesh mesh = MakeMesh({{"x", 2}, {"y", 4}});
  EXPECT_EQ(Layout::Create(mesh, {{"x"}, {"z"}}).status(),
            absl::InvalidArgumentError("create layout \"[x,z]\": find mesh "
                                       "axis \"z\": not in mesh \"x=2,y=4\""));
  EXPECT_EQ(Layout::Create(mesh, {{""}}).status(),
            absl::InvalidArgumentError("create layout \"[]\": find mesh axis "
                                       "\"\": not in mesh \"x=2,y=4\""));
  EXPECT_EQ(Layout::Create(mesh, {{"x"}, {}, {"y", "x"}}).status(),
            absl::InvalidArgumentError(
                "create layout \"[x,-,y+x]\": mesh axis \"x\" is used twice"));
  EXPECT_EQ(Layout::Create(mesh, {{"y", "y"}}).status(),
            absl::InvalidArgumentError(
                "create layout \"[y+y]\": mesh axis \"y\" is used twice"));
}

TEST(LayoutTest, LocalBoxRefusesWhatDoesNotFit) {
  const Layout layout = MakeLayout(MakeMesh({{"x", 2}}), {{"x"}, {}});
  EXPECT_EQ(layout.LocalBox({4}, 0).status(),
            absl::InvalidArgumentError(
                "cut array \"[4]\": wrong number of axes for [x,-] on x=2 "
                "(need 2, found 1)"));
  for (const int rank : {-1, 2}) {
    EXPECT_EQ(layout.LocalBox({4, 3}, rank).status(),
              absl::InvalidArgumentError(
                  "cut array \"[4, 3]\": no such rank on [x,-] on x=2 (need 0 "
                  "to 1, found " +
                  std::to_string(rank) + ")"));
  }
  EXPECT_EQ(layout.LocalBox({4, -3}, 0).status(),
            absl::InvalidArgumentError(
                "check shape \"[4, -3]\": length of axis 1 is negative (need "
                "0 or more, found -3)"));
}

// A mesh of at most 64 ranks, and its axes dealt out to the array's axes and
// to nobody, in random order.
Layout DrawLayout(Rng& rng, size_t ndim) {
  std::vector<MeshAxis> mesh_axes;
  int64_t ranks = 1;
  for (const char* name : {"p", "q", "r", "s"}) {
    if (Draw(rng, 0, 3) == 0) continue;
    mesh_axes.push_back({name, Draw(rng, 1, std::min<int64_t>(9, 64 / ranks))});
    ranks *= mesh_axes.back().size;
  }
  std::vector<MeshAxis> dealt = mesh_axes;
  std::shuffle(dealt.begin(), dealt.end(), rng);
  LayoutAxes axes(ndim);
  for (const MeshAxis& axis : dealt) {
    const auto to = static_cast<size_t>(Draw(rng, 0, static_cast<int>(ndim)));
    if (to < ndim) axes[to].push_back(axis.name);
  }
  return MakeLayout(MakeMesh(mesh_axes), axes);
}

// Each replica number is a full set of ranks: their boxes hold every element
// exactly once.
void ExpectTiles(const Layout& layout, const Shape& shape) {
  const int64_t num_replicas = layout.NumReplicas();
  const int num_ranks = layout.mesh().num_ranks();
  std::map<int64_t, std::vector<int>> ranks_of;
  for (int rank = 0; rank < num_ranks; ++rank) {
    ranks_of[layout.Replica(rank)].push_back(rank);
  }
  ASSERT_EQ(static_cast<int64_t>(ranks_of.size()), num_replicas);
  ASSERT_EQ(ranks_of.begin()->first, 0);
  ASSERT_EQ(ranks_of.rbegin()->first, num_replicas - 1);
  for (const auto& [replica, ranks] : ranks_of) {
    EXPECT_EQ(static_cast<int64_t>(ranks.size()), num_ranks / num_replicas);
    std::vector<int> holders(static_cast<size_t>(NumElements(shape)), 0);
    for (const int rank : ranks) {
      const Box box = layout.LocalBox(shape, rank).value();
      ASSERT_EQ(CheckBox(box, shape), absl::OkStatus());
      for (const Position& element : Elements(box)) {
        ++holders[static_cast<size_t>(OffsetIn(WholeBox(shape), element))];
      }
    }
    EXPECT_EQ(std::count(holders.begin(), holders.end(), 1),
              static_cast<int64_t>(holders.size()));
  }
}

// The longest and the shortest part of an axis differ by at most one element.
void ExpectBalanced(const Layout& layout, const Shape& shape) {
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t parts = layout.NumParts(static_cast<int>(axis));
    for (int rank = 0; rank < layout.mesh().num_ranks(); ++rank) {
      const int64_t length = layout.LocalBox(shape, rank)->shape[axis];
      EXPECT_GE(length, shape[axis] / parts);
      EXPECT_LE(length, (shape[axis] + parts - 1) / parts);
    }
  }
}

TEST(LayoutTest, RandomLayoutsTileExactly) {
  Rng rng(3);
  int num_uneven = 0;
  int num_stacked = 0;  // several mesh axes on one array axis
  int max_ranks = 0;
  for (int round = 0; round < 400; ++round) {
    const Shape shape = DrawShape(rng, 3, 9);
    const Layout layout = DrawLayout(rng, shape.size());
    SCOPED_TRACE(ShapeText(shape) + " as " + layout.ToString());
    ExpectTiles(layout, shape);
    ExpectBalanced(layout, shape);
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      num_uneven += shape[axis] % layout.NumParts(static_cast<int>(axis)) != 0;
      num_stacked += layout.axes()[axis].size() > 1;
    }
    max_ranks = std::max(max_ranks, layout.mesh().num_ranks());
  }
  EXPECT_GT(num_uneven, 50);  // the draw reaches the cases that matter
  EXPECT_GT(num_stacked, 50);
  EXPECT_GT(max_ranks, 48);
}

TEST(LayoutTest, EveryNumberOfRanksTilesExactly) {
  for (int ranks = 1; ranks <= 64; ++ranks) {
    const Mesh mesh = MakeMesh({{"x", ranks}});
    for (const int64_t length : {0, 1, 2, 31, 63, 64, 65, 130}) {
      SCOPED_TRACE(::testing::Message() << length << " over " << ranks);
      const Layout layout = MakeLayout(mesh, {{"x"}, {}});
      ExpectTiles(layout, {length, 2});
      ExpectBalanced(layout, {length, 2});
    }
  }
}

TEST(LayoutTest, ParsesItsOwnText) {
  Rng rng(7);
  for (int i = 0; i < 300; ++i) {
    const Layout layout = DrawLayout(rng, DrawShape(rng, 3, 9).size());
    EXPECT_EQ(*Layout::Parse(layout.ToString()), layout) << layout.ToString();
  }
  const Mesh odd = MakeMesh({{"a+b", 2}, {"-", 3}, {"c=1", 2}});
  for (const LayoutAxes& axes :
       std::vector<LayoutAxes>{{{"a+b"}, {"-"}}, {{"c=1"}, {}}, {}}) {
    // The axis "-" looks like no axis.
    const Layout layout = MakeLayout(odd, axes);
    if (layout.ToString().find(",-]") != std::string::npos) continue;
    EXPECT_EQ(*Layout::Parse(layout.ToString()), layout) << layout.ToString();
  }
}

TEST(LayoutTest, RefusesTextsThatAreNoLayouts) {
  for (const char* text :
       {"", "[", "[x]", "x on x=2", "[x] on x", "[x] on x=", "[x] on x=0",
        "[x] on x=2y", "[y] on x=2", "[x,x] on x=2", "[x] on x=2,x=3",
        "[x] on x=99999999999999999999", "[x++y] on x=2,y=2", "[x] on ,"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Layout::Parse(text).status())) << text;
  }
}

TEST(LayoutTest, MovesToAnotherNumberOfRanks) {
  const auto moved = [](const char* text, int ranks) {
    return Layout::Parse(text)->OnRanks(ranks).ToString();
  };
  EXPECT_EQ(moved("[x,-] on x=2,y=4", 8), "[x,-] on x=2,y=4");
  EXPECT_EQ(moved("[x,-] on x=2,y=4", 4), "[x,-] on x=1,y=4");
  EXPECT_EQ(moved("[x,y] on x=2,y=4", 6), "[x,y] on x=3,y=2");
  EXPECT_EQ(moved("[x,y] on x=2,y=4", 7), "[x,y] on x=7,y=1");
  EXPECT_EQ(moved("[x] on x=4", 1), "[x] on x=1");
  EXPECT_EQ(moved("[-] on ", 3), "[-] on replica=3");
}

}  // namespace
}  // namespace belay::layout_test
