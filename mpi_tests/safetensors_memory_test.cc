// What rank 0 needs for an import does not grow with the number of ranks, and
// where it has no memory all ranks hear of it.

#include <malloc.h>

#include <cstdlib>
#include <new>

#include "base/wire.h"
#include "safetensors_testing.h"

namespace {

constexpr std::size_t kLarge = std::size_t{1} << 20;
std::size_t in_use = 0;
std::size_t most_in_use = 0;
int64_t large = 0;    // allocations of at least so many bytes
int64_t failing = 0;  // the number of the one that fails; 0 for none

}  // namespace

void* operator new(std::size_t size) {
  const bool fails = size >= kLarge && ++large == failing;
  void* const memory = fails ? nullptr : std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  in_use += malloc_usable_size(memory);
  most_in_use = std::max(most_in_use, in_use);
  return memory;
}
// Inlined, it would look to the compiler as if it did not match.
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  in_use -= memory == nullptr ? 0 : malloc_usable_size(memory);
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}

namespace belay {
namespace {

constexpr int kForeign = 4000;
constexpr int kNameBytes = 1000;

class SafetensorsMemoryTest : public testing::SafetensorsTest {
 protected:
  void SetUp() override {
    SafetensorsTest::SetUp();
    if (rank_ == 0) testing::PutFile(Path(), FileText());
    MPI_Barrier(MPI_COMM_WORLD);
  }

  std::string Path() const { return File("x.safetensors"); }

  // One tensor that can be imported, and many that are left out.
  static std::string FileText() {
    std::string header =
        R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
    for (int i = 0; i < kForeign; ++i) {
      const std::string name = absl::StrCat(i);
      absl::StrAppend(&header, ",\"", name,
                      std::string(kNameBytes - name.size(), 'x'),
                      R"(":{"dtype":"F8_E8M0","shape":[1],"data_offsets":[)",
                      i + 1, ",", i + 2, "]}");
    }
    header += "}";
    WireWriter length;
    length.Put<uint64_t>(header.size());
    return length.Take() + header + std::string(kForeign + 1, 'x');
  }

  // Imports the file as the next step. Returns what this rank had in use at
  // most, beside what it has anyway.
  std::size_t Import(const Comm& comm) {
    const std::size_t before = most_in_use = in_use;
    const ImportResult result = testing::Ok(ImportSafetensors(
        comm, {Path()}, run(), ++step_, {.leave_out_others = true}));
    EXPECT_EQ(result.left_out.size(), kForeign);
    return most_in_use - before;
  }

  int64_t step_ = 0;
};

TEST_F(SafetensorsMemoryTest, RankZeroHoldsOneCopyForAllRanks) {
  Comm alone = testing::Ok(Comm::Duplicate(MPI_COMM_SELF));
  const std::size_t of_one = rank_ == 0 ? Import(alone) : 0;
  step_ = 1;
  MPI_Barrier(MPI_COMM_WORLD);
  const std::size_t of_all = Import(comm_);
  if (rank_ == 0) {
    ASSERT_GE(size_, 4);
    EXPECT_GT(of_one, kForeign * kNameBytes);
    EXPECT_LT(of_all, of_one + kForeign * kNameBytes);
  }
  EXPECT_TRUE(alone.Close().ok());
}

TEST_F(SafetensorsMemoryTest, NoMemoryOnRankZeroIsAgreed) {
  large = 0;
  Import(comm_);
  int64_t count = large;
  MPI_Bcast(&count, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  EXPECT_GE(count, 2);
  for (int64_t number = 1; number <= count; ++number) {
    SCOPED_TRACE(number);
    large = 0;
    failing = rank_ == 0 ? number : 0;
    const Status status =
        ImportSafetensors(comm_, {Path()}, run(), 9, {.leave_out_others = true})
            .status();
    failing = 0;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr("no memory for "));
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  }
}

}  // namespace
}  // namespace belay
