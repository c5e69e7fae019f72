#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "core/flat_buffer.h"

namespace belay::huge_pages_test {
namespace {

// Returns the flags that the system keeps for the memory at that address, as
// /proc/self/smaps prints them; "" if it does not tell.
std::string FlagsAt(const std::byte* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream smaps("/proc/self/smaps");
  std::string line;
  bool is_inside = false;
  while (std::getline(smaps, line)) {
    size_t dash = 0;
    if (line.starts_with("VmFlags:")) {
      if (is_inside) return line + " ";
    } else if (std::isxdigit(static_cast<unsigned char>(line[0])) &&
               (dash = line.find('-')) < line.find(' ')) {
      const uintptr_t first = std::stoull(line.substr(0, dash), nullptr, 16);
      const uintptr_t end = std::stoull(line.substr(dash + 1), nullptr, 16);
      is_inside = first <= wanted && wanted < end;
    }
  }
  return "";
}

TEST(HugePages, AllBytesCanBeWritten) {
  for (int64_t size : {int64_t{0}, int64_t{1}, int64_t{1} << 20,
                       (int64_t{8} << 20) - 1, (int64_t{8} << 20) + 12345}) {
    const auto bytes = NewBytes(size);
    std::fill_n(bytes.get(), size, std::byte{7});
    EXPECT_EQ(std::count(bytes.get(), bytes.get() + size, std::byte{7}), size);
  }
}

TEST(HugePages, OnlyLargeMemoryAsksForThem) {
  const auto large = NewBytes(int64_t{64} << 20);
  const std::string flags = FlagsAt(large.get() + (int64_t{32} << 20));
  if (flags.empty() || access("/sys/kernel/mm/transparent_hugepage", F_OK)) {
    GTEST_SKIP() << "the system does not tell, or has no huge pages";
  }
  EXPECT_NE(flags.find(" hg "), std::string::npos) << flags;
  // Not from the heap, part of which may have been large memory before.
  constexpr int64_t kSmall = int64_t{4} << 20;
  void* const small = mmap(nullptr, kSmall, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(small, MAP_FAILED);
  std::byte* const data = static_cast<std::byte*>(small);
  UseHugePages(data, kSmall);
  EXPECT_EQ(FlagsAt(data + kSmall / 2).find(" hg "), std::string::npos);
  munmap(small, kSmall);
}

TEST(ReusableBytes, StayWhereTheyAreIfTheyFit) {
  ReusableBytes memory;
  Reserve(memory, 800);
  EXPECT_EQ(memory.size, 900);
  const std::byte* const first = memory.bytes.get();
  for (int64_t size : {900, 225, 850}) {
    Reserve(memory, size);
    EXPECT_EQ(memory.bytes.get(), first);
    EXPECT_EQ(memory.size, 900);
  }
}

TEST(ReusableBytes, AreReplacedIfTooSmallOrMuchTooLarge) {
  ReusableBytes memory;
  for (int64_t size : {64, 8000, 8, 16, 1 << 24, 800}) {
    Reserve(memory, size);
    EXPECT_EQ(memory.size, size + size / 8);
    std::fill_n(memory.bytes.get(), memory.size, std::byte{7});
  }
  Reserve(memory, 0);
  EXPECT_EQ(memory.size, 0);
  EXPECT_EQ(memory.bytes, nullptr);
}

}  // namespace
}  // namespace belay::huge_pages_test
