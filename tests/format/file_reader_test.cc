// What we read of files against what HDF5 reads of them.
#include "format/file_reader.h"

#include <hdf5.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "file_reader_testing.h"

namespace belay::h5::file_reader_test {
namespace {

class FileReaderTest : public FileReaderFixture {};

TEST_F(FileReaderTest, NumbersAndTextsInEveryShape) {
  std::vector<DatasetSpec> datasets;
  for (const DType dtype : {DType::kU8, DType::kI32, DType::kU32, DType::kI64,
                            DType::kF32, DType::kBF16}) {
    for (const Shape& shape :
         std::vector<Shape>{{}, {0}, {1}, {7, 0, 2}, {3, 5}, Shape(32, 1)}) {
      datasets.push_back(
          {absl::StrCat("g", datasets.size() % 3, "/", datasets.size()),
           dtype,
           0,
           shape,
           {}});
    }
  }
  for (const int64_t length : {0, 1, 5, 300, 70000}) {
    datasets.push_back(
        {absl::StrCat("rows/", length), DType::kString, length, {4}, {}});
  }
  datasets.back().path = "last";
  datasets.erase(datasets.end() - 5);  // HDF5 has rows of no bytes as nothing
  ExpectAllFound(datasets);
}

// Links lie in the header, in one block, and in blocks of blocks.
TEST_F(FileReaderTest, GroupsOfEverySize) {
  for (const int count : {1, 7, 8, 9, 10, 46, 47, 500, 3000, 20000}) {
    std::vector<std::string> paths;
    for (int i = 0; i < count; ++i) {
      paths.push_back(absl::StrCat("g/name of ", i));
    }
    ExpectAllFound(Columns(paths));
  }
}

// Which HDF5 would take long to make.
TEST_F(FileReaderTest, LargeGroupsOfOurs) {
  for (const auto& [count, length] :
       {std::pair{70'000, 1}, {200'000, 1}, {5000, 1020}, {150, 65'000}}) {
    std::vector<std::string> paths;
    for (int i = 0; i < count; ++i) {
      std::string name = absl::StrCat(i, "_");
      name.resize(std::max<size_t>(name.size(), length), 'n');
      paths.push_back("g/" + name);
    }
    const std::vector<DatasetSpec> datasets = Columns(paths);
    std::vector<int64_t> offsets;
    const std::string bytes = Encoded(datasets, offsets);
    BoundedFile file = FileOf(bytes, std::ssize(bytes) * 40);
    FileReader reader = Value(FileReader::Open(file));
    for (int i = 0; i < count; ++i) {
      const auto found = Value(reader.Find(paths[i]));
      ASSERT_TRUE(found.has_value()) << i;
      ASSERT_EQ(found->offset, offsets[i]);
    }
    EXPECT_FALSE(Value(reader.Find("g/none")).has_value());
  }
}

TEST_F(FileReaderTest, NamesOfEveryLength) {
  std::vector<std::string> paths;
  for (const int length : {1, 2, 255, 256, 257, 1000, 1024}) {
    for (int i = 0; i < 12; ++i) {
      std::string name(length, 'n');
      name.back() = static_cast<char>('a' + i);
      paths.push_back(absl::StrCat("many/", name));
      if (i == 0) paths.push_back(absl::StrCat(name, "/größe"));
    }
  }
  ExpectAllFound(Columns(paths));
}

TEST_F(FileReaderTest, GroupsInGroups) {
  std::string deep;
  std::vector<std::string> paths;
  for (int i = 0; i < 300; ++i) {
    absl::StrAppend(&deep, "d/");
    paths.push_back(absl::StrCat(deep, "w"));
  }
  ExpectAllFound(Columns(paths));
}

TEST_F(FileReaderTest, WhatIsNotThere) {
  std::vector<int64_t> offsets;
  const std::string bytes = MadeByHdf5(Columns({"a/b", "a/c/d"}), offsets);
  for (const std::string path :
       {"b", "a/d", "x/y", "a/c/e", "", "a/", "/a/b", "a//b", "A/b"}) {
    EXPECT_FALSE(Value(FindIn(bytes, path)).has_value()) << path;
  }
  // A dataset is no group, and a group no dataset.
  EXPECT_TRUE(absl::IsDataLoss(FindIn(bytes, "a/b/c").status()));
  EXPECT_TRUE(absl::IsDataLoss(FindIn(bytes, "a/c").status()));
}

// Returns the error of a file that `make` has filled through HDF5's own calls.
template <typename Make>
Status ErrorOf(const std::string& path, bool is_new_format, Make make) {
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  if (is_new_format) {
    H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
  }
  const hid_t file =
      H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access);
  make(file);
  H5Fclose(file);
  H5Pclose(access);
  return FindIn(testing::FileBytes(path), "x").status();
}

hid_t CreateRows(hid_t file, hid_t properties) {
  const hsize_t rows = 100;
  const hid_t space = H5Screate_simple(1, &rows, nullptr);
  const hid_t dataset = H5Dcreate2(file, "x", H5T_STD_I64LE, space, H5P_DEFAULT,
                                   properties, H5P_DEFAULT);
  H5Sclose(space);
  return dataset;
}

TEST_F(FileReaderTest, WhatBelayNeverWritesIsNamed) {
  H5open();
  const auto expect = [&](const char* text, bool is_new_format, auto make) {
    const Status status = ErrorOf(Path("o.h5"), is_new_format, make);
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    EXPECT_NE(status.message().find(text), status.message().npos) << status;
  };
  const auto with = [&](auto set) {
    return [set](hid_t file) {
      const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
      set(properties);
      H5Dclose(CreateRows(file, properties));
      H5Pclose(properties);
    };
  };
  expect("a superblock of version 0", false,
         [](hid_t file) { H5Dclose(CreateRows(file, H5P_DEFAULT)); });
  expect("its bytes in its header", true, with([](hid_t properties) {
           H5Pset_layout(properties, H5D_COMPACT);
         }));
  expect("chunks", true, with([](hid_t properties) {
           const hsize_t chunk = 10;
           H5Pset_chunk(properties, 1, &chunk);
         }));
  expect("filters", true, with([](hid_t properties) {
           const hsize_t chunk = 10;
           H5Pset_chunk(properties, 1, &chunk);
           H5Pset_deflate(properties, 1);
         }));
  expect("values in external files", true, with([](hid_t properties) {
           H5Pset_external(properties, "/etc/passwd", 0, 800);
         }));
  expect("its bytes in other datasets", true, with([](hid_t properties) {
           const hsize_t rows = 100;
           const hid_t space = H5Screate_simple(1, &rows, nullptr);
           H5Pset_virtual(properties, space, "other.h5", "y", space);
           H5Sclose(space);
         }));
  expect("a soft link", true, [](hid_t file) {
    H5Lcreate_soft("/y", file, "x", H5P_DEFAULT, H5P_DEFAULT);
  });
  expect("a link into another file", true, [](hid_t file) {
    H5Lcreate_external("o.h5", "/y", file, "x", H5P_DEFAULT, H5P_DEFAULT);
  });
}

}  // namespace
}  // namespace belay::h5::file_reader_test
