#include "belay/arrays/mesh.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace belay::mesh_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(MeshTest, RanksAreRowMajor) {
  const StatusOr<Mesh> mesh = Mesh::Create({{"x", 2}, {"y", 3}, {"z", 2}});
  ASSERT_TRUE(mesh.ok()) << mesh.status();
  EXPECT_EQ(mesh->num_ranks(), 12);
  EXPECT_EQ(mesh->ToString(), "x=2,y=3,z=2");
  EXPECT_THAT(mesh->Coordinates(0), ElementsAre(0, 0, 0));
  EXPECT_THAT(mesh->Coordinates(1), ElementsAre(0, 0, 1));
  EXPECT_THAT(mesh->Coordinates(2), ElementsAre(0, 1, 0));
  EXPECT_THAT(mesh->Coordinates(7), ElementsAre(1, 0, 1));
  EXPECT_THAT(mesh->Coordinates(11), ElementsAre(1, 2, 1));
}

TEST(MeshTest, NoAxesIsOneRank) {
  const StatusOr<Mesh> mesh = Mesh::Create({});
  ASSERT_TRUE(mesh.ok()) << mesh.status();
  EXPECT_EQ(mesh->num_ranks(), 1);
  EXPECT_EQ(mesh->ToString(), "");
  EXPECT_THAT(mesh->Coordinates(0), IsEmpty());
  EXPECT_EQ(*mesh, Mesh());
}

TEST(MeshTest, AxesOfSizeOneAreKept) {
  const StatusOr<Mesh> mesh = Mesh::Create({{"a", 1}, {"b", 3}, {"c", 1}});
  ASSERT_TRUE(mesh.ok()) << mesh.status();
  EXPECT_EQ(mesh->num_ranks(), 3);
  EXPECT_THAT(mesh->Coordinates(2), ElementsAre(0, 2, 0));
}

TEST(MeshTest, TheLargestMesh) {
  const StatusOr<Mesh> mesh = Mesh::Create({{"x", 2147483647}});
  ASSERT_TRUE(mesh.ok()) << mesh.status();
  EXPECT_EQ(mesh->num_ranks(), 2147483647);
  EXPECT_THAT(mesh->Coordinates(2147483646), ElementsAre(2147483646));
}

TEST(MeshTest, FindsAxes) {
  const StatusOr<Mesh> mesh = Mesh::Create({{"data", 2}, {"model", 4}});
  ASSERT_TRUE(mesh.ok()) << mesh.status();
  EXPECT_EQ(mesh->AxisIndex("data").value(), 0);
  EXPECT_EQ(mesh->AxisIndex("model").value(), 1);
  EXPECT_EQ(mesh->AxisIndex("Model").status(),
            absl::InvalidArgumentError("find mesh axis \"Model\": not in mesh "
                                       "\"data=2,model=4\""));
  EXPECT_EQ(
      Mesh().AxisIndex("x").status(),
      absl::InvalidArgumentError("find mesh axis \"x\": not in mesh \"\""));
}

TEST(MeshTest, EqualityIsByAxes) {
  const Mesh mesh = *Mesh::Create({{"x", 2}, {"y", 3}});
  EXPECT_EQ(mesh, *Mesh::Create({{"x", 2}, {"y", 3}}));
  EXPECT_NE(mesh, *Mesh::Create({{"y", 2}, {"x", 3}}));
  EXPECT_NE(mesh, *Mesh::Create({{"x", 3}, {"y", 2}}));
}

TEST(MeshTest, RefusesBadAxes) {
  struct Row {
    std::vector<MeshAxis> axes;
    std::string message;
  };
  const std::vector<Row> rows = {
      {{{"x", 0}},
       "create mesh \"x=0\": size of axis \"x\" (need 1 or more, found 0)"},
      {{{"x", 2}, {"y", -3}},
       "create mesh \"x=2,y=-3\": size of axis \"y\" (need 1 or more, found "
       "-3)"},
      {{{"x", 2}, {"", 3}}, "create mesh \"x=2,=3\": axis 1 has no name"},
      {{{"x", 2}, {"y", 2}, {"x", 2}},
       "create mesh \"x=2,y=2,x=2\": axis \"x\" appears twice"},
      {{{"x", 2147483648}},
       "create mesh \"x=2147483648\": too many ranks (need at most "
       "2147483647)"},
      {{{"x", 65536}, {"y", 32768}},
       "create mesh \"x=65536,y=32768\": too many ranks (need at most "
       "2147483647)"},
      {{{"x", 9223372036854775807}, {"y", 9223372036854775807}},
       "create mesh \"x=9223372036854775807,y=9223372036854775807\": too many "
       "ranks (need at most 2147483647)"}};
  for (const Row& row : rows) {
    EXPECT_EQ(Mesh::Create(row.axes).status(),
              absl::InvalidArgumentError(row.message));
  }
}

TEST(MeshTest, RefusesMoreAxesThanItsChecksAreMadeFor) {
  std::vector<MeshAxis> axes;
  while (axes.size() < 64)
    axes.push_back({"a" + std::to_string(axes.size()), 1});
  EXPECT_TRUE(Mesh::Create(axes).ok());
  axes.push_back({"one more", 1});
  EXPECT_EQ(Mesh::Create(axes).status(),
            absl::InvalidArgumentError("create mesh: too many axes (need at "
                                       "most 64, found 65)"));
}

TEST(MeshTest, RefusesNamesThatItsTextCouldNotHold) {
  for (const std::string name : {"a b", " ", "a\tb", "a,b", "a:b", "|"}) {
    EXPECT_EQ(Mesh::Create({{name, 2}}).status(),
              absl::InvalidArgumentError("create mesh \"" + name +
                                         "=2\": axis name \"" + name +
                                         "\" has a blank or one of , : |"));
  }
}

}  // namespace
}  // namespace belay::mesh_test
