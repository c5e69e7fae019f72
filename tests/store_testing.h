// Checkpoints without MPI: indexes as the planner makes them, and real files
// that hold them. Every byte has a known value, that of ContentOf.

#ifndef BELAY_TESTS_STORE_TESTING_H_
#define BELAY_TESTS_STORE_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "core/checksum.h"
#include "create_index.h"
#include "format/index_columns.h"
#include "format/paths.h"
#include "model_testing.h"
#include "plan/save_planner.h"
#include "storage/index_file.h"
#include "storage/posix_file.h"
#include "storage/skeleton.h"
#include "stored_graph_testing.h"

namespace belay {

inline uint32_t PlainCrc(std::string_view bytes) {
  return StandardCrc(CrcRegisterPortable(0, bytes.data(), bytes.size()),
                     bytes.size());
}

// CRC32C of each MiB of an array's content.
inline std::vector<uint32_t> ChecksumsOf(const StoredArray& array) {
  const std::string content = ContentOf(array);
  std::vector<uint32_t> checksums;
  for (size_t at = 0; at < content.size(); at += kBlockBytes) {
    checksums.push_back(
        PlainCrc(std::string_view(content).substr(at, kBlockBytes)));
  }
  return checksums;
}

// The order of an index, and what it does not store taken away.
inline void Normalize(SavedCheckpoint& saved) {
  std::sort(saved.datasets.begin(), saved.datasets.end(),
            [](const StoredDataset& a, const StoredDataset& b) {
              return std::tie(a.array, a.box.offset) <
                     std::tie(b.array, b.box.offset);
            });
  for (StoredFile& file : saved.files) {
    file.creator = 0;
    file.num_writers = 0;
    file.team = 0;
    file.rounds = 0;
  }
}

// An index of random arrays, cut and laid out in random ways.
inline SavedCheckpoint RandomIndex(Random& random) {
  const std::vector<StoredArray> arrays = RandomArrays(random);
  const std::vector<RankShards> ranks =
      RandomCut(arrays, static_cast<int>(Uniform(1, 6, random)), random);
  const auto layout = static_cast<FileLayout>(Uniform(0, 2, random));
  const ShardingPolicy policy = Uniform(0, 1, random) == 0
                                    ? ShardByTask()
                                    : MaxShardSize(Uniform(50, 2000, random));
  const SavePlan plan =
      PlanSave(ranks, {.file_layout = layout, .sharding_policy = policy})
          .value();
  SimulatedFiles files = SimulateSave(plan, ranks);
  SavedCheckpoint saved = std::move(files.index);
  saved.step = Uniform(0, 1000, random);
  saved.time = Uniform(0, kMaxTime, random);
  saved.file_layout = layout;
  for (StoredArray& array : saved.arrays) {
    if (Uniform(0, 3, random) == 0) array.args = "dtype=bf16";
    if (Uniform(0, 3, random) == 0) array.layout = "[rows] on rows=4";
  }
  for (size_t i = 0; i < saved.files.size(); ++i) {
    saved.files[i].bytes = static_cast<int64_t>(files.bytes[i].size());
  }
  saved.has_checksums = Uniform(0, 3, random) > 0;
  for (const StoredArray& array : saved.arrays) {
    if (!saved.has_checksums) break;
    for (uint32_t sum : ChecksumsOf(array)) saved.checksums.push_back(sum);
  }
  if (Uniform(0, 1, random) == 1) {
    saved.graph = RandomGraph(saved.arrays.size(), random);
  }
  saved.values =
      RandomValues(saved.arrays.size(), saved.graph.node_parent.size(), random);
  for (size_t i = 0; i < saved.arrays.size() && Uniform(0, 1, random); ++i) {
    if (saved.arrays[i].shape.empty()) continue;
    // Some rows are those of ranks.
    std::vector<int64_t> counts(static_cast<size_t>(Uniform(1, 5, random)));
    int64_t left = saved.arrays[i].shape[0];
    for (int64_t& count : counts) {
      count = Uniform(0, left, random);
      left -= count;
    }
    counts.back() += left;
    saved.rows.push_back({static_cast<uint32_t>(i), MakeRowRanks(counts)});
  }
  Normalize(saved);
  return saved;
}

inline void ExpectSame(const SavedCheckpoint& a, const SavedCheckpoint& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.time, b.time);
  EXPECT_EQ(a.format_major, b.format_major);
  EXPECT_EQ(a.format_minor, b.format_minor);
  EXPECT_EQ(a.file_layout, b.file_layout);
  EXPECT_EQ(a.has_checksums, b.has_checksums);
  EXPECT_EQ(a.arrays, b.arrays);
  EXPECT_EQ(a.datasets, b.datasets);
  EXPECT_EQ(a.files, b.files);
  EXPECT_EQ(a.checksums, b.checksums);
  EXPECT_EQ(a.graph, b.graph);
  EXPECT_EQ(a.values, b.values);
  EXPECT_EQ(a.rows, b.rows);
}

// Two files: "a" f32 [4, 6] in chunks of [2, 3]; "b" the text of 3 bytes; "c"
// u8 [0, 2]; "d/e" i64, a scalar; "d/f" u16 [2, 2] in two pieces. With
// SmallGraph and SmallValues.
inline SavedCheckpoint SmallIndex() {
  const auto dataset = [](int32_t array, int32_t file, Box box, int64_t offset,
                          Shape chunk = {}) {
    return StoredDataset{array,
                         file,
                         std::move(box),
                         std::move(chunk),
                         offset,
                         /*group=*/array + 1,
                         /*task=*/file - 1};
  };
  return {.step = 42,
          .time = 1700000000,
          .file_layout = FileLayout::kPerTask,
          .has_checksums = true,
          .arrays = {{"a", DType::kF32, {4, 6}, 0, "shard_axes=[0]"},
                     {"b", DType::kString, {}, 3},
                     {"c", DType::kU8, {0, 2}, 0, "", "on 2"},
                     {"d/e", DType::kI64, {}},
                     {"d/f", DType::kU16, {2, 2}}},
          .datasets = {dataset(0, 0, WholeBox({4, 6}), 100, {2, 3}),
                       dataset(1, 0, WholeBox({3}), 197), dataset(3, 1, {}, 50),
                       dataset(4, 0, {{0, 0}, {1, 2}}, 200),
                       dataset(4, 1, {{1, 0}, {1, 2}}, 58)},
          .files = {{"data_00000_of_00002.h5", 0, 204},
                    {"data_00001_of_00002.h5", 0, 62}},
          .checksums = {11, 12, 13, 14},
          .graph = SmallGraph(),
          .values = SmallValues()};
}

// Writes the elements of one dataset, chunk by chunk.
inline void WriteDataset(PosixFile& file, const StoredArray& array,
                         const StoredDataset& dataset) {
  const std::string content = ContentOf(array);
  const int64_t size = IoElementSize(array.dtype);
  ForEachExtent(dataset, dataset.box, size, [&](const Extent& extent) {
    std::string bytes(NumElements(extent.box.shape) * size, '\0');
    ForEachRun(*Intersect(extent.box, dataset.box), WholeBox(IoShape(array)),
               extent.box, [&](const ElementRun& run) {
                 content.copy(bytes.data() + run.b * size, run.length * size,
                              run.a * size);
               });
    ASSERT_TRUE(file.PwriteAll(dataset.offset + extent.offset, bytes.data(),
                               static_cast<int64_t>(bytes.size()))
                    .ok());
  });
}

// Creates the data file number `index` and puts its places into `saved`.
inline void WriteDataFile(const std::string& dir, int32_t index,
                          SavedCheckpoint& saved) {
  const std::vector<std::string> paths = ObjectPaths(saved.arrays);
  std::vector<h5::DatasetSpec> specs;
  std::vector<StoredDataset*> datasets;
  for (StoredDataset& dataset : saved.datasets) {
    if (dataset.file != index) continue;
    const StoredArray& array = saved.arrays[dataset.array];
    const bool is_text = array.dtype == DType::kString;
    datasets.push_back(&dataset);
    specs.push_back({DatasetPath(paths[dataset.array], array, dataset),
                     array.dtype, array.string_bytes,
                     is_text ? Shape{} : dataset.box.shape, dataset.chunk});
  }
  const std::string path = JoinPath(dir, saved.files[index].name);
  const StatusOr<Skeleton> skeleton = CreateSkeleton({path}, specs);
  ASSERT_TRUE(skeleton.ok()) << skeleton.status();
  saved.files[index].bytes = skeleton->file_bytes;
  PosixFile file = PosixFile::Open(path, PosixFile::Mode::kWrite).value();
  for (size_t i = 0; i < datasets.size(); ++i) {
    datasets[i]->offset = skeleton->offsets[i];
    WriteDataset(file, saved.arrays[datasets[i]->array], *datasets[i]);
  }
  ASSERT_TRUE(file.Close().ok());
}

// Writes a whole checkpoint into the directory `dir`, and gives `saved` the
// offsets, sizes and checksums of these files.
inline void WriteCheckpoint(const std::string& dir, SavedCheckpoint& saved) {
  for (size_t i = 0; i < saved.files.size(); ++i) {
    WriteDataFile(dir, static_cast<int32_t>(i), saved);
  }
  saved.checksums.clear();
  for (const StoredArray& array : saved.arrays) {
    if (!saved.has_checksums) break;
    for (uint32_t sum : ChecksumsOf(array)) saved.checksums.push_back(sum);
  }
  const std::string path = JoinPath(dir, IndexName());
  const StatusOr<IndexImage> image = CreateIndex(path, saved);
  ASSERT_TRUE(image.ok()) << image.status();
  const Status finished =
      FinishIndex(path, *image, saved.step, saved.time, saved.checksums, false);
  ASSERT_TRUE(finished.ok()) << finished;
}

}  // namespace belay

#endif  // BELAY_TESTS_STORE_TESTING_H_
