// Links to other files and virtual datasets, as HDF5 and h5py see them.
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "format/file_metadata.h"
#include "h5_by_library.h"
#include "h5_description.h"
#include "h5_testing.h"

namespace belay::h5::other_files_test {
namespace {

using nlohmann::json;

class OtherFilesTest : public H5Test {
 protected:
  // Writes a file with one dataset of bytes.
  void WriteData(const std::string& name, const std::string& path,
                 const Shape& shape, const std::string& bytes) const {
    const std::vector<DatasetSpec> datasets = {
        {path, DType::kU8, 0, shape, {}}};
    FileMetadata file =
        Value(EncodeFileMetadata({.datasets = datasets})).value();
    file.bytes.resize(file.file_bytes, '\0');
    file.bytes.replace(file.offsets[0], bytes.size(), bytes);
    testing::PutFile(Path(name), file.bytes);
  }

  void Encode(const FileObjects& objects) const {
    FileMetadata file = Value(EncodeFileMetadata(objects)).value();
    file.bytes.resize(file.file_bytes, '\0');
    testing::PutFile(Index(), file.bytes);
  }

  // HDF5 says the same of a file that it makes.
  void ExpectSame(const FileObjects& objects) const {
    Encode(objects);
    Handle file = Value(CreateFile(Path("hdf5.h5")));
    ObjectCache cache;
    for (const DatasetSpec& spec : objects.datasets) {
      if (spec.pieces.empty()) Value(CreateDataset(file, cache, spec));
    }
    for (const ExternalLink& link : objects.links) {
      Ok(CreateExternalLink(file, cache, std::string(link.path),
                            std::string(link.file), std::string(link.target)));
    }
    for (const DatasetSpec& spec : objects.datasets) {
      if (!spec.pieces.empty()) Ok(CreateVirtualDataset(file, cache, spec));
    }
    cache = {};
    Ok(file.Close());
    EXPECT_EQ(DescriptionOf(Index()), DescriptionOf(Path("hdf5.h5")));
    std::filesystem::remove(Path("hdf5.h5"));
  }

  std::string Index() const { return Path("index.h5"); }
};

DatasetSpec MakeVirtual(const std::string& path, DType dtype,
                        const Shape& shape,
                        const std::vector<VirtualPiece>& pieces) {
  return {.path = path, .dtype = dtype, .shape = shape, .pieces = pieces};
}

DatasetSpec Rows(const std::string& path, int64_t rows) {
  DatasetSpec dataset = MakeVirtual(path, DType::kU8, {rows, 3}, {});
  for (int64_t i = 0; i < rows; ++i) {
    dataset.pieces.push_back(
        {"a.h5", absl::StrCat("w", i % 2), {{i, 0}, {1, 3}}});
  }
  return dataset;
}

TEST_F(OtherFilesTest, ALinkShowsADatasetOfAnotherFile) {
  WriteData("data.h5", "model/w", {2, 2}, "\1\2\3\4");
  const std::vector<ExternalLink> links = {
      {"model/w", "data.h5", "model/w"},
      {"other", "data.h5", "model/w"},
      {"gr\xC3\xBC\xC3\x9F", "none.h5", "x"}};
  ExpectSame({.links = links});
  const json found = Python(Index(), {"model/w", "other"});
  EXPECT_EQ(found["model/w"]["values"], json({{1, 2}, {3, 4}}));
  EXPECT_EQ(found["other"]["values"], json({{1, 2}, {3, 4}}));
}

TEST_F(OtherFilesTest, ManyLinksInOneGroup) {
  for (const int count : {7, 8, 9, 500, 20'000}) {
    std::deque<std::string> paths, files;  // which links borrow
    std::vector<ExternalLink> links;
    for (int i = 0; i < count; ++i) {
      paths.push_back(absl::StrCat("g/name of ", i));
      files.push_back(absl::StrCat("data_", i % 7, ".h5"));
      links.push_back({paths.back(), files.back(), paths.back()});
    }
    ExpectSame({.links = links});
  }
}

TEST_F(OtherFilesTest, AVirtualDatasetShowsPiecesAsOneArray) {
  WriteData("a.h5", "w", {3, 2}, "\1\2\3\4\5\6");
  WriteData("b.h5", "50%/w%s", {3, 1}, "\7\10\11");
  const std::vector<DatasetSpec> virtuals = {
      MakeVirtual("m/w", DType::kU8, {3, 4},
                  {{"a.h5", "w", {{0, 0}, {3, 2}}},
                   {"b.h5", "50%/w%s", {{0, 2}, {3, 1}}},
                   {"a.h5", "none", {{3, 4}, {0, 0}}}})};
  ExpectSame({.datasets = virtuals});
  const json found = Python(Index(), {"m/w"})["m/w"];
  EXPECT_EQ(found["dtype"], "uint8");
  EXPECT_EQ(found["values"], json({{1, 2, 7, 0}, {3, 4, 8, 0}, {5, 6, 9, 0}}));
}

TEST_F(OtherFilesTest, VirtualDatasetsOfEveryTypeBesideAllElse) {
  std::vector<DatasetSpec> datasets;
  std::deque<std::string> texts;  // which links borrow
  std::vector<ExternalLink> links;
  Shape most_axes(32, 1);
  most_axes[0] = 2;
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF8E4M3,
                            DType::kBool, DType::kC64, DType::kI64}) {
    for (const Shape& shape :
         std::vector<Shape>{{6}, {2, 4}, {2, 3, 4, 5}, most_axes}) {
      const auto axes = static_cast<int64_t>(shape.size());
      const std::string path = absl::StrCat("v/", links.size());
      Box half = WholeBox(shape);
      half.shape[0] /= 2;
      Box other = half;
      other.offset[0] = half.shape[0];
      datasets.push_back(
          MakeVirtual(path, dtype, shape,
                      {{"a.h5", path + "@0", half},
                       {"b.h5", absl::StrCat(path, "@", axes), other}}));
      datasets.push_back({path + "/below", dtype, 0, shape, {}});
      datasets.back().path[0] = 'd';
      const std::string& target = texts.emplace_back(path);
      links.push_back({texts.emplace_back(absl::StrCat("l/", links.size())),
                       "a.h5", target});
    }
  }
  ExpectSame({.datasets = datasets, .links = links});
}

// Of HDF5's two ways to store a box, the one with 64 bits.
TEST_F(OtherFilesTest, AVirtualDatasetMayHoldMoreThanFourGibiElements) {
  constexpr int64_t kRow = int64_t{3} << 30;
  const std::vector<DatasetSpec> virtuals = {MakeVirtual(
      "w", DType::kU8, {2 * kRow},
      {{"a.h5", "w", {{0}, {kRow}}}, {"b.h5", "w", {{kRow}, {kRow}}}})};
  ExpectSame({.datasets = virtuals});
  for (const VirtualPiece& piece : virtuals[0].pieces) {
    const std::vector<DatasetSpec> datasets = {
        {"w", DType::kU8, 0, {kRow}, {}}};
    const FileMetadata data =
        Value(EncodeFileMetadata({.datasets = datasets})).value();
    testing::PutFile(Path(piece.file), data.bytes);
    std::filesystem::resize_file(Path(piece.file), data.file_bytes);
    PatchBytes(Path(piece.file), data.offsets[0] + kRow - 1, "*", 1);
  }
  const Handle reader = Value(OpenFileReadOnly(Index()));
  for (const int64_t end : {kRow, 2 * kRow}) {
    char found[] = "??";
    Ok(ReadHyperslab(reader, "w", {DType::kU8}, {{end - 2}, {2}}, found,
                     OtherFiles::kFollowed));
    EXPECT_EQ(std::string(found, 2), std::string("\0*", 2)) << end;
  }
}

// The edge between both ways.
TEST_F(OtherFilesTest, BoxesThatEndNearFourGibi) {
  std::vector<DatasetSpec> virtuals;
  for (int64_t end = (int64_t{1} << 32) - 2; end < (int64_t{1} << 32) + 3;
       ++end) {
    virtuals.push_back(MakeVirtual(absl::StrCat(end), DType::kU8, {2, end},
                                   {{"a.h5", "w", {{0, end - 5}, {2, 5}}}}));
  }
  ExpectSame({.datasets = virtuals});
}

// Its pieces take more than a collection usually holds.
TEST_F(OtherFilesTest, AVirtualDatasetMayHaveManyPieces) {
  constexpr int64_t kPieces = 2000;
  const std::vector<DatasetSpec> rows = {{"w0", DType::kU8, 0, {1, 3}, {}},
                                         {"w1", DType::kU8, 0, {1, 3}, {}}};
  FileMetadata data = Value(EncodeFileMetadata({.datasets = rows})).value();
  data.bytes.resize(data.file_bytes, '\1');
  data.bytes.replace(data.offsets[0], 3, 3, '\0');
  testing::PutFile(Path("a.h5"), data.bytes);
  const std::vector<DatasetSpec> virtuals = {Rows("few", 2), Rows("w", kPieces),
                                             Rows("last", 3)};
  ExpectSame({.datasets = virtuals});
  const Handle reader = Value(OpenFileReadOnly(Index()));
  std::string found(2 * 3, '?');
  Ok(ReadHyperslab(reader, "w", {DType::kU8}, {{kPieces - 2, 0}, {2, 3}},
                   found.data(), OtherFiles::kFollowed));
  EXPECT_EQ(found, std::string("\0\0\0\1\1\1", 6));
  Ok(ReadHyperslab(reader, "last", {DType::kU8}, {{1, 0}, {2, 3}}, found.data(),
                   OtherFiles::kFollowed));
  EXPECT_EQ(found, std::string("\1\1\1\0\0\0", 6));
}

TEST_F(OtherFilesTest, ManyVirtualDatasets) {
  for (const int64_t rows : {1, 3, 400}) {
    std::vector<DatasetSpec> virtuals;
    for (int i = 0; i < 3000 / (1 + rows); ++i) {
      virtuals.push_back(Rows(absl::StrCat("g/", i), rows));
      virtuals.back().shape[0] = rows + 1;
    }
    ExpectSame({.datasets = virtuals});
  }
}

}  // namespace
}  // namespace belay::h5::other_files_test
