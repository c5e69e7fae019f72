#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>

#include "core/checksum.h"

namespace belay::copy_and_sum_test {
namespace {

std::string RandomBytes(int64_t bytes) {
  std::mt19937_64 random(static_cast<uint64_t>(bytes));
  std::string data(static_cast<size_t>(bytes), '\0');
  for (char& byte : data) byte = static_cast<char>(random());
  return data;
}

// Around each border of what is done at once, and at any address of either.
TEST(CopyAndSum, CopiesAllBytesAndSumsThemAsCrcRegisterDoes) {
  constexpr int64_t kRoom = 5000;
  for (const int64_t bytes :
       {0,     1,     15,     16,     63,     64,    100,   2048,
        32767, 32768, 8191,   8192,   8256,   16384, 32769, 65536,
        65600, 90000, 100001, 131072, 139264, 400000}) {
    const std::string data = RandomBytes(bytes + kRoom);
    for (const auto& [from, to] : {std::pair<int, int>{0, 0},
                                   {0, 1},
                                   {1, 0},
                                   {3, 63},
                                   {63, 16},
                                   {8, 8},
                                   {7, 33},
                                   {0, 1000},
                                   {1001, 0},
                                   {5, 4099}}) {
      std::string target(static_cast<size_t>(bytes + 2 * kRoom), '?');
      const uint32_t state = 0x12345678u + static_cast<uint32_t>(bytes);
      const auto size = static_cast<size_t>(bytes);
      EXPECT_EQ(
          CopyAndSum(state, target.data() + to, data.data() + from, bytes),
          CrcRegisterPortable(state, data.data() + from, size))
          << bytes << " bytes from " << from << " to " << to;
      EXPECT_EQ(target.substr(static_cast<size_t>(to), size),
                data.substr(static_cast<size_t>(from), size));
      EXPECT_EQ(target.substr(0, static_cast<size_t>(to)),
                std::string(static_cast<size_t>(to), '?'));
      EXPECT_EQ(target.find_first_not_of('?', static_cast<size_t>(to) + size),
                std::string::npos);
    }
  }
}

// How far the target lies from the source in its page decides how it is done.
TEST(CopyAndSum, SumsWhateverTheDistanceInThePage) {
  constexpr int64_t kPage = 4096, kBytes = 70'000;
  const std::string data = RandomBytes(kBytes + 2 * kPage);
  std::string room(static_cast<size_t>(kBytes + 3 * kPage), '?');
  const auto place_in_page = [](const char* at) {
    return static_cast<int64_t>(reinterpret_cast<uintptr_t>(at) % kPage);
  };
  const char* const source = data.data() + kPage - place_in_page(data.data());
  char* const page = room.data() + kPage - place_in_page(room.data());
  for (const int64_t distance : {0, 1, 15, 16, 64, 255, 256, 257, 1000, 2048,
                                 4032, 4079, 4080, 4081, 4095}) {
    for (const int64_t bytes : {8191, 8300, 16384, 70'000}) {
      const auto size = static_cast<size_t>(bytes);
      EXPECT_EQ(CopyAndSum(7, page + distance, source, bytes),
                CrcRegisterPortable(7, source, size))
          << bytes << " bytes at " << distance;
      EXPECT_EQ(std::string_view(page + distance, size),
                std::string_view(source, size));
    }
  }
}

}  // namespace
}  // namespace belay::copy_and_sum_test
