// A State that is saved again: what has changed behind it is found.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "belay/arrays/tensor.h"
#include "belay/async_saver.h"
#include "belay/extend/state.h"
#include "values.h"

namespace belay::kept_listing_test {
namespace {

// Four numbers somewhere.
struct Pointer {
  double* data = nullptr;
};

class PointerHandler : public Handler<Pointer> {
 public:
  std::string typestr() const override { return ""; }
  Status ListForSave(Pointer& pointer, State& parts) const override {
    parts.AddReplicated("", {4}, AtAddress(pointer.data));
    return absl::OkStatus();
  }
  Status ListForRestore(Pointer& pointer, const StoredValue&,
                        State& parts) const override {
    return ListForSave(pointer, parts);
  }
};

class KeptListingTest : public testing::CheckpointTest {
 protected:
  KeptListingTest() { Describe(state_); }

  void Describe(State& state) {
    state.Add("weights", weights_);
    state.Add("text", text_);
    state.Add("tensor", tensor_);
    state.AddPiece("rows", {size_, 3}, Box{{rank_, 0}, {1, 3}},
                   AtAddress(rows_.data()));
  }

  // Other values of the same structure.
  void ChangeValues() {
    ++seed_;
    std::iota(weights_.begin(), weights_.end(), static_cast<float>(seed_));
    text_.assign(text_.size(), static_cast<char>('a' + seed_ % 26));
    std::iota(rows_.begin(), rows_.end(), 100 * rank_ + seed_);
    std::memset(tensor_.data(), seed_,
                static_cast<size_t>(tensor_.num_bytes()));
  }

  // Saves `state` as the next step, and restores that into other memory, which
  // has to become what the values are now. Returns whether the plan was reused.
  bool Reuses(const State& state) {
    ChangeValues();
    const auto saved = Save(comm_, run(), ++step_, state, options_);
    EXPECT_TRUE(saved.ok()) << saved.status();
    ExpectSaved();
    return saved.ok() && saved->plan_reused;
  }

  void ExpectSaved() {
    std::vector<float> weights;
    std::string text;
    Tensor tensor(tensor_.dtype(), tensor_.shape());
    std::vector<int32_t> rows(3);
    State state;
    state.Add("weights", weights);
    state.Add("text", text);
    state.Add("tensor", tensor);
    state.AddPiece("rows", {size_, 3}, Box{{rank_, 0}, {1, 3}},
                   AtAddress(rows.data()));
    const auto restored = Restore(comm_, run(), step_, state,
                                  {.unexpected = MismatchPolicy::kIgnore});
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(weights, weights_);
    EXPECT_EQ(text, text_);
    EXPECT_EQ(rows, rows_);
    EXPECT_EQ(std::memcmp(tensor.data(), tensor_.data(),
                          static_cast<size_t>(tensor_.num_bytes())),
              0);
  }

  std::vector<float> weights_ = std::vector<float>(40);
  std::string text_ = "some text";
  Tensor tensor_ = Tensor(DType::kI32, {2, 2});
  std::vector<int32_t> rows_ = std::vector<int32_t>(3);
  State state_;
  PlanCache cache_;
  SaveOptions options_{.durable = false, .cache = &cache_};
  int64_t step_ = 0;
  int seed_ = 0;
};

TEST_F(KeptListingTest, ValuesThatHaveMoved) {
  EXPECT_FALSE(Reuses(state_));
  EXPECT_TRUE(Reuses(state_));
  weights_ = std::vector<float>(weights_.size());
  text_ = std::string(text_.size(), '?');
  tensor_ = Tensor(DType::kI32, {2, 2});
  EXPECT_TRUE(Reuses(state_));
  EXPECT_TRUE(Reuses(state_));
}

TEST_F(KeptListingTest, ValuesOfOtherLengthsAndTypes) {
  EXPECT_FALSE(Reuses(state_));
  weights_.resize(500);
  EXPECT_FALSE(Reuses(state_));
  EXPECT_TRUE(Reuses(state_));
  text_ += "!";
  EXPECT_FALSE(Reuses(state_));
  EXPECT_TRUE(Reuses(state_));
  tensor_ = Tensor(DType::kI32, {4});
  EXPECT_FALSE(Reuses(state_));
  tensor_ = Tensor(DType::kF32, {4});
  EXPECT_FALSE(Reuses(state_));
  EXPECT_TRUE(Reuses(state_));
}

TEST_F(KeptListingTest, OnOneRankAlone) {
  EXPECT_FALSE(Reuses(state_));
  EXPECT_TRUE(Reuses(state_));
  // The others keep what they have listed, and plan anew.
  std::vector<double> own(2, rank_);
  if (rank_ == size_ - 1)
    state_.AddPiece("own", {2}, Box{{0}, {2}}, AtAddress(own.data()));
  EXPECT_FALSE(Reuses(state_));
  EXPECT_TRUE(Reuses(state_));
}

TEST_F(KeptListingTest, StatesThatWereMovedCopiedAndMadeAnew) {
  EXPECT_FALSE(Reuses(state_));
  const State copy = state_;
  EXPECT_TRUE(Reuses(copy));
  State moved = std::move(state_);
  EXPECT_TRUE(Reuses(moved));
  state_ = State();
  Describe(state_);
  EXPECT_TRUE(Reuses(state_));
  const double more = 2;
  moved = state_;
  moved.Add("more", more);
  EXPECT_FALSE(Reuses(moved));
  EXPECT_FALSE(Reuses(state_));
}

// What a handler lists without a name of its own, it lists anew.
TEST_F(KeptListingTest, AValueInAnotherThatHasMoved) {
  std::optional<std::vector<double>> held;
  Pointer pointer;
  State state;
  state.Add("held", held);
  AddValue(state, "pointer", RefTo(pointer),
           std::make_shared<const PointerHandler>());
  for (int64_t step = 1; step <= 3; ++step) {
    const auto value = static_cast<double>(step);
    held.emplace(static_cast<size_t>(step), value);
    std::vector<double> memory(4, value);
    pointer.data = memory.data();
    const auto saved = Save(comm_, run(), step, state, options_);
    ASSERT_TRUE(saved.ok()) << saved.status();
    std::vector<double> vector, other(4);
    State restored;
    restored.Add("held", vector);
    restored.Add("pointer", std::span(other));
    ASSERT_TRUE(Restore(comm_, run(), step, restored).ok());
    EXPECT_EQ(vector, *held);
    EXPECT_EQ(other, memory);
  }
}

// A program of two time levels: what is current lies in the memory of either.
class SwappedMemoryTest : public testing::CheckpointTest {
 protected:
  SwappedMemoryTest() {
    state_.AddPiece("vector", {4 * size_}, Box{{4 * rank_}, {4}}, now_);
    state_.AddPiece("inner", {4 * size_}, Box{{4 * rank_}, {4}},
                    {wide_, {.before = {1}}});
    state_.AddPiece("pointer", {4 * size_}, Box{{4 * rank_}, {4}},
                    [this] { return std::span(p_, 4); });
    state_.Add("whole", whole_);
    state_.AddRows("rows", rows_);
  }

  // Goes on by a time step, in which every value changes.
  void Step() {
    ++step_;
    const auto first = static_cast<double>(100 * step_ + 10 * rank_);
    std::iota(next_.begin(), next_.end(), first);
    std::iota(wide_next_.begin(), wide_next_.end(), first);
    std::iota(q_, q_ + 4, first);
    whole_next_.assign(5, static_cast<double>(step_));
    rows_next_.assign(static_cast<size_t>(3 + rank_), first);
    std::swap(now_, next_);
    std::swap(wide_, wide_next_);
    std::swap(p_, q_);
    std::swap(whole_, whole_next_);
    std::swap(rows_, rows_next_);
  }

  // The values of a step, which every time step has anew.
  void ExpectValues(int64_t step) const {
    const auto first = static_cast<double>(100 * step + 10 * rank_);
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(now_[static_cast<size_t>(i)], first + i) << step;
      EXPECT_EQ(wide_[static_cast<size_t>(i + 1)], first + i + 1) << step;
      EXPECT_EQ(p_[i], first + i) << step;
    }
    EXPECT_EQ(whole_, std::vector<double>(5, static_cast<double>(step)));
    EXPECT_EQ(rows_,
              std::vector<double>(static_cast<size_t>(3 + rank_), first));
  }

  int64_t step_ = 0;
  std::vector<double> now_ = std::vector<double>(4), next_ = now_;
  std::vector<double> wide_ = std::vector<double>(6), wide_next_ = wide_;
  std::vector<double> memory_ = std::vector<double>(8);
  double* p_ = memory_.data();
  double* q_ = p_ + 4;
  std::vector<double> whole_ = std::vector<double>(5), whole_next_ = whole_;
  std::vector<double> rows_, rows_next_;
  State state_;
};

TEST_F(SwappedMemoryTest, SavesWithAPlanAndRestores) {
  rows_.resize(static_cast<size_t>(3 + rank_));
  PlanCache cache;
  while (step_ < 5) {
    Step();
    const auto saved = Save(comm_, run(), step_, state_, {.cache = &cache});
    ASSERT_TRUE(saved.ok()) << saved.status();
    EXPECT_EQ(saved->plan_reused, step_ > 1);
  }
  for (const int64_t step : {2, 5, 1}) {
    std::swap(now_, next_);
    std::swap(wide_, wide_next_);
    std::swap(p_, q_);
    ASSERT_TRUE(Restore(comm_, run(), step, state_).ok());
    ExpectValues(step);
  }
}

TEST_F(SwappedMemoryTest, SavesInTheBackground) {
  AsyncSaver saver(comm_);
  while (step_ < 5) {
    Step();
    ASSERT_TRUE(saver.Save(run(), step_, state_).ok());
  }
  Step();  // while the last one is written
  ASSERT_TRUE(saver.Wait().ok());
  for (const int64_t step : {4, 5, 1}) {
    ASSERT_TRUE(Restore(comm_, run(), step, state_).ok());
    ExpectValues(step);
    std::swap(now_, next_);
    std::swap(p_, q_);
  }
}

TEST_F(SwappedMemoryTest, AContainerOfAnotherLengthIsAnErrorOnAllRanks) {
  PlanCache cache;
  Step();
  ASSERT_TRUE(Save(comm_, run(), 1, state_, {.cache = &cache}).ok());
  if (rank_ == size_ - 1) now_.resize(5);
  const Status status =
      Save(comm_, run(), 2, state_, {.cache = &cache}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr(
                  "\"vector\": its range has changed its length since it was "
                  "added (need 4 elements, found 5); make a new State"));
  now_.resize(4);
  ASSERT_TRUE(Save(comm_, run(), 3, state_, {.cache = &cache}).ok());
}

// Only what it was moved to has the values.
TEST_F(KeptListingTest, AStateThatWasMovedFromIsRefused) {
  EXPECT_FALSE(Reuses(state_));
  const State moved = std::move(state_);
  EXPECT_FALSE(Save(comm_, run(), ++step_, state_, options_).ok());  // NOLINT
  EXPECT_TRUE(Reuses(moved));
}

TEST_F(KeptListingTest, OtherOptionsAndCommunicators) {
  EXPECT_FALSE(Reuses(state_));
  options_.float32_as_bfloat16 = true;
  ChangeValues();
  const auto converted = Save(comm_, run(), ++step_, state_, options_);
  ASSERT_TRUE(converted.ok()) << converted.status();
  EXPECT_FALSE(converted->plan_reused);
  options_.float32_as_bfloat16 = false;
  EXPECT_FALSE(Reuses(state_));
  StatusOr<Comm> part = comm_.Split(rank_ == 0 ? 0 : 1);
  ASSERT_TRUE(part.ok());
  std::vector<double> alone(3, rank_);
  State own;
  own.Add("alone", alone);
  const std::string dir = dir_.File(rank_ == 0 ? "first" : "others");
  options_.check_replicas = false;
  EXPECT_TRUE(Save(*part, dir, 1, own, options_).ok());
  EXPECT_TRUE(Save(*part, dir, 2, own, options_).ok());
  const auto whole = Save(comm_, run(), ++step_, own, options_);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->plan_reused, size_ == 1);
  EXPECT_EQ(part->Close(), absl::OkStatus());
}

TEST_F(KeptListingTest, AnObjectWithoutMemoryIsRefusedAndThenSavedAgain) {
  EXPECT_FALSE(Reuses(state_));
  Tensor taken = std::move(tensor_);
  EXPECT_FALSE(Save(comm_, run(), ++step_, state_, options_).ok());
  tensor_ = std::move(taken);
  EXPECT_TRUE(Reuses(state_));
}

TEST_F(KeptListingTest, SavesInTheBackground) {
  for (const SnapshotMode mode : {SnapshotMode::kInCall, SnapshotMode::kLazy}) {
    AsyncSaver saver(comm_, {.snapshot = mode});
    for (int save = 0; save < 4; ++save) {
      if (save == 2) weights_ = std::vector<float>(weights_.size());
      if (save == 3) weights_.resize(weights_.size() + 5);
      ChangeValues();
      ASSERT_TRUE(saver.Save(run(), ++step_, state_, {.durable = false}).ok());
      ASSERT_TRUE(saver.WaitForSnapshot().ok());
      const auto saved = saver.Wait();
      ASSERT_TRUE(saved.ok()) << saved.status();
      EXPECT_EQ((*saved)->plan_reused, save == 1 || save == 2);
      ExpectSaved();
    }
    ASSERT_TRUE(saver.Close().ok());
  }
}

}  // namespace
}  // namespace belay::kept_listing_test
