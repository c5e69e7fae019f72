#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "core/checksum.h"

namespace belay::stream_copy_test {
namespace {

TEST(StreamCopyTest, EveryLengthAndAlignment) {
  std::string source(20000, '\0');
  for (size_t i = 0; i < source.size(); ++i) {
    source[i] = static_cast<char>((i * 2654435761U) >> 11);
  }
  for (int64_t bytes : {0, 1, 63, 64, 2047, 2048, 2049, 4096, 10000}) {
    for (int64_t to = 0; to < 70; to += 3) {
      const int64_t from = (to * 7) % 67;
      std::string target(12000, '.');
      std::string expected = target;
      expected.replace(to, bytes, source, from, bytes);
      StreamCopy(target.data() + to, source.data() + from, bytes);
      ASSERT_EQ(target, expected) << bytes << " bytes to " << to;
    }
  }
}

}  // namespace
}  // namespace belay::stream_copy_test
