// What rank 0 needs for an import does not grow with the number of ranks, and
// where it has no memory all ranks hear of it.

#include "core/wire.h"
#include "counted_memory.h"
#include "safetensors_testing.h"

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
  int64_t Import(const Comm& comm) {
    const int64_t before = counted_memory.most_live_bytes =
        counted_memory.live_bytes;
    const ImportResult result = testing::Ok(ImportSafetensors(
        comm, {Path()}, run(), ++step_, {.leave_out_others = true}));
    EXPECT_EQ(result.left_out.size(), kForeign);
    return counted_memory.most_live_bytes - before;
  }

  int64_t step_ = 0;
};

TEST_F(SafetensorsMemoryTest, RankZeroHoldsOneCopyForAllRanks) {
  Comm alone = testing::Ok(Comm::Duplicate(MPI_COMM_SELF));
  const int64_t of_one = rank_ == 0 ? Import(alone) : 0;
  step_ = 1;
  MPI_Barrier(MPI_COMM_WORLD);
  const int64_t of_all = Import(comm_);
  if (rank_ == 0) {
    ASSERT_GE(size_, 4);
    EXPECT_GT(of_one, kForeign * kNameBytes);
    EXPECT_LT(of_all, of_one + kForeign * kNameBytes);
  }
  EXPECT_TRUE(alone.Close().ok());
}

TEST_F(SafetensorsMemoryTest, NoMemoryOnRankZeroIsAgreed) {
  counted_memory.large = int64_t{1} << 20;
  counted_memory.Arm(0);
  Import(comm_);
  int64_t count = counted_memory.large_calls;
  MPI_Bcast(&count, 1, MPI_INT64_T, 0, MPI_COMM_WORLD);
  EXPECT_GE(count, 2);
  for (int64_t number = 1; number <= count; ++number) {
    SCOPED_TRACE(number);
    counted_memory.Arm(rank_ == 0 ? number : 0);
    const Status status =
        ImportSafetensors(comm_, {Path()}, run(), 9, {.leave_out_others = true})
            .status();
    counted_memory.Arm(0);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr("no memory for "));
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  }
}

}  // namespace
}  // namespace belay
