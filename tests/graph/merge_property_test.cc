// Graphs that random ranks see of random objects, merged, against an oracle
// that relabels until nothing changes.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "graph/merge.h"
#include "graph_testing.h"

namespace belay::merge_property_test {
namespace {

using Rng = std::mt19937_64;
using Edges = std::map<std::string, int>;

// What one rank sees: the children and the values of each object, by number.
struct View {
  struct Object {
    View* view = nullptr;
    Edges children;
    std::set<std::string> values;
    float memory = 0;

    void Track(Tracker& tracker) {
      for (auto& name : values) tracker.Value(name, memory);
      for (auto& [name, to] : children) {
        tracker.Child(name, view->objects[static_cast<size_t>(to)]);
      }
    }
  };
  std::vector<Object> objects;

  LiveGraph Track() {
    for (Object& object : objects) object.view = this;
    return Tracked(objects[0]);
  }
  int NumberOf(const LiveGraph& live, int32_t node) const {
    return static_cast<int>(static_cast<const Object*>(
                                live.ids[static_cast<size_t>(node)].address) -
                            objects.data());
  }
};

std::vector<View> DrawViews(Rng& rng) {
  const int num_objects = 2 + static_cast<int>(rng() % 8);
  const auto draw = [&] { return static_cast<int>(rng()) % 2 == 0; };
  std::vector<Edges> edges(static_cast<size_t>(num_objects));
  for (Edges& from : edges) {
    for (const char* name : {"a", "b", "c/d"}) {
      if (draw()) {
        from[name] = static_cast<int>(rng() % static_cast<size_t>(num_objects));
      }
    }
  }
  std::vector<View> views(2 + rng() % 3);
  for (View& view : views) {
    view.objects.resize(edges.size());
    for (size_t i = 0; i < edges.size(); ++i) {
      for (const auto& edge : edges[i]) {
        if (rng() % 4 != 0) view.objects[i].children.insert(edge);
      }
      if (draw()) view.objects[i].values.insert("v");
    }
  }
  return views;
}

using Labels = std::vector<std::map<int, int>>;  // by rank, object

// One label for what one path leads to on any two ranks.
Labels LabelsOf(const std::vector<View>& views,
                const std::vector<LiveGraph>& lives) {
  Labels labels(views.size());
  int next = 0;
  for (size_t r = 0; r < views.size(); ++r) {
    for (size_t i = 0; i < lives[r].ids.size(); ++i) {
      labels[r][views[r].NumberOf(lives[r], static_cast<int32_t>(i))] = next++;
    }
    labels[r][0] = -1;
  }
  for (bool changed = true; changed;) {
    changed = false;
    std::map<std::pair<int, std::string>, int> target;
    for (size_t r = 0; r < views.size(); ++r) {
      for (const auto& [object, label] : std::map<int, int>(labels[r])) {
        const auto& from = views[r].objects[static_cast<size_t>(object)];
        for (const auto& [name, to] : from.children) {
          const int old = labels[r][to];
          const int wanted =
              target.emplace(std::pair(labels[r][object], name), old)
                  .first->second;
          if (old == wanted) continue;
          changed = true;
          const int low = std::min(old, wanted), high = std::max(old, wanted);
          for (auto& of_rank : labels) {
            for (auto& [o, l] : of_rank) l = l == high ? low : l;
          }
          for (auto& [from_name, l] : target) l = l == high ? low : l;
        }
      }
    }
  }
  return labels;
}

StatusOr<MergedGraph> MergeAll(const std::vector<LiveGraph>& lives) {
  std::vector<const ObjectGraph*> graphs;
  std::vector<int> order;
  for (const LiveGraph& live : lives) {
    order.push_back(static_cast<int>(graphs.size()));
    graphs.push_back(&live.graph);
  }
  return MergeGraphs(ListRanks(graphs, order));
}

void ExpectMergedAs(const Labels& labels, const std::vector<View>& views,
                    const std::vector<LiveGraph>& lives) {
  const StatusOr<MergedGraph> merged = MergeAll(lives);
  ASSERT_EQ(merged.status(), absl::OkStatus());
  ASSERT_EQ(CheckGraph(merged->graph), absl::OkStatus());
  std::set<int> distinct;
  std::map<int, std::string> key_of;  // by label
  for (size_t r = 0; r < lives.size(); ++r) {
    for (const auto& [object, label] : labels[r]) distinct.insert(label);
    const std::map<std::string, std::string> renames(merged->renames[r].begin(),
                                                     merged->renames[r].end());
    for (const LiveValue& value : lives[r].values) {
      std::string key = lives[r].GetAttribute(value).key;
      if (renames.count(key) > 0) key = renames.at(key);
      const int label = labels[r].at(views[r].NumberOf(lives[r], value.node));
      EXPECT_EQ(key_of.emplace(label, key).first->second, key);
    }
  }
  EXPECT_EQ(merged->graph.nodes.size(), distinct.size());
  std::set<std::string> expected;
  for (const auto& [label, key] : key_of) expected.insert(key);
  EXPECT_EQ(expected.size(), key_of.size());  // other objects, other keys
  EXPECT_THAT(KeysOf(merged->graph),
              ::testing::UnorderedElementsAreArray(expected));
}

TEST(MergePropertyTest, ObjectsAreOneIfAPathSaysSo) {
  Rng rng(3);
  size_t num_keys = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<View> views = DrawViews(rng);
    std::vector<LiveGraph> lives;
    for (View& view : views) lives.push_back(view.Track());
    SCOPED_TRACE(round);
    ExpectMergedAs(LabelsOf(views, lives), views, lives);
    if (HasFailure()) break;
    std::set<std::string> own;
    for (const LiveGraph& live : lives) {
      for (const std::string& key : KeysOf(live.graph)) own.insert(key);
    }
    num_keys += own.size();
  }
  EXPECT_GT(num_keys, 2000);
}

// Views of other objects: where one rank shares what another one does not, an
// error, and never a graph in which an object is missing.
TEST(MergePropertyTest, StrangersMergeOrDisagree) {
  Rng rng(4);
  int num_merged = 0, num_refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<View> views = DrawViews(rng);
    views.push_back(DrawViews(rng)[0]);
    std::vector<LiveGraph> lives;
    for (View& view : views) lives.push_back(view.Track());
    const Labels labels = LabelsOf(views, lives);
    bool is_split = false;
    for (const auto& of_rank : labels) {
      std::set<int> distinct;
      for (const auto& [object, label] : of_rank) distinct.insert(label);
      is_split = is_split || distinct.size() != of_rank.size();
    }
    if (!is_split) {
      ExpectMergedAs(labels, views, lives);
      ++num_merged;
      continue;
    }
    const Status status = MergeAll(lives).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr("are two objects on rank"));
    ++num_refused;
  }
  EXPECT_GT(num_merged, 100);
  EXPECT_GT(num_refused, 100);
}

}  // namespace
}  // namespace belay::merge_property_test
