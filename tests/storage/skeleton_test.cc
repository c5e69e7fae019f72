#include "storage/skeleton.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "directory_fixture.h"
#include "h5_testing.h"
#include "storage/file_system.h"
#include "storage/posix_file.h"

namespace belay::skeleton_test {
namespace {

using h5::DatasetSpec;
using nlohmann::json;

class SkeletonTest : public DirectoryTest {
 protected:
  Skeleton Create(const std::string& name,
                  const std::vector<DatasetSpec>& datasets) const {
    return h5::Value(CreateSkeleton({Path(name)}, datasets, true));
  }

  void Write(const std::string& name, int64_t offset,
             const std::string& bytes) const {
    h5::PatchBytes(Path(name), offset, bytes.data(), bytes.size());
  }
};

// One of each kind: arrays, chunks that overhang, texts, a scalar, and two
// without bytes.
std::vector<DatasetSpec> Kinds() {
  return {{"a/contiguous", DType::kU16, 0, {3, 2}, {}},
          {"a/chunked", DType::kU8, 0, {3, 4}, {2, 3}},
          {"b/text", DType::kString, 5, {}, {}},
          {"b/empty text", DType::kString, 0, {}, {}},
          {"b/none", DType::kF64, 0, {4, 0}, {}},
          {"scalar", DType::kI64, 0, {}, {}}};
}

// Many datasets below groups, most of them tiny, some with 200 KiB.
std::vector<DatasetSpec> Many() {
  std::vector<DatasetSpec> datasets;
  for (int i = 0; i < 300; ++i) {
    DatasetSpec spec{absl::StrCat("layer", i / 7, "/w", i), DType::kF32};
    if (i % 50 == 3) {
      spec.shape = {100, 512};
      if (i % 100 == 3) spec.chunk = {30, 512};
    } else if (i % 5 == 1) {
      spec.dtype = DType::kString;
      spec.string_bytes = i;
    } else {
      spec.shape = {i % 4, i};
    }
    datasets.push_back(std::move(spec));
  }
  return datasets;
}

// The same, and the same with a name that leaves the file to HDF5.
std::vector<std::vector<DatasetSpec>> ByBothMakers(
    const std::vector<DatasetSpec>& datasets) {
  std::vector<std::vector<DatasetSpec>> both(2, datasets);
  both[1].push_back({std::string(2000, 'n'), DType::kU8, 0, {1}, {}});
  return both;
}

// Bytes that a dataset takes up, counted here.
int64_t BytesOf(const DatasetSpec& spec) {
  if (spec.dtype == DType::kString) return spec.string_bytes;
  int64_t bytes = DTypeSize(spec.dtype);
  for (size_t i = 0; i < spec.shape.size(); ++i) {
    const int64_t chunk = spec.chunk.empty() ? 1 : spec.chunk[i];
    int64_t chunks = 0;
    while (chunks * chunk < spec.shape[i]) ++chunks;
    bytes *= chunks * chunk;
  }
  return bytes;
}

// However many and however small the chunks are, they lie in a row: otherwise
// creating fails.
TEST_F(SkeletonTest, ManyChunksLieInARow) {
  int number = 0;
  for (const auto& [shape, chunk] :
       std::vector<std::pair<Shape, Shape>>{{{20000}, {1}},
                                            {{200, 500}, {7, 3}},
                                            {{1025}, {1}},
                                            {{4096, 33}, {1, 33}},
                                            {{300, 1000}, {1, 1000}},
                                            {{64, 64, 64}, {16, 5, 3}},
                                            {{5000000}, {4999}},
                                            {{1009, 1013}, {128, 1013}}}) {
    // Between datasets that share HDF5's blocks of small data with it.
    const std::vector<DatasetSpec> datasets = {
        {"before", DType::kU8, 0, {1001}, {}},
        {"group/w", DType::kF32, 0, shape, chunk},
        {"group/x", DType::kU8, 0, shape, chunk},
        {"y", DType::kF64, 0, {31}, {4}}};
    const Skeleton skeleton =
        Create(absl::StrCat("many", number++, ".h5"), datasets);
    EXPECT_EQ(skeleton.offsets.size(), 4);
    for (const int64_t offset : skeleton.offsets) EXPECT_GT(offset, 0);
  }
}

TEST_F(SkeletonTest, WhatIsWrittenAtTheOffsetsIsReadByPython) {
  for (const auto& datasets : ByBothMakers(Kinds())) {
    std::filesystem::remove(Path("data.h5"));
    const Skeleton skeleton = Create("data.h5", datasets);
    ASSERT_EQ(skeleton.offsets.size(), datasets.size());
    EXPECT_EQ(skeleton.offsets[3], -1);
    EXPECT_EQ(skeleton.offsets[4], -1);
    Write("data.h5", skeleton.offsets[0],
          std::string("\1\0\2\0\3\0\4\0\5\0\6\0", 12));
    Write("data.h5", skeleton.offsets[1],
          "\1\2\3\5\6\7"  // rows 0 and 1, columns 0 to 2
          "\4??\10??"     // column 3, and what overhangs
          "\11\12\13???"  // row 2
          "\14?????");
    Write("data.h5", skeleton.offsets[2], "hello");
    Write("data.h5", skeleton.offsets[5], std::string("\7\1\0\0\0\0\0\0", 8));
    json found =
        h5::Python(Path("data.h5"), {"a/contiguous", "a/chunked", "b/text",
                                     "b/empty text", "b/none", "scalar"});
    EXPECT_EQ(found["a/contiguous"]["values"], json({{1, 2}, {3, 4}, {5, 6}}));
    EXPECT_EQ(found["a/chunked"]["values"],
              json({{1, 2, 3, 4}, {5, 6, 7, 8}, {9, 10, 11, 12}}));
    EXPECT_EQ(found["a/chunked"]["chunks"], json({2, 3}));
    EXPECT_EQ(found["b/text"]["values"], "hello");
    EXPECT_EQ(found["b/empty text"]["shape"], nullptr);
    EXPECT_EQ(found["b/none"]["shape"], json({4, 0}));
    EXPECT_EQ(found["scalar"]["values"], 263);
  }
}

TEST_F(SkeletonTest, TheFileHasItsSizeAndItsSpace) {
  for (const auto& datasets : ByBothMakers(Many())) {
    std::filesystem::remove(Path("data.h5"));
    const Skeleton skeleton = Create("data.h5", datasets);
    const PosixFile file =
        h5::Value(PosixFile::Open(Path("data.h5"), PosixFile::Mode::kRead));
    const FileStat stat = h5::Value(file.Stat());
    EXPECT_EQ(stat.size, skeleton.file_bytes);
    EXPECT_GE(stat.allocated_bytes, stat.size);
  }
}

// Only what nobody will write has its space before it is written.
TEST_F(SkeletonTest, AFileThatGetsItsSpaceAsItIsWritten) {
  std::vector<DatasetSpec> many = Many();
  many.push_back({"large", DType::kU8, 0, {int64_t{4} << 20}, {}});
  for (const auto& datasets : ByBothMakers(many)) {
    for (const char* name : {"a.h5", "b.h5", "c.h5"}) {
      std::filesystem::remove(Path(name));
    }
    const Skeleton reserved = Create("a.h5", datasets);
    const Skeleton skeleton = h5::Value(
        CreateSkeleton({Path("b.h5"), Space::kAsWritten}, datasets, true));
    EXPECT_EQ(skeleton.offsets, reserved.offsets);
    EXPECT_EQ(Content("a.h5"), Content("b.h5"));
    h5::Ok(CreateAgain({Path("c.h5"), Space::kAsWritten}, skeleton, true));
    EXPECT_EQ(Content("a.h5"), Content("c.h5"));
    for (const char* name : {"b.h5", "c.h5"}) {
      PosixFile file =
          h5::Value(PosixFile::Open(Path(name), PosixFile::Mode::kWrite));
      EXPECT_LT(file.Stat()->allocated_bytes, int64_t{4} << 20);
      for (size_t i = 0; i < datasets.size(); ++i) {
        const std::string bytes(static_cast<size_t>(BytesOf(datasets[i])), 'x');
        if (bytes.empty()) continue;
        h5::Ok(file.PwriteAll(skeleton.offsets[i], bytes.data(),
                              static_cast<int64_t>(bytes.size())));
      }
      h5::Ok(file.Sync());
      EXPECT_GE(file.Stat()->allocated_bytes, skeleton.file_bytes) << name;
    }
  }
}

TEST_F(SkeletonTest, DatasetsDoNotOverlapAndStayInTheFile) {
  for (const auto& datasets : ByBothMakers(Many())) {
    std::filesystem::remove(Path("data.h5"));
    const Skeleton skeleton = Create("data.h5", datasets);
    ASSERT_EQ(skeleton.offsets.size(), datasets.size());
    std::string used(skeleton.file_bytes, '\0');
    int64_t data = 0;
    for (size_t i = 0; i < datasets.size(); ++i) {
      const int64_t bytes = BytesOf(datasets[i]);
      EXPECT_EQ(skeleton.offsets[i] < 0, bytes == 0) << i;
      for (int64_t byte = 0; byte < bytes; ++byte) {
        ASSERT_EQ(used.at(skeleton.offsets[i] + byte)++, '\0') << i;
      }
      data += bytes;
    }
    // Headers, links and what is reserved for small datasets.
    EXPECT_LT(skeleton.file_bytes, data + 700 * 300);
  }
}

TEST_F(SkeletonTest, TheSameDatasetsMakeTheSameFile) {
  int number = 0;
  for (const auto& datasets : ByBothMakers(Many())) {
    const std::string name = absl::StrCat("a", number++, ".h5");
    const Skeleton a = Create(name, datasets);
    const Skeleton b = Create("b" + name, datasets);
    EXPECT_EQ(a.offsets, b.offsets);
    EXPECT_EQ(Content(name), Content("b" + name));
  }
}

TEST_F(SkeletonTest, ASkeletonMakesTheSameFileAgain) {
  for (const auto& datasets :
       {Kinds(), Many(), ByBothMakers(Many())[1], std::vector<DatasetSpec>()}) {
    const Skeleton skeleton = Create("a.h5", datasets);
    h5::Ok(CreateAgain({Path("b.h5")}, skeleton, true));
    EXPECT_EQ(Content("a.h5"), Content("b.h5"));
    int64_t metadata = 0, data = 0;
    for (const auto& region : skeleton.regions)
      metadata += region.second.size();
    for (const DatasetSpec& spec : datasets) data += BytesOf(spec);
    EXPECT_EQ(metadata, skeleton.file_bytes - data);
    std::filesystem::remove(Path("a.h5"));
    std::filesystem::remove(Path("b.h5"));
  }
}

TEST_F(SkeletonTest, TheRegionsMayComeLater) {
  const Skeleton skeleton = Create("a.h5", Kinds());
  h5::Ok(CreateAgain({Path("b.h5")}, skeleton, false));
  EXPECT_EQ(std::ssize(Content("b.h5")), skeleton.file_bytes);
  EXPECT_NE(Content("b.h5"), Content("a.h5"));
  for (const auto& [offset, bytes] : skeleton.regions) {
    Write("b.h5", offset, bytes);
  }
  EXPECT_EQ(Content("b.h5"), Content("a.h5"));
}

// Another save may put its own file in the place of one that was created.
TEST_F(SkeletonTest, TheBytesGoIntoTheFileThatWasCreated) {
  const auto replaced = [&](Status status) {
    return NewFile{.path = Path("b.h5"), .once_open = [this, status] {
                     std::filesystem::rename(Path("b.h5"), Path("mine.h5"));
                     Put("b.h5", "theirs");
                     return status;
                   }};
  };
  const Status gone = absl::AbortedError("another save has taken it");
  const Skeleton skeleton = Create("a.h5", Kinds());
  h5::Ok(CreateAgain(replaced(absl::OkStatus()), skeleton, true));
  EXPECT_EQ(Content("b.h5"), "theirs");
  EXPECT_EQ(Content("mine.h5"), Content("a.h5"));
  std::filesystem::remove(Path("b.h5"));
  EXPECT_EQ(CreateAgain(replaced(gone), skeleton, true), gone);
  EXPECT_EQ(Content("b.h5"), "theirs");
  EXPECT_EQ(Content("mine.h5"), "");
}

TEST_F(SkeletonTest, AFileThatIsThereIsLeftAlone) {
  Put("data.h5", "mine");
  EXPECT_EQ(CreateSkeleton({Path("data.h5")}, Kinds()).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(CreateAgain({Path("data.h5")}, {}, true).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Content("data.h5"), "mine");
}

TEST_F(SkeletonTest, TwoDatasetsOfOnePathAreRefused) {
  const DatasetSpec spec{"w", DType::kU8, 0, {3}, {}};
  EXPECT_EQ(CreateSkeleton({Path("data.h5")}, {spec, spec}).status().code(),
            absl::StatusCode::kAlreadyExists);
}

// What a plan says of the space holds for any directory: a plan is used again.
TEST_F(SkeletonTest, InMemoryNothingIsReservedForManyWriters) {
  const std::vector<DatasetSpec> datasets = {
      {"w", DType::kU8, 0, {int64_t{4} << 20}, {}}};
  const auto allocated = [&](const std::string& path, Space space) {
    std::filesystem::remove(path);
    const Skeleton skeleton =
        h5::Value(CreateSkeleton({path, space}, datasets, true));
    const auto found = [&] {
      const PosixFile file =
          h5::Value(PosixFile::Open(path, PosixFile::Mode::kRead));
      return h5::Value(file.Stat()).allocated_bytes;
    };
    const int64_t bytes = found();
    std::filesystem::remove(path);
    h5::Ok(CreateAgain({path, space}, skeleton, true));
    EXPECT_EQ(found(), bytes);
    std::filesystem::remove(path);
    return bytes;
  };
  if (!IsInMemory(dir_)) {
    EXPECT_EQ(allocated(Path("a.h5"), Space::kReservedOnDisk),
              allocated(Path("a.h5"), Space::kReserved));
  }
  if (!IsInMemory("/dev/shm")) GTEST_SKIP() << "needs a tmpfs at /dev/shm";
  const std::string path =
      "/dev/shm/" + std::filesystem::path(dir_).filename().string() + ".h5";
  EXPECT_GE(allocated(path, Space::kReserved), int64_t{4} << 20);
  EXPECT_LT(allocated(path, Space::kReservedOnDisk), int64_t{1} << 20);
}

TEST_F(SkeletonTest, EveryFaultIsReported) {
  for (const Space space : {Space::kReserved, Space::kAsWritten}) {
    for (const auto& datasets : ByBothMakers(Kinds())) {
      std::filesystem::remove(Path("data.h5"));
      fault::Arm(0);
      h5::Value(CreateSkeleton({Path("data.h5"), space}, datasets, true));
      const int64_t points = fault::Count();
      EXPECT_GT(points, 3);
      for (int64_t point = 1; point <= points; ++point) {
        std::filesystem::remove(Path("data.h5"));
        fault::Arm(point);
        const Status status =
            CreateSkeleton({Path("data.h5"), space}, datasets, true).status();
        EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << point;
        fault::Disarm();
      }
    }
  }
}

// Noise is what deflate makes longer.
TEST_F(SkeletonTest, ChunksWithFiltersTakeNoMoreThanIsReserved) {
  std::mt19937_64 random(1);
  for (const int64_t chunk : {1, 2, 8, 64, 512, 65536}) {
    SCOPED_TRACE(chunk);
    const int64_t length = std::min<int64_t>(chunk * 2048 + 1, 1 << 19);
    std::vector<int64_t> noise(length);
    for (int64_t& value : noise) value = static_cast<int64_t>(random());
    const std::vector<DatasetSpec> specs = {
        {"w", DType::kI64, 0, {length}, {chunk}, Deflate(9)}};
    std::filesystem::remove(Path("data.h5"));
    const Skeleton skeleton = Create("data.h5", specs);
    h5::Handle file(H5Fopen(Path("data.h5").c_str(), H5F_ACC_RDWR, H5P_DEFAULT),
                    Path("data.h5"));
    h5::Handle dataset = h5::Value(h5::OpenDataset(file, "w"));
    ASSERT_TRUE(h5::WriteHyperslab(dataset, WholeBox({length}), {DType::kI64},
                                   noise.data())
                    .ok());
    ASSERT_TRUE(dataset.Close().ok());
    ASSERT_TRUE(file.Close().ok());
    const auto bytes =
        static_cast<int64_t>(std::filesystem::file_size(Path("data.h5")));
    EXPECT_GT(bytes, length * 8);
    EXPECT_LE(bytes, skeleton.file_bytes + MostFilteredBytes(specs));
  }
}

TEST_F(SkeletonTest, SpecsComeBackFromBytes) {
  for (const auto& datasets : {Kinds(), Many(), std::vector<DatasetSpec>()}) {
    const auto back =
        Decode<std::vector<DatasetSpec>>(Encode(datasets)).value();
    ASSERT_EQ(back.size(), datasets.size());
    for (size_t i = 0; i < datasets.size(); ++i) {
      EXPECT_EQ(back[i].path, datasets[i].path);
      EXPECT_EQ(back[i].dtype, datasets[i].dtype);
      EXPECT_EQ(back[i].string_bytes, datasets[i].string_bytes);
      EXPECT_EQ(back[i].shape, datasets[i].shape);
      EXPECT_EQ(back[i].chunk, datasets[i].chunk);
    }
  }
}

}  // namespace
}  // namespace belay::skeleton_test
