#include "format/file_metadata.h"

#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "h5_description.h"
#include "h5_testing.h"
#include "hdf5/file.h"

namespace belay::h5::file_metadata_test {
namespace {

constexpr DType kAllDTypes[] = {
    DType::kF16,    DType::kBF16, DType::kF32, DType::kF64, DType::kF8E4M3,
    DType::kF8E5M2, DType::kI8,   DType::kI16, DType::kI32, DType::kI64,
    DType::kU8,     DType::kU16,  DType::kU32, DType::kU64, DType::kBool,
    DType::kC64,    DType::kC128};

class FileMetadataTest : public H5Test {
 protected:
  // A file of encoded metadata, and zeros for data.
  FileMetadata Encode(const std::string& name,
                      const std::vector<DatasetSpec>& datasets) const {
    FileMetadata file =
        Value(EncodeFileMetadata({.datasets = datasets})).value();
    testing::PutFile(Path(name), file.bytes);
    std::filesystem::resize_file(Path(name), file.file_bytes);
    return file;
  }

  void CreateByHdf5(const std::string& name,
                    const std::vector<DatasetSpec>& datasets) const {
    Handle file = Value(CreateFile(Path(name)));
    ObjectCache cache;
    for (const DatasetSpec& spec : datasets) {
      Value(CreateDataset(file, cache, spec));
    }
    cache = {};
    Ok(file.Close());
  }

  // HDF5 says the same of both files.
  void ExpectSame(const std::vector<DatasetSpec>& datasets) const {
    CreateByHdf5("hdf5.h5", datasets);
    Encode("encoded.h5", datasets);
    EXPECT_EQ(DescriptionOf(Path("encoded.h5")),
              DescriptionOf(Path("hdf5.h5")));
    Handle file = Value(OpenFileReadOnly(Path("encoded.h5")));
    for (const DatasetSpec& spec : datasets) {
      const Handle dataset = Value(OpenDataset(file, spec.path));
      Ok(CheckStoredType(dataset, GetElementType(spec)));
    }
    Ok(file.Close());
    std::filesystem::remove(Path("hdf5.h5"));
  }

  hid_t OpenForWriting(const std::string& name) const {
    const hid_t file = H5Fopen(Path(name).c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    EXPECT_GE(file, 0);
    return file;
  }
};

std::vector<DatasetSpec> Bytes(const std::vector<std::string>& paths) {
  std::vector<DatasetSpec> datasets;
  for (const std::string& path : paths) {
    datasets.push_back({path, DType::kU8, 0, {3}, {}});
  }
  return datasets;
}

bool IsEncoded(const std::vector<std::string>& paths) {
  const std::vector<DatasetSpec> datasets = Bytes(paths);
  return Value(EncodeFileMetadata({.datasets = datasets})).has_value();
}

// The values that the author of the function gives for it, and HDF5's own
// header of a file without objects.
TEST_F(FileMetadataTest, ChecksumsAreThoseOfLookup3) {
  EXPECT_EQ(MetadataChecksum(""), 0xdeadbeef);
  EXPECT_EQ(MetadataChecksum("Four score and seven years ago"), 0x17770551);
  Ok(Value(CreateFile(Path("a.h5"))).Close());
  const std::string bytes = testing::FileBytes(Path("a.h5")).substr(0, 48);
  std::string sealed = bytes.substr(0, 44);
  PutChecksum(sealed, 0);
  EXPECT_EQ(Hex(sealed), Hex(bytes));
}

TEST_F(FileMetadataTest, EveryTypeInEveryShape) {
  std::vector<DatasetSpec> datasets;
  for (const DType dtype : kAllDTypes) {
    for (const Shape& shape : std::vector<Shape>{
             {}, {0}, {1}, {7, 0, 2}, {3, 5}, {2, 300, 70000}, Shape(32, 1)}) {
      datasets.push_back(
          {absl::StrCat(std::string(DTypeName(dtype)), "/", datasets.size()),
           dtype,
           0,
           shape,
           {}});
    }
  }
  for (const int64_t length : {0, 1, 5, 300, 70000}) {
    datasets.push_back(
        {absl::StrCat("text/", length), DType::kString, length, {}, {}});
    datasets.push_back(
        {absl::StrCat("rows/", length), DType::kString, length, {4}, {}});
  }
  ExpectSame(datasets);
}

TEST_F(FileMetadataTest, ChunksOfEverySize) {
  std::vector<DatasetSpec> datasets;
  for (const DType dtype : {DType::kU8, DType::kF8E5M2, DType::kC128}) {
    for (const auto& [shape, chunk] :
         std::vector<std::pair<Shape, Shape>>{{{5}, {5}},
                                              {{5}, {4}},
                                              {{0}, {1}},
                                              {{255}, {255}},
                                              {{256}, {255}},
                                              {{256}, {256}},
                                              {{70000, 2}, {65536, 1}},
                                              {{70000, 2}, {65535, 2}},
                                              {{3, 4, 5}, {1, 1, 1}},
                                              {{200, 500}, {7, 3}}}) {
      datasets.push_back(
          {absl::StrCat(datasets.size()), dtype, 0, shape, chunk});
    }
  }
  ExpectSame(datasets);
}

// Up to 8 links are stored in another way than more.
TEST_F(FileMetadataTest, GroupsOfEverySize) {
  ExpectSame({});
  std::vector<std::string> paths;
  for (const int count : {1, 2, 7, 8, 9, 10, 45, 46, 47, 1000}) {
    for (int i = 0; i < count; ++i) {
      paths.push_back(absl::StrCat("of ", count, "/", i));
    }
  }
  ExpectSame(Bytes(paths));
}

TEST_F(FileMetadataTest, NamesOfEveryLength) {
  std::vector<std::string> paths;
  for (const int length : {1, 2, 3, 11, 12, 13, 24, 25, 255, 256, 257, 1024}) {
    paths.push_back(std::string(length, 'n'));
    paths.push_back(absl::StrCat("few/", std::string(length, 'n')));
    paths.push_back(absl::StrCat(std::string(length, 'g'), "/größe"));
  }
  ExpectSame(Bytes(paths));
}

TEST_F(FileMetadataTest, GroupsInGroups) {
  std::string deep;
  std::vector<std::string> paths;
  for (int i = 0; i < 300; ++i) {
    absl::StrAppend(&deep, "d/");
    paths.push_back(absl::StrCat(deep, "w"));
  }
  ExpectSame(Bytes(paths));
}

// Trees of any form, in any order.
TEST_F(FileMetadataTest, RandomTrees) {
  std::mt19937_64 rng(7);
  for (int round = 0; round < 60; ++round) {
    std::set<std::string> groups = {""}, used = {""};
    std::vector<DatasetSpec> datasets;
    const size_t most = rng() % 2 == 0 ? 20 : 200;
    for (size_t i = 0; i < most; ++i) {
      auto group = groups.begin();
      std::advance(group, rng() % groups.size());
      const std::string path =
          absl::StrCat(*group, *group == "" ? "" : "/", "x", rng() % 1000);
      if (!used.insert(path).second) continue;
      if (rng() % 5 == 0) {
        // A group is there only if something is in it.
        groups.insert(path);
        datasets.push_back({path + "/in", DType::kBool, 0, {2}, {}});
        used.insert(path + "/in");
      } else {
        datasets.push_back({path,
                            kAllDTypes[rng() % std::size(kAllDTypes)],
                            0,
                            Shape(rng() % 3, 2 + rng() % 3),
                            {}});
      }
    }
    std::shuffle(datasets.begin(), datasets.end(), rng);
    ExpectSame(datasets);
  }
}

TEST_F(FileMetadataTest, DatasetsFollowEachOtherFromAPageOn) {
  const std::vector<DatasetSpec> datasets = {
      {"b", DType::kF32, 0, {3}, {}},
      {"none", DType::kF32, 0, {0}, {}},
      {"a", DType::kU8, 0, {5, 7}, {2, 4}},
      {"text", DType::kString, 9, {}, {}},
      {"no text", DType::kString, 0, {}, {}},
      {"last", DType::kI64, 0, {}, {}}};
  const FileMetadata file =
      Value(EncodeFileMetadata({.datasets = datasets})).value();
  EXPECT_EQ(file.bytes.size(), 4096);
  EXPECT_EQ(file.offsets,
            (std::vector<int64_t>{4096, -1, 4108, 4156, -1, 4165}));
  EXPECT_EQ(file.file_bytes, 4173);
  const FileMetadata again =
      Value(EncodeFileMetadata({.datasets = datasets})).value();
  EXPECT_EQ(Hex(again.bytes), Hex(file.bytes));
}

TEST_F(FileMetadataTest, Hdf5WritesAndReadsAtTheOffsets) {
  const std::vector<DatasetSpec> datasets = {
      {"a/whole", DType::kI16, 0, {6, 5}, {}},
      {"a/one chunk", DType::kI16, 0, {6, 5}, {6, 5}},
      {"chunks", DType::kI16, 0, {6, 5}, {4, 2}},
      {"scalar", DType::kI16, 0, {}, {}}};
  const FileMetadata made = Encode("a.h5", datasets);
  int16_t values[30];
  std::iota(values, values + 30, 1);
  const hid_t file = OpenForWriting("a.h5");
  for (const DatasetSpec& spec : datasets) {
    const hid_t dataset = H5Dopen2(file, spec.path.c_str(), H5P_DEFAULT);
    ASSERT_GE(H5Dwrite(dataset, H5T_NATIVE_INT16, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                       values),
              0)
        << spec.path;
    H5Dclose(dataset);
  }
  ASSERT_GE(H5Fclose(file), 0);
  const std::string bytes = testing::FileBytes(Path("a.h5"));
  EXPECT_EQ(std::ssize(bytes), made.file_bytes);
  const auto at = [&](size_t dataset, int64_t element) {
    int16_t value = 0;
    std::memcpy(&value, bytes.data() + made.offsets[dataset] + 2 * element, 2);
    return value;
  };
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(at(0, i), values[i]);
    EXPECT_EQ(at(1, i), values[i]);
    const int row = i / 5, column = i % 5;
    const int chunk = row / 4 * 3 + column / 2;
    EXPECT_EQ(at(2, chunk * 8 + row % 4 * 2 + column % 2), values[i]) << i;
  }
  EXPECT_EQ(at(3, 0), 1);
}

// Other programs may go on with such a file.
TEST_F(FileMetadataTest, Hdf5AddsAndRemoves) {
  for (const int before : {0, 1, 8, 9, 40, 700}) {
    std::vector<std::string> paths = {"other"};
    for (int i = 0; i < before; ++i) paths.push_back(absl::StrCat("g/", i));
    if (before == 0) paths.push_back("g/x/y");
    Encode("a.h5", Bytes(paths));
    std::set<std::string> expected;
    for (const std::string& path : paths) {
      if (path.starts_with("g/")) expected.insert(path.substr(2));
    }
    if (before == 0) expected = {"x"};
    hid_t file = OpenForWriting("a.h5");
    hid_t group = H5Gopen2(file, "g", H5P_DEFAULT);
    for (int i = 0; i < 900; ++i) {
      const std::string name = absl::StrCat("added ", i);
      const hid_t added = H5Gcreate2(group, name.c_str(), H5P_DEFAULT,
                                     H5P_DEFAULT, H5P_DEFAULT);
      ASSERT_GE(added, 0) << before << " " << name;
      H5Gclose(added);
      expected.insert(name);
    }
    for (int i = 0; i < before; i += 2) {
      ASSERT_GE(H5Ldelete(group, absl::StrCat(i).c_str(), H5P_DEFAULT), 0);
      expected.erase(absl::StrCat(i));
    }
    const hid_t other = H5Dopen2(file, "other", H5P_DEFAULT);
    const hid_t space = H5Screate(H5S_SCALAR);
    H5Aclose(H5Acreate2(other, "note", H5T_NATIVE_INT, space, H5P_DEFAULT,
                        H5P_DEFAULT));
    H5Sclose(space);
    H5Dclose(other);
    H5Gclose(group);
    ASSERT_GE(H5Fclose(file), 0);

    file = OpenForWriting("a.h5");
    group = H5Gopen2(file, "g", H5P_DEFAULT);
    std::set<std::string> found;
    H5Literate(
        group, H5_INDEX_NAME, H5_ITER_INC, nullptr,
        [](hid_t, const char* name, const H5L_info_t*, void* out) {
          static_cast<std::set<std::string>*>(out)->insert(name);
          return herr_t{0};
        },
        &found);
    EXPECT_EQ(found, expected) << before;
    for (const std::string& name : expected) {
      ASSERT_GE(H5Ldelete(group, name.c_str(), H5P_DEFAULT), 0) << name;
    }
    H5G_info_t info;
    ASSERT_GE(H5Gget_info(group, &info), 0);
    EXPECT_EQ(info.nlinks, 0);
    H5Gclose(group);
    ASSERT_GE(H5Fclose(file), 0);
    EXPECT_NE(DescriptionOf(Path("a.h5")).back().find("1 attributes note="),
              std::string::npos);
  }
}

TEST_F(FileMetadataTest, WhatIsLeftToHdf5) {
  EXPECT_TRUE(IsEncoded({"a", "b/c", "b/d"}));
  EXPECT_FALSE(IsEncoded({"a", "a"}));
  EXPECT_FALSE(IsEncoded({"a/b", "a"}));
  EXPECT_FALSE(IsEncoded({"a", "a/b"}));
  EXPECT_FALSE(IsEncoded({"/a"}));
  EXPECT_FALSE(IsEncoded({"a/"}));
  EXPECT_FALSE(IsEncoded({"a//b"}));
  EXPECT_FALSE(IsEncoded({"a/./b"}));
  EXPECT_FALSE(IsEncoded({""}));
  // What a hard link says besides its name takes 13 bytes.
  const std::string name(kMaxLinkBytes - 13, 'n');
  EXPECT_TRUE(IsEncoded({name}));
  EXPECT_TRUE(IsEncoded({name + "/" + name}));
  EXPECT_FALSE(IsEncoded({name + "n"}));
  EXPECT_FALSE(IsEncoded({name + "n/w"}));
}

TEST_F(FileMetadataTest, NothingStaysOpen) {
  Value(CreateFile(Path("first.h5")));
  const std::vector<int64_t> before = OpenIds();
  Encode("a.h5", {{"a", DType::kC64, 0, {2}, {}},
                  {"b", DType::kF8E4M3, 0, {2}, {}},
                  {"c", DType::kString, 5, {}, {}}});
  EXPECT_EQ(OpenIds(), before);
}

// Names with the same checksum are told apart.
TEST_F(FileMetadataTest, NamesWithTheSameChecksum) {
  std::map<uint32_t, std::string> by_checksum;
  std::vector<std::string> paths;
  for (int i = 0; paths.size() < 6; ++i) {
    const std::string name = absl::StrCat("n", i);
    const auto [other, is_new] =
        by_checksum.emplace(MetadataChecksum(name), name);
    if (is_new) continue;
    paths.push_back(name);
    paths.push_back(other->second);
  }
  for (int i = 0; i < 8; ++i) paths.push_back(absl::StrCat("filler", i));
  ExpectSame(Bytes(paths));
}

}  // namespace
}  // namespace belay::h5::file_metadata_test
