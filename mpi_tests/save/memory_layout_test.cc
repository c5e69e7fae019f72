// Pieces in memory that holds more than these, or in another order.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "belay/arrays/layout.h"
#include "belay/checkpoint.h"
#include "each_index.h"
#include "file_bytes.h"
#include "random_piece.h"
#include "values.h"

namespace belay::memory_layout_mpi_test {
namespace {

using testing::ForEachIndex;
using ::testing::HasSubstr;
using testing::Ok;
using testing::Random;
using testing::RandomPiece;
using testing::Uniform;
using Piece = testing::HeldPiece<double>;

// The value of an element of the global array.
double At(const Shape& index, const Shape& shape) {
  return static_cast<double>(testing::DensePlace(index, shape) + 1);
}

// The place of a rank in a grid over the axes, and its box.
Box CutOf(const Shape& shape, int rank, int size, Random& random) {
  Box box = WholeBox(shape);
  // A random axis is cut at random places; the same on all ranks.
  const auto axis = static_cast<size_t>(
      Uniform(0, static_cast<int64_t>(shape.size()) - 1, random));
  std::vector<int64_t> cuts = {0, shape[axis]};
  for (int i = 1; i < size; ++i) {
    cuts.push_back(Uniform(0, shape[axis], random));
  }
  std::sort(cuts.begin(), cuts.end());
  box.offset[axis] = cuts[static_cast<size_t>(rank)];
  box.shape[axis] = cuts[static_cast<size_t>(rank) + 1] - box.offset[axis];
  return box;
}

class MemoryLayoutTest : public testing::CheckpointTest {
 protected:
  static void Fill(Piece& piece, const Shape& shape) {
    piece.Fill([&](const Shape& index) { return At(index, shape); });
  }

  static int64_t CountWrong(const Piece& piece, const Shape& shape) {
    const std::vector<double> expected = piece.Expected(
        shape, [&](const Shape& index) { return At(index, shape); });
    int64_t wrong = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      wrong += piece.memory[i] == expected[i] ? 0 : 1;
    }
    return wrong;
  }
};

// Saved from any memory, and restored into any other, BELAY_RANDOM_ROUNDS
// times: what is owned, and what is filled besides, is right, and nothing else
// is written.
TEST_F(MemoryLayoutTest, AnyPieceOfAnyArray) {
  const Transfer transfers[] = {Transfer::kAuto, Transfer::kIndependent,
                                Transfer::kTwoPhase, Transfer::kCollective,
                                Transfer::kHdf5};
  Random same(7);  // on all ranks
  const char* const rounds = std::getenv("BELAY_RANDOM_ROUNDS");
  for (int round = 0; round < (rounds ? std::atoi(rounds) : 60); ++round) {
    SCOPED_TRACE(round);
    Random own(static_cast<uint32_t>(1000 * round + rank_));
    Shape shape;
    const int64_t axes = Uniform(1, 4, same);
    for (int64_t axis = 0; axis < axes; ++axis) {
      shape.push_back(Uniform(1, axes > 2 ? 7 : 40, same));
    }
    Piece saved = RandomPiece<double>(CutOf(shape, rank_, size_, same), own);
    Fill(saved, shape);
    State state;
    state.AddPiece("u", shape, saved.box, saved.InMemory());
    const bool as_f32 = round % 4 == 0;
    SaveOptions options{.overwrite = true, .transfer = transfers[round % 5]};
    if (as_f32) options.args = {{"u", {.dtype = DType::kF32}}};
    Ok(Save(comm_, run(), 1, state, options));
    Piece found = RandomPiece<double>(CutOf(shape, rank_, size_, same), own);
    State wanted;
    wanted.AddPiece("u", shape, found.box, found.InMemory());
    const ReadSharing sharing =
        round % 3 == 0 ? ReadSharing::kOnce : ReadSharing::kAuto;
    Ok(Restore(comm_, run(), 1, wanted,
               {.allow_dtype_cast = as_f32, .read_sharing = sharing}));
    ASSERT_EQ(CountWrong(found, shape), 0);
  }
}

// What is stored does not depend on how it lay in memory.
TEST_F(MemoryLayoutTest, TheFilesAreThoseOfDenseMemory) {
  const Shape shape = {40, 300};
  Random random(3);
  const Box box = CutOf(shape, rank_, size_, random);
  std::vector<double> dense;
  ForEachIndex(box, [&](const Shape& i) { dense.push_back(At(i, shape)); });
  State plain;
  plain.AddPiece("u", shape, box, dense);
  Ok(Save(comm_, dir_.File("dense"), 1, plain));
  Piece piece = RandomPiece<double>(box, random);
  Fill(piece, shape);
  State laid_out;
  laid_out.AddPiece("u", shape, box, piece.InMemory());
  Ok(Save(comm_, run(), 1, laid_out));
  const std::string name = "data_00000_of_00001.h5";
  EXPECT_EQ(testing::FileBytes(StepFile(1, name)),
            testing::FileBytes(dir_.File("dense/step_00000001/" + name)));
}

// In objects, on a mesh, with replicas that lie in memory in other ways.
TEST_F(MemoryLayoutTest, LaidOutValuesOfObjects) {
  const Shape shape = {12, 5};
  const Mesh mesh = *Mesh::Create({{"rows", 1}, {"copies", size_}});
  const Layout layout = *Layout::Create(mesh, {{"rows"}, {}});
  Random own(static_cast<uint32_t>(rank_));
  const Box box = layout.LocalBox(shape, rank_).value();
  Piece piece = RandomPiece<double>(box, own);
  piece.layout.fill_ghosts = false;
  Fill(piece, shape);
  struct Field {
    void Track(Tracker& tracker) {
      tracker.Value("u", *layout, *shape, piece->InMemory());
    }
    const Layout* layout;
    const Shape* shape;
    Piece* piece;
  } field{&layout, &shape, &piece};
  Checkpoint checkpoint(comm_, {{"field", field}});
  Ok(checkpoint.Save(run(), {.check_replicas = true}));
  std::fill(piece.memory.begin(), piece.memory.end(), Piece::kNobody);
  ASSERT_EQ(checkpoint.Restore(run()).status(), absl::OkStatus());
  EXPECT_EQ(CountWrong(piece, shape), 0);
  if (size_ == 1) return;
  // A replica with other values is noticed wherever they lie.
  if (rank_ == size_ - 1) piece.memory[piece.PlaceOf({11, 4})] = 3;
  const Status status =
      checkpoint.Save(run(), {.check_replicas = true}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("field"));
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
}

// A vector that was resized and filled anew is found.
TEST_F(MemoryLayoutTest, AVectorMayMove) {
  const Shape shape = {size_, 4};
  Piece piece{.box = {{rank_, 0}, {1, 4}},
              .layout = {.before = {1, 1}, .fill_ghosts = true},
              .held = {{rank_ - 1, -1}, {3, 6}},
              .strides = {6, 1}};
  piece.memory.assign(18, Piece::kNobody);
  State state;
  state.AddPiece("u", shape, piece.box, piece.InMemory());
  std::vector<double> moved(18, Piece::kNobody);
  piece.memory.swap(moved);
  Fill(piece, shape);
  Ok(Save(comm_, run(), 1, state));
  moved.assign(18, Piece::kNobody);
  piece.memory.swap(moved);
  Ok(Restore(comm_, run(), 1, state));
  EXPECT_EQ(CountWrong(piece, shape), 0);
  piece.memory.push_back(0);
  const Status status = Save(comm_, run(), 2, state).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("list \"u\": its range has changed its length since it "
                        "was added (need 18 elements, found 19)"));
}

// A value that is computed goes where the piece lies.
TEST_F(MemoryLayoutTest, ComputedValues) {
  const Shape shape = {6, 8};
  std::vector<double> all;
  ForEachIndex(WholeBox(shape),
               [&](const Shape& i) { all.push_back(At(i, shape)); });
  State whole;
  whole.AddReplicated("u", shape, all);
  Ok(Save(comm_, run(), 1, whole));
  Random random(static_cast<uint32_t>(rank_));
  const Shape turned = {8, 6};
  Piece piece = RandomPiece<double>({{1, 2}, {4, 3}}, random);
  State state;
  state.AddPiece("t", turned, piece.box, piece.InMemory());
  Ok(Restore(comm_, run(), 1, state,
             {.args = {{"t", {.transform = Transform::Transpose("u")}}}}));
  ForEachIndex(piece.box, [&](const Shape& i) {
    EXPECT_EQ(piece.memory[piece.PlaceOf(i)], At({i[1], i[0]}, shape));
  });
}

TEST_F(MemoryLayoutTest, PiecesThatOverlapOrMissCells) {
  const Shape shape = {4 * size_};
  std::vector<double> memory(6);
  const auto save = [&](const Box& box) {
    State state;
    state.AddPiece("u", shape, box, {memory, {.before = {1}}});
    return Save(comm_, run(), 1, state).status();
  };
  const bool is_last = rank_ == size_ - 1;
  const Status gap = save({{4 * rank_ - (is_last && size_ > 1 ? 1 : 0)}, {4}});
  if (size_ == 1) return;
  EXPECT_FALSE(gap.ok());
  EXPECT_THAT(std::string(gap.message()), HasSubstr("\"u\""));
  EXPECT_TRUE(testing::IsSameEverywhere(gap.ToString())) << gap;
  const Status size = save({{4 * rank_}, {is_last ? 3 : 4}});
  EXPECT_THAT(
      std::string(size.message()),
      HasSubstr("add \"u\": the size of the memory does not match its box "
                "with the ghost cells (need 5 elements, found 6)"));
  EXPECT_TRUE(testing::IsSameEverywhere(size.ToString())) << size;
}

}  // namespace
}  // namespace belay::memory_layout_mpi_test
