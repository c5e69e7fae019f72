// What other programs see in an index is what belay reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>
#include <string>
#include <vector>

#include "directory_fixture.h"
#include "storage/verify.h"
#include "store_testing.h"

namespace belay::verify_hdf5_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class VerifyHdf5Test : public DirectoryTest {
 protected:
  void SetUp() override {
    DirectoryTest::SetUp();
    WriteCheckpoint(dir_, saved_);
    file_ = H5Fopen(Path("index.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ASSERT_GE(file_, 0);
  }

  // Closes the index, and looks.
  std::vector<std::string> Damage() {
    EXPECT_GE(H5Fclose(file_), 0);
    return FindHdf5Damage(dir_, saved_).value();
  }

  void LinkTo(const char* file, const char* path) {
    ASSERT_GE(H5Ldelete(file_, "a", H5P_DEFAULT), 0);
    ASSERT_GE(
        H5Lcreate_external(file, path, file_, "a", H5P_DEFAULT, H5P_DEFAULT),
        0);
  }

  // Makes "d/f", two rows of two u16, anew from rows of these files. The rows
  // are taken for `width` wide, and `columns` of them from `first` on are used.
  void PutTogether(const std::vector<std::string>& files, hsize_t columns,
                   hsize_t first = 0, hsize_t width = 2) {
    const hsize_t shape[] = {2, 2}, row[] = {1, width}, part[] = {1, columns};
    const hid_t space = H5Screate_simple(2, shape, nullptr);
    const hid_t source = H5Screate_simple(2, row, nullptr);
    const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t from[] = {0, first};
    H5Sselect_hyperslab(source, H5S_SELECT_SET, from, nullptr, part, nullptr);
    for (hsize_t i = 0; i < files.size(); ++i) {
      const hsize_t begin[] = {i, 0};
      H5Sselect_hyperslab(space, H5S_SELECT_SET, begin, nullptr, part, nullptr);
      const std::string path =
          DatasetPath("d/f", saved_.arrays[4], saved_.datasets[3 + i]);
      ASSERT_GE(H5Pset_virtual(creation, space, files[i].c_str(), path.c_str(),
                               source),
                0);
    }
    ASSERT_GE(H5Ldelete(file_, "d/f", H5P_DEFAULT), 0);
    const hid_t made = H5Dcreate2(file_, "d/f", H5T_STD_U16LE, space,
                                  H5P_DEFAULT, creation, H5P_DEFAULT);
    ASSERT_GE(made, 0);
    H5Dclose(made), H5Pclose(creation), H5Sclose(space), H5Sclose(source);
  }

  std::string FileName(int number) const { return saved_.files[number].name; }

  SavedCheckpoint saved_ = SmallIndex();
  hid_t file_ = -1;
};

TEST_F(VerifyHdf5Test, FindsNothing) { EXPECT_THAT(Damage(), IsEmpty()); }

TEST_F(VerifyHdf5Test, FindsNothingWhereTheSameIsMadeByHdf5) {
  LinkTo(FileName(0).c_str(), "/a");
  PutTogether({FileName(0), FileName(1)}, 2);
  EXPECT_THAT(Damage(), IsEmpty());
}

TEST_F(VerifyHdf5Test, ALinkIntoAnotherFile) {
  std::filesystem::copy_file(Path(FileName(0)), Path("other.h5"));
  LinkTo("other.h5", "a");
  EXPECT_THAT(Damage(),
              ElementsAre(HasSubstr("index.h5\": other programs cannot read "
                                    "it: key \"a\": open dataset \"a\": it "
                                    "does not show the stored values")));
}

TEST_F(VerifyHdf5Test, ALinkToAnotherDataset) {
  LinkTo(FileName(0).c_str(), "b");
  EXPECT_THAT(Damage(), ElementsAre(HasSubstr("key \"a\": ")));
}

TEST_F(VerifyHdf5Test, PiecesOfAnotherFile) {
  PutTogether({FileName(0), "other.h5"}, 2);
  EXPECT_THAT(Damage(),
              ElementsAre(HasSubstr(
                  "open dataset \"d/f\": it does not show the stored values")));
}

TEST_F(VerifyHdf5Test, APieceTooFew) {
  PutTogether({FileName(0)}, 2);
  EXPECT_THAT(Damage(),
              ElementsAre(HasSubstr(
                  "open dataset \"d/f\": it does not show the stored values")));
}

TEST_F(VerifyHdf5Test, ElementsBesideThoseOfThePiece) {
  PutTogether({FileName(0), FileName(1)}, 2, 2, 4);
  EXPECT_THAT(Damage(), ElementsAre(HasSubstr("a piece is a part of \"d/f@")));
}

// In a mapping their '%' are doubled.
using EscapedKeysTest = DirectoryTest;
TEST_F(EscapedKeysTest, AreFound) {
  SavedCheckpoint saved = SmallIndex();
  saved.arrays[3].key = "p%q";
  saved.arrays[4].key = "p%r@";  // of two pieces
  WriteCheckpoint(dir_, saved);
  EXPECT_THAT(FindHdf5Damage(dir_, saved).value(), IsEmpty());
}

TEST_F(VerifyHdf5Test, APartOfAPiece) {
  PutTogether({FileName(0), FileName(1)}, 1);
  EXPECT_THAT(Damage(),
              ElementsAre(HasSubstr(
                  "open dataset \"d/f\": it does not show the stored values")));
}

}  // namespace
}  // namespace belay::verify_hdf5_test
