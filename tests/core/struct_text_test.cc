#include "core/struct_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace belay::struct_text_test {
namespace {

using ::testing::HasSubstr;

TEST(StructTextTest, TextsAndFieldsAreTheSame) {
  const std::vector<StructField> fields = {
      {"id", DType::kI64, {}, 0},
      {"velocity.x", DType::kF32, {}, 8},
      {"cell_2-b", DType::kC128, {3, 2}, 12}};
  const std::string text = "id:i64 velocity.x:f32 cell_2-b:c128[3,2]";
  EXPECT_EQ(FieldsText(fields), text);
  EXPECT_EQ(CountStructBytes(text), 12 + 96);
  const auto parsed = ParseFields(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  ASSERT_EQ(parsed->size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*parsed)[i].name, fields[i].name);
    EXPECT_EQ((*parsed)[i].dtype, fields[i].dtype);
    EXPECT_EQ((*parsed)[i].shape, fields[i].shape);
    EXPECT_EQ((*parsed)[i].offset, fields[i].offset);
  }
}

TEST(StructTextTest, WhatIsNoTextOfFieldsIsAnError) {
  std::string many = "a0:u8";
  for (int i = 1; i < 300; ++i) many += " a" + std::to_string(i) + ":u8";
  for (const std::string& text : {std::string("x"),
                                  std::string("x:"),
                                  std::string(":f64"),
                                  std::string("x:f65"),
                                  std::string("x:string"),
                                  std::string("x:f64 "),
                                  std::string(" x:f64"),
                                  std::string("x:f64  y:f64"),
                                  std::string("x:f64["),
                                  std::string("x:f64[]"),
                                  std::string("x:f64[0]"),
                                  std::string("x:f64[-1]"),
                                  std::string("x:f64[1,]"),
                                  std::string("x:f64[1]2"),
                                  std::string("x:f64[2"),
                                  std::string("x[2]:f64"),
                                  std::string("x:f64[1,1,1,1,1]"),
                                  std::string("x:f64[9223372036854775807]"),
                                  std::string("x:f64[99999999999999999999]"),
                                  std::string("x:f64[1073741824]"),
                                  std::string("x:f64 x:f32"),
                                  std::string("a/b:f64"),
                                  std::string("a\x1b:f64"),
                                  std::string(65, 'n') + ":f64",
                                  many}) {
    EXPECT_EQ(CountStructBytes(text), -1) << text;
    EXPECT_EQ(ParseFields(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_EQ(CountStructBytes(""), 0);
  EXPECT_FALSE(ParseFields("").ok());
}

TEST(StructTextTest, ProblemsNameTheField) {
  const auto problem = [](const StructField& field) {
    return FieldsProblem({field});
  };
  EXPECT_EQ(FieldsProblem({}), "it has no fields");
  EXPECT_THAT(problem({"a b", DType::kF32}), HasSubstr("\"a b\""));
  EXPECT_THAT(problem({std::string(70, 'n'), DType::kF32}),
              HasSubstr("need at most 64 characters, found 70"));
  EXPECT_THAT(problem({"t", DType::kString}),
              HasSubstr("\"t\" is not a number"));
  EXPECT_THAT(problem({"x", DType::kF32, {0}}), HasSubstr("no elements"));
  EXPECT_THAT(FieldsProblem({{"x", DType::kF64, {1 << 27}},
                             {"y", DType::kF64, {1 << 27}}}),
              HasSubstr("it is too large"));
  EXPECT_EQ(problem({"x", DType::kF32, {2, 3}}), "");
}

}  // namespace
}  // namespace belay::struct_text_test
