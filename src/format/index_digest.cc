// The digest of the index: what goes into it, in which order.
#include <string>
#include <string_view>
#include <vector>

#include "bytes/checksum.h"
#include "format/index_columns.h"
#include "format/stored_columns.h"

namespace belay {

void ColumnCrc::AddBytes(const void* data, size_t bytes) {
  state_ = CrcRegister(state_, data, bytes);
  bytes_ += bytes;
}

void ColumnCrc::Add(const StoredColumn& column) {
  const auto rows = static_cast<uint64_t>(column.rows);
  AddBytes(&rows, sizeof(rows));
  if (column.dtype != DType::kString) {
    return AddBytes(column.bytes.get(), BytesOf(column).size());
  }
  // Many short texts, put together first: a sum is fast over long bytes.
  constexpr size_t kPartBytes = 16 << 10;
  std::string part;
  for (int64_t row = 0; row < column.rows; ++row) {
    const std::string_view text = TextOf(column, row);
    const uint64_t bytes = text.size();
    if (part.size() + text.size() > kPartBytes) {
      AddBytes(part.data(), part.size());
      part.clear();
    }
    part.append(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
    part.append(text);
  }
  AddBytes(part.data(), part.size());
}

bool IsValueColumn(std::string_view path) {
  return path == kStepColumn || path == kTimeColumn || path == kChecksumColumn;
}

IndexDigest DigestOf(const StoredColumns& columns) {
  ColumnCrc structure, values;
  for (const StoredColumn& column : columns) {
    (IsValueColumn(column.path) ? values : structure).Add(column);
  }
  return {.structure = structure.value(), .values = values.value()};
}

uint32_t DigestOfValues(int64_t step, int64_t time,
                        const std::vector<uint32_t>& checksums) {
  ColumnCrc crc;
  crc.Add(ToStoredColumn(kStepColumn, std::vector<int64_t>{step}));
  crc.Add(ToStoredColumn(kTimeColumn, std::vector<int64_t>{time}));
  crc.Add(ToStoredColumn(kChecksumColumn, checksums));
  return crc.value();
}

}  // namespace belay
