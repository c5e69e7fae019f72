// A file of another program, read by many ranks at once, each with its own cut
// and with a form of its own.

#include "restore/flat_file.h"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "belay/async_saver.h"
#include "belay/checkpoint.h"
#include "belay/checkpoint_reader.h"
#include "belay/save_restore.h"
#include "mpi_test.h"

namespace belay::flat_file_test {
namespace {

using testing::ScratchDir;
using testing::WorldRank;
using testing::WorldSize;

// As tests/flat_file_write.py wrote it: 40 x 31, numbers modulo 100.
constexpr int64_t kRows = 40;
constexpr int64_t kColumns = 31;

class FlatFileOnRanksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (WorldRank() == 0) {
      const std::string command = "/usr/bin/python3 -B '" BELAY_TEST_FLAT_FILE
                                  "' '" +
                                  dir_.path() + "'";
      EXPECT_EQ(std::system(command.c_str()), 0);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // The form that each dataset of the file has.
  std::map<std::string, StoredForm> Forms() {
    std::map<std::string, StoredForm> forms;
    const auto arrays = ListFlatFile(dir_.File("flat.h5"));
    EXPECT_TRUE(arrays.ok()) << arrays.status();
    if (!arrays.ok()) return forms;
    for (const FlatArray& array : *arrays) {
      if (!array.problem.empty()) continue;
      forms[array.key] = {.dtype = array.dtype, .shape = array.shape};
    }
    return forms;
  }

  ScratchDir dir_;
};

// Into memory with gaps, and nothing else of it.
TEST_F(FlatFileOnRanksTest, PiecesThatDoNotLieDense) {
  const StoredForm form = Forms().at("storage/chunks");
  ASSERT_EQ(form.dtype, DType::kF64);
  std::vector<double> dense(NumElements(form.shape));
  std::vector<double> apart(2 * dense.size(), -1);
  const auto wanted = [&](double* data, const Shape& strides) {
    Shard shard{.key = "storage/chunks",
                .dtype = form.dtype,
                .global_shape = form.shape,
                .box = WholeBox(form.shape),
                .data = data};
    shard.strides = strides;
    return shard;
  };
  int64_t staged_bytes = 0;
  for (const Shard& shard : {wanted(dense.data(), {}),
                             wanted(apart.data(), {2 * form.shape[1], 2})}) {
    const Status status =
        ReadFlatFile(dir_.File("flat.h5"), {shard}, {}, &staged_bytes);
    ASSERT_TRUE(status.ok()) << status;
  }
  for (size_t i = 0; i < dense.size(); ++i) {
    EXPECT_EQ(apart[2 * i], dense[i]);
    EXPECT_EQ(apart[2 * i + 1], -1);
  }
}

TEST_F(FlatFileOnRanksTest, RanksReadTheirPiecesInTheirOwnForm) {
  const std::map<std::string, StoredForm> forms = Forms();
  for (const std::string key : {"storage/chunks", "storage/gzip"}) {
    // As f32, cut by columns, with rows and columns of padding.
    const int64_t columns = 12;  // of each rank
    const Shape shape = {kRows + 3, columns * WorldSize()};
    const Box box = {.offset = {0, columns * WorldRank()},
                     .shape = {kRows + 3, columns}};
    std::vector<float> values(NumElements(box.shape), -1);
    const Shard wanted{.key = key,
                       .dtype = DType::kF32,
                       .global_shape = shape,
                       .box = box,
                       .data = values.data()};
    int64_t staged_bytes = 0;
    const Status status = ReadFlatFile(dir_.File("flat.h5"), {wanted},
                                       {forms.at(key)}, &staged_bytes);
    ASSERT_TRUE(status.ok()) << status;
    const int64_t stored_columns =
        std::min(std::max<int64_t>(kColumns - box.offset[1], 0), columns);
    EXPECT_EQ(staged_bytes,
              kRows * stored_columns * DTypeSize(forms.at(key).dtype));
    for (int64_t row = 0; row < kRows + 3; ++row) {
      for (int64_t i = 0; i < columns; ++i) {
        const int64_t column = columns * WorldRank() + i;
        const bool is_stored = row < kRows && column < kColumns;
        const int64_t number = (row * kColumns + column) % 100;
        ASSERT_EQ(values[row * columns + i], is_stored ? number : -1)
            << row << ", " << column;
      }
    }
  }
}

// A dataset of 80 MiB that only HDF5 fills. Who has memory for it gets it; no
// memory is taken because the file says so.
TEST_F(FlatFileOnRanksTest, LargerThanItsFile) {
  constexpr int64_t kLength = int64_t{10} << 20;
  const std::string path = dir_.File("fill.h5");
  if (WorldRank() == 0) {
    const std::string command =
        "/usr/bin/python3 -c 'import h5py; h5py.File(\"" + path +
        "\", \"w\").create_dataset(\"x\", (10 << 20,), \"f8\", "
        "fillvalue=3)'";
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const Comm comm = *Comm::Duplicate(MPI_COMM_WORLD);
  std::vector<double> memory(kLength);
  std::span<double> known(memory);
  Checkpoint has_memory(comm, {{"x", known}});
  const Status read = has_memory.Restore(path).status();
  EXPECT_TRUE(read.ok()) << read;
  EXPECT_EQ(memory.front(), 3);
  EXPECT_EQ(memory.back(), 3);
  std::vector<double> values;
  Checkpoint takes_length(comm, {{"x", values}});
  const Status refused = takes_length.Restore(path).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_NE(refused.message().find(
                "its length is taken from the file, but dataset \"x\" is said "
                "to have more bytes than its file can hold"),
            refused.message().npos)
      << refused;
  EXPECT_TRUE(values.empty());
}

// Threads that take memory and its locks, read chunks under a plugin's filter
// and write a save do not matter for the processes that are started meanwhile.
TEST_F(FlatFileOnRanksTest, BesideThreadsAndASaveInTheBackground) {
  const Comm comm = *Comm::Duplicate(MPI_COMM_WORLD);
  ASSERT_GE(H5PLprepend(BELAY_TEST_PLUGINS), 0);
  const std::map<std::string, StoredForm> forms = Forms();
  std::vector<int64_t> values(5000);
  std::iota(values.begin(), values.end(), 7);
  State state;
  state.AddReplicated("v", {std::ssize(values)}, AtAddress(values.data()));
  const auto filtered = Save(
      comm, dir_.File("run"), 1, state,
      {.args = {{"v", {.chunk_byte_size = 8000, .filters = {{300, {0}}}}}}});
  ASSERT_TRUE(filtered.ok()) << filtered.status();
  AsyncSaver saver(comm, {.max_bytes_per_second = 100000});
  const auto pending = saver.Save(dir_.File("run"), 2, state, {});
  ASSERT_TRUE(pending.ok()) << pending.status();
  const auto reader = CheckpointReader::Open(filtered->path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::atomic<bool> is_done = false;
  std::vector<std::thread> threads;
  threads.emplace_back([&] {
    while (!is_done) std::vector<std::string>(100, std::string(5000, 'x'));
  });
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      do {
        const auto read = reader->ReadTensor("v");
        ASSERT_TRUE(read.ok()) << read.status();
        const auto found = read->values<int64_t>();
        EXPECT_TRUE(std::equal(found.begin(), found.end(), values.begin(),
                               values.end()));
      } while (!is_done);
    });
  }
  const std::string key = "storage/gzip";
  std::vector<float> gzip(kRows * kColumns);
  const Shard wanted{.key = key,
                     .dtype = DType::kF32,
                     .global_shape = {kRows, kColumns},
                     .box = WholeBox({kRows, kColumns}),
                     .data = gzip.data()};
  for (int round = 0; round < 5; ++round) {
    std::fill(gzip.begin(), gzip.end(), -1);
    const Status status =
        ReadFlatFile(dir_.File("flat.h5"), {wanted}, {forms.at(key)});
    EXPECT_TRUE(status.ok()) << status;
    for (int64_t i = 0; i < kRows * kColumns; ++i) EXPECT_EQ(gzip[i], i % 100);
  }
  is_done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(saver.Wait().ok());
  EXPECT_GE(H5PLremove(0), 0);
}

}  // namespace
}  // namespace belay::flat_file_test
