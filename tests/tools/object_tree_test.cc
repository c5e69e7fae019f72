#include "object_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "graph/object_graph.h"
#include "random_world.h"

namespace belay::tools::object_tree_test {
namespace {

// What a checkpoint of these objects holds.
struct Saved {
  explicit Saved(const ObjectGraph& graph) : objects(ListObjects(graph)) {
    for (const GraphNode& node : graph.nodes) {
      for (const GraphAttribute& attribute : node.attributes) {
        arrays.push_back({.key = attribute.key,
                          .dtype = attribute.dtype,
                          .shape = attribute.shape,
                          .bytes = NumElements(attribute.shape) *
                                   DTypeSize(attribute.dtype)});
      }
    }
    std::sort(arrays.begin(), arrays.end(),
              [](const auto& a, const auto& b) { return a.key < b.key; });
  }

  std::string Text(const TreeOptions& options = {}) const {
    return ObjectTreeText(objects, arrays, options);
  }

  std::vector<ObjectInfo> objects;
  std::vector<ArrayInfo> arrays;
};

// A model, an optimizer, and a reference back.
struct Trained {
  Trained() {
    table.values = {{"VARIABLE_VALUE", 1.0f}};
    m.values = {{"VARIABLE_VALUE", 2.0f}};
    model.values = {{"bias", 3.0f}, {"scale", 4.0f}};
    model.children = {{"table", table}, {"root", root}, {"tied", table}};
    adam.values = {{"lr", 0.1f}};
    adam.slots = {{"m", table, m}};
    root.children = {{"adam", adam}, {"model", model}, {"empty", empty}};
  }

  Saved Save() const {
    Thing& start = const_cast<Thing&>(root);
    return Saved(Tracked(start).graph);
  }

  Thing table, m, model, adam, empty, root;
};

constexpr char kTree[] =
    R"(object                               bytes  dtype   shape
(root)                                20 B
├─ adam                                8 B
│  ├─ lr                               4 B  f32     []
│  └─ m for (root).model.table         4 B  f32     []
├─ model                              12 B
│  ├─ bias                             4 B  f32     []
│  ├─ scale                            4 B  f32     []
│  ├─ table                            4 B  f32     []
│  ├─ root -> (root)
│  └─ tied -> (root).model.table
└─ empty                               0 B
)";

TEST(ObjectTreeTest, ObjectsAndValuesWithTheirBytes) {
  EXPECT_EQ(Trained().Save().Text(), kTree);
}

TEST(ObjectTreeTest, WhatIsDeeperIsCounted) {
  const Saved saved = Trained().Save();
  EXPECT_EQ(saved.Text({.depth = 0}),
            R"(object                 bytes
(root) (10 more)        20 B
)");
  EXPECT_EQ(saved.Text({.depth = 1}),
            R"(object                  bytes
(root)                   20 B
├─ adam (2 more)          8 B
├─ model (5 more)        12 B
└─ empty                  0 B
)");
  EXPECT_EQ(saved.Text({.depth = 2}), kTree);
  EXPECT_EQ(saved.Text({.depth = 1000}), kTree);
}

TEST(ObjectTreeTest, WithoutValuesThereAreObjectsOnly) {
  EXPECT_EQ(Trained().Save().Text({.values = false}),
            R"(object         bytes
(root)          20 B
├─ adam          8 B
├─ model        12 B
│  └─ root -> (root)
└─ empty         0 B
)");
}

TEST(ObjectTreeTest, LayoutsHaveAColumn) {
  Saved saved = Trained().Save();
  for (ObjectInfo& object : saved.objects) {
    for (ObjectValue& value : object.values) {
      if (value.name == "scale") value.layout = "[-] on x=2";
      value.opaque = value.name == "lr";
    }
  }
  EXPECT_EQ(saved.Text(),
            R"(object                               bytes  dtype   shape  layout
(root)                                20 B
├─ adam                                8 B
│  ├─ lr                               4 B  opaque
│  └─ m for (root).model.table         4 B  f32     []
├─ model                              12 B
│  ├─ bias                             4 B  f32     []
│  ├─ scale                            4 B  f32     []     [-] on x=2
│  ├─ table                            4 B  f32     []
│  ├─ root -> (root)
│  └─ tied -> (root).model.table
└─ empty                               0 B
)");
}

// A terminal is not to be told what to do.
TEST(ObjectTreeTest, NamesThatDoNotPrintAreQuoted) {
  Thing odd, root;
  odd.values = {{"\x1b[2J", 1.0f},
                {"gr\xc3\xb6\xc3\x9f"
                 "e",
                 2.0f}};
  root.children = {{"a\tb", odd}, {"\xff", odd}, {"a b", root}};
  EXPECT_EQ(Saved(Tracked(root).graph).Text(),
            R"(object                bytes  dtype   shape
(root)                  8 B
├─ "a\tb"               8 B
│  ├─ "\x1b[2J"         4 B  f32     []
│  └─ größe             4 B  f32     []
├─ "\xff" -> "(root).a\tb"
└─ a b -> (root)
)");
}

// Taken away, the colors leave the same text.
TEST(ObjectTreeTest, ColorsChangeNoColumn) {
  std::string text = Trained().Save().Text({.color = true});
  EXPECT_NE(text.find("\x1b[1mmodel\x1b[0m"), text.npos) << text;
  for (const std::string code : {"\x1b[0m", "\x1b[1m", "\x1b[2m"}) {
    for (size_t at; (at = text.find(code)) != text.npos;) {
      text.erase(at, code.size());
    }
  }
  EXPECT_EQ(text, kTree);
}

// Every edge and every value has one line, and every byte counts once.
TEST(ObjectTreeTest, RandomObjectsAreShownOnce) {
  Rng rng(5);
  for (int round = 0; round < 500; ++round) {
    World world = DrawWorld(rng);
    const Saved saved(world.Track().graph);
    int64_t lines = 2, bytes = 0;
    for (const ObjectInfo& object : saved.objects) {
      const size_t held = object.children.size() + object.slots.size();
      const bool is_value = held == 0 && object.values.size() == 1 &&
                            object.values[0].name == "VARIABLE_VALUE" &&
                            object.parent >= 0;
      lines += static_cast<int64_t>(held) +
               (is_value ? 0 : static_cast<int64_t>(object.values.size()));
    }
    for (const ArrayInfo& array : saved.arrays) bytes += array.bytes;
    const std::string text = saved.Text();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), lines) << text;
    const size_t root = text.find("(root)");
    const std::string line = text.substr(root, text.find('\n', root) - root);
    EXPECT_TRUE(line.ends_with(" " + std::to_string(bytes) + " B")) << text;
  }
}

// Two edges of one name would make the tree endless; a checkpoint with such
// edges was not made by belay, but is read.
TEST(ObjectTreeTest, DoubledEdgesDoNotMultiply) {
  std::vector<ObjectInfo> objects = {{.path = "(root)"}};
  for (int64_t i = 1; i <= 500; ++i) {
    ObjectInfo& holder = objects.back();
    holder.children = {{"a", i}, {"a", i}};
    objects.push_back({.path = holder.path + ".a", .parent = i - 1});
  }
  const std::string text = ObjectTreeText(objects, {}, {});
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2 + 2 * 500);
}

}  // namespace
}  // namespace belay::tools::object_tree_test
