#include "hdf5/table.h"

#include <algorithm>
#include <cstring>

#include "absl/functional/function_ref.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "hdf5/error.h"
#include "hdf5/types.h"

namespace belay::h5 {
namespace {

// HDF5 1.10 refuses 2 GiB in one call.
constexpr int64_t kBytesPerCall = int64_t{1} << 28;

// Rows [begin, begin + count) of a column.
using RowsVisitor = absl::FunctionRef<Status(int64_t begin, int64_t count)>;

Box RowsBox(int64_t begin, int64_t count) {
  return Box{.offset = {begin}, .shape = {count}};
}

Status ForEachPart(int64_t rows, int64_t row_bytes, RowsVisitor visit) {
  const int64_t step = std::max<int64_t>(kBytesPerCall / row_bytes, 1);
  for (int64_t begin = 0; begin < rows; begin += step) {
    BELAY_RETURN_IF_ERROR(visit(begin, std::min(step, rows - begin)));
  }
  return absl::OkStatus();
}

Status Damaged(std::string_view path, std::string_view cause) {
  return absl::DataLossError(Cat("read \"", path, "\": ", cause));
}

// Returns the number of rows, once it is known to be sane.
StatusOr<int64_t> CheckedRows(const Handle& file, const Handle& dataset,
                              int64_t row_bytes, int64_t max_rows) {
  BELAY_ASSIGN_OR_RETURN(const Shape shape, DatasetShape(dataset));
  if (shape.size() != 1) {
    return Damaged(dataset.name(),
                   Cat("not a column (need 1 axis, found ", shape.size(), ")"));
  }
  if (shape[0] > max_rows) {
    return Damaged(dataset.name(), Cat("too many rows (need at most ", max_rows,
                                       ", found ", shape[0], ")"));
  }
  hsize_t file_bytes = 0;
  BELAY_RETURN_IF_ERROR(Check(H5Fget_filesize(file.get(), &file_bytes),
                              "get size of file", file.name()));
  if (shape[0] > static_cast<int64_t>(file_bytes) / row_bytes) {
    return Damaged(dataset.name(), "larger than its file");
  }
  return shape[0];
}

// Returns the bytes of one text, from the stored type.
StatusOr<int64_t> TextBytes(const Handle& dataset) {
  BELAY_ASSIGN_OR_RETURN(const Handle type, Own(H5Dget_type(dataset.get()),
                                                "get type", dataset.name()));
  const size_t bytes = H5Tget_size(type.get());
  BELAY_RETURN_IF_ERROR(Judge(bytes > 0, "get type size", dataset.name()));
  return static_cast<int64_t>(bytes);
}

StatusOr<int64_t> LongestText(const std::string& path,
                              const std::vector<std::string>& texts) {
  size_t longest = 1;
  for (const std::string& text : texts) {
    if (text.find('\0') != text.npos) {
      return absl::InvalidArgumentError(
          Cat("write \"", path, "\": a text has a NUL in it"));
    }
    longest = std::max(longest, text.size());
  }
  return static_cast<int64_t>(longest);
}

// Returns rows of `bytes` bytes each, padded with NUL.
std::string Padded(std::span<const std::string> texts, int64_t bytes) {
  std::string rows(texts.size() * bytes, '\0');
  for (size_t i = 0; i < texts.size(); ++i) {
    std::memcpy(rows.data() + i * bytes, texts[i].data(), texts[i].size());
  }
  return rows;
}

void AppendTexts(const std::string& rows, int64_t bytes,
                 std::vector<std::string>& texts) {
  for (size_t at = 0; at < rows.size(); at += bytes) {
    const std::string_view row(rows.data() + at, bytes);
    const size_t end = row.find_last_not_of('\0');
    texts.emplace_back(row.substr(0, end == row.npos ? 0 : end + 1));
  }
}

}  // namespace

template <typename T>
StatusOr<int64_t> WriteColumn(const Handle& file, ObjectCache& cache,
                              const std::string& path,
                              std::span<const T> values) {
  constexpr DType kType = DTypeOf<T>();
  const auto rows = static_cast<int64_t>(values.size());
  BELAY_ASSIGN_OR_RETURN(
      const int64_t offset,
      CreateDataset(file, cache, {path, kType, 0, {rows}, {}}));
  BELAY_ASSIGN_OR_RETURN(Handle dataset, OpenDataset(file, path));
  const auto write = [&](int64_t begin, int64_t count) {
    return WriteHyperslab(dataset, RowsBox(begin, count), {kType},
                          values.data() + begin);
  };
  BELAY_RETURN_IF_ERROR(ForEachPart(rows, sizeof(T), write));
  BELAY_RETURN_IF_ERROR(dataset.Close());
  return offset;
}

template <typename T>
StatusOr<std::vector<T>> ReadColumn(const Handle& file, std::string_view path,
                                    int64_t max_rows) {
  constexpr DType kType = DTypeOf<T>();
  BELAY_ASSIGN_OR_RETURN(const Handle dataset, OpenToRead(file, path));
  BELAY_RETURN_IF_ERROR(CheckStoredType(dataset, {kType}));
  BELAY_ASSIGN_OR_RETURN(const int64_t rows,
                         CheckedRows(file, dataset, sizeof(T), max_rows));
  std::vector<T> values(rows);
  const auto read = [&](int64_t begin, int64_t count) {
    return ReadHyperslab(file, path, {kType}, RowsBox(begin, count),
                         values.data() + begin);
  };
  BELAY_RETURN_IF_ERROR(ForEachPart(rows, sizeof(T), read));
  return values;
}

template StatusOr<int64_t> WriteColumn(const Handle&, ObjectCache&,
                                       const std::string&,
                                       std::span<const uint8_t>);
template StatusOr<int64_t> WriteColumn(const Handle&, ObjectCache&,
                                       const std::string&,
                                       std::span<const int32_t>);
template StatusOr<int64_t> WriteColumn(const Handle&, ObjectCache&,
                                       const std::string&,
                                       std::span<const uint32_t>);
template StatusOr<int64_t> WriteColumn(const Handle&, ObjectCache&,
                                       const std::string&,
                                       std::span<const uint64_t>);
template StatusOr<int64_t> WriteColumn(const Handle&, ObjectCache&,
                                       const std::string&,
                                       std::span<const int64_t>);
template StatusOr<std::vector<uint8_t>> ReadColumn(const Handle&,
                                                   std::string_view, int64_t);
template StatusOr<std::vector<int32_t>> ReadColumn(const Handle&,
                                                   std::string_view, int64_t);
template StatusOr<std::vector<uint32_t>> ReadColumn(const Handle&,
                                                    std::string_view, int64_t);
template StatusOr<std::vector<uint64_t>> ReadColumn(const Handle&,
                                                    std::string_view, int64_t);
template StatusOr<std::vector<int64_t>> ReadColumn(const Handle&,
                                                   std::string_view, int64_t);

Status WriteTextColumn(const Handle& file, ObjectCache& cache,
                       const std::string& path,
                       const std::vector<std::string>& texts) {
  const auto rows = static_cast<int64_t>(texts.size());
  BELAY_ASSIGN_OR_RETURN(const int64_t bytes, LongestText(path, texts));
  BELAY_RETURN_IF_ERROR(
      CreateDataset(file, cache, {path, DType::kString, bytes, {rows}, {}})
          .status());
  BELAY_ASSIGN_OR_RETURN(Handle dataset, OpenDataset(file, path));
  const auto write = [&](int64_t begin, int64_t count) {
    const std::string part =
        Padded(std::span(texts).subspan(begin, count), bytes);
    return WriteHyperslab(dataset, RowsBox(begin, count),
                          {DType::kString, bytes}, part.data());
  };
  BELAY_RETURN_IF_ERROR(ForEachPart(rows, bytes, write));
  return dataset.Close();
}

StatusOr<std::vector<std::string>> ReadTextColumn(const Handle& file,
                                                  std::string_view path,
                                                  int64_t max_rows) {
  BELAY_ASSIGN_OR_RETURN(const Handle dataset, OpenToRead(file, path));
  BELAY_ASSIGN_OR_RETURN(const int64_t bytes, TextBytes(dataset));
  BELAY_RETURN_IF_ERROR(CheckStoredType(dataset, {DType::kString, bytes}));
  BELAY_ASSIGN_OR_RETURN(const int64_t rows,
                         CheckedRows(file, dataset, bytes, max_rows));
  std::vector<std::string> texts;
  texts.reserve(rows);
  const auto read = [&](int64_t begin, int64_t count) {
    std::string part(count * bytes, '\0');
    BELAY_RETURN_IF_ERROR(ReadHyperslab(file, path, {DType::kString, bytes},
                                        RowsBox(begin, count), part.data()));
    AppendTexts(part, bytes, texts);
    return absl::OkStatus();
  };
  BELAY_RETURN_IF_ERROR(ForEachPart(rows, bytes, read));
  return texts;
}

StatusOr<bool> Exists(const Handle& file, std::string_view path) {
  for (size_t end = 0; end != path.npos;) {
    end = path.find('/', end + 1);
    const std::string part(path.substr(0, end));
    BELAY_ASSIGN_OR_RETURN(
        const int64_t found,
        Number(H5Lexists(file.get(), part.c_str(), H5P_DEFAULT), "look for",
               part));
    if (found == 0) return false;
  }
  return true;
}

}  // namespace belay::h5
