#include "object_path.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "belay/objects/trackable.h"

namespace belay::tools::object_path_test {
namespace {

using ::testing::ElementsAre;

ObjectInfo Variable(const std::string& path, int64_t parent,
                    const std::string& key) {
  ObjectInfo object{.path = path, .parent = parent};
  object.values.push_back({.name = std::string(kVariableValue), .key = key});
  return object;
}

// The root holds a, which holds b.c, and a.b, which holds c.
TEST(ObjectPathTest, NamesWithDotsMayMeanSeveral) {
  std::vector<ObjectInfo> objects(3);
  objects[0].children = {{.name = "a", .object = 1},
                         {.name = "a.b", .object = 2}};
  objects[1].children = {{.name = "b.c", .object = 3},
                         {.name = "d", .object = 4}};
  objects[2].children = {{.name = "c", .object = 4}};
  objects.push_back(Variable("(root).a.b.c", 1, "first"));
  objects.push_back(Variable("(root).a.d", 1, "second"));
  EXPECT_THAT(KeysAt(objects, "a.b.c"), ElementsAre("first", "second"));
  EXPECT_THAT(KeysAt(objects, "(root).a.d"), ElementsAre("second"));
  EXPECT_THAT(KeysAt(objects, "a.b"), ElementsAre());
  EXPECT_THAT(KeysAt({}, "a"), ElementsAre());
}

// Each object holds the other under names that can be read in many ways.
TEST(ObjectPathTest, CirclesEnd) {
  std::vector<ObjectInfo> objects(2);
  objects[0].children = {{.name = "a", .object = 1},
                         {.name = "a.a", .object = 0},
                         {.name = "", .object = 0}};
  objects[1] = Variable("(root).a", 0, "key");
  objects[1].children = {{.name = "a", .object = 0},
                         {.name = "a.a", .object = 1}};
  std::string path = "a";
  for (int i = 0; i < 2000; ++i) path += ".a";
  EXPECT_THAT(KeysAt(objects, path), ElementsAre("key"));
  EXPECT_THAT(KeysAt(objects, path + ".b"), ElementsAre());
  EXPECT_THAT(KeysAt(objects, "...a"), ElementsAre("key"));
}

}  // namespace
}  // namespace belay::tools::object_path_test
