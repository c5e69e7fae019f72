#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "safetensors/header.h"

namespace belay::safetensors::safetensors_header_test {
namespace {

using ::testing::HasSubstr;

std::string Length(uint64_t length) {
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length));
}

// A tensor's member of a header.
std::string Member(const std::string& name, const std::string& dtype,
                   const std::string& shape, const std::string& offsets) {
  return absl::StrFormat(R"("%s":{"dtype":"%s","shape":[%s],)"
                         R"("data_offsets":[%s]})",
                         name, dtype, shape, offsets);
}

// One header with the given members, which must be refused.
struct BadHeader {
  std::string name;
  std::string text;
  std::string message;
  absl::StatusCode code = absl::StatusCode::kDataLoss;
};

void PrintTo(const BadHeader& bad, std::ostream* out) { *out << bad.name; }

class BadHeaderTest : public ::testing::TestWithParam<BadHeader> {};

constexpr int64_t kDataBytes = 24;

TEST_P(BadHeaderTest, IsRefused) {
  const Status status = ParseHeader(GetParam().text, kDataBytes).status();
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().message));
}

// So many axes of length 1, and one of 0.
std::string ManyAxes(int axes) {
  std::string lengths = "0";
  for (int i = 1; i < axes; ++i) lengths += ",1";
  return lengths;
}

// So many members of metadata.
std::string ManyPairs(int count) {
  std::string pairs;
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&pairs, i == 0 ? "" : ",", "\"", i, "\":\"\"");
  }
  return pairs;
}

const std::string kGood = Member("a", "F32", "2,3", "0,24");

INSTANTIATE_TEST_SUITE_P(
    Form, BadHeaderTest,
    ::testing::Values(
        BadHeader{"Empty", "", "does not begin with \"{\""},
        BadHeader{
            "ManyAxes", "{" + Member("a", "U8", ManyAxes(257), "0,0") + "}",
            "too many numbers in \"shape\" of tensor \"a\" (need at most 32",
            absl::StatusCode::kUnimplemented},
        BadHeader{"LongName",
                  "{" + Member(std::string(65537, 'n'), "U8", "0", "0,0") + "}",
                  "a name is too long (need at most 65536 bytes, found 65537)"},
        BadHeader{"ManyMetadata", "{\"__metadata__\":{" + ManyPairs(100'001),
                  "\"__metadata__\" has too many members (need at most 100000"},
        BadHeader{"Array", "[]", "does not begin with \"{\""},
        BadHeader{"Space", " {" + kGood + "}", "does not begin with \"{\""},
        BadHeader{"Pickle",
                  "\x80\x02"
                  "ccollections",
                  "does not begin with"},
        BadHeader{"CutOff", "{" + kGood, "not JSON, at byte 57"},
        BadHeader{"Comma", "{" + kGood + ",}", "not JSON"},
        BadHeader{"Rest", "{" + kGood + "}x", "not JSON"},
        BadHeader{"Nul", "{" + kGood + "}" + std::string(1, '\0') + "x",
                  "not JSON, at byte 57: a NUL"},
        BadHeader{"TwoHeaders", "{" + kGood + "}{}", "not JSON"},
        BadHeader{"NotUtf8", "{\"\xff\xfe\":{}}", "not JSON"},
        BadHeader{"Deep",
                  "{\"a\":" + std::string(100000, '[') +
                      std::string(100000, ']') + "}",
                  "need an object, found an array"},
        BadHeader{"DeepObjects", "{\"a\":{\"dtype\":{\"b\":{\"c\":{}}}}}",
                  "need a string, found an object"},
        BadHeader{"DeepShape", "{" + Member("a", "F32", "[2],3", "0,24") + "}",
                  "\"shape\" of tensor \"a\" (need numbers, found an array)"},
        BadHeader{"TensorIsNumber", "{\"a\":3}",
                  "at \"a\" (need an object, found a number)"},
        BadHeader{"TensorIsNull", "{\"a\":null}", "found null"},
        BadHeader{"TensorIsTrue", "{\"a\":true}", "found a boolean"},
        BadHeader{"DtypeIsNumber", "{\"a\":{\"dtype\":3}}",
                  "\"dtype\" of tensor \"a\" (need a string, found a number)"},
        BadHeader{"ShapeIsText", "{\"a\":{\"shape\":\"2\"}}",
                  "need an array, found a string"},
        BadHeader{"MetadataIsList", R"({"__metadata__":["x"]})",
                  "found an array"},
        BadHeader{"MetadataOfNumber", R"({"__metadata__":{"epoch":3}})",
                  "\"epoch\" of \"__metadata__\" (need a string, found a"},
        BadHeader{"MetadataOfObject", R"({"__metadata__":{"x":{}}})",
                  "need a string, found an object"}),
    [](const auto& bad) { return bad.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Members, BadHeaderTest,
    ::testing::Values(
        BadHeader{"TwiceTensor", "{" + kGood + "," + kGood + "}",
                  "the name \"a\" appears twice"},
        BadHeader{"TwiceMetadata",
                  "{\"__metadata__\":{},\"__metadata__\":{}," + kGood + "}",
                  "the name \"__metadata__\" appears twice"},
        BadHeader{"TwiceText", R"({"__metadata__":{"x":"1","x":"2"}})",
                  "the name \"x\" of \"__metadata__\" appears twice"},
        BadHeader{"TwiceShape",
                  R"({"a":{"dtype":"F32","shape":[6],"shape":[6]}})",
                  "\"shape\" of tensor \"a\" appears twice"},
        BadHeader{"TwiceEscaped",
                  "{" + kGood + "," + Member("\\u0061", "U8", "0", "0,0") + "}",
                  "the name \"a\" appears twice"},
        BadHeader{"NoDtype", R"({"a":{"shape":[6],"data_offsets":[0,24]}})",
                  "tensor \"a\" has no dtype"},
        BadHeader{"NoShape", R"({"a":{"dtype":"F32","data_offsets":[0,24]}})",
                  "tensor \"a\" has no shape"},
        BadHeader{"NoOffsets", R"({"a":{"dtype":"F32","shape":[6]}})",
                  "tensor \"a\" has no data_offsets"},
        BadHeader{"Strange", R"({"a":{"dtype":"F32","strides":[1]}})",
                  "need dtype, shape and data_offsets, found \"strides\""},
        BadHeader{"UnknownDtype", "{" + Member("a", "F128", "2", "0,24") + "}",
                  "tensor \"a\": the dtype \"F128\" is not known",
                  absl::StatusCode::kUnimplemented},
        BadHeader{"LowerCase", "{" + Member("a", "f32", "6", "0,24") + "}",
                  "the dtype \"f32\" is not known",
                  absl::StatusCode::kUnimplemented}),
    [](const auto& bad) { return bad.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Numbers, BadHeaderTest,
    ::testing::Values(
        BadHeader{"Negative", "{" + Member("a", "F32", "-6", "0,24") + "}",
                  "from 0 to 9223372036854775807, found -6"},
        BadHeader{"NegativeOffset",
                  "{" + Member("a", "F32", "6", "-24,0") + "}",
                  "\"data_offsets\" of tensor \"a\" (need an integer"},
        BadHeader{"Fraction", "{" + Member("a", "F32", "6.0", "0,24") + "}",
                  "found 6.0"},
        BadHeader{"Exponent", "{" + Member("a", "F32", "6e0", "0,24") + "}",
                  "found 6e0"},
        BadHeader{"Above63Bits",
                  "{" + Member("a", "U8", "9223372036854775808", "0,24") + "}",
                  "found 9223372036854775808"},
        BadHeader{"Above64Bits",
                  "{" + Member("a", "U8", "6", "0,18446744073709551640") + "}",
                  "found 18446744073709551640"},
        BadHeader{
            "ManyElements",
            "{" + Member("a", "U8", "4294967296,4294967296", "0,24") + "}",
            "the shape [4294967296, 4294967296] is too large"},
        BadHeader{"ManyBytes",
                  "{" + Member("a", "F64", "2305843009213693952", "0,24") + "}",
                  "the shape [2305843009213693952] is too large"},
        BadHeader{"OneOffset", "{" + Member("a", "F32", "6", "24") + "}",
                  "data_offsets has another length (need 2, found 1)"},
        BadHeader{"ThreeOffsets",
                  "{" + Member("a", "F32", "6", "0,24,24") + "}",
                  "data_offsets has another length (need 2, found 3)"},
        BadHeader{"ManyOffsets",
                  "{" + Member("a", "F32", "6", ManyAxes(33)) + "}",
                  "too many numbers in \"data_offsets\" of tensor \"a\""},
        BadHeader{"Backwards", "{" + Member("a", "F32", "6", "24,0") + "}",
                  "end before they begin (found 24 to 0)"},
        BadHeader{"OtherSize", "{" + Member("a", "F32", "5", "0,24") + "}",
                  "do not fit dtype F32 and shape [5] (need 20 bytes, found "
                  "24)"},
        BadHeader{"ScalarSize", "{" + Member("a", "F32", "", "0,24") + "}",
                  "need 4 bytes, found 24"},
        BadHeader{"HalfByte", "{" + Member("a", "F4", "3", "0,24") + "}",
                  "need a multiple of 8 bits, found 12"}),
    [](const auto& bad) { return bad.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Places, BadHeaderTest,
    ::testing::Values(
        BadHeader{"Overlap",
                  "{" + kGood + "," + Member("b", "U8", "4", "20,24") + "}",
                  "tensors overlap: \"b\" begins at 20, \"a\" ends at 24"},
        BadHeader{"SameBytes",
                  "{" + kGood + "," + Member("b", "F32", "6", "0,24") + "}",
                  "tensors overlap: \"b\" begins at 0, \"a\" ends at 24"},
        BadHeader{"EmptyInside",
                  "{" + kGood + "," + Member("b", "U8", "0", "12,12") + "}",
                  "tensors overlap"},
        BadHeader{"Hole",
                  "{" + Member("a", "U8", "4", "0,4") + "," +
                      Member("b", "U8", "16", "8,24") + "}",
                  "no tensor has the bytes 4 to 8 of the data, before tensor "
                  "\"b\""},
        BadHeader{"HoleAtBegin", "{" + Member("a", "U8", "16", "8,24") + "}",
                  "no tensor has the bytes 0 to 8"},
        BadHeader{"HoleAtEnd", "{" + Member("a", "U8", "16", "0,16") + "}",
                  "last bytes of the file (need 16 bytes of data, found 24)"},
        BadHeader{"NothingButData", "{}", "need 0 bytes of data, found 24"},
        BadHeader{"CutData", "{" + Member("a", "F64", "4", "0,32") + "}",
                  "the file is cut off (need 32 bytes of data, found 24)"},
        BadHeader{"EmptyBehind",
                  "{" + kGood + "," + Member("b", "U8", "0", "99,99") + "}",
                  "no tensor has the bytes 24 to 99"}),
    [](const auto& bad) { return bad.param.name; });

TEST(HeaderTest, ReadsTensorsByTheirPlace) {
  const StatusOr<FileHeader> header =
      ParseHeader("{" + Member("late", "BF16", "2,1,2", "16,24") +
                      R"(,"__metadata__":{"format":"pt","é":"\n\"ü\""},)" +
                      Member("model/w", "F32", "4", "0,16") + "," +
                      Member("none", "F64", "3,0", "16,16") + "," +
                      Member("日本", "I64", "0,7", "0,0") + "}   ",
                  24);
  ASSERT_TRUE(header.ok()) << header.status();
  const FileHeader expected = {
      .tensors = {{"日本", DType::kI64, "", {0, 7}, 0, 0},
                  {"model/w", DType::kF32, "", {4}, 0, 16},
                  {"none", DType::kF64, "", {3, 0}, 16, 16},
                  {"late", DType::kBF16, "", {2, 1, 2}, 16, 24}},
      .metadata = {{"format", "pt"}, {"é", "\n\"ü\""}}};
  EXPECT_EQ(*header, expected);
}

TEST(HeaderTest, NoTensorsAreFine) {
  for (const char* text : {"{}", "{ }      ", R"({"__metadata__":{}})"}) {
    const StatusOr<FileHeader> header = ParseHeader(text, 0);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(*header, FileHeader{});
  }
}

TEST(HeaderTest, DtypesThatBelayLacksAreNamed) {
  for (const auto& [name, bytes] : std::vector<std::pair<std::string, int>>{
           {"F8_E8M0", 8}, {"F4", 4}, {"F6_E2M3", 6}, {"F6_E3M2", 6}}) {
    const StatusOr<FileHeader> header = ParseHeader(
        "{" + Member("a", name, "8", absl::StrCat("0,", bytes)) + "}", bytes);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->tensors.at(0).foreign_dtype, name);
  }
}

TEST(HeaderTest, LengthsAreChecked) {
  EXPECT_EQ(HeaderLength(Length(24), 40).value(), 24);
  EXPECT_EQ(HeaderLength(Length(32), 40).value(), 32);
  EXPECT_EQ(HeaderLength(Length(100'000'000), 200'000'000).value(),
            100'000'000);
  const auto refused = [](std::string_view first, int64_t bytes) {
    const Status status = HeaderLength(first, bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refused("", 0), HasSubstr("need at least 8 bytes, found 0"));
  EXPECT_THAT(refused("1234567", 7), HasSubstr("found 7"));
  EXPECT_THAT(refused(Length(33), 40),
              HasSubstr("cut off in its header (need 41 bytes, found 40)"));
  EXPECT_THAT(refused(Length(100'000'001), 200'000'000),
              HasSubstr("need at most 100000000 bytes, found 100000001"));
  EXPECT_THAT(refused(Length(UINT64_MAX), 40),
              HasSubstr("found 18446744073709551615"));
}

// The bytes are those that the reference implementation writes.
TEST(HeaderTest, WritesWhatTheReferenceWrites) {
  const StatusOr<std::string> one =
      HeaderText({.tensors = {{"attn.0", DType::kF32, "", {1, 2, 3}, 0, 24}},
                  .metadata = {}});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(*one, Length(64) + R"({"attn.0":{"dtype":"F32","shape":[1,2,3],)"
                               R"("data_offsets":[0,24]}})");
  EXPECT_EQ(HeaderText({}).value(), Length(8) + "{}      ");
  EXPECT_EQ(
      HeaderText({.tensors = {}, .metadata = {{"framework", "pt"}}}).value(),
      Length(40) + R"({"__metadata__":{"framework":"pt"}}     )");
}

TEST(HeaderTest, WhatIsWrittenIsRead) {
  const FileHeader header = {
      .tensors = {{"\"q\"\\ \t\x01", DType::kU64, "", {}, 0, 8},
                  {"none", DType::kC64, "", {0}, 8, 8},
                  {"x/ü/日本", DType::kBool, "", {3}, 8, 11}},
      .metadata = {{"", "\n"}, {"a", "\x7f"}}};
  const StatusOr<std::string> text = HeaderText(header);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->size() % 8, 0);
  const int64_t file_bytes = std::ssize(*text) + 11;
  ASSERT_EQ(HeaderLength(*text, file_bytes).value(), std::ssize(*text) - 8);
  EXPECT_EQ(ParseHeader(std::string_view(*text).substr(8), 11).value(), header);
}

TEST(HeaderTest, NamesThatTheFormatCannotHave) {
  const auto refused = [](const FileHeader& header) {
    const Status status = HeaderText(header).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refused({.tensors = {{"__metadata__", DType::kU8, "", {0}}}}),
              HasSubstr("no tensor may be called \"__metadata__\""));
  EXPECT_THAT(refused({.tensors = {{"\xff", DType::kU8, "", {0}}}}),
              HasSubstr("is not UTF-8"));
  EXPECT_THAT(refused({.tensors = {}, .metadata = {{"a", "\xc3"}}}),
              HasSubstr("is not UTF-8"));
}

TEST(HeaderTest, EveryDTypeButTextsAndC128HasAName) {
  for (int number = 1; IsKnownDType(static_cast<uint8_t>(number)); ++number) {
    const auto dtype = static_cast<DType>(number);
    const bool expected = dtype != DType::kString && dtype != DType::kC128;
    EXPECT_EQ(FormatName(dtype).has_value(), expected) << DTypeName(dtype);
    if (!expected) continue;
    const int64_t bytes = DTypeSize(dtype);
    const FileHeader header = {.tensors = {{"a", dtype, "", {}, 0, bytes}},
                               .metadata = {}};
    const std::string text = HeaderText(header).value();
    EXPECT_EQ(ParseHeader(std::string_view(text).substr(8), bytes).value(),
              header);
  }
  EXPECT_LT(FileOrder(DType::kC64), FileOrder(DType::kF32));
  EXPECT_LT(FileOrder(DType::kI32), FileOrder(DType::kBF16));
}

}  // namespace
}  // namespace belay::safetensors::safetensors_header_test
