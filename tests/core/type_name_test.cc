#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/text.h"

namespace belay::type_name_test {

struct Grid {
  template <typename T>
  struct Cell {};
};

namespace {

template <typename T>
std::string Name() {
  return TypeName(typeid(T));
}

TEST(TypeNameTest, AsAProgramWouldWriteIt) {
  EXPECT_EQ(Name<int>(), "int");
  EXPECT_EQ(Name<Grid>(), "belay::type_name_test::Grid");
  EXPECT_EQ(Name<std::string>(), "std::string");
  EXPECT_EQ(Name<std::string_view>(), "std::string_view");
  EXPECT_EQ(Name<std::vector<std::vector<double>>>(),
            "std::vector<std::vector<double>>");
  EXPECT_EQ(Name<std::unique_ptr<Grid>>(),
            "std::unique_ptr<belay::type_name_test::Grid>");
  EXPECT_EQ((Name<std::map<std::string, std::pair<int, std::string>>>()),
            "std::map<std::string, std::pair<int, std::string>>");
  EXPECT_EQ((Name<std::unordered_map<std::string, Grid::Cell<std::string>>>()),
            "std::unordered_map<std::string, "
            "belay::type_name_test::Grid::Cell<std::string>>");
}

TEST(TypeNameTest, OtherArgumentsStay) {
  EXPECT_EQ((Name<std::map<int, int, std::greater<int>>>()),
            "std::map<int, int, std::greater<int>>");
  EXPECT_EQ(Name<std::allocator<int>>(), "std::allocator<int>");
  EXPECT_EQ(Name<std::basic_string<char16_t>>(), "std::basic_string<char16_t>");
}

}  // namespace
}  // namespace belay::type_name_test
