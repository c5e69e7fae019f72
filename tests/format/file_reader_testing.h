// Files that are strings, and what FileReader finds in them.

#ifndef BELAY_TESTS_HDF5_FORMAT_FILE_READER_TESTING_H_
#define BELAY_TESTS_HDF5_FORMAT_FILE_READER_TESTING_H_

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "format/element_type.h"
#include "format/file_metadata.h"
#include "format/file_reader.h"
#include "h5_testing.h"

namespace belay::h5 {

inline constexpr int64_t kBudget = int64_t{64} << 20;

// A file that is a string.
inline BoundedFile FileOf(const std::string& bytes, int64_t budget = kBudget) {
  return {"f.h5", std::ssize(bytes), budget,
          [&bytes](int64_t offset, void* data, int64_t size) {
            std::memcpy(data, bytes.data() + offset, size);
            return absl::OkStatus();
          }};
}

inline StatusOr<std::optional<ContiguousDataset>> FindIn(
    const std::string& bytes, const std::string& path,
    int64_t budget = kBudget) {
  BoundedFile file = FileOf(bytes, budget);
  StatusOr<FileReader> reader = FileReader::Open(file);
  if (!reader.ok()) return reader.status();
  return reader->Find(path);
}

inline std::string Encoded(const std::vector<DatasetSpec>& datasets,
                           std::vector<int64_t>& offsets) {
  FileMetadata file =
      EncodeFileMetadata({.datasets = datasets}).value().value();
  offsets = file.offsets;
  file.bytes.resize(file.file_bytes, '\0');
  return std::move(file.bytes);
}

class FileReaderFixture : public H5Test {
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

  static void ExpectFound(const std::string& bytes, const DatasetSpec& spec,
                          int64_t offset) {
    const auto found = Value(FindIn(bytes, spec.path));
    ASSERT_TRUE(found.has_value()) << spec.path;
    const bool is_null = spec.dtype == DType::kString && spec.string_bytes == 0;
    EXPECT_EQ(found->shape, is_null ? Shape{0} : spec.shape) << spec.path;
    EXPECT_EQ(found->offset, offset) << spec.path;
    EXPECT_EQ(found->bytes, offset < 0 ? 0 : StoredBytes(spec)) << spec.path;
    EXPECT_EQ(found->type, Value(EncodedType(GetElementType(spec))))
        << spec.path;
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

inline std::vector<DatasetSpec> Columns(const std::vector<std::string>& paths) {
  std::vector<DatasetSpec> datasets;
  for (const std::string& path : paths) {
    datasets.push_back({path, DType::kI64, 0, {3}, {}});
  }
  return datasets;
}

}  // namespace belay::h5

#endif  // BELAY_TESTS_HDF5_FORMAT_FILE_READER_TESTING_H_
