// What files of other programs say that they hold, and do not store.

#include <gmock/gmock.h>
#include <hdf5.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "h5_testing.h"
#include "restore/flat_file.h"

namespace belay::flat_file_claims_test {
namespace {

using h5::Value;
using ::testing::HasSubstr;

constexpr hsize_t kMebibyte = hsize_t{1} << 20;

class FlatFileClaimsTest : public h5::H5Test {
 protected:
  void SetUp() override {
    H5Test::SetUp();
    file_ =
        H5Fcreate(Path("f.h5").c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
  }

  // Creates a dataset of so many mebibytes, in chunks of one or in a
  // raw file, and writes zeros if `is_written`.
  void Create(const std::string& name, hsize_t mebibytes, bool is_chunked,
              bool is_written, const std::string& raw_file = "") const {
    const hsize_t length = mebibytes * kMebibyte;
    const hid_t space = H5Screate_simple(1, &length, nullptr);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    if (is_chunked) {
      H5Pset_chunk(properties, 1, &kMebibyte);
      H5Pset_deflate(properties, 9);
    }
    if (!raw_file.empty()) {
      H5Pset_external(properties, raw_file.c_str(), 0, length);
    }
    const hid_t dataset = H5Dcreate2(file_, name.c_str(), H5T_STD_U8LE, space,
                                     H5P_DEFAULT, properties, H5P_DEFAULT);
    ASSERT_GE(dataset, 0);
    if (is_written) {
      const std::vector<char> zeros(length);
      H5Dwrite(dataset, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT,
               zeros.data());
    }
    H5Dclose(dataset);
    H5Pclose(properties);
    H5Sclose(space);
  }
  // What is wrong with each dataset.
  std::map<std::string, std::string> Problems() {
    H5Fclose(file_);
    std::map<std::string, std::string> problems;
    for (const FlatArray& array : Value(ListFlatFile(Path("f.h5")))) {
      problems[array.key] = array.problem + array.too_large;
    }
    return problems;
  }

  hid_t file_ = -1;
};

TEST_F(FlatFileClaimsTest, WhatIsNotStoredIsNotRead) {
  Create("never", 1 << 20, /*is_chunked=*/false, /*is_written=*/false);
  Create("chunks", 1 << 20, /*is_chunked=*/true, /*is_written=*/false);
  Create("raw", 1 << 20, /*is_chunked=*/false, /*is_written=*/false, "none");
  Create("few", 60, /*is_chunked=*/true, /*is_written=*/false);
  const auto problems = Problems();
  for (const std::string name : {"never", "chunks", "raw"}) {
    EXPECT_THAT(problems.at(name),
                HasSubstr("is said to have more bytes than its file can hold; "
                          "if you trust the file, set BELAY_TRUST_HDF5 to 1 "
                          "(need at most 67108864 for 0 stored bytes, found "
                          "1099511627776)"));
  }
  EXPECT_EQ(problems.at("few"), "");
}

// They compress by a thousand.
TEST_F(FlatFileClaimsTest, ZerosThatAreStored) {
  Create("zeros", 100, /*is_chunked=*/true, /*is_written=*/true);
  EXPECT_EQ(Problems().at("zeros"), "");
}

// What is stored counts once.
TEST_F(FlatFileClaimsTest, ManyNamesOfOneDataset) {
  Create("zeros", 100, /*is_chunked=*/true, /*is_written=*/true);
  for (int i = 0; i < 9; ++i) {
    const std::string name = "zeros" + std::to_string(i);
    H5Lcreate_hard(file_, "zeros", file_, name.c_str(), H5P_DEFAULT,
                   H5P_DEFAULT);
  }
  int refused = 0;
  for (const auto& [name, problem] : Problems()) refused += !problem.empty();
  EXPECT_GE(refused, 5);
  EXPECT_LE(refused, 8);
}

// Shows a dataset of 100 MiB in another file.
void CreateVirtual(const std::string& path, const std::string& name,
                   const std::string& file, const std::string& dataset) {
  const hsize_t length = 100 * kMebibyte;
  const hid_t space = H5Screate_simple(1, &length, nullptr);
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_virtual(properties, space, file.c_str(), dataset.c_str(), space);
  const hid_t made =
      H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
  H5Dclose(H5Dcreate2(made, name.c_str(), H5T_STD_U8LE, space, H5P_DEFAULT,
                      properties, H5P_DEFAULT));
  H5Pclose(properties);
  H5Sclose(space);
  H5Fclose(made);
}

// What a source shows in turn is stored, too.
TEST_F(FlatFileClaimsTest, VirtualDatasetsOfVirtualDatasets) {
  Create("zeros", 100, /*is_chunked=*/false, /*is_written=*/true);
  H5Fclose(file_);
  CreateVirtual(Path("inner.h5"), "inner", "f.h5", "zeros");
  CreateVirtual(Path("outer.h5"), "outer", "inner.h5", "inner");
  CreateVirtual(Path("lost.h5"), "lost", "f.h5", "none");
  CreateVirtual(Path("shows_lost.h5"), "outer", "lost.h5", "lost");
  CreateVirtual(Path("circle.h5"), "a", "circle.h5", "a");
  CreateVirtual(Path("to_circle.h5"), "b", "circle.h5", "a");
  // HDF5 looks beside the link, too.
  std::filesystem::create_directory(Path("away"));
  CreateVirtual(Path("away/inner.h5"), "inner", "f.h5", "zeros");
  std::filesystem::create_symlink("away/inner.h5", Path("link.h5"));
  CreateVirtual(Path("linked.h5"), "outer", "link.h5", "inner");
  for (const std::string name : {"outer", "linked"}) {
    EXPECT_EQ(Value(ListFlatFile(Path(name + ".h5")))[0].too_large, "");
    uint8_t element = 7;
    const Shard shard{.key = "outer",
                      .dtype = DType::kU8,
                      .global_shape = {100 * int64_t{kMebibyte}},
                      .box = {{0}, {1}},
                      .data = reinterpret_cast<std::byte*>(&element)};
    EXPECT_EQ(ReadFlatFile(Path(name + ".h5"), {shard}), absl::OkStatus());
    EXPECT_NE(element, 7);
  }
  for (const std::string name : {"shows_lost", "circle", "to_circle"}) {
    const FlatArray array = Value(ListFlatFile(Path(name + ".h5")))[0];
    uint8_t element = 7;
    const Shard shard{.key = array.key,
                      .dtype = DType::kU8,
                      .global_shape = {100 * int64_t{kMebibyte}},
                      .box = {{0}, {1}},
                      .data = reinterpret_cast<std::byte*>(&element)};
    const Status read = ReadFlatFile(Path(name + ".h5"), {shard});
    EXPECT_TRUE(absl::IsDataLoss(read)) << name << ": " << read;
    EXPECT_EQ(element, 7);
  }
}

TEST_F(FlatFileClaimsTest, WhoTrustsTheFileSaysSo) {
  Create("never", 1 << 20, /*is_chunked=*/false, /*is_written=*/false);
  ::setenv("BELAY_TRUST_HDF5", "1", /*overwrite=*/1);
  const auto problems = Problems();
  ::unsetenv("BELAY_TRUST_HDF5");
  EXPECT_EQ(problems.at("never"), "");
}

}  // namespace
}  // namespace belay::flat_file_claims_test
