// Checkpoint: arrays given by pointers, with fewer rows than ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include "belay/checkpoint.h"
#include "belay/checkpoint_reader.h"
#include "thing.h"
#include "values.h"

namespace belay::empty_pieces_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Ok;

constexpr int64_t kRows = 2, kColumns = 3;

// How the rows go to the ranks. With boxes they go to the last ranks, with a
// layout to the first ones.
enum class Way { kLayout, kBoxes };

// One rank's pieces of some arrays, one after the other in one arena. Where it
// has no element, they all begin at one address.
class Arena {
 public:
  Arena(const Comm& comm, Way way)
      : way_(way),
        layout_(Ok(Layout::Create(Ok(Mesh::Create({{"x", comm.size()}})),
                                  {{"x"}, {}}))) {
    const int part =
        way == Way::kLayout ? comm.rank() : comm.size() - 1 - comm.rank();
    box_ = Ok(layout_.LocalBox({kRows, kColumns}, part));
  }

  int64_t length() const { return NumElements(box_.shape); }
  bool is_empty() const { return length() == 0; }

  // The next array; its elements follow from its number.
  float* Cut() {
    float* const begin = memory_.data() + num_arrays_ * length();
    for (int64_t i = 0; i < length(); ++i) begin[i] = Expected(num_arrays_, i);
    ++num_arrays_;
    return begin;
  }
  TrackedValue Piece(float* begin) const {
    const Shape shape = {kRows, kColumns};
    return way_ == Way::kLayout ? TrackedValue(layout_, shape, AtAddress(begin))
                                : TrackedValue(shape, box_, AtAddress(begin));
  }

  void Spoil() { std::fill(memory_.begin(), memory_.end(), -1.F); }
  // How many elements are not what Cut made them.
  int64_t CountWrong() const {
    int64_t wrong = 0;
    for (int64_t array = 0; array < num_arrays_; ++array) {
      for (int64_t i = 0; i < length(); ++i) {
        const auto at = static_cast<size_t>(array * length() + i);
        wrong += memory_[at] != Expected(array, i);
      }
    }
    return wrong;
  }

 private:
  float Expected(int64_t array, int64_t i) const {
    const int64_t element = box_.offset[0] * kColumns + i;
    return static_cast<float>(1000 * (array + 1) + element);
  }

  Way way_;
  Layout layout_;
  Box box_;
  int64_t num_arrays_ = 0;
  std::vector<float> memory_ = std::vector<float>(100, -1);
};

// Two arrays, tied weights, and what Adam keeps for all of them.
struct Model {
  Model(const Comm& comm, Way way) : arena(comm, way) {
    float* const a = arena.Cut();
    float* const b = arena.Cut();
    float* tied = arena.Cut();
    if (arena.is_empty()) tied = nullptr;
    for (const char* name : {"m", "v"}) {
      for (float* variable : {a, b, tied}) {
        adam.slots.emplace_back(name, arena.Piece(variable),
                                arena.Piece(arena.Cut()));
      }
    }
    root.children = {{"a", arena.Piece(a)},
                     {"b", arena.Piece(b)},
                     {"embedding", arena.Piece(tied)},
                     {"head", arena.Piece(tied)},
                     {"adam", adam}};
  }
  Model(const Model&) = delete;

  Arena arena;
  Thing adam, root;
};

class EmptyPiecesTest : public testing::CheckpointTest {
 protected:
  static void ExpectModelComesBack(const Comm& comm, Way way,
                                   const std::string& run) {
    Model model(comm, way);
    model.arena.Spoil();
    Checkpoint checkpoint(comm, model.root);
    LoadStatus status = Ok(checkpoint.Restore(run));
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
      EXPECT_EQ(status.AssertExistingObjectsMatched(), absl::OkStatus());
      EXPECT_EQ(status.report().matched.size(), 10);  // 3, 2 * 3, the counter
      EXPECT_THAT(status.report().warnings, IsEmpty());
      EXPECT_THAT(status.rank_reports()[0].missing, IsEmpty());
      EXPECT_EQ(model.arena.CountWrong(), 0);
      status = Ok(checkpoint.RestoreDeferred());
    }
  }

  // Some of the ranks: those below the middle, or the others.
  Comm Half() const { return Ok(comm_.Split(rank_ < size_ / 2 ? 0 : 1)); }
  std::string RunOfHalf() const {
    return dir_.File(rank_ < size_ / 2 ? "lower" : "upper");
  }
};

TEST_F(EmptyPiecesTest, ComeBackOnAnyRanks) {
  Comm half = Half();
  for (const Way saved : {Way::kLayout, Way::kBoxes}) {
    const std::string run = dir_.File(saved == Way::kLayout ? "l" : "b");
    Model model(comm_, saved);
    const SaveResult result = Ok(Checkpoint(comm_, model.root).Save(run));
    EXPECT_EQ(result.num_arrays, 10);
    for (const Way restored : {Way::kLayout, Way::kBoxes}) {
      ExpectModelComesBack(comm_, restored, run);
      ExpectModelComesBack(half, restored, run);
    }
  }
  EXPECT_EQ(half.Close(), absl::OkStatus());
}

TEST_F(EmptyPiecesTest, ComeBackOnMoreRanks) {
  Comm half = Half();
  Model model(half, Way::kLayout);
  Ok(Checkpoint(half, model.root).Save(RunOfHalf()));
  MPI_Barrier(MPI_COMM_WORLD);
  for (const char* run : {"lower", "upper"}) {
    if (run == std::string("lower") && size_ < 2) continue;
    for (const Way way : {Way::kLayout, Way::kBoxes}) {
      ExpectModelComesBack(comm_, way, dir_.File(run));
    }
  }
  EXPECT_EQ(half.Close(), absl::OkStatus());
}

TEST_F(EmptyPiecesTest, PlansAreUsedAgain) {
  Model model(comm_, Way::kBoxes);
  Checkpoint checkpoint(comm_, model.root);
  EXPECT_FALSE(Ok(checkpoint.Save(run())).plan_reused);
  EXPECT_TRUE(Ok(checkpoint.Save(run())).plan_reused);
}

TEST_F(EmptyPiecesTest, RanksThatHaveSomethingHaveToAgree) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks with elements";
  // The first rank says that both are one array, the second one denies it.
  Arena arena(comm_, Way::kLayout);
  float* const a = arena.Cut();
  float* const b = rank_ == 0 ? a : arena.Cut();
  Thing root{.children = {{"a", arena.Piece(a)}, {"b", arena.Piece(b)}}};
  const Status status = Checkpoint(comm_, root).Save(run()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              HasSubstr("two objects on rank 1, and one object on rank 0"));
  EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  EXPECT_FALSE(std::filesystem::exists(run()));
}

TEST_F(EmptyPiecesTest, ASlotWithElementsOfAnEmptyVariableIsRefused) {
  Model model(comm_, Way::kLayout);
  float step = 0;
  model.adam.slots.emplace_back("step", std::get<1>(model.adam.slots[0]), step);
  const Status status = Checkpoint(comm_, model.root).Save(run()).status();
  EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  if (size_ <= kRows) {
    EXPECT_EQ(status, absl::OkStatus());
  } else {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        status.message(),
        HasSubstr("track \"(root).adam\": slot \"step\" has elements on "
                  "rank 2, but its variable has none there, so nothing tells "
                  "whether it is (root).a or (root).b or (root).embedding"));
  }
}

}  // namespace
}  // namespace belay::empty_pieces_test
