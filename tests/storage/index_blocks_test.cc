#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "format/index_columns.h"
#include "store_testing.h"

namespace belay::index_blocks_test {
namespace {

// 2^21 arrays of 2^43 blocks and one of one block: 2^64 + 1 in all.
TEST(IndexBlocksTest, BlocksThatSumUpToFewAreFoundOut) {
  constexpr size_t kArrays = (size_t{1} << 21) + 1;
  const IndexColumns small = ToColumns(SmallIndex());
  IndexColumns columns;
  columns.magic = small.magic;
  columns.format = small.format;
  columns.file_layout = small.file_layout;
  columns.block_bytes = small.block_bytes;
  columns.step = small.step;
  columns.time = small.time;
  for (size_t i = 0; i < kArrays; ++i) {
    columns.array_key.push_back(absl::StrFormat("%08d", i));
  }
  columns.array_dtype.assign(kArrays, static_cast<uint8_t>(DType::kC128));
  columns.array_ndim.assign(kArrays, 1);
  columns.array_shape.assign(kArrays, INT64_MAX / 16);
  columns.array_shape.back() = 1;
  columns.array_string_bytes.assign(kArrays, 0);
  columns.checksum = {7};
  const Status status = FromColumns(columns, "dir/index.h5").status();
  EXPECT_EQ(status, absl::DataLossError(
                        "read \"dir/index.h5\": column \"checksums/crc32c\" "
                        "has the wrong length (need 8796093022208 rows or "
                        "more, found 1)"));
}

}  // namespace
}  // namespace belay::index_blocks_test
