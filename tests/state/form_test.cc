#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "belay/extend/transform_function.h"
#include "state/transform.h"

namespace belay::transform_form_test {
namespace {

using ::testing::HasSubstr;

// Each mistake names what it is about.
TEST(TransformFormTest, Mistakes) {
  const std::map<std::string, ArrayForm> forms = {
      {"a", {DType::kF32, {4, 6}}},
      {"b", {DType::kF32, {4, 5}}},
      {"s", {DType::kF32, {}}},
      {"t", {DType::kString, {}}},
      {"z", {DType::kU8, {int64_t{1} << 62, 0}}}};
  const Tensor mask(DType::kBool, {4});
  const std::pair<Transform, std::string> mistakes[] = {
      {Transform::Stack({"a", "b"}), "need [4, 6] as of \"a\", found [4, 5]"},
      {Transform::Concat({"a", "b"}, 0), "found [4, 5] of \"b\""},
      {Transform::Stack({}), "no parts"},
      {Transform::Stack({"a"}, 3), "no axis 3 (need -3 to 2)"},
      {Transform::Concat({"a", "b"}, 2), "no axis 2"},
      {Transform::Concat({"s", "s"}, 0), "a number has no axes (found axis 0)"},
      {Transform::Split("a", 0, 3, 0), "a multiple of 3, found 4"},
      {Transform::Split("a", 0, 2, 2), "need 0 to 1, found 2"},
      {Transform::Split("a", 0, 0, 0), "no such part"},
      {Transform::Narrow("a", 1, 5, 2), "need 2 from 5, found 6 in all"},
      {Transform::Transpose("a", {0, 0}),
       "each axis has to be named once (need 0 to 1, found 0, 0)"},
      {Transform::Transpose("a", {0}), "found 0)"},
      {Transform::Transpose("a", {0, 2}), "no axis 2"},
      {Transform::Slice("a", Index{7}), "7"},
      {Transform::Slice("a", Index{&mask}), "no masks"},
      {Transform::Apply(nullptr, {"a"}), "the function is null"},
      {Transform::Transpose("c"), "stored under \"c\""},
      {Transform::Transpose("t"), "\"t\" is a text"},
      {Transform::Stack({Transform()}), "empty"},
      {Transform::Concat({"z", "z"}), "axis 0 is too long"},
  };
  for (const auto& [transform, text] : mistakes) {
    const Status status =
        ComputeForm(transform, [&](const std::string& key) {
          const auto found = forms.find(key);
          return found == forms.end() ? nullptr : &found->second;
        }).status();
    EXPECT_FALSE(status.ok()) << transform.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

TEST(TransformTest, TextAndKeys) {
  const Transform x = Transform::Transpose(
      Transform::Stack({"b", Transform::Split("a", -1, 3, 1), "b"}), {1, 0, 2});
  EXPECT_EQ(x.ToString(),
            "transpose(stack(\"b\", split(\"a\"; axis -1, part 1 of 3), \"b\"; "
            "axis 0); 1, 0, 2)");
  EXPECT_EQ(x.StoredKeys(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(Transform::Slice("a", *ParseIndex("::2, ..., 1")).ToString(),
            "slice(\"a\"; [::2, ..., 1])");
  EXPECT_TRUE(Transform().empty());
  EXPECT_EQ(Transform("a"), Transform("a"));
  EXPECT_FALSE(Transform("a") == Transform("b"));
  const Transform renamed =
      WithKeys(x, [](const std::string& key) { return key + "'"; });
  EXPECT_EQ(renamed.StoredKeys(), (std::vector<std::string>{"a'", "b'"}));
}

}  // namespace
}  // namespace belay::transform_form_test
