// Flat buffers: what ranks hold as ranges of a buffer (ZeRO-1, FSDP1) goes to
// files without a message, and comes back on other ranks in any other cut.

#include "belay/arrays/flat_buffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "values.h"

namespace belay::flat_buffer_test {
namespace {

using testing::KeySeed;
using testing::Ok;
using testing::PatternByte;
using testing::SumOverRanks;
using testing::Values;

constexpr uint64_t kSeed = 5;

// Values of an optimizer: rows that no rank count divides, and small arrays.
const std::vector<FlatPiece>& Pieces() {
  static const std::vector<FlatPiece> pieces = {
      {.key = "embedding", .global_shape = {37, 11}},
      {.key = "norm", .global_shape = {11}},
      {.key = "conv", .global_shape = {5, 3, 7}},
      {.key = "none", .global_shape = {0, 4}},
      {.key = "scale", .global_shape = {}},
      {.key = "head", .global_shape = {13, 19}, .begin = 600}};
  return pieces;
}
constexpr int64_t kElements = 600 + 13 * 19;

// One rank's range of the buffer. Every byte of a value is known.
class FlatState {
 public:
  FlatState(int rank, int size) {
    const int64_t part = (kElements + size - 1) / size;
    begin_ = rank * part;  // the last ranks may hold padding only
    end_ = begin_ + part;
    data_.resize(part);
    state_.AddFlatRange("m/", Pieces(), begin_, end_, AtAddress(data_.data()));
  }

  void Fill() {
    Visit([](char& at, char value) { at = value; });
  }
  void Spoil() {
    Visit([](char& at, char value) { at = static_cast<char>(~value); });
  }
  int64_t CountWrong() {
    int64_t wrong = 0;
    Visit([&](char& at, char value) { wrong += at != value; });
    return wrong;
  }
  const State& state() const { return state_; }

 private:
  // Visits all bytes with the values they should have; shares no code with what
  // cuts the range.
  void Visit(const std::function<void(char&, char)>& visit) {
    int64_t next = 0;
    for (const FlatPiece& piece : Pieces()) {
      const int64_t first = piece.begin.value_or(next);
      next = first + NumElements(piece.global_shape);
      const uint64_t seed = KeySeed("m/" + piece.key, kSeed);
      for (int64_t i = std::max(first, begin_); i < std::min(next, end_); ++i) {
        char* const bytes = reinterpret_cast<char*>(&data_[i - begin_]);
        for (int64_t k = 0; k < 4; ++k) {
          visit(bytes[k], PatternByte(seed, 4 * (i - first) + k));
        }
      }
    }
  }

  int64_t begin_ = 0;
  int64_t end_ = 0;
  std::vector<float> data_;
  State state_;
};

class FlatBufferTest : public testing::CheckpointTest {
 protected:
  // The first `count` ranks, if there are so many; the others do nothing.
  void OnRanks(int count, const std::function<void(const Comm&)>& work) {
    if (count > size_) return;
    Comm comm = Ok(comm_.Split(rank_ < count ? 0 : -1));
    if (comm.size() > 0) {
      SCOPED_TRACE(count);
      work(comm);
      EXPECT_EQ(comm.Close(), absl::OkStatus());
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  void SaveFlat(const SaveOptions& options) {
    FlatState flat(rank_, size_);
    flat.Fill();
    const auto saved = Save(comm_, run(), 1, flat.state(), options);
    ASSERT_TRUE(saved.ok()) << saved.status();
    EXPECT_EQ(flat.CountWrong(), 0);
  }

  void ExpectWhole(const Comm& comm, Values& values) {
    values.Spoil(kSeed);
    const auto restored = Restore(comm, run(), 1, values.MakeState());
    EXPECT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(values.CountWrong(kSeed), 0);
  }
};

TEST_F(FlatBufferTest, RestoresOnOtherRanks) {
  for (const FileLayout layout : {FileLayout::kShared, FileLayout::kPerTask}) {
    SaveFlat({.file_layout = layout, .overwrite = true});
    for (int ranks = 1; ranks <= size_; ++ranks) {
      OnRanks(ranks, [&](const Comm& comm) {
        FlatState flat(comm.rank(), comm.size());
        flat.Spoil();
        const auto restored = Restore(comm, run(), 1, flat.state());
        EXPECT_TRUE(restored.ok()) << restored.status();
        EXPECT_EQ(flat.CountWrong(), 0);
      });
    }
  }
}

TEST_F(FlatBufferTest, RestoresAsWholeArraysAndAsColumns) {
  SaveFlat({.read_back = true});
  for (int ranks = 1; ranks <= size_; ++ranks) {
    OnRanks(ranks, [&](const Comm& comm) {
      Values whole, columns;
      for (const FlatPiece& piece : Pieces()) {
        const std::string key = "m/" + piece.key;
        whole.AddWhole(key, DType::kF32, piece.global_shape);
        if (piece.global_shape.size() < 2) continue;
        columns.AddCut(key, DType::kF32, piece.global_shape, 1, comm.rank(),
                       comm.size());
      }
      ExpectWhole(comm, whole);
      ExpectWhole(comm, columns);
    });
  }
}

TEST_F(FlatBufferTest, RestoresFromWholeArrays) {
  Values whole;
  for (const FlatPiece& piece : Pieces()) {
    whole.AddWhole("m/" + piece.key, DType::kF32, piece.global_shape);
  }
  whole.Fill(kSeed);
  ASSERT_TRUE(Save(comm_, run(), 1, whole.MakeState()).ok());
  FlatState flat(rank_, size_);
  flat.Spoil();
  ASSERT_TRUE(Restore(comm_, run(), 1, flat.state()).ok());
  EXPECT_EQ(flat.CountWrong(), 0);
}

// Page docs/sharding.md quotes this one.
TEST_F(FlatBufferTest, TheMomentsOfAnOptimizer) {
  const Comm& comm = comm_;
  const std::string dir = run();
  // The parameters of the optimizer, one after the other.
  const std::vector<belay::FlatPiece> pieces = {
      {.key = "w", .global_shape = {300, 40}},
      {.key = "b", .global_shape = {40}}};
  // Each rank has an equal part; the last one ends with padding.
  const int64_t part = (300 * 40 + 40 + comm.size() - 1) / comm.size();
  const int64_t begin = comm.rank() * part;
  std::vector<float> m(part), v(part);

  belay::State state;
  state.AddFlatRange("adam/m/", pieces, begin, begin + part, m);
  state.AddFlatRange("adam/v/", pieces, begin, begin + part, v);
  for (int64_t i = 0; i < part; ++i) {
    m[i] = static_cast<float>(begin + i);
    v[i] = -m[i];
  }
  ASSERT_TRUE(belay::Save(comm, dir, 1, state).ok());

  std::vector<float> w(300 * 40), b(40);
  State whole;
  whole.AddReplicated("adam/m/w", {300, 40}, AtAddress(w.data()));
  whole.Add("adam/v/b", b);
  ASSERT_TRUE(Restore(comm, dir, 1, whole).ok());
  for (int64_t i = 0; i < 12000; ++i) ASSERT_EQ(w[i], i);
  for (int64_t i = 0; i < 40; ++i) ASSERT_EQ(b[i], -12000 - i);
}

TEST_F(FlatBufferTest, ARangeThatNobodyHoldsIsNamed) {
  std::vector<float> data(kElements);
  State state;
  const int64_t begin = rank_ == 0 ? 3 : kElements;
  state.AddFlatRange("m/", Pieces(), begin, kElements, AtAddress(data.data()));
  EXPECT_EQ(Save(comm_, run(), 1, state).status(),
            absl::InvalidArgumentError(
                "plan \"m/embedding\": no rank holds box \"0,1:0,3\" (need 407 "
                "elements of shape [37, 11], found 404) [rank 0 of " +
                std::to_string(size_) + "]"));
}

}  // namespace
}  // namespace belay::flat_buffer_test
