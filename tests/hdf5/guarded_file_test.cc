// Files of any program and of nobody, read in a process of their own.
#include "hdf5/guarded_file.h"

#include <hdf5.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "h5_testing.h"

namespace belay::h5::guarded_file_test {
namespace {

constexpr double kDeadline = 60;
constexpr int64_t kRows = 3'000'000;  // of which a tile holds a part

class GuardedFileTest : public H5Test {
 protected:
  // A file of the oldest format, with chunks and filters, groups and links.
  void Create(const std::string& name, int64_t rows) const {
    H5open();
    const hid_t file =
        H5Fcreate(Path(name).c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t group =
        H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const auto dims = static_cast<hsize_t>(rows);
    const hsize_t chunk = std::max<hsize_t>(dims / 3, 1);
    const hid_t space = H5Screate_simple(1, &dims, nullptr);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, 1, &chunk);
    H5Pset_shuffle(properties);
    H5Pset_deflate(properties, 1);
    const hid_t dataset = H5Dcreate2(group, "x", H5T_STD_I64BE, space,
                                     H5P_DEFAULT, properties, H5P_DEFAULT);
    std::vector<int64_t> values(rows);
    std::iota(values.begin(), values.end(), 0);
    H5Dwrite(dataset, H5T_NATIVE_INT64, H5S_ALL, H5S_ALL, H5P_DEFAULT,
             values.data());
    H5Lcreate_soft("/g/x", file, "soft", H5P_DEFAULT, H5P_DEFAULT);
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, H5T_VARIABLE);
    const hid_t scalar = H5Screate(H5S_SCALAR);
    const hid_t note = H5Dcreate2(file, "note", text, scalar, H5P_DEFAULT,
                                  H5P_DEFAULT, H5P_DEFAULT);
    const char* const content = "a note";
    H5Dwrite(note, text, H5S_ALL, H5S_ALL, H5P_DEFAULT, &content);
    H5Dclose(note);
    H5Sclose(scalar);
    H5Tclose(text);
    H5Dclose(dataset);
    H5Pclose(properties);
    H5Sclose(space);
    H5Gclose(group);
    ASSERT_GE(H5Fclose(file), 0);
  }
};

TEST_F(GuardedFileTest, ListsDescribesAndReads) {
  Create("a.h5", kRows);
  const std::vector<int64_t> open = OpenIds();
  GuardedFile file = Value(GuardedFile::Open(Path("a.h5"), kDeadline));
  const std::vector<ListedDataset> listed = Value(file.List());
  ASSERT_EQ(listed.size(), 3);
  EXPECT_EQ(listed[0].path, "g/x");
  EXPECT_EQ(listed[0].array.dtype, DType::kI64);
  EXPECT_EQ(listed[0].array.shape, Shape{kRows});
  EXPECT_EQ(listed[1].path, "note");
  EXPECT_EQ(listed[1].array.dtype, DType::kString);
  EXPECT_EQ(listed[2].path, "soft");
  EXPECT_EQ(Value(file.Describe("soft", true)).shape, Shape{kRows});
  EXPECT_EQ(Value(file.ReadText("note")), "a note");
  std::vector<int64_t> values(kRows - 10);
  Ok(file.Read("g/x", DType::kI64, {{5}, {kRows - 10}}, values.data()));
  for (int64_t i = 0; i < kRows - 10; ++i) ASSERT_EQ(values[i], i + 5);
  EXPECT_TRUE(absl::IsNotFound(file.Describe("none", false).status()));
  EXPECT_EQ(OpenIds(), open);
}

TEST_F(GuardedFileTest, WhatCannotBeOpened) {
  EXPECT_TRUE(
      absl::IsNotFound(GuardedFile::Open(Path("no.h5"), kDeadline).status()));
  testing::PutFile(Path("text.h5"), "no HDF5 at all");
  EXPECT_TRUE(
      absl::IsDataLoss(GuardedFile::Open(Path("text.h5"), kDeadline).status()));
}

// The child has HDF5's list of files that are open here, and none of their
// descriptors.
TEST_F(GuardedFileTest, FilesThatTheProgramHasOpen) {
  Create("a.h5", 100);
  const hsize_t rows = 100;
  const hid_t file = H5Fcreate(Path("shows.h5").c_str(), H5F_ACC_TRUNC,
                               H5P_DEFAULT, H5P_DEFAULT);
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  const hid_t space = H5Screate_simple(1, &rows, nullptr);
  H5Pset_virtual(properties, space, "a.h5", "g/x", space);
  H5Dclose(H5Dcreate2(file, "v", H5T_STD_I64BE, space, H5P_DEFAULT, properties,
                      H5P_DEFAULT));
  H5Lcreate_external("a.h5", "g/x", file, "l", H5P_DEFAULT, H5P_DEFAULT);
  H5Sclose(space);
  H5Pclose(properties);
  ASSERT_GE(H5Fclose(file), 0);
  const Handle mine = Value(OpenFileReadOnly(Path("a.h5")));
  const Handle shows = Value(OpenFileReadOnly(Path("shows.h5")));
  for (const auto& [name, path] :
       std::vector<std::pair<std::string, std::string>>{
           {"a.h5", "g/x"}, {"shows.h5", "v"}, {"shows.h5", "l"}}) {
    GuardedFile read = Value(GuardedFile::Open(Path(name), kDeadline));
    EXPECT_EQ(Value(read.Describe(path, true)).shape, Shape{100});
    std::vector<int64_t> values(100, -1);
    Ok(read.Read(path, DType::kI64, {{0}, {100}}, values.data()));
    for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(values[i], i) << name << path;
  }
}

// Whatever libhdf5 makes of it: crashes and endless loops are errors.
TEST_F(GuardedFileTest, DamagedFilesAreErrors) {
  Create("a.h5", 100);
  const std::string good = testing::FileBytes(Path("a.h5"));
  std::mt19937_64 random(11);
  std::map<absl::StatusCode, int> results;
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = good;
    for (uint64_t times = 1 + random() % 4; times > 0; --times) {
      const size_t at = random() % bytes.size();
      const uint64_t value = random() % 3 == 0 ? ~uint64_t{0} : random();
      std::memcpy(bytes.data() + at, &value,
                  std::min<size_t>(1 + random() % 8, bytes.size() - at));
    }
    testing::PutFile(Path("b.h5"), bytes);
    StatusOr<GuardedFile> file = GuardedFile::Open(Path("b.h5"), kDeadline);
    Status status = file.status();
    if (status.ok()) {
      const auto listed = file->List();
      status = listed.status();
      int64_t values[100];
      if (status.ok()) {
        status = file->Read("g/x", DType::kI64, {{0}, {100}}, values);
      }
    }
    ++results[status.code()];
    std::filesystem::remove(Path("b.h5"));
  }
  EXPECT_GT(results[absl::StatusCode::kOk], 10);
  EXPECT_LT(results[absl::StatusCode::kOk], kRounds - 20);
  EXPECT_EQ(results[absl::StatusCode::kDeadlineExceeded], 0);
}

}  // namespace
}  // namespace belay::h5::guarded_file_test
