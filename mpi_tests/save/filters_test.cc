// Chunks that pass filters: written by all ranks together, read by HDF5.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "belay/checkpoint_reader.h"
#include "converted_matrix.h"
#include "h5_testing.h"

namespace belay::filters_test {
namespace {

using testing::AsBF16;
using testing::AsItIs;
using ::testing::Contains;
using testing::ConversionTest;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kCast;
using testing::Ok;
using testing::Piece;
using testing::ValueAt;

constexpr int kMissingFilter = 32099;  // nobody has registered it

class FiltersTest : public ConversionTest {
 protected:
  // Calls `visit` with options of every file layout and several transfers.
  template <typename Visit>
  void ForEachWay(Visit visit) {
    for (const FileLayout file_layout :
         {FileLayout::kShared, FileLayout::kPerNode, FileLayout::kPerTask}) {
      for (const Transfer transfer : {Transfer::kAuto, Transfer::kHdf5}) {
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

  void ExpectValuesInPython(int64_t seed) {
    const nlohmann::json found =
        h5::Python(StepFile(1, "index.h5"), {"w"})["w"];
    for (int64_t i = 0; i < kRows * kColumns; ++i) {
      ASSERT_EQ(found["values"][i / kColumns][i % kColumns].get<float>(),
                ValueAt(seed + i));
    }
  }

  std::string DataFile() { return StepFile(1, "data_00000_of_00001.h5"); }

  // Replaces a byte of the data file. Returns the old one.
  char Put(uintmax_t at, char byte) {
    std::fstream file(DataFile(),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const auto old = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
    return old;
  }
  char FlipBit(uintmax_t at) {
    const char old = Put(at, 0);
    Put(at, static_cast<char>(old ^ 4));
    return old;
  }

  SaveResult SaveCut(int axis, int64_t seed, const SaveOptions& options) {
    Piece<float> matrix = Matrix(axis);
    matrix.Fill(seed);
    const auto saved = Save(comm_, run(), 1, matrix.state(), options);
    EXPECT_TRUE(saved.ok()) << saved.status();
    return saved.ok() ? *saved : SaveResult{};
  }
};

TEST_F(FiltersTest, EveryLayoutTransferAndCut) {
  int64_t seed = 0;
  for (const int axis : {0, 1}) {
    for (const SaveArgs& args : std::vector<SaveArgs>{
             {.filters = Deflate()},
             {.chunk_byte_size = 64, .filters = Deflate(9)},
             {.dtype = DType::kBF16, .shard_axes = {0}, .filters = Deflate(1)},
             {.chunk_byte_size = 100,
             .filters = {{.id = 1, .parameters = {6}}}},
             {.chunk_byte_size = 48, .filters = {{.id = 3}}}}) {
      ForEachWay([&](SaveOptions options) {
        options.args = {{"w", args}};
        SaveCut(axis, ++seed, options);
        const auto stored = args.dtype.has_value() ? AsBF16 : AsItIs;
        ExpectRestored(Matrix(1 - axis), seed, kCast, stored);
        ExpectRestored(Matrix(axis), seed, kCast, stored);
      });
    }
  }
}

// Chunks that several ranks have parts of are put together by HDF5.
TEST_F(FiltersTest, PiecesThatShareChunks) {
  constexpr int64_t kLength = 1000;
  std::mt19937 random(7);
  for (int round = 0; round < 8; ++round) {
    // Equal on all ranks: borders between their pieces, at any element.
    std::vector<int64_t> borders = {0, kLength};
    for (int i = 1; i < size_; ++i) borders.push_back(random() % kLength);
    std::sort(borders.begin(), borders.end());
    const int64_t begin = borders[rank_];
    std::vector<int32_t> values(borders[rank_ + 1] - begin);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<int32_t>((begin + i) / 3) + round;
    }
    State state;
    state.AddPiece("v", {kLength},
                   {{begin}, {static_cast<int64_t>(values.size())}},
                   AtAddress(values.data()));
    ForEachWay([&](SaveOptions options) {
      // Several calls for each rank, which write to the same chunk.
      options.max_bytes_in_flight = 4096;
      options.args = {{"v", {.chunk_byte_size = 1024, .filters = Deflate()}}};
      EXPECT_TRUE(Save(comm_, run(), 1, state, options).ok());
      std::vector<int32_t> all(kLength, -1);
      State whole;
      whole.AddReplicated("v", {kLength}, AtAddress(all.data()));
      RestoreStep(whole, {});
      for (int64_t i = 0; i < kLength; ++i) {
        ASSERT_EQ(all[i], i / 3 + round) << i;
      }
    });
  }
}

// What shrinks does, what would grow is stored as it is, and values with and
// without filters lie in one file.
TEST_F(FiltersTest, SizesBesideValuesWithoutFilters) {
  constexpr int64_t kLength = 40000;
  const int64_t begin = kLength * rank_ / size_;
  const int64_t length = kLength * (rank_ + 1) / size_ - begin;
  std::mt19937_64 random(static_cast<uint64_t>(rank_));
  std::vector<uint64_t> noise(length), counts(length), plain(length);
  for (int64_t i = 0; i < length; ++i) {
    noise[i] = random();
    counts[i] = begin + i;
    plain[i] = begin + i;
  }
  std::string text = "text";
  double scalar = 2.5;
  State state;
  const Box box = {{begin}, {length}};
  state.AddPiece("counts", {kLength}, box, AtAddress(counts.data()));
  state.AddPiece("noise", {kLength}, box, AtAddress(noise.data()));
  state.AddPiece("plain", {kLength}, box, AtAddress(plain.data()));
  state.Add("text", text);
  state.Add("scalar", scalar);
  const std::vector<uint64_t> old_noise = noise;
  const SaveOptions options = {
      .args = {{"counts|noise|text|scalar", {.filters = Deflate()}}},
      .overwrite = true,
      .durable = false};
  const SaveResult saved = Ok(Save(comm_, run(), 1, state, options));
  EXPECT_EQ(saved.counters.bytes, 3 * kLength * 8 + 4 + 8);
  const auto file_bytes =
      static_cast<int64_t>(std::filesystem::file_size(DataFile()));
  // Two of three are there in full, and the third has shrunk to a tenth.
  EXPECT_GT(file_bytes, 2 * kLength * 8);
  EXPECT_LT(file_bytes, 2 * kLength * 8 + kLength * 8 / 10 + 32768);
  noise.assign(length, 0);
  counts.assign(length, 0);
  plain.assign(length, 0);
  text.clear();
  scalar = 0;
  RestoreStep(state, {});
  EXPECT_EQ(noise, old_noise);
  EXPECT_EQ(text, "text");
  EXPECT_EQ(scalar, 2.5);
  for (int64_t i = 0; i < length; ++i) {
    ASSERT_EQ(counts[i], begin + i);
    ASSERT_EQ(plain[i], begin + i);
  }
}

TEST_F(FiltersTest, OtherProgramsSeeTheValues) {
  for (const FileLayout layout : {FileLayout::kShared, FileLayout::kPerTask}) {
    SaveCut(1, 3,
            {.file_layout = layout,
             .args = {{"w", {.chunk_byte_size = 64, .filters = Deflate(4)}}},
             .overwrite = true,
             .durable = false});
    if (rank_ == 0) ExpectValuesInPython(3);
  }
}

TEST_F(FiltersTest, ACheckpointSaysWhatItsChunksPass) {
  SaveCut(0, 3,
          {.args = {{"w", {.chunk_byte_size = 64, .filters = Deflate(4)}}},
           .overwrite = true,
           .durable = false});
  const CheckpointReader reader = Ok(CheckpointReader::Open(StepFile(1, "")));
  EXPECT_THAT(reader.info().arrays.at(0).cut, HasSubstr("shuffle, deflate(4)"));
}

// Threads of one process read at the same time; HDF5 is for one at a time.
TEST_F(FiltersTest, ReadersOfSeveralThreads) {
  constexpr int64_t kLength = 20000;
  std::vector<int64_t> values(kLength);
  for (int64_t i = 0; i < kLength; ++i) values[i] = i * i;
  State state;
  state.AddReplicated("v", {kLength}, AtAddress(values.data()));
  ASSERT_TRUE(
      Save(comm_, run(), 1, state,
           {.args = {{"v", {.chunk_byte_size = 1024, .filters = Deflate()}}},
            .durable = false})
          .ok());
  if (rank_ != 0) return;
  const CheckpointReader reader = Ok(CheckpointReader::Open(StepFile(1, "")));
  std::vector<Status> statuses(4);
  std::vector<std::thread> threads;
  for (Status& status : statuses) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10 && status.ok(); ++i) {
        const auto tensor = reader.ReadTensor("v");
        status = tensor.status();
        if (!status.ok()) return;
        const auto found = tensor->values<int64_t>();
        if (!std::equal(found.begin(), found.end(), values.begin())) {
          status = absl::DataLossError("other values");
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) EXPECT_EQ(status, absl::OkStatus());
}

// A bit that flips in a compressed chunk never becomes a value.
TEST_F(FiltersTest, DamageIsFound) {
  SaveCut(0, 3,
          {.args = {{"w", {.chunk_byte_size = 240, .filters = Deflate()}}},
           .overwrite = true,
           .durable = false});
  const auto bytes = std::filesystem::file_size(DataFile());
  int damaged = 0;
  const auto verified = [&] {
    return Ok(VerifyCheckpoint(StepFile(1, ""), nullptr)).damage;
  };
  EXPECT_THAT(verified(), IsEmpty());
  for (uintmax_t at = bytes / 2; at < bytes; at += 37) {
    char old = 0;
    if (rank_ == 0) old = FlipBit(at);
    MPI_Barrier(MPI_COMM_WORLD);
    Piece<float> piece = Matrix(1);
    const auto result = Restore(comm_, run(), 1, piece.state(), {});
    if (result.ok()) {
      piece.ForEach([&](int64_t row, int64_t column, float value) {
        EXPECT_EQ(value, ValueAt(3 + row * kColumns + column));
      });
    } else {
      ++damaged;
      EXPECT_TRUE(absl::IsDataLoss(result.status())) << result.status();
      EXPECT_THAT(verified(), Contains(HasSubstr("\"w\"")));
      EXPECT_TRUE(testing::IsSameEverywhere(result.status().ToString()));
      EXPECT_THAT(std::string(result.status().message()),
                  HasSubstr("data_00000_of_00001.h5"));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank_ == 0) Put(at, old);
  }
  EXPECT_GT(damaged, 0);
}

// Without checksums, only chunks that their filters refuse show damage.
TEST_F(FiltersTest, VerifyFindsDamageWithoutChecksums) {
  SaveCut(0, 3,
          {.args = {{"w", {.chunk_byte_size = 240, .filters = Deflate()}}},
           .checksums = false,
           .durable = false});
  const auto bytes = std::filesystem::file_size(DataFile());
  const auto verified = [&] {
    MPI_Barrier(MPI_COMM_WORLD);
    auto result = Ok(VerifyCheckpoint(StepFile(1, ""), nullptr));
    MPI_Barrier(MPI_COMM_WORLD);
    EXPECT_EQ(result.blocks, 0);
    return result.damage;
  };
  EXPECT_THAT(verified(), IsEmpty());
  int damaged = 0;
  for (uintmax_t at = bytes / 2; at < bytes; at += 97) {
    char old = 0;
    if (rank_ == 0) old = FlipBit(at);
    const std::vector<std::string> damage = verified();
    if (rank_ == 0) Put(at, old);
    if (damage.empty()) continue;
    ++damaged;
    EXPECT_THAT(damage, ElementsAre(HasSubstr("\"w\"")));
  }
  EXPECT_GT(damaged, 0);
  EXPECT_THAT(verified(), IsEmpty());
}

// What a filter of somebody else's has stored is read back before the commit.
TEST_F(FiltersTest, AFilterThatLosesBitsMakesTheSaveFail) {
  constexpr int kDropBits = 300;  // as drop_bits_plugin.c says
  ASSERT_GE(H5PLprepend(BELAY_TEST_PLUGINS), 0);
  Piece<float> matrix = Matrix(0);
  matrix.Fill(3);
  const State state = matrix.state();
  const auto save = [&](int64_t step, unsigned drops) {
    const Status status =
        Save(comm_, run(), step, state,
             {.args = {{"w", {.filters = {{kDropBits, {drops}}}}}}})
            .status();
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
    return status;
  };
  EXPECT_EQ(save(8, 0), absl::OkStatus());
  const Status lost = save(9, 1);
  EXPECT_TRUE(absl::IsDataLoss(lost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("read back"));
  EXPECT_FALSE(std::filesystem::exists(StepFile(9, "")));
  ASSERT_GE(H5PLremove(0), 0);
}

// The program that reads for this one loads no plugins if this one does not.
TEST_F(FiltersTest, APluginIsLoadedOnlyWherePluginsAreAllowed) {
  constexpr int kDropBits = 300;
  ASSERT_GE(H5PLprepend(BELAY_TEST_PLUGINS), 0);
  Piece<float> matrix = Matrix(0);
  const auto saved = Save(
      comm_, run(), 8, matrix.state(),
      {.args = {
           {"w", {.chunk_byte_size = 240, .filters = {{kDropBits, {0}}}}}}});
  ASSERT_TRUE(saved.ok()) << saved.status();
  const auto read = [&] {
    return Ok(CheckpointReader::Open(saved->path)).ReadTensor("w").status();
  };
  const auto plain = Save(
      comm_, run(), 9, matrix.state(),
      {.args = {{"w", {.chunk_byte_size = 240, .filters = {{kDropBits, {0}}}}}},
       .checksums = false});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(read(), absl::OkStatus());
  unsigned kinds = 0;
  ASSERT_GE(H5PLget_loading_state(&kinds), 0);
  ASSERT_GE(H5PLset_loading_state(0), 0);
  const Status refused = read();
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(std::string(refused.message()), HasSubstr("filter"));
  // What is not compared needs no plugin.
  EXPECT_FALSE(VerifyCheckpoint(saved->path).ok());
  EXPECT_THAT(Ok(VerifyCheckpoint(plain->path)).damage, IsEmpty());
  ASSERT_GE(H5PLset_loading_state(kinds), 0);
  EXPECT_EQ(read(), absl::OkStatus());
  ASSERT_GE(H5PLremove(0), 0);
}

size_t Keep(unsigned, size_t, const unsigned[], size_t bytes, size_t*, void**) {
  return bytes;
}

// No other program could read what it stores, nor a later run of this one that
// has not registered it.
TEST_F(FiltersTest, AFilterThatOnlyTheProgramHasMakesTheSaveFail) {
  constexpr int kKeep = 301;
  const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, kKeep,   1,       1,
                               "keep",           nullptr, nullptr, Keep};
  ASSERT_GE(H5Zregister(&filter), 0);
  Piece<float> matrix = Matrix(0);
  matrix.Fill(3);
  const Status status = Save(comm_, run(), 9, matrix.state(),
                             {.args = {{"w", {.filters = {{.id = kKeep}}}}}})
                            .status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("filter 301: install its plugin"));
  EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
  EXPECT_FALSE(std::filesystem::exists(StepFile(9, "")));
  ASSERT_GE(H5Zunregister(kKeep), 0);
}

TEST_F(FiltersTest, WhatCannotBeIsRefusedOnAllRanks) {
  Piece<float> matrix = Matrix(0);
  const State state = matrix.state();
  const auto refused = [&](const SaveArgs& args, absl::StatusCode code,
                           const std::string& error) {
    SCOPED_TRACE(error);
    const Status status =
        Save(comm_, run(), 9, state, {.args = {{"w", args}}}).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(error));
    EXPECT_TRUE(testing::IsSameEverywhere(status.ToString()));
    EXPECT_FALSE(std::filesystem::exists(StepFile(9, "")));
  };
  const auto invalid = absl::StatusCode::kInvalidArgument;
  refused({.filters = {{.id = 0}}}, invalid, "(need 1 to 65535, found 0)");
  refused({.filters = {{.id = 70000}}}, invalid, "found 70000");
  refused({.filters = Deflate(10)}, invalid, "level from 0 to 9");
  refused({.filters = Deflate(-1)}, invalid, "level from 0 to 9");
  refused({.filters = std::vector<Filter>(40, Filter{.id = 2})}, invalid,
          "(need at most 32, found 40)");
  refused({.filters = {{4, {4, 16}}}}, invalid, "filter 4, szip, is not");
  refused({.filters = {{6, {2, 0}}}}, invalid, "scaleoffset, is not");
  refused({.filters = {{.id = kMissingFilter}}},
          absl::StatusCode::kFailedPrecondition,
          "HDF5 does not have filter 32099");
  const Status canonical = Save(comm_, run(), 9, state,
                                {.array_layout = ArrayLayout::kCanonical,
                                 .args = {{"w", {.filters = Deflate()}}}})
                               .status();
  EXPECT_THAT(std::string(canonical.message()), HasSubstr("kCanonical"));
  if (size_ > 1) {
    const Status differ =
        Save(comm_, run(), 9, state,
             {.args = {{"w", {.filters = Deflate(1 + rank_ % 2)}}}})
            .status();
    EXPECT_THAT(std::string(differ.message()), HasSubstr("the option args"));
  }
}

}  // namespace
}  // namespace belay::filters_test
