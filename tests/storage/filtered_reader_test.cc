#include "storage/filtered_reader.h"

#include <sys/wait.h>

#include <string>
#include <vector>

#include "belay/values/save_args.h"
#include "h5_testing.h"
#include "hdf5/file.h"

namespace belay::filtered_reader_test {
namespace {

using h5::Ok;
using h5::Value;

constexpr int64_t kRows = 5, kColumns = 7;
constexpr int kNbit = 5;  // which only HDF5 undoes

bool HasChild() {
  siginfo_t info = {};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

class FilteredReaderTest : public h5::H5Test {
 protected:
  // Writes numbers from 0 on, in chunks of 2 x 3.
  void Write(const std::vector<Filter>& filters) const {
    h5::Handle file = Value(h5::CreateFile(Path("d.h5")));
    h5::ObjectCache cache;
    Value(h5::CreateDataset(
        file, cache,
        {"a/w", DType::kI32, 0, {kRows, kColumns}, {2, 3}, filters}));
    cache = {};
    h5::Handle dataset = Value(h5::OpenDataset(file, "a/w"));
    std::vector<int32_t> values(kRows * kColumns);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<int32_t>(i);
    }
    Ok(h5::WriteHyperslab(dataset, WholeBox({kRows, kColumns}), {DType::kI32},
                          values.data()));
    Ok(dataset.Close());
    Ok(file.Close());
  }

  // Reads all of it, and compares. The piece begins somewhere in its array.
  Status ReadAll(FilteredReader& reader, const FilteredDataset& dataset) const {
    std::vector<int32_t> values(kRows * kColumns, -1);
    const ShardMemory memory{.data = reinterpret_cast<char*>(values.data()),
                             .element_size = sizeof(int32_t),
                             .box = dataset.box,
                             .array = {100, 100}};
    for (int64_t row = 0; row < kRows; row += 2) {
      for (int64_t column = 0; column < kColumns; column += 3) {
        const Extent extent{.box = {.offset = {dataset.box.offset[0] + row,
                                               dataset.box.offset[1] + column},
                                    .shape = {2, 3}}};
        const Status status =
            reader.Read(Path("d.h5"), dataset, extent,
                        *Intersect(extent.box, dataset.box), memory);
        if (!status.ok()) return status;
      }
    }
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], static_cast<int32_t>(i));
    }
    return absl::OkStatus();
  }

  static FilteredDataset DatasetOf(const std::vector<Filter>& filters) {
    return {.path = "a/w",
            .dtype = DType::kI32,
            .box = {.offset = {10, 21}, .shape = {kRows, kColumns}},
            .filters = filters};
  }
};

// A file that somebody has made does not get to libhdf5 by its filters.
TEST_F(FilteredReaderTest, FiltersOfHdf5ItselfNeedNoLibhdf5) {
  Write(Deflate());
  const std::vector<int64_t> open = h5::OpenIds();
  const std::vector<Filter> filters = Deflate();
  for (const std::vector<uint32_t>& numbers :
       {std::vector<uint32_t>{}, {4}, {1, 2}}) {
    FilteredDataset dataset = DatasetOf(filters);
    dataset.filters[0].parameters = numbers;
    FilteredReader reader;
    Ok(ReadAll(reader, dataset));
    EXPECT_EQ(h5::OpenIds(), open);  // it would keep the file
    EXPECT_EQ(reader.TakeChunks(), 9);
  }
}

// A crash of libhdf5, or of a plugin, is not one of the program.
TEST_F(FilteredReaderTest, OtherFiltersAreUndoneInAChild) {
  const std::vector<Filter> filters = {{.id = kNbit}};
  Write(filters);
  const std::vector<int64_t> open = h5::OpenIds();
  FilteredReader reader;
  Ok(ReadAll(reader, DatasetOf(filters)));
  EXPECT_EQ(h5::OpenIds(), open);
  EXPECT_TRUE(HasChild());
  reader.Close();
  EXPECT_FALSE(HasChild());
}

TEST_F(FilteredReaderTest, AnotherDatasetThanTheIndexSays) {
  Write(Deflate());
  std::vector<FilteredDataset> others(4, DatasetOf(Deflate()));
  others[0].path = "a/none";
  others[1].dtype = DType::kU32;
  others[2].box.shape[1] = kColumns + 1;
  others[3].filters = {{.id = 1}};
  for (size_t i = 0; i < others.size(); ++i) {
    FilteredReader reader;
    const Status status = ReadAll(reader, others[i]);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << i << status;
    EXPECT_NE(status.message().find(Path("d.h5")), status.message().npos);
  }
}

TEST_F(FilteredReaderTest, DamageThatAChildFinds) {
  const std::vector<Filter> filters = {{.id = kNbit}};
  Write(filters);
  std::vector<FilteredDataset> others(2, DatasetOf(filters));
  others[0].path = "a/none";
  others[1].dtype = DType::kF64;
  FilteredReader reader;
  for (const FilteredDataset& other : others) {
    const Status status = ReadAll(reader, other);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_NE(status.message().find(Path("d.h5")), status.message().npos);
  }
  constexpr int kNoFilter = 511;
  EXPECT_EQ(ReadAll(reader, DatasetOf({{.id = kNoFilter}})).code(),
            absl::StatusCode::kFailedPrecondition);
  Ok(ReadAll(reader, DatasetOf(filters)));
}

}  // namespace
}  // namespace belay::filtered_reader_test
