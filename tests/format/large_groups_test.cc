// Groups whose links lie in several blocks, or whose index has several nodes.
#include <hdf5.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "format/file_metadata.h"
#include "h5_testing.h"

namespace belay::h5::large_groups_test {
namespace {

class LargeGroupsTest : public H5Test {
 protected:
  // A file of datasets of three bytes.
  void Encode(const std::vector<std::string>& paths) const {
    std::vector<DatasetSpec> datasets;
    for (const std::string& path : paths) {
      datasets.push_back({path, DType::kU8, 0, {3}, {}});
    }
    const FileMetadata file =
        Value(EncodeFileMetadata({.datasets = datasets})).value();
    testing::PutFile(Path("a.h5"), file.bytes);
    std::filesystem::resize_file(Path("a.h5"), file.file_bytes);
  }

  hid_t OpenForWriting() const {
    const hid_t file = H5Fopen(Path("a.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    EXPECT_GE(file, 0);
    return file;
  }
};

// Checks what HDF5 says of the group "g" of an encoded file: `expected` is all
// that is in it.
void ExpectNames(hid_t file, const std::set<std::string>& expected) {
  const hid_t group = H5Gopen2(file, "g", H5P_DEFAULT);
  std::set<std::string> found;
  H5Literate(
      group, H5_INDEX_NAME, H5_ITER_INC, nullptr,
      [](hid_t, const char* name, const H5L_info_t*, void* out) {
        static_cast<std::set<std::string>*>(out)->insert(name);
        return herr_t{0};
      },
      &found);
  EXPECT_EQ(found.size(), expected.size());
  EXPECT_TRUE(found == expected);
  size_t number = 0;
  for (const std::string& name : expected) {
    if (++number % (1 + expected.size() / 2000) != 0) continue;
    ASSERT_GT(H5Lexists(group, name.c_str(), H5P_DEFAULT), 0) << name;
  }
  EXPECT_EQ(H5Lexists(group, "none", H5P_DEFAULT), 0);
  H5Gclose(group);
}

TEST_F(LargeGroupsTest, AreReadAddedToAndDeletedFrom) {
  // What is added last makes the heap some times as large.
  struct Sizes {
    int count, bytes, added, added_bytes;
  };
  for (const auto& [count, bytes, added, added_bytes] :
       {Sizes{kMaxLinksOfLeaf, 1, 500, 10},
        {kMaxLinksOfLeaf + 1, 1, 500, 10},
        {2000, 16, 2000, 1000},
        {1000, 3000, 500, 10},
        {1100, 1020, 5000, 1000},
        {9, 60'000, 500, 10},
        {50, 65'000, 500, 10}}) {
    SCOPED_TRACE(absl::StrCat(count, " names of ", bytes, " bytes"));
    std::vector<std::string> paths;
    std::set<std::string> expected;
    for (int i = 0; i < count; ++i) {
      std::string name = absl::StrCat(i, "_");
      name.resize(std::max<size_t>(name.size(), bytes), 'n');
      paths.push_back("g/" + name);
      expected.insert(std::move(name));
    }
    Encode(paths);
    hid_t file = OpenForWriting();
    ExpectNames(file, expected);
    const hid_t group = H5Gopen2(file, "g", H5P_DEFAULT);
    for (int i = 0; i < added; ++i) {
      std::string name = absl::StrCat("added ", i, " ");
      name.resize(std::max<size_t>(name.size(), added_bytes), 'a');
      H5Gclose(H5Gcreate2(group, name.c_str(), H5P_DEFAULT, H5P_DEFAULT,
                          H5P_DEFAULT));
      expected.insert(name);
    }
    for (int i = 0; i < count; i += 3) {
      const std::string name = paths[i].substr(2);
      ASSERT_GE(H5Ldelete(group, name.c_str(), H5P_DEFAULT), 0);
      expected.erase(name);
    }
    H5Gclose(group);
    ASSERT_GE(H5Fclose(file), 0);
    file = OpenForWriting();
    ExpectNames(file, expected);
    ASSERT_GE(H5Fclose(file), 0);
    std::filesystem::remove(Path("a.h5"));
  }
}

}  // namespace
}  // namespace belay::h5::large_groups_test
