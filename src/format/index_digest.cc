// The digests of the index: what goes into them, in which order.
#include <string_view>
#include <type_traits>

#include "base/text.h"
#include "bytes/checksum.h"
#include "format/index_columns.h"

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

template <typename T>
void AddColumn(const std::vector<T>& column, RunningCrc& crc) {
  const uint64_t rows = column.size();
  crc.Add(&rows, sizeof(rows));
  if constexpr (std::is_same_v<T, std::string>) {
    for (const std::string& text : column) {
      const uint64_t bytes = text.size();
      crc.Add(&bytes, sizeof(bytes));
      crc.Add(text.data(), text.size());
    }
  } else {
    crc.Add(column.data(), column.size() * sizeof(T));
  }
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
  AddColumn(std::vector<int64_t>{step}, crc);
  AddColumn(checksums, crc);
  return crc.value();
}

IndexDigest DigestOf(const IndexColumns& columns) {
  RunningCrc structure, values;
  ForEachColumn(0, columns, [&](std::string_view path, const auto& column) {
    const bool is_value = path == kStepColumn || path == kChecksumColumn;
    AddColumn(column, is_value ? values : structure);
  });
  return {.structure = structure.value(), .values = values.value()};
}

uint32_t DigestOfAdded(uint32_t minor, const IndexColumns& columns) {
  RunningCrc crc;
  ForEachColumn(minor, columns, [&](std::string_view, const auto& column) {
    AddColumn(column, crc);
  });
  return crc.value();
}

}  // namespace belay
