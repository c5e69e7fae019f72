// What belay diff says of values that handlers have stored.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "commands.h"
#include "directory_fixture.h"
#include "store_testing.h"

namespace belay::tools::diff_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

class DiffTest : public DirectoryTest {
 protected:
  // Writes a checkpoint of one array "d/x" and these values, the first of which
  // consists of it.
  void Write(const std::string& name, const std::vector<std::string>& keys,
             const std::vector<std::string>& types) {
    std::filesystem::create_directory(Path(name));
    SavedCheckpoint saved{.step = 1,
                          .has_checksums = false,
                          .arrays = {{"d/x", DType::kU8, {3}}},
                          .datasets = {{0, 0, WholeBox({3})}},
                          .files = {{"data_00000_of_00001.h5"}}};
    saved.values.key = keys;
    saved.values.typestr = types;
    saved.values.node.assign(keys.size(), -1);
    saved.values.name.assign(keys.size(), "");
    saved.values.part_value = {0};
    saved.values.part_name = {"x"};
    saved.values.part_array = {0};
    WriteCheckpoint(Path(name), saved);
  }

  // Compares "a" and "b". Returns what is printed, behind the exit code.
  std::string Compare() const {
    ::testing::internal::CaptureStdout();
    const int code = Diff(Path("a"), Path("b"), {});
    return std::to_string(code) + ::testing::internal::GetCapturedStdout();
  }
};

TEST_F(DiffTest, EqualValues) {
  Write("a", {"d", "e"}, {"Dict", "None"});
  Write("b", {"d", "e"}, {"Dict", "None"});
  EXPECT_THAT(Compare(), EndsWith("\nequal: 1 array, 3 B, all values\n"));
}

TEST_F(DiffTest, TypesAreCompared) {
  Write("a", {"d", "e"}, {"Dict", "None"});
  Write("b", {"d", "e"}, {"List", "Dict"});
  EXPECT_THAT(Compare(),
              EndsWith("\ntype of \"d\": Dict in A, List in B\n"
                       "type of \"e\": None in A, Dict in B\n"
                       "different: 0 only in A, 0 only in B, 2 of another type "
                       "or shape, 0 with other values; 1 equal\n"));
}

TEST_F(DiffTest, ValuesWithoutArraysAreCompared) {
  Write("a", {"d", "e"}, {"Dict", "None"});
  Write("b", {"d", "f", "g"}, {"Dict", "List", "Dict"});
  const std::string text = Compare();
  EXPECT_EQ(text[0], '1');
  EXPECT_THAT(text, HasSubstr("only in A: \"e\" None\n"
                              "only in B: \"f\" List\n"
                              "only in B: \"g\" Dict\n"
                              "different: 1 only in A, 2 only in B, 0 of"));
}

}  // namespace
}  // namespace belay::tools::diff_test
