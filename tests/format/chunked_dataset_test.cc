// Chunks that HDF5 has written, through filters or not, as we read them.
#include "format/chunked_dataset.h"

#include <hdf5.h>

#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/struct_text.h"
#include "file_reader_testing.h"
#include "format/file_metadata.h"
#include "hdf5/file.h"

namespace belay::h5::chunked_dataset_test {
namespace {

// Filters by the calls of HDF5, in order.
enum class Pass { kDeflate, kShuffle, kFletcher32 };
using Passes = std::vector<Pass>;

class ChunkedDatasetTest : public FileReaderFixture {
 protected:
  void SetUp() override {
    FileReaderFixture::SetUp();
    H5open();
    const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110);
    file_ = H5Fcreate(Path("c.h5").c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access);
    H5Pclose(access);
  }

  // Returns what all H5D calls need, closed by nobody: the file goes first.
  hid_t Create(const std::string& name, const Shape& shape, const Shape& chunk,
               const Passes& passes, hid_t type = H5T_STD_I32LE) const {
    const std::vector<hsize_t> dims(shape.begin(), shape.end());
    const std::vector<hsize_t> lengths(chunk.begin(), chunk.end());
    const auto axes = static_cast<int>(dims.size());
    const hid_t space = H5Screate_simple(axes, dims.data(), nullptr);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, axes, lengths.data());
    for (const Pass pass : passes) {
      if (pass == Pass::kDeflate) H5Pset_deflate(properties, 4);
      if (pass == Pass::kShuffle) H5Pset_shuffle(properties);
      if (pass == Pass::kFletcher32) H5Pset_fletcher32(properties);
    }
    if (passes.empty()) H5Pset_alloc_time(properties, H5D_ALLOC_TIME_EARLY);
    const hid_t dataset = H5Dcreate2(file_, name.c_str(), type, space,
                                     H5P_DEFAULT, properties, H5P_DEFAULT);
    EXPECT_GE(dataset, 0) << name;
    H5Pclose(properties);
    H5Sclose(space);
    return dataset;
  }

  void Write(const std::string& name, const Shape& shape, const Shape& chunk,
             const Passes& passes, const std::vector<int32_t>& values) const {
    const hid_t dataset = Create(name, shape, chunk, passes);
    ASSERT_GE(H5Dwrite(dataset, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                       values.data()),
              0);
    H5Dclose(dataset);
  }

  std::string Close() {
    EXPECT_GE(H5Fclose(file_), 0);
    return testing::FileBytes(Path("c.h5"));
  }

  hid_t file_ = -1;
};

// The values of a dataset, chunk by chunk.
StatusOr<std::vector<int32_t>> ReadAll(BoundedFile& file,
                                       const ChunkedDataset& dataset) {
  std::vector<int32_t> values(NumElements(dataset.shape), -1);
  Shape corner(dataset.shape.size(), 0);
  for (;;) {
    auto bytes = ReadChunk(file, dataset, corner);
    if (!bytes.ok()) return bytes.status();
    const int64_t count = NumElements(dataset.chunk);
    EXPECT_EQ(std::ssize(*bytes), count * 4);
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, place = 0, weight = 1;
      bool is_inside = true;
      for (size_t axis = corner.size(); axis-- > 0;) {
        const int64_t at = corner[axis] + rest % dataset.chunk[axis];
        rest /= dataset.chunk[axis];
        is_inside = is_inside && at < dataset.shape[axis];
        place += at * weight;
        weight *= dataset.shape[axis];
      }
      if (is_inside) std::memcpy(&values[place], bytes->data() + 4 * i, 4);
    }
    size_t axis = corner.size();
    while (axis > 0) {
      corner[axis - 1] += dataset.chunk[axis - 1];
      if (corner[axis - 1] < dataset.shape[axis - 1]) break;
      corner[--axis] = 0;
    }
    if (axis == 0) return values;
  }
}

StatusOr<std::vector<int32_t>> ReadDataset(const std::string& bytes,
                                           const std::string& name) {
  BoundedFile file = FileOf(bytes);
  StatusOr<FileReader> reader = FileReader::Open(file);
  if (!reader.ok()) return reader.status();
  const auto found = reader->FindChunked(name);
  if (!found.ok()) return found.status();
  if (!found->has_value()) return absl::NotFoundError(name);
  return ReadAll(file, **found);
}

std::vector<int32_t> Values(int64_t count, bool is_random) {
  std::vector<int32_t> values(count);
  std::iota(values.begin(), values.end(), 1);
  std::mt19937 random(3);
  if (is_random) {
    for (int32_t& value : values) value = static_cast<int32_t>(random());
  }
  return values;
}

TEST_F(ChunkedDatasetTest, EveryFilterAndGrid) {
  const std::vector<std::pair<Shape, Shape>> kGrids = {
      {{1}, {1}},
      {{100}, {100}},
      {{100}, {7}},
      {{60, 50}, {7, 9}},
      {{1100, 2}, {2, 1}},  // more than one page
      {{5, 6, 7}, {2, 3, 4}},
      {{1024}, {1}},
      {{1025}, {1}}};
  const std::vector<Passes> kPasses = {
      {},
      {Pass::kDeflate},
      {Pass::kShuffle},
      {Pass::kFletcher32},
      {Pass::kShuffle, Pass::kDeflate},
      {Pass::kFletcher32, Pass::kShuffle, Pass::kDeflate},
      {Pass::kShuffle, Pass::kDeflate, Pass::kFletcher32}};
  struct Case {
    std::string name;
    std::vector<int32_t> values;
  };
  std::vector<Case> cases;
  for (const auto& [shape, chunk] : kGrids) {
    for (const Passes& passes : kPasses) {
      for (const bool is_random : {false, true}) {
        if (!is_random && shape[0] > 1000) continue;  // many calls of HDF5
        Case one{absl::StrCat("d", cases.size()),
                 Values(NumElements(shape), is_random)};
        Write(one.name, shape, chunk, passes, one.values);
        cases.push_back(std::move(one));
      }
    }
  }
  const std::string bytes = Close();
  for (const Case& one : cases) {
    EXPECT_EQ(Value(ReadDataset(bytes, one.name)), one.values) << one.name;
  }
}

// Version 3 of compound, enum and array types.
TEST_F(ChunkedDatasetTest, TypesAsHdf5PutsThemIntoFiles) {
  std::vector<ElementType> types;
  for (const DType dtype :
       {DType::kF16, DType::kBF16, DType::kF32, DType::kF64, DType::kF8E4M3,
        DType::kF8E5M2, DType::kI8, DType::kI16, DType::kI32, DType::kI64,
        DType::kU8, DType::kU16, DType::kU32, DType::kU64, DType::kBool,
        DType::kC64, DType::kC128}) {
    types.push_back({dtype});
  }
  std::mt19937 random(21);
  for (int i = 0; i < 100; ++i) {
    std::vector<StructField> fields(1 + random() % 9);
    for (StructField& field : fields) {
      field.name = std::string(random() % 20, 'n');
      absl::StrAppend(&field.name, &field - fields.data());
      field.dtype = types[random() % 17].dtype;
      if (random() % 3 == 0) field.shape.resize(1 + random() % 3, 70);
    }
    types.push_back({.fields = FieldsText(fields)});
  }
  for (size_t i = 0; i < types.size(); ++i) {
    const Handle type = Value(FileType(types[i]));
    H5Dclose(Create(absl::StrCat(i), {4}, {2}, {Pass::kDeflate}, type.get()));
  }
  const std::string bytes = Close();
  BoundedFile file = FileOf(bytes);
  FileReader reader = Value(FileReader::Open(file));
  for (size_t i = 0; i < types.size(); ++i) {
    const auto found = Value(reader.FindChunked(absl::StrCat(i)));
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->type, Value(EncodedType(types[i], /*in_file=*/true)))
        << types[i].fields;
    EXPECT_EQ(found->chunk, Shape{2});
    EXPECT_EQ(found->filters.size(), 1);
  }
}

TEST_F(ChunkedDatasetTest, WhatWasNeverWrittenIsDamaged) {
  H5Dclose(Create("one", {4}, {4}, {Pass::kDeflate}));
  H5Dclose(Create("table", {4}, {2}, {Pass::kDeflate}));
  H5Dclose(Create("pages", {5000}, {1}, {Pass::kDeflate}));
  const std::string bytes = Close();
  for (const std::string name : {"one", "table", "pages"}) {
    const Status status = ReadDataset(bytes, name).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << name << ": " << status;
  }
}

TEST_F(ChunkedDatasetTest, WhatBelayNeverWritesIsNamed) {
  const hsize_t rows = 8, chunk = 2, no_limit = H5S_UNLIMITED;
  const hid_t space = H5Screate_simple(1, &rows, &no_limit);
  const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(properties, 1, &chunk);
  H5Dclose(H5Dcreate2(file_, "grows", H5T_STD_I32LE, space, H5P_DEFAULT,
                      properties, H5P_DEFAULT));
  H5Pclose(properties);
  H5Sclose(space);
  const hid_t nbit = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(nbit, 1, &chunk);
  H5Pset_nbit(nbit);
  const hid_t fixed = H5Screate_simple(1, &rows, nullptr);
  const hid_t packed = H5Dcreate2(file_, "nbit", H5T_STD_I32LE, fixed,
                                  H5P_DEFAULT, nbit, H5P_DEFAULT);
  const std::vector<int32_t> values(8, 5);
  H5Dwrite(packed, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT,
           values.data());
  H5Dclose(packed);
  H5Pclose(nbit);
  H5Sclose(fixed);
  const std::string bytes = Close();
  for (const std::string name : {"grows", "nbit"}) {
    const Status status = ReadDataset(bytes, name).status();
    EXPECT_TRUE(absl::IsUnimplemented(status)) << name << ": " << status;
  }
}

// What stands in the way of a value has a checksum, of HDF5 or of zlib.
TEST_F(ChunkedDatasetTest, AFlippedBitIsNoticedOrChangesNothing) {
  const std::vector<int32_t> values = Values(200, false);
  for (const auto& [name, length] :
       {std::pair<const char*, int64_t>{"one", 200}, {"table", 30}}) {
    Write(name, {200}, {length}, {Pass::kShuffle, Pass::kDeflate}, values);
  }
  std::string bytes = Close();
  int noticed = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    const char before = bytes[at];
    bytes[at] = static_cast<char>(before ^ (1 << at % 8));
    for (const std::string name : {"one", "table"}) {
      const auto found = ReadDataset(bytes, name);
      noticed += found.ok() ? 0 : 1;
      if (!found.ok()) continue;
      EXPECT_EQ(*found, values) << name << " at " << at;
    }
    bytes[at] = before;
  }
  EXPECT_GT(noticed, 1000);
}

// A few bytes that say that they are many take no memory, nor much time.
TEST_F(ChunkedDatasetTest, WhatInflatesTooFarIsRefused) {
  Write("zeros", {1 << 18}, {1 << 18}, {Pass::kDeflate, Pass::kDeflate},
        std::vector<int32_t>(1 << 18));
  const std::string bytes = Close();
  EXPECT_TRUE(absl::IsUnimplemented(ReadDataset(bytes, "zeros").status()));
  // The last is as large as HDF5 lets a chunk be.
  for (const int64_t claimed :
       {int64_t{1} << 20, int64_t{1} << 26, (int64_t{1} << 32) - 4}) {
    const Status status =
        UndoFilters(std::string(500, 'x'), {{.id = 1}}, 0, claimed).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_NE(status.message().find("500 stored bytes cannot hold"),
              status.message().npos)
        << status;
  }
  EXPECT_TRUE(absl::IsDataLoss(UndoFilters("", {{.id = 3}}, 0, 4).status()));
  EXPECT_TRUE(absl::IsDataLoss(UndoFilters("abc", {}, 0, 4).status()));
  EXPECT_EQ(Value(UndoFilters("abcd", {{.id = 1}}, 1, 4)), "abcd");
  // Elements that are wider than the chunk are not gone through.
  const Filter wide = {.id = 2, .parameters = {~0U}};
  EXPECT_EQ(Value(UndoFilters("abcd", std::vector<Filter>(32, wide), 0, 4)),
            "abcd");
}

// As wide as a chunk they would take long to undo.
TEST_F(ChunkedDatasetTest, AShuffleIsAsWideAsAnElement) {
  Write("x", {100}, {100}, {Pass::kShuffle}, Values(100, true));
  const std::string bytes = Close();
  BoundedFile file = FileOf(bytes);
  FileReader reader = Value(FileReader::Open(file));
  ChunkedDataset dataset = *Value(reader.FindChunked("x"));
  EXPECT_EQ(Value(ReadAll(file, dataset)), Values(100, true));
  ASSERT_EQ(dataset.filters[0].parameters, std::vector<uint32_t>{4});
  for (const std::vector<uint32_t>& width :
       {std::vector<uint32_t>{}, {0}, {3}, {200}, {4, 4}}) {
    dataset.filters[0].parameters = width;
    EXPECT_TRUE(absl::IsDataLoss(ReadAll(file, dataset).status()));
  }
}

// A file that is as large as it likes to say, and has a chunk of 1000 bytes.
TEST_F(ChunkedDatasetTest, AChunkIsNotLongerThanItsFiltersMakeIt) {
  Close();
  int64_t most_read = 0;
  BoundedFile file("f.h5", int64_t{1} << 40, kBudget,
                   [&](int64_t, void* data, int64_t size) {
                     most_read = std::max(most_read, size);
                     std::memset(data, 0, size);
                     return absl::OkStatus();
                   });
  ChunkedDataset dataset = {.shape = {1000},
                            .chunk = {1000},
                            .element_bytes = 1,
                            .filters = {{.id = 1}, {.id = 3}},
                            .index = ChunkIndex::kSingle,
                            .address = 4096};
  const int64_t most = MostFilteredBytes(dataset.filters, 1000);
  EXPECT_LT(most, 1100);
  for (const int64_t stored : {int64_t{1} << 33, most + 1, most}) {
    dataset.stored_bytes = stored;
    const Status status = ReadChunk(file, dataset, {0}).status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    EXPECT_EQ(most_read, stored == most ? most : 0) << status;
  }
}

TEST_F(ChunkedDatasetTest, DamagedListsOfFilters) {
  Close();
  for (const std::string& message :
       {std::string(), std::string("\x01\x01", 2), std::string("\x02\x00", 2),
        std::string("\x02\xff", 2),
        std::string("\x02\x01\x01\x00\x00\x00\xff\xff\x01\x00", 10)}) {
    EXPECT_TRUE(absl::IsDataLoss(ParseFilterPipeline(message).status()));
  }
}

TEST_F(ChunkedDatasetTest, MoreThanOneShuffleIsRefused) {
  Close();
  const std::string shuffle("\x02\0\0\0\0\0", 6);
  const std::string one = std::string("\x02\x01", 2) + shuffle;
  EXPECT_EQ(ParseFilterPipeline(one).value().size(), 1u);
  const std::string two = std::string("\x02\x02", 2) + shuffle + shuffle;
  EXPECT_THAT(std::string(ParseFilterPipeline(two).status().message()),
              ::testing::HasSubstr("need at most 1 shuffle, found 2"));
}

}  // namespace
}  // namespace belay::h5::chunked_dataset_test
