// Rows that are structs, which are stored with their fields.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/checkpoint_reader.h"
#include "belay/reader/copy_checkpoint.h"
#include "belay/rows.h"
#include "belay/values/sharding_policy.h"
#include "restore/structs_testing.h"
#include "values.h"

namespace belay {
namespace structs_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Ok;

TEST_F(StructsTest, FieldsComeBackOnTheSameRanks) {
  SaveParticles(1);
  ExpectRestores<Particle>(1);
  const auto reader = CheckpointReader::Open(StepFile(1, ""));
  ASSERT_TRUE(reader.ok()) << reader.status();
  const ArrayInfo info = *reader->Find("particles");
  EXPECT_EQ(info.fields, kFields);
  EXPECT_EQ(info.dtype, DType::kU8);
  EXPECT_THAT(info.shape, ElementsAre(FirstOf(size_), kStoredBytes));
}

TEST_F(StructsTest, FieldsAreFoundByNameWhereverTheyLie) {
  SaveParticles(1);
  ExpectRestores<Reordered>(1);
}

// Whatever way the bytes take.
TEST_F(StructsTest, AnyFileAndTransferHasThem) {
  int64_t step = 0;
  for (const FileLayout layout :
       {FileLayout::kShared, FileLayout::kPerNode, FileLayout::kPerTask}) {
    for (const Transfer transfer :
         {Transfer::kIndependent, Transfer::kCollective, Transfer::kTwoPhase,
          Transfer::kHdf5}) {
      SCOPED_TRACE(absl::StrCat(static_cast<int>(layout), " ",
                                static_cast<int>(transfer)));
      SaveParticles(++step, {.file_layout = layout, .transfer = transfer});
      ExpectRestores<Particle>(step);
    }
  }
}

TEST_F(StructsTest, ChunksAndFiltersKeepThemWhole) {
  SaveArgs chunked{.chunk_byte_size = 100};
  SaveArgs given{.write_chunk_shape = Shape{1}};
  SaveArgs filtered{.filters = {Deflate(1)}};
  int64_t step = 0;
  for (const SaveArgs& args : {chunked, given, filtered}) {
    SaveParticles(++step, {.args = {{"particles", args}}});
    ExpectRestores<Particle>(step);
    const auto reader = CheckpointReader::Open(StepFile(step, ""));
    EXPECT_THAT(reader->Find("particles")->cut, HasSubstr("chunk"));
  }
  std::vector<Particle> particles = Particles(rank_);
  State state;
  state.AddRows("particles", particles);
  ExpectRefused(Save(comm_, run(), 9, state,
                     {.args = {{"particles", {.dtype = DType::kI32}}}})
                    .status(),
                absl::StatusCode::kInvalidArgument, "keep their dtypes");
}

TEST_F(StructsTest, APolicyDoesNotCutThem) {
  SaveParticles(1, {.sharding_policy = MaxShardSize(4 * kStoredBytes)});
  ExpectRestores<Particle>(1);
  std::vector<Particle> particles = Particles(rank_);
  State state;
  state.AddRows("particles", particles);
  ExpectRefused(Save(comm_, run(), 2, state,
                     {.sharding_policy = MaxShardSize(kStoredBytes - 1)})
                    .status(),
                absl::StatusCode::kInvalidArgument, "its structs are cut");
}

TEST_F(StructsTest, OwnersSeeWholeStructs) {
  SaveParticles(1);
  std::vector<Particle> mine;
  const int ranks = size_;
  State state;
  state.AddRows<std::vector<Particle>>(
      "particles", mine, {.owner = [ranks](const Particle& one) {
        return static_cast<int>(one.id % ranks);
      }});
  Ok(Restore(comm_, run(), 1, state));
  int64_t next = rank_;
  for (const Particle& one : mine) {
    EXPECT_TRUE(one.SameFields(ParticleOf(next)));
    next += ranks;
  }
  EXPECT_GE(next, FirstOf(size_));
}

TEST_F(StructsTest, OfOneRankAndWithIds) {
  Sample own{.value = 1.5 * rank_, .error = 0.5F, .count = 7};
  std::vector<int64_t> ids;
  std::vector<Particle> cells;
  for (int64_t id = size_ - 1 - rank_; id < 20; id += size_) {
    ids.push_back(id);
    cells.push_back(ParticleOf(id));
  }
  State state;
  state.AddPerRank("own", own);
  state.AddRowsById("cells", ids, cells);
  Ok(Save(comm_, run(), 1, state));
  own = {};
  ids = {19, rank_ % 20, 0, 7};
  cells.clear();
  Ok(Restore(comm_, run(), 1, state));
  EXPECT_EQ(own, (Sample{1.5 * rank_, 0.5F, 7}));
  ASSERT_EQ(cells.size(), 4);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(cells[i].SameFields(ParticleOf(ids[i]))) << i;
  }
}

// Padding and members that are not listed are nobody's business.
TEST_F(StructsTest, OnlyFieldsAreWrittenAndRead) {
  std::vector<Opaque> opaque(5);
  std::memset(static_cast<void*>(opaque.data()), 0x5a, 5 * sizeof(Opaque));
  std::vector<Particle> particles = Particles(rank_);
  State state;
  state.AddRows("opaque", opaque);
  state.AddRows("particles", particles);
  Ok(Save(comm_, run(), 1, state));
  for (Particle& one : particles) one = {.neighbours = 77};
  Ok(Restore(comm_, run(), 1, state));
  ExpectParticles(particles, FirstOf(rank_), 3 + rank_);
  for (const Particle& one : particles) EXPECT_EQ(one.neighbours, 77);

  const auto reader = CheckpointReader::Open(StepFile(1, ""));
  const StatusOr<Tensor> tensor = reader->ReadTensor("opaque");
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  const auto bytes = tensor->values<uint8_t>();
  const std::vector<uint8_t> one = {0x5a, 0,    0,    0,    0,    0,
                                    0,    0,    0x5a, 0x5a, 0x5a, 0x5a,
                                    0x5a, 0x5a, 0x5a, 0x5a};
  ASSERT_EQ(bytes.size(), one.size() * 5 * static_cast<size_t>(size_));
  for (size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_EQ(bytes[i], one[i % one.size()]) << i;
  }
}

TEST_F(StructsTest, ACopyKeepsThem) {
  SaveParticles(1);
  const std::string to = dir_.File("copy");
  Ok(CopyCheckpoint(comm_, run(), 1, to, {}));
  const auto reader = CheckpointReader::Open(to);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->Find("particles")->fields, kFields);
  std::vector<Particle> particles;
  State state;
  state.AddRows("particles", particles);
  Ok(Restore(comm_, to, std::nullopt, state));
  ExpectParticles(particles, FirstOf(rank_), 3 + rank_);
}

TEST_F(StructsTest, AFieldIsReadAsAnArray) {
  SaveParticles(1);
  SaveParticles(2, {.args = {{"particles", {.filters = Deflate(1)}}}});
  for (const int64_t step : {1, 2}) {
    const auto reader = CheckpointReader::Open(StepFile(step, ""));
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_TRUE(reader->Has("particles.velocity.x"));
    EXPECT_FALSE(reader->Has("particles.velocity"));
    const ArrayInfo info = *reader->Find("particles.position");
    EXPECT_EQ(info.dtype, DType::kF64);
    EXPECT_THAT(info.shape, ElementsAre(FirstOf(size_), 3));
    const auto ids = reader->ReadTensor("particles.id");
    ASSERT_TRUE(ids.ok()) << ids.status();
    for (int64_t i = 0; i < FirstOf(size_); ++i) {
      EXPECT_EQ(ids->values<int64_t>()[static_cast<size_t>(i)], i);
    }
    const auto alone = LoadVariable(StepFile(step, ""), "particles.id");
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_TRUE(std::equal(ids->values<int64_t>().begin(),
                           ids->values<int64_t>().end(),
                           alone->values<int64_t>().begin()));
    const auto no_field = LoadVariable(StepFile(step, ""), "particles.mass");
    EXPECT_EQ(no_field.status(), reader->ReadTensor("particles.mass").status());
    const auto some =
        reader->ReadTensor("particles.position", {{1, 1}, {2, 2}});
    ASSERT_TRUE(some.ok()) << some.status();
    EXPECT_THAT(some->values<double>(), ElementsAre(1.25, 1.5, 2.25, 2.5));
    int64_t pieces = 0;
    const auto visit = [&](const Box& box, const Tensor& piece) -> Status {
      ++pieces;
      EXPECT_EQ(piece.values<float>()[0], static_cast<float>(-box.offset[0]));
      return absl::OkStatus();
    };
    EXPECT_EQ(reader->ReadPieces("particles.velocity.x",
                                 WholeBox({FirstOf(size_)}), 4, visit),
              absl::OkStatus());
    EXPECT_EQ(pieces, FirstOf(size_));
  }
}

// Other programs see a compound type.
TEST_F(StructsTest, H5pyReadsTheFields) {
  for (const FileLayout layout : {FileLayout::kShared, FileLayout::kPerTask}) {
    SaveParticles(layout == FileLayout::kShared ? 1 : 2,
                  {.file_layout = layout});
  }
  int code = 0;
  if (rank_ == 0) {
    for (const int64_t step : {1, 2}) {
      const std::string command =
          absl::StrCat(BELAY_TEST_PYTHON, " ", BELAY_TEST_H5PY_STRUCTS, " ",
                       StepFile(step, "index.h5"), " ", FirstOf(size_));
      const int status = std::system(command.c_str());
      code = std::max(code, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
  }
  MPI_Bcast(&code, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (code == 77) GTEST_SKIP() << "no h5py";
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace structs_test
}  // namespace belay
