// What we read of files against what HDF5 reads of them; and files that nobody
// should trust.
#include "hdf5_format/file_reader.h"

#include <hdf5.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "h5_testing.h"
#include "hdf5_format/encoded_type.h"
#include "hdf5_format/file_metadata.h"
#include "hdf5_format/metadata_bytes.h"

namespace belay::h5::file_reader_test {
namespace {

constexpr int64_t kBudget = int64_t{64} << 20;

// A file that is a string.
BoundedFile FileOf(const std::string& bytes, int64_t budget = kBudget) {
  return {"f.h5", std::ssize(bytes), budget,
          [&bytes](int64_t offset, void* data, int64_t size) {
            std::memcpy(data, bytes.data() + offset, size);
            return absl::OkStatus();
          }};
}

StatusOr<std::optional<ContiguousDataset>> FindIn(const std::string& bytes,
                                                  const std::string& path,
                                                  int64_t budget = kBudget) {
  BoundedFile file = FileOf(bytes, budget);
  StatusOr<FileReader> reader = FileReader::Open(file);
  if (!reader.ok()) return reader.status();
  return reader->Find(path);
}

class FileReaderTest : public H5Test {
 protected:
  std::string MadeByHdf5(const std::vector<DatasetSpec>& datasets,
                         std::vector<int64_t>& offsets) const {
    Handle file = Value(CreateFile(Path("a.h5")));
    ObjectCache cache;
    for (const DatasetSpec& spec : datasets) {
      offsets.push_back(Value(CreateDataset(file, cache, spec)));
    }
    cache = {};
    Ok(file.Close());
    std::string bytes = testing::FileBytes(Path("a.h5"));
    std::filesystem::remove(Path("a.h5"));
    return bytes;
  }

  static std::string Encoded(const std::vector<DatasetSpec>& datasets,
                             std::vector<int64_t>& offsets) {
    FileMetadata file = Value(EncodeFileMetadata(datasets)).value();
    offsets = file.offsets;
    file.bytes.resize(file.file_bytes, '\0');
    return std::move(file.bytes);
  }

  static void ExpectFound(const std::string& bytes, const DatasetSpec& spec,
                          int64_t offset) {
    const auto found = Value(FindIn(bytes, spec.path));
    ASSERT_TRUE(found.has_value()) << spec.path;
    const bool is_null = spec.dtype == DType::kString && spec.string_bytes == 0;
    EXPECT_EQ(found->shape, is_null ? Shape{0} : spec.shape) << spec.path;
    EXPECT_EQ(found->offset, offset) << spec.path;
    EXPECT_EQ(found->bytes, offset < 0 ? 0 : StoredBytes(spec)) << spec.path;
    EXPECT_EQ(found->type, Value(EncodedType(TypeOf(spec)))) << spec.path;
  }

  // Both makers of files; not all datasets if they are many.
  void ExpectAllFound(const std::vector<DatasetSpec>& datasets) const {
    for (const bool by_hdf5 : {true, false}) {
      std::vector<int64_t> offsets;
      const std::string bytes =
          by_hdf5 ? MadeByHdf5(datasets, offsets) : Encoded(datasets, offsets);
      const size_t step = std::max<size_t>(1, datasets.size() / 200);
      for (size_t i = 0; i < datasets.size(); i += step) {
        ExpectFound(bytes, datasets[i], offsets[i]);
        EXPECT_FALSE(Value(FindIn(bytes, datasets[i].path + "~")).has_value());
      }
    }
  }
};

std::vector<DatasetSpec> Columns(const std::vector<std::string>& paths) {
  std::vector<DatasetSpec> datasets;
  for (const std::string& path : paths) {
    datasets.push_back({path, DType::kI64, 0, {3}, {}});
  }
  return datasets;
}

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

TEST_F(FileReaderTest, NoFileIsHdf5) {
  EXPECT_TRUE(absl::IsDataLoss(FindIn("", "x").status()));
  EXPECT_TRUE(
      absl::IsDataLoss(FindIn("not HDF5 at all, but text", "x").status()));
}

// A file as far as it goes is an error, and never more than that.
TEST_F(FileReaderTest, AFileThatEndsEarlyIsDamaged) {
  std::vector<int64_t> offsets;
  const std::string bytes = Encoded(Columns({"a/b", "a/c/d", "x"}), offsets);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(absl::IsDataLoss(FindIn(bytes.substr(0, size), "x").status()))
        << size;
  }
}

// Each byte is under a checksum, or is not needed.
TEST_F(FileReaderTest, AFlippedBitIsNoticedOrChangesNothing) {
  std::vector<std::string> paths = {"few/x"};
  for (int i = 0; i < 30; ++i) paths.push_back(absl::StrCat("many/", i));
  for (const bool by_hdf5 : {true, false}) {
    std::vector<int64_t> offsets;
    std::string bytes = by_hdf5 ? MadeByHdf5(Columns(paths), offsets)
                                : Encoded(Columns(paths), offsets);
    int64_t noticed = 0;
    for (size_t at = 0; at < bytes.size(); ++at) {
      const char before = bytes[at];
      bytes[at] = static_cast<char>(before ^ (1 << at % 8));
      for (const std::string path : {"few/x", "many/17"}) {
        const auto found = FindIn(bytes, path);
        noticed += found.ok() ? 0 : 1;
        if (!found.ok()) continue;
        // The address of a link lies in a block whose checksum is not looked
        // at: it may lead to the header of another column.
        if (!found->has_value()) {
          ADD_FAILURE() << path << " is gone, at " << at;
          continue;
        }
        EXPECT_EQ((*found)->shape, Shape{3}) << at;
        EXPECT_EQ((*found)->bytes, 24) << at;
      }
      bytes[at] = before;
    }
    EXPECT_GT(noticed, 200);
  }
}

// Puts a right checksum wherever one stands, so that changes get past it.
void Reseal(std::string& bytes, size_t begin, size_t end) {
  if (end + 4 > bytes.size()) return;
  std::string sealed = bytes.substr(begin, end - begin);
  PutChecksum(sealed, 0);
  bytes.replace(end, 4, sealed.substr(end - begin));
}

// The places of checksums in a file that is right: [begin, end) of what is
// under them.
std::vector<std::pair<size_t, size_t>> ChecksummedParts(
    const std::string& bytes) {
  std::vector<std::pair<size_t, size_t>> parts = {{0, 44}};
  for (size_t begin = 0; begin + 8 < bytes.size(); ++begin) {
    const std::string_view name = std::string_view(bytes).substr(begin, 4);
    if (name != "OHDR" && name != "BTHD" && name != "BTLF" && name != "BTIN" &&
        name != "FRHP" && name != "FHIB") {
      continue;
    }
    for (size_t end = begin + 6; end + 4 <= bytes.size() && end < begin + 4096;
         ++end) {
      std::string sealed = bytes.substr(begin, end - begin);
      PutChecksum(sealed, 0);
      if (sealed.substr(end - begin) != bytes.substr(end, 4)) continue;
      parts.emplace_back(begin, end);
      break;
    }
  }
  return parts;
}

// Never a crash, a hang or more memory than the budget, whatever a file says.
TEST_F(FileReaderTest, ChangesUnderARightChecksumAreSurvived) {
  std::vector<std::string> paths = {"few/x"};
  for (int i = 0; i < 200; ++i) paths.push_back(absl::StrCat("many/", i));
  std::mt19937_64 random(5);
  const auto below = [&](uint64_t end) { return random() % end; };
  constexpr int64_t kSmallBudget = 1 << 20;
  for (const bool by_hdf5 : {true, false}) {
    std::vector<int64_t> offsets;
    const std::string bytes = by_hdf5 ? MadeByHdf5(Columns(paths), offsets)
                                      : Encoded(Columns(paths), offsets);
    const auto parts = ChecksummedParts(bytes);
    EXPECT_GT(parts.size(), 200);
    std::map<absl::StatusCode, int> results;
    for (int round = 0; round < 20000; ++round) {
      std::string changed = bytes;
      for (uint64_t times = 1 + below(3); times > 0; --times) {
        // Mostly what all lookups pass: the parts that are not datasets.
        const auto& [begin, end] =
            parts[below(2) == 0
                      ? below(parts.size())
                      : (below(2) == 0 ? 0 : parts.size() - 1 - below(6))];
        const size_t at = begin + below(end - begin);
        const uint64_t value = below(3) == 0 ? ~uint64_t{0} : random();
        std::memcpy(changed.data() + at, &value,
                    std::min<size_t>(1 + below(8), end - at));
        Reseal(changed, begin, end);
      }
      for (const std::string path : {"few/x", "many/17"}) {
        ++results[FindIn(changed, path, kSmallBudget).status().code()];
      }
    }
    EXPECT_GT(results[absl::StatusCode::kOk], 100);
    EXPECT_GT(results[absl::StatusCode::kDataLoss], 100);
    EXPECT_GT(results[absl::StatusCode::kUnimplemented], 10);
  }
}

TEST_F(FileReaderTest, ABudgetIsKept) {
  std::vector<int64_t> offsets;
  const std::string bytes = Encoded(Columns({"a/b"}), offsets);
  EXPECT_TRUE(absl::IsResourceExhausted(FindIn(bytes, "a/b", 100).status()));
  Ok(FindIn(bytes, "a/b", 2000).status());
}

}  // namespace
}  // namespace belay::h5::file_reader_test
