#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "h5_testing.h"
#include "hdf5/table.h"

namespace belay::h5::h5_link_test {
namespace {

using nlohmann::json;

class H5LinkTest : public H5Test {
 protected:
  // Writes a file with one dataset of bytes.
  void WriteData(const std::string& name, const std::string& path,
                 const Shape& shape, const std::string& bytes) {
    Handle file = Value(CreateFile(Path(name)));
    ObjectCache cache;
    Value(CreateDataset(file, cache, {path, DType::kU8, 0, shape, {}}));
    Handle dataset = Value(OpenDataset(file, path));
    Ok(WriteHyperslab(dataset, WholeBox(shape), {DType::kU8}, bytes.data()));
    Ok(dataset.Close());
    cache = {};
    Ok(file.Close());
  }

  // The file of the links, closed.
  std::string Index() const { return Path("index.h5"); }
};

TEST_F(H5LinkTest, ALinkShowsADatasetOfAnotherFile) {
  WriteData("data.h5", "model/w", {2, 2}, "\1\2\3\4");
  Handle file = Value(CreateFile(Index()));
  ObjectCache cache;
  Ok(CreateExternalLink(file, cache, "model/w", "data.h5", "model/w"));
  EXPECT_EQ(CreateExternalLink(file, cache, "model/w", "o.h5", "w").code(),
            absl::StatusCode::kAlreadyExists);
  cache = {};
  Ok(file.Close());
  const json found = Python(Index(), {"model/w"})["model/w"];
  EXPECT_EQ(found["values"], json({{1, 2}, {3, 4}}));
}

TEST_F(H5LinkTest, AVirtualDatasetShowsPiecesAsOneArray) {
  WriteData("a.h5", "w", {3, 2}, "\1\2\3\4\5\6");
  WriteData("b.h5", "x/w", {3, 1}, "\7\10\11");
  Handle file = Value(CreateFile(Index()));
  ObjectCache cache;
  Ok(CreateVirtualDataset(file, cache, "m/w", {DType::kU8}, {3, 4},
                          {{"a.h5", "w", {{0, 0}, {3, 2}}},
                           {"b.h5", "x/w", {{0, 2}, {3, 1}}},
                           {"a.h5", "none", {{3, 4}, {0, 0}}}}));
  cache = {};
  Ok(file.Close());
  const json found = Python(Index(), {"m/w"})["m/w"];
  EXPECT_EQ(found["dtype"], "uint8");
  EXPECT_EQ(found["values"], json({{1, 2, 7, 0}, {3, 4, 8, 0}, {5, 6, 9, 0}}));
}

TEST_F(H5LinkTest, AVirtualDatasetMayHoldMoreThanFourGibiElements) {
  constexpr int64_t kRow = int64_t{3} << 30;
  const std::vector<VirtualPiece> pieces = {{"a.h5", "w", {{0, 0}, {1, kRow}}},
                                            {"b.h5", "w", {{1, 0}, {1, kRow}}}};
  for (const VirtualPiece& piece : pieces) {
    Handle data = Value(CreateFile(Path(piece.file)));
    ObjectCache cache;
    const int64_t offset =
        Value(CreateDataset(data, cache, {"w", DType::kU8, 0, {1, kRow}, {}}));
    cache = {};
    Ok(data.Close());
    PatchBytes(Path(piece.file), offset + kRow - 1, "*", 1);
  }
  Handle file = Value(CreateFile(Index()));
  ObjectCache cache;
  Ok(CreateVirtualDataset(file, cache, "w", {DType::kU8}, {2, kRow}, pieces));
  const Box end = {.offset = {1, kRow - 2}, .shape = {1, 2}};
  char found[] = "??";
  cache = {};
  Ok(file.Close());
  const Handle reader = Value(OpenFileReadOnly(Index()));
  Ok(ReadHyperslab(reader, "w", {DType::kU8}, end, found,
                   OtherFiles::kFollowed));
  EXPECT_EQ(std::string(found, 2), std::string("\0*", 2));
}

TEST_F(H5LinkTest, AnEmptyVirtualDatasetIsAnOrdinaryOne) {
  Handle file = Value(CreateFile(Index()));
  ObjectCache cache;
  Ok(CreateVirtualDataset(file, cache, "w", {DType::kF16}, {0, 4}, {}));
  cache = {};
  Ok(file.Close());
  const json found = Python(Index(), {"w"})["w"];
  EXPECT_EQ(found["shape"], json({0, 4}));
  EXPECT_EQ(found["dtype"], "float16");
}

TEST_F(H5LinkTest, AScalarHasNoPieces) {
  Handle file = Value(CreateFile(Index()));
  ObjectCache cache;
  EXPECT_EQ(CreateVirtualDataset(file, cache, "s", {DType::kF32}, {},
                                 {{"a.h5", "s", {}}})
                .ToString(),
            "INVALID_ARGUMENT: create virtual dataset \"s\": a scalar has no "
            "pieces");
}

TEST_F(H5LinkTest, AVirtualDatasetMayHaveManyPieces) {
  constexpr int64_t kPieces = 2000;
  std::vector<VirtualPiece> pieces;
  for (int64_t i = 0; i < kPieces; ++i) {
    pieces.push_back({"a.h5", absl::StrCat("w", i % 2), {{i, 0}, {1, 3}}});
  }
  Handle data = Value(CreateFile(Path("a.h5")));
  ObjectCache cache;
  for (uint8_t i : {0, 1}) {
    const std::string path = absl::StrCat("w", i);
    Value(CreateDataset(data, cache, {path, DType::kU8, 0, {1, 3}, {}}));
    Handle dataset = Value(OpenDataset(data, path));
    const uint8_t row[] = {i, i, i};
    Ok(WriteHyperslab(dataset, WholeBox({1, 3}), {DType::kU8}, row));
    Ok(dataset.Close());
  }
  cache = {};
  Ok(data.Close());
  Handle file = Value(CreateFile(Index()));
  ObjectCache fresh;
  Ok(CreateVirtualDataset(file, fresh, "w", {DType::kU8}, {kPieces, 3},
                          pieces));
  cache = {};
  Ok(file.Close());
  const Handle reader = Value(OpenFileReadOnly(Index()));
  std::string found(2 * 3, '?');
  Ok(ReadHyperslab(reader, "w", {DType::kU8}, {{kPieces - 2, 0}, {2, 3}},
                   found.data(), OtherFiles::kFollowed));
  EXPECT_EQ(found, std::string("\0\0\0\1\1\1", 6));
}

}  // namespace
}  // namespace belay::h5::h5_link_test
