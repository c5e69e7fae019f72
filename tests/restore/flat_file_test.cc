// Files that h5py wrote: see flat_file_write.py.

#include "restore/flat_file.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>

#include "box_oracle.h"
#include "core/element_conversion.h"
#include "core/fault.h"
#include "h5_testing.h"

namespace belay::flat_file_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

using C128 = std::complex<double>;

// The memory of a shard, to be read into.
struct Wanted {
  Wanted(const FlatArray& array, const Box& box) {
    memory.resize(NumElements(box.shape) * DTypeSize(array.dtype) + 1);
    shard = {.key = array.key,
             .dtype = array.dtype,
             .global_shape = array.shape,
             .box = box,
             .data = memory.data()};
    if (array.dtype == DType::kString) shard.text = &text;
  }
  explicit Wanted(const FlatArray& array)
      : Wanted(array, WholeBox(array.shape)) {}

  C128 At(size_t place) const {
    C128 number;
    ConvertElements(shard.dtype, memory.data() + place * DTypeSize(shard.dtype),
                    DType::kC128, &number, 1);
    return number;
  }

  std::vector<std::byte> memory;
  std::string text = "?";
  Shard shard;
};

// What the script put at an element.
C128 NumberAt(const FlatArray& array, const Position& element) {
  if (array.key == "storage/never_written") return 0;
  int64_t place = 0;
  for (size_t axis = 0; axis < element.size(); ++axis) {
    place = place * array.shape[axis] + element[axis];
  }
  const auto number = static_cast<double>(place % 100);
  const bool is_complex =
      array.dtype == DType::kC64 || array.dtype == DType::kC128;
  if (array.dtype == DType::kBool) return number == 0 ? 0 : 1;
  return {number, is_complex ? -number : 0};
}

class FlatFileTest : public h5::H5Test {
 protected:
  void SetUp() override {
    h5::H5Test::SetUp();
    const auto script = std::filesystem::path(__FILE__).replace_filename(
        "../flat_file_write.py");
    const std::string command =
        "/usr/bin/python3 -B '" + script.string() + "' '" + dir_ + "'";
    ASSERT_EQ(std::system(command.c_str()), 0);
    for (FlatArray& array : h5::Value(ListFlatFile(Path("flat.h5")))) {
      arrays_[array.key] = array;
    }
  }

  // Returns the Status of reading one array whole.
  Status Read(const FlatArray& array) {
    Wanted wanted(array);
    return ReadFlatFile(Path("flat.h5"), {wanted.shard});
  }

  void ExpectError(const Status& status, absl::StatusCode code,
                   const std::string& text) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_THAT(std::string(status.message()), HasSubstr(dir_));
  }

  std::map<std::string, FlatArray> arrays_;
};

TEST_F(FlatFileTest, ListsEveryNumberTypeAsItsDType) {
  const std::map<std::string, DType> need = {
      {"bf16", DType::kBF16},
      {"bool", DType::kBool},
      {"int8", DType::kI8},
      {"uint8", DType::kU8},
      {"little/float16", DType::kF16},
      {"little/float32", DType::kF32},
      {"little/float64", DType::kF64},
      {"little/complex64", DType::kC64},
      {"little/complex128", DType::kC128},
      {"little/int16", DType::kI16},
      {"little/int32", DType::kI32},
      {"little/int64", DType::kI64},
      {"little/uint16", DType::kU16},
      {"little/uint32", DType::kU32},
      {"little/uint64", DType::kU64},
      {"big/float16", DType::kF16},
      {"big/float32", DType::kF32},
      {"big/float64", DType::kF64},
      {"big/complex64", DType::kC64},
      {"big/int16", DType::kI16},
      {"big/int32", DType::kI32},
      {"big/int64", DType::kI64},
      {"big/uint16", DType::kU16},
      {"big/uint32", DType::kU32},
      {"big/uint64", DType::kU64}};
  std::map<std::string, DType> found;
  for (const auto& [key, array] : arrays_) {
    if (!key.starts_with("numbers/")) continue;
    found[key.substr(8)] = array.dtype;
    EXPECT_EQ(array.shape, Shape({9, 7}));
    EXPECT_EQ(array.problem, "");
  }
  EXPECT_EQ(found, need);
  EXPECT_EQ(arrays_["storage/scalar"].shape, Shape());
  EXPECT_EQ(arrays_["storage/no_elements"].shape, Shape({0, 3}));
  EXPECT_FALSE(arrays_.contains("type"));
}

TEST_F(FlatFileTest, ReadsAnyBoxOfEveryArray) {
  Rng rng(5);
  std::vector<Wanted> wanted;
  for (const auto& [key, array] : arrays_) {
    if (!array.problem.empty() || array.dtype == DType::kString ||
        key.starts_with("virtual/")) {
      continue;
    }
    for (int i = 0; i < 20; ++i) {
      wanted.emplace_back(array, DrawBox(rng, array.shape));
    }
    wanted.emplace_back(array);
  }
  EXPECT_GT(wanted.size(), 30 * 21);
  std::vector<Shard> shards;
  for (Wanted& one : wanted) {
    one.shard.data = one.memory.data();  // it has moved
    shards.push_back(one.shard);
  }
  h5::Ok(ReadFlatFile(Path("flat.h5"), shards));
  for (const Wanted& one : wanted) {
    const std::vector<Position> elements = Elements(one.shard.box);
    for (size_t i = 0; i < elements.size(); ++i) {
      ASSERT_EQ(one.At(i), NumberAt(arrays_[one.shard.key], elements[i]))
          << one.shard.key << " " << BoxText(one.shard.box) << ", element "
          << i;
    }
  }
}

TEST_F(FlatFileTest, ReadsTexts) {
  for (const auto& [name, need] :
       std::map<std::string, std::string>{{"variable", "gr\u00fc\u00dfe"},
                                          {"variable_empty", ""},
                                          {"fixed", "fixed"},
                                          {"spaces", "for tran"},
                                          {"null", ""}}) {
    const FlatArray& array = arrays_["text/" + name];
    EXPECT_EQ(array.dtype, DType::kString);
    EXPECT_EQ(array.problem, "") << name;
    Wanted wanted(array);
    h5::Ok(ReadFlatFile(Path("flat.h5"), {wanted.shard}));
    EXPECT_EQ(wanted.text, need) << name;
  }
}

TEST_F(FlatFileTest, WhatBelayDoesNotKnowIsAnErrorOnlyWhereItIsWanted) {
  for (const auto& [key, need] : std::map<std::string, std::string>{
           {"unknown/compound", "(compound of 12 bytes)"},
           {"unknown/enum", "(enum of 4 bytes)"},
           {"unknown/opaque", "(opaque of 5 bytes)"},
           {"unknown/long_double", "(float of 16 bytes)"},
           {"unknown/reference", "(reference of 8 bytes)"},
           {"unknown/lists", "(variable-length list of 16 bytes)"},
           {"unknown/null", "has no values"},
           {"text/array", "is an array of texts"}}) {
    ASSERT_TRUE(arrays_.contains(key)) << key;
    EXPECT_THAT(arrays_[key].problem, EndsWith(need));
    ExpectError(Read(arrays_[key]), absl::StatusCode::kFailedPrecondition,
                "dataset \"" + key + "\" " + arrays_[key].problem);
  }
}

TEST_F(FlatFileTest, FollowsLinksAndStopsAtLoops) {
  EXPECT_TRUE(arrays_.contains("hard"));
  EXPECT_TRUE(arrays_.contains("links/soft"));
  EXPECT_TRUE(arrays_.contains("links/external"));
  EXPECT_TRUE(arrays_.contains("links/group/variable"));
  for (const std::string key : {"links/nowhere", "links/external_absent"}) {
    EXPECT_EQ(arrays_[key].problem, "is a link that leads nowhere");
    ExpectError(Read(arrays_[key]), absl::StatusCode::kNotFound, key);
  }
  int links = 0;
  for (const auto& [key, array] : arrays_) {
    links += key.starts_with("links/") ? 1 : 0;
  }
  EXPECT_EQ(links, 10);
  ExpectError(ListFlatFile(Path("paths.h5")).status(),
              absl::StatusCode::kResourceExhausted,
              "more than 10000 paths lead to");
}

TEST_F(FlatFileTest, AVirtualDatasetIsReadOnlyWithItsSources) {
  for (const std::string key :
       {"virtual/there", "virtual/same_file", "virtual/percent"}) {
    Wanted wanted(arrays_[key]);
    h5::Ok(ReadFlatFile(Path("flat.h5"), {wanted.shard}));
    for (size_t i = 0; i < 12; ++i) EXPECT_EQ(wanted.At(i), double(i));
  }
  ExpectError(Read(arrays_["virtual/no_file"]), absl::StatusCode::kDataLoss,
              "its source \"group/v\" in file \"absent.h5\" is missing");
  ExpectError(Read(arrays_["virtual/no_dataset"]), absl::StatusCode::kDataLoss,
              "its source \"absent\" in file \"other.h5\" is missing");
  ExpectError(Read(arrays_["virtual/pattern"]),
              absl::StatusCode::kUnimplemented, "pattern (\"part_%b.h5\")");
}

TEST_F(FlatFileTest, NothingIsReadUnlessEverythingFits) {
  const FlatArray& array = arrays_["storage/chunks"];
  Wanted good(array);
  std::fill(good.memory.begin(), good.memory.end(), std::byte{7});
  const auto expect_refused = [&](const Shard& bad, absl::StatusCode code,
                                  const std::string& text) {
    ExpectError(ReadFlatFile(Path("flat.h5"), {good.shard, bad}), code, text);
    EXPECT_TRUE(std::all_of(good.memory.begin(), good.memory.end(),
                            [](std::byte b) { return b == std::byte{7}; }));
  };
  Shard bad = good.shard;
  bad.dtype = DType::kF32;
  expect_refused(
      bad, absl::StatusCode::kFailedPrecondition,
      "dataset \"storage/chunks\" has the wrong dtype or shape (need "
      "f32 [40, 31], found f64 [40, 31])");
  bad = good.shard;
  bad.global_shape = {40, 32};
  expect_refused(bad, absl::StatusCode::kFailedPrecondition,
                 "(need f64 [40, 32], found f64 [40, 31])");
  bad = good.shard;
  bad.box.offset[1] = 1;
  expect_refused(bad, absl::StatusCode::kOutOfRange, "storage/chunks");
  bad = good.shard;
  bad.key = "storage/absent";
  expect_refused(bad, absl::StatusCode::kNotFound, "storage/absent");
  bad.key = "storage";
  expect_refused(bad, absl::StatusCode::kInternal, "storage");
  bad.key = "";
  expect_refused(bad, absl::StatusCode::kInternal, "");
  std::string text;
  const Shard words = {
      .key = "storage/scalar", .dtype = DType::kString, .text = &text};
  expect_refused(words, absl::StatusCode::kFailedPrecondition,
                 "(need string [], found f32 [])");
}

TEST_F(FlatFileTest, FilesThatCannotBeRead) {
  const Shard none = {.key = "v", .global_shape = {0}, .box = {{0}, {0}}};
  const auto expect_error = [&](const std::string& name, absl::StatusCode code,
                                const std::string& text) {
    ExpectError(ListFlatFile(Path(name)).status(), code, text);
    ExpectError(ReadFlatFile(Path(name), {none}), code, text);
  };
  expect_error("absent.h5", absl::StatusCode::kNotFound, "no such file");
  expect_error("absent/v.h5", absl::StatusCode::kNotFound, "no such file");
  expect_error("", absl::StatusCode::kDataLoss, "is a directory");
  testing::PutFile(Path("text.h5"), std::string(5000, 'x'));
  expect_error("text.h5", absl::StatusCode::kDataLoss, "signature");
  testing::PutFile(Path("empty.h5"), "");
  expect_error("empty.h5", absl::StatusCode::kDataLoss, "signature");
  const std::string bytes = testing::FileBytes(Path("flat.h5"));
  testing::PutFile(Path("short.h5"), bytes.substr(0, bytes.size() / 2));
  expect_error("short.h5", absl::StatusCode::kDataLoss, "truncated");
}

TEST_F(FlatFileTest, AFilterThatIsNotThereIsNamed) {
  const auto listed = h5::Value(ListFlatFile(Path("filter.h5")));
  ASSERT_EQ(listed.size(), 1);
  Wanted wanted(listed[0]);
  ExpectError(ReadFlatFile(Path("filter.h5"), {wanted.shard}),
              absl::StatusCode::kInternal, "lzf");
}

TEST_F(FlatFileTest, EveryFaultIsReportedAndClosesEverything) {
  const auto read = [&] {
    Wanted numbers(arrays_["storage/gzip"]);
    Wanted complex(arrays_["numbers/big/complex64"]);
    Wanted text(arrays_["text/fixed"]);
    Wanted variable(arrays_["text/variable"]);
    Wanted shown(arrays_["virtual/there"]);
    return ReadFlatFile(Path("flat.h5"),
                        {numbers.shard, complex.shard, text.shard,
                         variable.shard, shown.shard});
  };
  const auto list = [&] { return ListFlatFile(Path("flat.h5")).status(); };
  for (const std::function<Status()>& work :
       {std::function<Status()>(read), std::function<Status()>(list)}) {
    fault::Arm(0);
    h5::Ok(work());
    const int64_t points = fault::Count();
    fault::Disarm();
    EXPECT_GT(points, 40);
    const std::vector<int64_t> open = h5::OpenIds();
    for (int64_t number = 1; number <= points; ++number) {
      fault::Arm(number);
      const Status status = work();
      fault::Disarm();
      ExpectError(status, absl::StatusCode::kInternal, "injected fault");
      EXPECT_EQ(h5::OpenIds(), open) << number;
    }
  }
}

}  // namespace
}  // namespace belay::flat_file_test
