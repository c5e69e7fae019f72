#include "plan/stored_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "core/keys.h"
#include "plan/plan.h"
#include "store_testing.h"

namespace belay::stored_values_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr size_t kArrays = 5, kNodes = 5;

using Change = std::function<void(StoredValues&)>;

// What is wrong with SmallValues after a change.
std::string DamageAfter(const Change& change) {
  StoredValues values = SmallValues();
  change(values);
  return FindDamage(values, kArrays, kNodes);
}

std::vector<std::string> KeysOf(const std::vector<StoredValue>& values) {
  std::vector<std::string> keys;
  for (const StoredValue& value : values) keys.push_back(value.key);
  return keys;
}

TEST(StoredValuesTest, NothingIsWrongWithGoodColumns) {
  EXPECT_EQ(FindDamage(StoredValues(), 0, 0), "");
  EXPECT_EQ(FindDamage(SmallValues(), kArrays, kNodes), "");
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(
        FindDamage(RandomValues(kArrays, kNodes, random), kArrays, kNodes), "");
  }
}

TEST(StoredValuesTest, EveryNumberIsInRange) {
  const std::pair<const char*, Change> changes[] = {
      {"key of row 0", [](auto& v) { v.key[0] = ""; }},
      {"key of row 1", [](auto& v) { v.key[1] = "d"; }},
      {"typestr of row 1", [](auto& v) { v.typestr[1] = ""; }},
      {"node of row 0", [](auto& v) { v.node[0] = 5; }},
      {"node of row 0", [](auto& v) { v.node[0] = -2; }},
      {"parts/value of row 1", [](auto& v) { v.part_value[1] = 2; }},
      {"parts/value of row 1",
       [](auto& v) {
         v.part_value = {1, 0};
       }},
      {"parts/name of row 1", [](auto& v) { v.part_name[1] = "e"; }},
      {"parts/array of row 0", [](auto& v) { v.part_array[0] = 5; }},
      {"parts/array of row 0", [](auto& v) { v.part_array[0] = ~0u; }}};
  for (const auto& [what, change] : changes) {
    EXPECT_EQ(DamageAfter(change),
              std::string("values/") + what + " is out of range");
  }
}

TEST(StoredValuesTest, KeysOfTooManyParts) {
  std::string key = "a";
  for (int i = 1; i < kMaxKeyParts; ++i) key += "/a";
  StoredValues values = SmallValues();
  values.key.back() = "z/" + key.substr(2);
  EXPECT_EQ(FindDamage(values, kArrays, kNodes), "");
  values.key.back() = "z/" + key;
  EXPECT_EQ(FindDamage(values, kArrays, kNodes),
            absl::StrCat("values/key of row ", values.key.size() - 1,
                         " is out of range"));
}

TEST(StoredValuesTest, EveryColumnHasTheRightLength) {
  int columns = 0;
  StoredValues good = SmallValues();
  ForEachValueColumn(good, [&](const std::string& path, const auto&) {
    ++columns;
    for (const bool longer : {false, true}) {
      StoredValues wrong = SmallValues();
      ForEachValueColumn(wrong, [&](const std::string& other, auto& column) {
        if (other != path) return;
        column.resize(longer ? column.size() + 1 : column.size() - 1);
      });
      EXPECT_THAT(FindDamage(wrong, kArrays, kNodes),
                  HasSubstr("has the wrong length"))
          << path;
    }
  });
  EXPECT_EQ(columns, 7);
  EXPECT_EQ(columns * sizeof(std::vector<int>), sizeof(StoredValues));
}

TEST(StoredValuesTest, RanksThatListPartsAreMerged) {
  const SavedCheckpoint saved = SmallIndex();
  const StoredValues merged =
      MergeValues({{{"d", "pair", {"f"}}},
                   {},
                   {{"n", "None", {}}, {"d", "pair", {"e", "f"}}}},
                  saved.arrays)
          .value();
  EXPECT_EQ(merged, SmallValues());
}

TEST(StoredValuesTest, WhatRanksDisagreeOnIsNamed) {
  const SavedCheckpoint saved = SmallIndex();
  EXPECT_EQ(
      MergeValues({{}, {{"d", "a", {}}}, {{"d", "b", {}}}}, saved.arrays)
          .status(),
      absl::InvalidArgumentError(
          "plan \"d\": ranks store it with different handlers (need \"a\" as "
          "on rank 1, found \"b\" on rank 2)"));
  EXPECT_EQ(
      MergeValues({{{"d", "a", {}}, {"d", "a", {}}}}, saved.arrays).status(),
      absl::InvalidArgumentError(
          "plan \"d\": rank 0 has two values with this key"));
  EXPECT_EQ(MergeValues({{{"d", "a", {"x"}}}}, saved.arrays).status(),
            absl::InternalError("plan \"d/x\": the save has no such array"));
  EXPECT_EQ(MergeValues({{}, {{"a", "None", {}}}}, saved.arrays).status(),
            absl::InvalidArgumentError(
                "plan \"a\": rank 1 stores it with the handler "
                "\"None\", another rank as an array"));
}

TEST(StoredValuesTest, ValuesAreFoundByTheirKeys) {
  const SavedCheckpoint saved = SmallIndex();
  const std::vector<StoredValue> values =
      FindValues(saved, {"a", "b", "d", "d/e", "n"}).value();
  ASSERT_THAT(KeysOf(values), ElementsAre("a", "b", "d", "d/e", "n"));
  EXPECT_EQ(values[0].typestr, "array");
  EXPECT_EQ(values[1].typestr, "string");
  EXPECT_EQ(values[2].typestr, "pair");
  EXPECT_EQ(values[3].typestr, "scalar");
  EXPECT_EQ(values[4].typestr, "None");
  EXPECT_THAT(values[4].parts, IsEmpty());
  const ValuePart f{"f", DType::kU16, {2, 2}, 8};
  ASSERT_EQ(values[2].parts.size(), 2);
  EXPECT_EQ(values[2].parts[1], f);
  EXPECT_EQ(*values[2].Find("f"), f);
  EXPECT_EQ(values[2].Find("x"), nullptr);
  EXPECT_EQ(Decode<std::vector<StoredValue>>(Encode(values)).value(), values);
}

TEST(StoredValuesTest, ArraysBelowAKeyAreAGroup) {
  SavedCheckpoint saved = SmallIndex();
  saved.values = {};
  const StoredValue group = FindValues(saved, {"d"}).value()[0];
  EXPECT_EQ(group.typestr, "group");
  ASSERT_EQ(group.parts.size(), 2);
  EXPECT_EQ(group.parts[0].name, "e");
  EXPECT_TRUE(IsPlain(group));
  EXPECT_EQ(FindValues(saved, {"dx"}).status(),
            absl::NotFoundError("plan \"dx\": key is not in the checkpoint"));
}

TEST(StoredValuesTest, ValuesInsideAreTold) {
  SavedCheckpoint saved = SmallIndex();
  saved.values.key = {"d", "d/g"};
  saved.values.typestr = {"outer", "inner"};
  const StoredValue value = FindValues(saved, {"d"}).value()[0];
  ASSERT_THAT(KeysOf(value.values), ElementsAre("d/g"));
  EXPECT_EQ(value.values[0].typestr, "inner");
}

TEST(StoredValuesTest, WhatHasItsOwnArraysStandsAlone) {
  SavedCheckpoint saved;
  for (const char* key : {"m/in/x", "m/x", "m/y", "o/z"}) {
    saved.arrays.push_back({.key = key, .dtype = DType::kU8, .shape = {1}});
  }
  // "m" has "in", which has "x"; "m/y" and "o" are no part of it, and "m/x" is
  // below it without being one. "m/none" has no arrays.
  saved.values.key = {"m", "m/in", "m/none", "m/y", "o"};
  saved.values.typestr = {"Dict", "a", "None", "b", "Dict"};
  saved.values.node.assign(5, -1);
  saved.values.name.assign(5, "");
  saved.values.part_value = {0, 1, 3, 4};
  saved.values.part_name = {"in/x", "x", "", "z"};
  saved.values.part_array = {0, 0, 2, 3};
  ASSERT_EQ(FindDamage(saved.values, 4, 0), "");
  EXPECT_THAT(KeysOf(ValuesAlone(saved)), ElementsAre("m", "m/x", "m/y", "o"));
}

TEST(StoredValuesTest, AllValuesAreEachListedOnce) {
  EXPECT_THAT(KeysOf(AllValues(SmallIndex())),
              ElementsAre("a", "b", "c", "d", "n"));
}

TEST(StoredValuesTest, AnArrayIsNotWantedWhereThereIsNone) {
  const SavedCheckpoint saved = SmallIndex();
  const auto want = [&](const std::string& key) {
    RankShards rank;
    rank.shards.push_back({.key = key, .dtype = DType::kF32});
    return CheckKinds(saved, {RankShards(), rank});
  };
  EXPECT_EQ(want("a"), absl::OkStatus());
  EXPECT_EQ(want("d/e"), absl::OkStatus());
  EXPECT_EQ(want("unknown"), absl::OkStatus());  // the planner says so
  EXPECT_EQ(want("n"), absl::FailedPreconditionError(
                           "plan \"n\": no array is stored under this key, but "
                           "a value of another type (need f32 [], found "
                           "typestr \"None\")"));
}

}  // namespace
}  // namespace belay::stored_values_test
