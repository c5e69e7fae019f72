// Arguments of single values: dtypes and chunks, in every layout and transfer.

#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "absl/strings/str_cat.h"
#include "belay/checkpoint.h"
#include "belay/checkpoint_reader.h"
#include "belay/extend/state.h"
#include "converted_matrix.h"
#include "core/element_conversion.h"
#include "h5_testing.h"
#include "thing.h"

namespace belay::save_args_test {
namespace {

using testing::AsBF16;
using testing::AsItIs;
using testing::ConversionTest;
using ::testing::HasSubstr;
using testing::kCast;
using testing::Ok;
using testing::Piece;
using testing::ValueAt;

constexpr FileLayout kFileLayouts[] = {
    FileLayout::kShared, FileLayout::kPerNode, FileLayout::kPerTask};
constexpr Transfer kTransfers[] = {Transfer::kCollective,
                                   Transfer::kIndependent, Transfer::kHdf5,
                                   Transfer::kTwoPhase};

class SaveArgsTest : public ConversionTest {
 protected:
  // Calls `visit` with options of every file layout and transfer.
  template <typename Visit>
  void ForEachWay(Visit visit) {
    for (const FileLayout file_layout : kFileLayouts) {
      for (const Transfer transfer : kTransfers) {
        SCOPED_TRACE(absl::StrCat("layout ", static_cast<int>(file_layout),
                                  ", transfer ", static_cast<int>(transfer)));
        visit(SaveOptions{.file_layout = file_layout,
                          .overwrite = true,
                          .transfer = transfer,
                          .durable = false,
                          .read_back = true});
      }
    }
  }

  SaveResult SaveCut(int axis, int64_t seed, SaveOptions options) {
    Piece<float> matrix = Matrix(axis);
    matrix.Fill(seed);
    options.overwrite = true;
    options.durable = false;
    const auto saved = Save(comm_, run(), 1, matrix.state(), options);
    EXPECT_TRUE(saved.ok()) << saved.status();
    return saved.ok() ? *saved : SaveResult{};
  }

  // The same error on all ranks, and nothing is committed.
  void ExpectNotSaved(const State& state, const SaveOptions& options,
                      const std::string& text) {
    const Status status = Save(comm_, run(), 9, state, options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
    EXPECT_FALSE(std::filesystem::exists(StepFile(9, "")));
  }

  // What h5py says of the dataset "w" in the data file of a shared layout.
  nlohmann::json ReadWithH5py() {
    return h5::Python(StepFile(1, "data_00000_of_00001.h5"), {"w"})["w"];
  }
};

// Numbers of every class, special ones among them.
std::vector<double> Numbers() {
  using Limits = std::numeric_limits<double>;
  return {0,
          -0.0,
          1,
          -1,
          0.5,
          2.5,
          -3.75,
          127,
          -129,
          255,
          70000,
          3e38,
          -3e38,
          1e300,
          448,
          464,
          Limits::infinity(),
          -Limits::infinity(),
          Limits::quiet_NaN(),
          1e-40};
}

// Saved as another dtype, read back as it is stored: the bits of converting
// in memory, which other tests compare with NumPy.
TEST_F(SaveArgsTest, EveryCast) {
  const std::vector<double> numbers = Numbers();
  const auto count = static_cast<int64_t>(numbers.size());
  std::vector<std::pair<DType, DType>> pairs;
  for (const DType to :
       {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2, DType::kF32,
        DType::kI8, DType::kU32, DType::kBool, DType::kC64, DType::kC128}) {
    pairs.emplace_back(DType::kF32, to);
    pairs.emplace_back(DType::kF64, to);
    pairs.emplace_back(DType::kBF16, to);
    pairs.emplace_back(DType::kI64, to);
    pairs.emplace_back(DType::kBool, to);
  }
  pairs.emplace_back(DType::kC128, DType::kC64);
  std::vector<std::vector<char>> memory, need, found;
  State saved, restored;
  std::vector<SaveArgsFor> args;
  for (const auto& [from, to] : pairs) {
    const std::string key = absl::StrCat(std::string(DTypeName(from)), "_as_",
                                         std::string(DTypeName(to)));
    memory.emplace_back(count * DTypeSize(from));
    need.emplace_back(count * DTypeSize(to));
    found.emplace_back(count * DTypeSize(to), 'x');
    ConvertElements(DType::kF64, numbers.data(), from, memory.back().data(),
                    count);
    ConvertElements(from, memory.back().data(), to, need.back().data(), count);
    args.push_back({key, {.dtype = to}});
    const Box all = WholeBox({count});
    AddShard(saved, {.key = key,
                     .dtype = from,
                     .global_shape = {count},
                     .box = all,
                     .replica = State::kReplicaIsRank,
                     .data = memory.back().data()});
    AddShard(restored, {.key = key,
                        .dtype = to,
                        .global_shape = {count},
                        .box = all,
                        .replica = State::kReplicaIsRank,
                        .data = found.back().data()});
  }
  ForEachWay([&](SaveOptions options) {
    options.args = args;
    const auto result = Save(comm_, run(), 1, saved, options);
    EXPECT_TRUE(result.ok()) << result.status();
    for (std::vector<char>& bytes : found) bytes.assign(bytes.size(), 'x');
    EXPECT_TRUE(RestoreStep(restored, {}).conversions.empty());
    EXPECT_EQ(found, need);
  });
}

TEST_F(SaveArgsTest, EachKeyHasItsOwnDType) {
  Piece<float> matrix = Matrix(0);
  matrix.Fill(1);
  float scalar = 0.1f;
  double exact = 0.1;
  State state = matrix.state();
  state.Add("scalar", scalar);
  state.Add("exact", exact);
  const SaveOptions options = {
      .args = {{"w", {.dtype = DType::kF64}}, {"exact", {}}},
      .float32_as_bfloat16 = true,
      .durable = false};
  const SaveResult saved = Ok(Save(comm_, run(), 1, state, options));
  EXPECT_EQ(saved.counters.bytes, kRows * kColumns * 8 + 2 + 8);
  const auto reader = CheckpointReader::Open(StepFile(1, ""));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(Ok(reader->Find("w")).dtype, DType::kF64);
  EXPECT_EQ(Ok(reader->Find("scalar")).dtype, DType::kBF16);
  EXPECT_EQ(Ok(reader->Find("exact")).dtype, DType::kF64);
  ExpectRestored(Matrix(1), 1, kCast, AsItIs);
}

TEST_F(SaveArgsTest, ChunksInEveryLayoutAndTransfer) {
  int64_t seed = 0;
  for (const int axis : {0, 1}) {
    // The first divides the pieces of ranks that divide the rows.
    for (const SaveArgs& args : std::vector<SaveArgs>{
             {.write_chunk_shape = axis == 0 ? Shape{2, 5} : Shape{12, 1},
  .read_chunk_shape = axis == 0 ? Shape{1, 5} : Shape{4, 1}},
             {.chunk_byte_size = 64},
             {.chunk_byte_size = 64, .chooser = ChunkChooser::kGreedy},
             {.dtype = DType::kBF16, .chunk_byte_size = 33},
             {.shard_axes = {1}}}) {
      ForEachWay([&](SaveOptions options) {
        options.args = {{"w", args}};
        SaveCut(axis, ++seed, options);
        const bool as_bf16 = args.dtype.has_value();
        ExpectRestored(Matrix(1 - axis), seed, kCast,
                       as_bf16 ? AsBF16 : AsItIs);
        ExpectRestored(Matrix(axis), seed, kCast, as_bf16 ? AsBF16 : AsItIs);
      });
    }
  }
}

// Two rows of each rank are 8 bytes of a column.
TEST_F(SaveArgsTest, AFewBytesOfEachChunk) {
  const Shape shape = {2 * size_, kColumns};
  ForEachWay([&](SaveOptions options) {
    options.args = {{"w", {.shard_axes = {1}}}};
    Piece<float> saved = Matrix(0, shape);
    saved.Fill(1);
    ASSERT_EQ(Save(comm_, run(), 1, saved.state(), options).status(),
              absl::OkStatus());
    Piece<float> restored = Matrix(0, shape);
    RestoreStep(restored.state(), {});
    EXPECT_EQ(restored.values, saved.values);
  });
}

TEST_F(SaveArgsTest, OtherProgramsSeeChunksAndValues) {
  SaveCut(0, 3,
          {.args = {{"w",
                     {.dtype = DType::kF64,
                      .write_chunk_shape = Shape{2, 10},
                      .read_chunk_shape = Shape{1, 5}}}}});
  const auto reader = CheckpointReader::Open(StepFile(1, ""));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->info().arrays.at(0).cut, "48 chunks of [1, 5]");
  if (rank_ != 0) return;
  const nlohmann::json found = ReadWithH5py();
  EXPECT_EQ(found["dtype"], "float64");
  EXPECT_EQ(found["chunks"], nlohmann::json({1, 5}));
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    ASSERT_EQ(found["values"][i / kColumns][i % kColumns].get<double>(),
              static_cast<double>(ValueAt(3 + i)));
  }
}

// Restored by fewer ranks than have saved, and the other way round.
TEST_F(SaveArgsTest, OtherNumbersOfRanksReadTheSameChunks) {
  const int few = (size_ + 1) / 2;
  StatusOr<Comm> part = comm_.Split(rank_ < few ? 0 : -1);
  ASSERT_TRUE(part.ok()) << part.status();
  const SaveOptions options = {
      .args = {{"w", {.dtype = DType::kBF16, .chunk_byte_size = 24}}},
      .overwrite = true,
      .durable = false};
  for (const bool few_save : {true, false}) {
    const auto piece = [&](bool of_few, int axis) {
      return Piece<float>({kRows, kColumns}, axis, of_few ? rank_ % few : rank_,
                          of_few ? few : size_);
    };
    Piece<float> saved = piece(few_save, 0);
    Piece<float> restored = piece(!few_save, 1);
    saved.Fill(5);
    const auto save = [&](const Comm& comm) {
      EXPECT_TRUE(Save(comm, run(), 1, saved.state(), options).ok());
    };
    const auto restore = [&](const Comm& comm) {
      const auto result = Restore(comm, run(), 1, restored.state(), kCast);
      EXPECT_TRUE(result.ok()) << result.status();
      restored.ForEach([&](int64_t row, int64_t column, float value) {
        EXPECT_EQ(value, AsBF16(ValueAt(5 + row * kColumns + column)));
      });
    };
    if (!few_save) save(comm_);
    if (few_save && rank_ < few) save(*part);
    MPI_Barrier(MPI_COMM_WORLD);
    if (few_save) restore(comm_);
    if (!few_save && rank_ < few) restore(*part);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  if (rank_ < few) {
    EXPECT_TRUE(part->Close().ok());
  }
}

TEST_F(SaveArgsTest, SpecialShapesAndTexts) {
  float scalar = 3;
  std::string text = "text";
  std::vector<float> one(1, 4);
  State state;
  state.Add("scalar", scalar);
  state.Add("text", text);
  state.AddReplicated("none", {0, 7}, AtAddress(one.data()));
  state.AddReplicated("one", {1, 1}, AtAddress(one.data()));
  ForEachWay([&](SaveOptions options) {
    options.args = {{".*", {.chunk_byte_size = 4}}};
    const auto saved = Save(comm_, run(), 1, state, options);
    EXPECT_TRUE(saved.ok()) << saved.status();
    scalar = 0;
    text = "";
    one = {0};
    RestoreStep(state, {});
    EXPECT_EQ(scalar, 3);
    EXPECT_EQ(text, "text");
    EXPECT_EQ(one, std::vector<float>{4});
  });
}

TEST_F(SaveArgsTest, APlanIsReusedUntilAnArgumentChanges) {
  PlanCache cache;
  const std::vector<SaveArgs> steps = {
      {.chunk_byte_size = 64},
      {.chunk_byte_size = 64},
      {.dtype = DType::kBF16, .chunk_byte_size = 64},
      {.dtype = DType::kBF16, .chunk_byte_size = 64},
      {.dtype = DType::kBF16, .write_chunk_shape = Shape{1, 1}},
      {.dtype = DType::kBF16, .write_chunk_shape = Shape{1, 1}},
      {.dtype = DType::kBF16, .write_chunk_shape = Shape{1, 2}}};
  for (size_t i = 0; i < steps.size(); ++i) {
    SCOPED_TRACE(i);
    const auto seed = static_cast<int64_t>(i);
    const SaveResult saved =
        SaveCut(0, seed, {.args = {{"w", steps[i]}}, .cache = &cache});
    EXPECT_EQ(saved.plan_reused, i > 0 && steps[i] == steps[i - 1]);
    ExpectRestored(Matrix(1), seed, kCast,
                   steps[i].dtype.has_value() ? AsBF16 : AsItIs);
  }
}

TEST_F(SaveArgsTest, ValuesOfObjectsHaveTheKeysOfTheCheckpoint) {
  float value = 0.1f;
  Checkpoint checkpoint(comm_, {{"model", value}});
  SaveOptions options = {.args = {{"model/.*", {.dtype = DType::kBF16}}},
                         .durable = false};
  ASSERT_TRUE(checkpoint.Save(run(), options).ok());
  value = 0;
  const LoadStatus status = Ok(checkpoint.Restore(run(), kCast));
  EXPECT_EQ(status.AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(value, AsBF16(0.1f));
}

TEST_F(SaveArgsTest, BadArgumentsAreRefusedOnAllRanks) {
  Piece<float> matrix = Matrix(0);
  std::string text = "text";
  State state = matrix.state();
  state.Add("text", text);
  const auto refused = [&](const std::string& keys, const SaveArgs& args,
                           const std::string& error) {
    SCOPED_TRACE(error);
    ExpectNotSaved(state, {.args = {{keys, args}}}, error);
    ExpectNotSaved(state,
                   {.file_layout = FileLayout::kPerTask,
                    .args = {{keys, args}},
                    .transfer = Transfer::kHdf5},
                   error);
  };
  refused("w", {.write_chunk_shape = Shape{2}}, "(need 2, found 1)");
  refused("w", {.write_chunk_shape = Shape{25, 10}}, "does not divide");
  refused("w",
          {.write_chunk_shape = Shape{2, 10}, .read_chunk_shape = Shape{3, 5}},
          "does not divide the write chunk");
  refused("w", {.chunk_byte_size = 3}, "below one element");
  refused("w", {.dtype = DType::kF64, .chunk_byte_size = 7},
          "below one element (need 0 or at least 8 bytes, found 7)");
  refused("w", {.shard_axes = {-1}}, "shard_axes names no axis");
  refused("text", {.dtype = DType::kF32},
          "store \"text\": string does not convert");
  refused("w", {.dtype = DType::kString}, "f32 does not convert");
  refused(
      "v", {},
      "plan the save: SaveOptions.args \"v\": matches no key (need one of 2)");
  refused("w(", {}, "keys \"w(\": not a regular expression");
}

TEST_F(SaveArgsTest, RanksMustPassTheSameArguments) {
  if (size_ == 1) GTEST_SKIP() << "needs two ranks";
  Piece<float> matrix = Matrix(0);
  const DType dtype = rank_ == size_ - 1 ? DType::kF16 : DType::kBF16;
  ExpectNotSaved(matrix.state(), {.args = {{"w", {.dtype = dtype}}}},
                 "the option args differs");
}

}  // namespace
}  // namespace belay::save_args_test
