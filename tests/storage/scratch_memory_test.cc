#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "directory_fixture.h"
#include "sanitizers.h"
#include "storage/mapped_file.h"

namespace belay::scratch_memory_test {
namespace {

using ::testing::HasSubstr;

class ScratchMemoryTest : public DirectoryTest {};

TEST_F(ScratchMemoryTest, HoldsBytes) {
  constexpr int64_t kBytes = int64_t{5} << 20;
  for (const std::string& dir : {std::string(), dir_}) {
    StatusOr<ScratchMemory> memory = ScratchMemory::Take(kBytes, dir);
    ASSERT_TRUE(memory.ok()) << memory.status();
    std::memset(memory->data(), 7, kBytes);
    ScratchMemory moved = *std::move(memory);
    EXPECT_EQ(moved.data()[kBytes - 1], std::byte{7});
    memory = ScratchMemory();
    EXPECT_EQ(moved.data()[0], std::byte{7});
  }
  // No file is left, not even while it is used.
  EXPECT_TRUE(std::filesystem::is_empty(dir_));
}

TEST_F(ScratchMemoryTest, NothingNeedsNothing) {
  const StatusOr<ScratchMemory> memory =
      ScratchMemory::Take(0, "/does/not/exist");
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->data(), nullptr);
}

TEST_F(ScratchMemoryTest, WhatIsMissingIsAnError) {
  const Status absent = ScratchMemory::Take(1, Path("absent")).status();
  EXPECT_EQ(absent.code(), absl::StatusCode::kNotFound) << absent;
  EXPECT_THAT(std::string(absent.message()), HasSubstr("absent"));
  const Status large = ScratchMemory::Take(int64_t{1} << 60, dir_).status();
  EXPECT_FALSE(large.ok());
  EXPECT_THAT(std::string(large.message()),
              HasSubstr("need 1152921504606846976 bytes"));
}

TEST_F(ScratchMemoryTest, NoMemoryIsAnError) {
  if (!testing::kCanRunOutOfMemory) GTEST_SKIP() << testing::kEndsWithoutMemory;
  const Status memory = ScratchMemory::Take(int64_t{1} << 60, "").status();
  EXPECT_EQ(memory.code(), absl::StatusCode::kResourceExhausted) << memory;
}

}  // namespace
}  // namespace belay::scratch_memory_test
