#include "format/paths.h"

#include <gtest/gtest.h>

#include <set>

#include "core/text.h"
#include "model_testing.h"

namespace belay::paths_test {
namespace {

TEST(StepNameTest, RoundTrips) {
  EXPECT_EQ(StepName(42), "step_00000042");
  EXPECT_EQ(StepName(123456789), "step_123456789");
  EXPECT_EQ(StepName(42, "ckpt"), "ckpt_00000042");
  for (int64_t step : {int64_t{0}, int64_t{7}, int64_t{99999999},
                       int64_t{100000000}, INT64_MAX}) {
    for (const char* prefix : {"step", "ckpt", "a_b", "lr=3", "x-1", "Q"}) {
      EXPECT_EQ(ParseStepName(StepName(step, prefix)),
                (StepLabel{prefix, step}));
    }
    EXPECT_EQ(ParseStepName(InProgressPath(StepName(step))), std::nullopt);
  }
}

TEST(StepNameTest, PrefixesAreNames) {
  EXPECT_EQ(CheckStepPrefix("lr=3_b-2"), absl::OkStatus());
  for (const std::string& prefix :
       {std::string(), std::string("a/b"), std::string("a.b"),
        std::string(" step"), std::string("a\0", 2), std::string(201, 'a')}) {
    EXPECT_EQ(CheckStepPrefix(prefix).code(),
              absl::StatusCode::kInvalidArgument)
        << prefix;
    EXPECT_EQ(ParseStepName(StepName(1, prefix)), std::nullopt) << prefix;
  }
  EXPECT_EQ(CheckStepPrefix("a/b").message(),
            "the prefix of steps \"a/b\" cannot be a name (need 1 to 200 "
            "letters, digits or any of \"-_=\")");
}

TEST(PathTest, NamesAndParents) {
  EXPECT_EQ(InProgressPath("run/best"), "run/best.inprogress");
  EXPECT_TRUE(IsInProgress("run/best.inprogress"));
  EXPECT_FALSE(IsInProgress("run/best"));
  EXPECT_EQ(GetParent("run/best//"), "run");
  EXPECT_EQ(GetParent("best"), ".");
  EXPECT_EQ(GetParent("/best"), "/");
  EXPECT_EQ(GetLastName("run/best//"), "best");
  EXPECT_EQ(GetLastName("best"), "best");
  EXPECT_EQ(GetLastName("/"), "");
  EXPECT_EQ(WithoutSlashes("/"), "/");
}

TEST(StepNameTest, OtherNamesAreNoSteps) {
  for (const char* name :
       {"", "step_", "step_42", "step_0000042", "step_000000042",
        "step_0123456789", "step_-0000042", "step_+0000042", "step_0000004a",
        "step_00000042/", "step_00000042 ", " step_00000042", "_00000042",
        "step-00000042", "step_9223372036854775808",
        "step_99999999999999999999", "step_0x000042", "index.h5"}) {
    EXPECT_EQ(ParseStepName(name), std::nullopt) << name;
  }
  EXPECT_EQ(ParseStepName(std::string("step_0000004\0", 13)), std::nullopt);
}

TEST(FileNameTest, FixedNames) {
  EXPECT_EQ(IndexName(), "index.h5");
  EXPECT_EQ(MarkerName(0xabc), "writer_0000000000000abc");
}

TEST(FileNameTest, WritersHaveNamesOfTheirOwn) {
  EXPECT_EQ(InProgressPath("a/x.safetensors", 0xc0ffee),
            "a/x.safetensors.0000000000c0ffee.inprogress");
  const auto without = [](std::string_view path) {
    return WithoutInProgress(path) ? std::string(path) : "none";
  };
  EXPECT_EQ(without(InProgressPath("x.y", 0xc0ffee)), "x.y");
  EXPECT_EQ(without(InProgressPath("x.y", ~uint64_t{0})), "x.y");
  EXPECT_EQ(without(InProgressPath("x.y")), "x.y");
  EXPECT_EQ(without("x.0000000000c0ffe.inprogress"), "x.0000000000c0ffe");
  EXPECT_EQ(without("x.0000000000C0FFEE.inprogress"), "x.0000000000C0FFEE");
  EXPECT_EQ(without("0000000000c0ffee.inprogress"), "0000000000c0ffee");
  EXPECT_EQ(without("x.0000000000c0ffee"), "none");
}

TEST(JoinPathTest, OneSlash) {
  EXPECT_EQ(JoinPath("run", "index.h5"), "run/index.h5");
  EXPECT_EQ(JoinPath("run/", "index.h5"), "run/index.h5");
  EXPECT_EQ(JoinPath("/", "run"), "/run");
  EXPECT_EQ(JoinPath("", "run"), "run");
}

std::vector<std::string> PathsOf(const std::vector<std::string>& keys) {
  std::vector<StoredArray> arrays;
  for (const std::string& key : keys) arrays.push_back({.key = key});
  std::sort(arrays.begin(), arrays.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  return ObjectPaths(arrays);
}

struct Named {
  std::string key;
  std::string path;
};

const std::vector<Named>& Table() {
  static const auto& table = *new std::vector<Named>{
      {"", "%"},
      {"model/dense/kernel", "model/dense/kernel"},
      {"/.ATTRIBUTES/v1", "%/.ATTRIBUTES/v1"},
      {"a//b", "a/%/b"},
      {"a/", "a/%"},
      {"/", "%/%"},
      {".", "%2E"},
      {"..", "%2E."},
      {"...", "..."},
      {"a/./b", "a/%2E/b"},
      {"a/..", "a/%2E."},
      {".belay", "%2Ebelay"},
      {".belay/x", "%2Ebelay/x"},
      {"a/.belay", "a/.belay"},
      {".belayed", ".belayed"},
      {"x/%value", "x/%25value"},
      {"%", "%25"},
      {"%25", "%2525"},
      {"@", "%40"},
      {"w@0,2", "w%400,2"},
      {"gewicht_\xc3\xa4", "gewicht_\xc3\xa4"},
      {"tab\there", "tab%09here"},
      {"line\n\x7f", "line%0A%7F"},
      {"blank space", "blank space"},
  };
  return table;
}

TEST(ObjectPathsTest, EachKeyAlone) {
  for (const Named& named : Table()) {
    EXPECT_EQ(PathsOf({named.key}), std::vector<std::string>{named.path});
  }
}

TEST(ObjectPathsTest, AKeyThatBeginsAnotherOne) {
  using Paths = std::vector<std::string>;
  EXPECT_EQ(PathsOf({"x", "x/y"}), (Paths{"x/%value", "x/y"}));
  EXPECT_EQ(PathsOf({"x", "x/y/z"}), (Paths{"x/%value", "x/y/z"}));
  EXPECT_EQ(PathsOf({"x", "x/"}), (Paths{"x/%value", "x/%"}));
  EXPECT_EQ(PathsOf({"", "/b"}), (Paths{"%/%value", "%/b"}));
  EXPECT_EQ(PathsOf({"x", "x/%value"}), (Paths{"x/%value", "x/%25value"}));
  EXPECT_EQ(PathsOf({"x", "x-y", "x/y"}), (Paths{"x/%value", "x-y", "x/y"}));
  EXPECT_EQ(PathsOf({"x", "xy/z"}), (Paths{"x", "xy/z"}));
  EXPECT_EQ(PathsOf({"a/b", "a/b/c", "a/b/c/d"}),
            (Paths{"a/b/%value", "a/b/c/%value", "a/b/c/d"}));
}

// Undoes one part of a path. Nothing where it is not the name of any part.
std::optional<std::string> Unescape(std::string_view part) {
  if (part == "%") return "";
  std::string key;
  for (size_t i = 0; i < part.size(); ++i) {
    if (part[i] != '%') {
      key.push_back(part[i]);
      continue;
    }
    if (i + 2 >= part.size() || !std::isxdigit(part[i + 1]) ||
        !std::isxdigit(part[i + 2])) {
      return std::nullopt;
    }
    const std::string hex(part.substr(i + 1, 2));
    key.push_back(static_cast<char>(std::stoi(hex, nullptr, 16)));
    i += 2;
  }
  return key;
}

std::string KeyOf(std::string_view path) {
  std::string key;
  bool first = true;
  for (std::string_view part : Split(path, '/')) {
    if (part == "%value") return key;
    const std::optional<std::string> plain = Unescape(part);
    EXPECT_TRUE(plain.has_value()) << path;
    key += (first ? "" : "/") + plain.value_or("");
    first = false;
  }
  return key;
}

// A relative path of non-empty links, none of which HDF5 would skip, without
// bytes that end or garble a name.
bool IsLegal(std::string_view path) {
  for (char c : path) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  for (std::string_view part : Split(path, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return path != ".belay" && !path.starts_with(".belay/");
}

// Legal, distinct, invertible, and no object is also a group.
void ExpectSound(const std::set<std::string>& keys) {
  const std::vector<std::string> sorted(keys.begin(), keys.end());
  const std::vector<std::string> paths = PathsOf(sorted);
  const std::set<std::string> distinct(paths.begin(), paths.end());
  ASSERT_EQ(distinct.size(), keys.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    ASSERT_EQ(KeyOf(paths[i]), sorted[i]);
    ASSERT_TRUE(IsLegal(paths[i])) << paths[i];
    const auto below = distinct.lower_bound(paths[i] + "/");
    ASSERT_FALSE(below != distinct.end() && below->starts_with(paths[i] + "/"))
        << paths[i];
  }
}

// As many groups as bytes, each with a path as long as the one before.
TEST(ObjectPathsTest, AKeyOfManySlashes) {
  std::string key;
  for (int i = 0; i < 200000; ++i) key += "a/";
  const std::vector<std::string> paths = PathsOf({"a", "a/a", key + "a"});
  EXPECT_EQ(paths[0], "a/%value");
  EXPECT_EQ(paths[1], "a/a/%value");
  EXPECT_EQ(paths[2], key + "a");
}

TEST(ObjectPathsTest, AllTogether) {
  std::set<std::string> keys{"x", "x/y", std::string("nul\0", 4)};
  for (const Named& named : Table()) keys.insert(named.key);
  ASSERT_NO_FATAL_FAILURE(ExpectSound(keys));
}

TEST(ObjectPathsTest, RandomKeys) {
  Random random(9);
  const std::string letters = "/./%@a.b2E\n";
  for (int i = 0; i < 2000; ++i) {
    std::set<std::string> keys;
    for (int64_t count = Uniform(1, 30, random); count > 0; --count) {
      std::string key = Uniform(0, 9, random) == 0 ? ".belay" : "";
      for (int64_t k = Uniform(0, 5, random); k > 0; --k) {
        const auto last = static_cast<int64_t>(letters.size()) - 1;
        key.push_back(letters[Uniform(0, last, random)]);
      }
      keys.insert(key);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectSound(keys));
  }
}

TEST(DatasetPathTest, PiecesAreNamedByTheirBox) {
  const StoredArray array{"w", DType::kF32, {4, 3}, 0};
  EXPECT_EQ(DatasetPath("w", array, {.box = {{0, 0}, {4, 3}}}), "w");
  EXPECT_EQ(DatasetPath("w", array, {.box = {{2, 0}, {2, 3}}}), "w@2,2:0,3");
  const StoredArray text{"t", DType::kString, {}, 5};
  EXPECT_EQ(DatasetPath("t", text, {.box = {{0}, {5}}}), "t");
  EXPECT_EQ(DatasetPath("t/%value", text, {.box = {{3}, {2}}}), "t/%value@3,2");
  const StoredArray scalar{"s", DType::kF32, {}, 0};
  EXPECT_EQ(DatasetPath("s", scalar, {}), "s");
}

}  // namespace
}  // namespace belay::paths_test
