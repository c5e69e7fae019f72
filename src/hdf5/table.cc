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

}  // namespace belay::h5
