// The digests of the index: what goes into them, in which order.
#include <string>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "bytes/checksum.h"
#include "format/index_columns.h"
#include "format/stored_columns.h"

namespace belay {
namespace {

// A standard CRC32C over several pieces.
class RunningCrc {
 public:
  void Add(const void* data, size_t bytes) {
    state_ = CrcRegister(state_, data, bytes);
    bytes_ += bytes;
  }
  uint32_t value() const { return StandardCrc(state_, bytes_); }

 private:
  uint32_t state_ = 0;
  uint64_t bytes_ = 0;
};

// Many short texts, put together first: a sum is fast over long bytes.
void AddTexts(const StoredColumn& column, RunningCrc& crc) {
  constexpr size_t kPartBytes = 16 << 10;
  std::string part;
  for (int64_t row = 0; row < column.rows; ++row) {
    const std::string_view text = TextOf(column, row);
    const uint64_t bytes = text.size();
    if (part.size() + text.size() > kPartBytes) {
      crc.Add(part.data(), part.size());
      part.clear();
    }
    part.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    part.append(text);
  }
  crc.Add(part.data(), part.size());
}

// Adds numbers of so many bytes.
void AddNumbers(uint64_t rows, const void* data, size_t width,
                RunningCrc& crc) {
  crc.Add(&rows, sizeof(rows));
  crc.Add(data, rows * width);
}

void AddColumn(const StoredColumn& column, RunningCrc& crc) {
  const auto rows = static_cast<uint64_t>(column.rows);
  if (column.dtype != DType::kString) {
    return AddNumbers(rows, column.bytes.get(),
                      static_cast<size_t>(column.width), crc);
  }
  crc.Add(&rows, sizeof(rows));
  AddTexts(column, crc);
}

bool IsValue(std::string_view path) {
  return path == kStepColumn || path == kChecksumColumn;
}

}  // namespace

bool HaveColumns(uint32_t minor, const IndexColumns& columns) {
  bool have_rows = false;
  ForEachColumn(minor, columns, [&](std::string_view, const auto& column) {
    have_rows = have_rows || !column.empty();
  });
  return minor < 2 || have_rows;
}

uint32_t MinorFor(const IndexColumns& columns) {
  if (HaveColumns(kFormatMinor, columns)) return kFormatMinor;
  return HaveColumns(kFormatMinorWithoutStructs, columns)
             ? kFormatMinorWithoutStructs
             : kFormatMinorWithoutRows;
}

std::string AddedDigestColumn(uint32_t minor) {
  return Cat(".belay/digest_1_", minor);
}

uint32_t DigestOfValues(int64_t step, const std::vector<uint32_t>& checksums) {
  RunningCrc crc;
  AddNumbers(1, &step, sizeof(step), crc);
  AddNumbers(checksums.size(), checksums.data(), sizeof(uint32_t), crc);
  return crc.value();
}

IndexDigest DigestOf(const StoredColumns& columns) {
  RunningCrc structure, values;
  for (const StoredColumn& column : columns.added[0]) {
    AddColumn(column, IsValue(column.path) ? values : structure);
  }
  return {.structure = structure.value(), .values = values.value()};
}

uint32_t DigestOfAdded(uint32_t minor, const StoredColumns& columns) {
  RunningCrc crc;
  for (const StoredColumn& column : columns.added[minor]) {
    AddColumn(column, crc);
  }
  return crc.value();
}

}  // namespace belay
