// Files that somebody has made up, or put in the place of others.

#include <sys/stat.h>
#include <unistd.h>

#include "h5_testing.h"
#include "hdf5/file.h"
#include "hdf5/native_read.h"

namespace belay::h5::h5_hostile_test {
namespace {

using absl::StatusCode;
using ::testing::HasSubstr;

// A call that waits for the other end of a pipe would wait for ever.
class H5HostileTest : public H5Test {
 protected:
  void SetUp() override {
    H5Test::SetUp();
    alarm(30);
  }
  void TearDown() override {
    alarm(0);
    H5Test::TearDown();
  }

  // A file made by HDF5 itself; the caller closes it.
  hid_t NewFile(const std::string& name) {
    return H5Fcreate(Path(name).c_str(), H5F_ACC_TRUNC, H5P_DEFAULT,
                     H5P_DEFAULT);
  }

  static hid_t Column(hid_t file, const char* name, hsize_t rows,
                      hid_t creation = H5P_DEFAULT) {
    const hid_t space = H5Screate_simple(1, &rows, nullptr);
    const hid_t dataset = H5Dcreate2(file, name, H5T_STD_U64LE, space,
                                     H5P_DEFAULT, creation, H5P_DEFAULT);
    H5Sclose(space);
    return dataset;
  }

  // A column of three numbers in a file of its own.
  void MakeColumnFile(const std::string& name) {
    const hid_t file = NewFile(name);
    const hid_t dataset = Column(file, "n", 3);
    const uint64_t values[] = {1, 2, 3};
    H5Dwrite(dataset, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Dclose(dataset);
    H5Fclose(file);
  }
};

// What belay reads of an attribute is as long as the file says.
TEST_F(H5HostileTest, AnAttributeOfAnyKindAndSize) {
  const hid_t file = NewFile("a.h5");
  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, 15);
  const hid_t variable = H5Tcopy(H5T_C_S1);
  H5Tset_size(variable, H5T_VARIABLE);
  const hid_t huge = H5Tcopy(H5T_C_S1);
  H5Tset_size(huge, 4000);
  H5Tset_cset(huge, H5T_CSET_UTF8);  // as belay's own
  H5Tset_cset(text, H5T_CSET_UTF8);
  const struct {
    const char* name;
    hid_t type;
    hsize_t elements;
  } kAttributes[] = {
      {"many", text, 500},       {"none", text, 0},
      {"variable", variable, 1}, {"variables", variable, 9},
      {"huge", huge, 1},         {"numbers", H5T_STD_I64LE, 100}};
  for (const auto& one : kAttributes) {
    hsize_t rows = 4;
    const hid_t rows_space = H5Screate_simple(1, &rows, nullptr);
    const hid_t dataset = H5Dcreate2(file, one.name, H5T_STD_U8LE, rows_space,
                                     H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t space = H5Screate_simple(1, &one.elements, nullptr);
    const hid_t attribute = H5Acreate2(dataset, "belay_dtype", one.type, space,
                                       H5P_DEFAULT, H5P_DEFAULT);
    if (one.type == text && one.elements > 0) {
      const std::string bytes(15 * one.elements, 'A');
      H5Awrite(attribute, text, bytes.data());
    }
    H5Aclose(attribute);
    H5Sclose(space);
    H5Dclose(dataset);
    H5Sclose(rows_space);
  }
  H5Fclose(file);
  const Handle opened = Value(OpenFileReadOnly(Path("a.h5")));
  for (const ListedDataset& listed : Value(ListDatasets(opened))) {
    EXPECT_EQ(listed.array.dtype, DType::kU8) << listed.path;
  }
}

TEST_F(H5HostileTest, APipeIsNoFile) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  const Status status = OpenFileReadOnly(Path("pipe")).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("not a regular file"));
}

// Files of other programs may have links into other files, but into no pipes.
TEST_F(H5HostileTest, ListingFollowsLinksIntoFilesOnly) {
  MakeColumnFile("own.h5");
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  const hid_t file = NewFile("links.h5");
  H5Lcreate_external("own.h5", "n", file, "good", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external("pipe", "n", file, "beside", H5P_DEFAULT, H5P_DEFAULT);
  H5Lcreate_external(Path("pipe").c_str(), "n", file, "whole", H5P_DEFAULT,
                     H5P_DEFAULT);
  H5Fclose(file);
  const Handle opened = Value(OpenFileReadOnly(Path("links.h5")));
  const std::vector<ListedDataset> listed = Value(ListDatasets(opened));
  ASSERT_EQ(listed.size(), 3);
  EXPECT_EQ(listed[0].path, "beside");
  EXPECT_EQ(listed[0].array.problem, "is a link that leads nowhere");
  EXPECT_EQ(listed[1].path, "good");
  EXPECT_EQ(listed[1].array.problem, "");
  EXPECT_EQ(listed[2].array.problem, "is a link that leads nowhere");
}

TEST_F(H5HostileTest, GroupsInsideEachOtherEnd) {
  const hid_t file = NewFile("deep.h5");
  hid_t group = H5Gopen2(file, "/", H5P_DEFAULT);
  for (int i = 0; i < 3000; ++i) {
    const hid_t inner =
        H5Gcreate2(group, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(group);
    group = inner;
  }
  H5Gclose(group);
  H5Fclose(file);
  const Handle opened = Value(OpenFileReadOnly(Path("deep.h5")));
  EXPECT_EQ(ListDatasets(opened).status().code(),
            StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace belay::h5::h5_hostile_test
