// Simulated ranks and files for tests of the planners.
//
// Arrays are cut over ranks in random ways; plans are carried out on strings
// in memory, and every byte has a known value.

#ifndef BELAY_TESTS_MODEL_TESTING_H_
#define BELAY_TESTS_MODEL_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "belay/arrays/layout.h"
#include "core/strided_copy.h"
#include "plan/listed_ranks.h"
#include "plan/plan.h"
#include "plan/save_planner.h"

namespace belay {

using Random = std::mt19937_64;

inline int64_t Uniform(int64_t low, int64_t high, Random& random) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

inline ShardInfo InfoOf(const StoredArray& array, Box box,
                        int64_t replica = 0) {
  return {.key = array.key,
          .dtype = array.dtype,
          .global_shape = array.shape,
          .box = std::move(box),
          .replica = replica,
          .string_bytes = array.string_bytes};
}

// Arrays of many kinds: empty ones, scalars, texts, and up to three axes.
inline std::vector<StoredArray> RandomArrays(Random& random) {
  const DType dtypes[] = {DType::kU8, DType::kF16, DType::kF32, DType::kC128};
  std::vector<StoredArray> arrays;
  const int64_t count = Uniform(1, 6, random);
  for (int64_t i = 0; i < count; ++i) {
    StoredArray array{.key = "k" + std::to_string(i)};
    const int64_t kind = Uniform(0, 9, random);
    if (kind == 0) {
      array.dtype = DType::kString;
      array.string_bytes = Uniform(0, 9000, random);
    } else {
      array.dtype = dtypes[Uniform(0, 3, random)];
      const int64_t ndim = Uniform(0, 3, random);
      const int64_t longest = kind > 4    ? 7
                              : ndim == 1 ? 4000
                              : ndim == 2 ? 60
                                          : 15;
      for (int64_t axis = 0; axis < ndim; ++axis) {
        const bool none = Uniform(0, 19, random) == 0;
        array.shape.push_back(none ? 0 : Uniform(1, longest, random));
      }
    }
    arrays.push_back(std::move(array));
  }
  return arrays;
}

// What rank 0 makes of what the ranks tell it; equal lists are not joined.
inline ListedRanks ToListed(const std::vector<RankShards>& ranks) {
  ListedRanks listed;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const Description told = Describe(ranks[rank], static_cast<int>(rank),
                                      static_cast<int>(ranks.size()));
    const auto row = static_cast<int32_t>(listed.lists.size());
    listed.lists.push_back(DecodeList(told.shared).value());
    listed.lists.push_back(DecodeList(told.own).value());
    listed.ranks.push_back({.shared = row, .own = row + 1});
  }
  return listed;
}

inline StatusOr<SavePlan> PlanSave(const std::vector<RankShards>& ranks,
                                   const SavePlanOptions& options) {
  return PlanSave(ToListed(ranks), options);
}

// A mesh of all ranks with up to three axes.
inline Mesh RandomMesh(int64_t num_ranks, Random& random) {
  std::vector<MeshAxis> axes;
  for (int i = 0; i < 2; ++i) {
    std::vector<int64_t> divisors;
    for (int64_t n = 1; n <= num_ranks; ++n) {
      if (num_ranks % n == 0) divisors.push_back(n);
    }
    const size_t last = divisors.size() - 1;
    const int64_t size =
        divisors[Uniform(0, static_cast<int64_t>(last), random)];
    axes.push_back({i == 0 ? "x" : "y", size});
    num_ranks /= size;
  }
  axes.push_back({"z", num_ranks});
  return Mesh::Create(axes).value();
}

inline Layout RandomLayout(const Mesh& mesh, size_t ndim, Random& random) {
  LayoutAxes axes(ndim);
  for (const MeshAxis& axis : mesh.axes()) {
    const int64_t target = Uniform(0, static_cast<int64_t>(ndim), random);
    if (target < static_cast<int64_t>(ndim)) axes[target].push_back(axis.name);
  }
  return Layout::Create(mesh, axes).value();
}

// Cuts a box at random places into up to 2^depth boxes.
inline std::vector<Box> RandomTiling(const Box& box, int depth,
                                     Random& random) {
  if (depth == 0 || box.shape.empty()) return {box};
  const auto axis = static_cast<size_t>(
      Uniform(0, static_cast<int64_t>(box.shape.size()) - 1, random));
  Box low = box, high = box;
  low.shape[axis] = Uniform(0, box.shape[axis], random);
  high.offset[axis] += low.shape[axis];
  high.shape[axis] -= low.shape[axis];
  std::vector<Box> boxes = RandomTiling(low, depth - 1, random);
  for (Box& other : RandomTiling(high, depth - 1, random)) {
    boxes.push_back(std::move(other));
  }
  return boxes;
}

// Lists an array on random ranks, in irregular pieces with up to 3 replicas.
inline void CutIrregularly(const StoredArray& array,
                           std::vector<RankShards>& ranks, Random& random) {
  const auto num_ranks = static_cast<int64_t>(ranks.size());
  for (const Box& box : RandomTiling(WholeBox(array.shape), 3, random)) {
    const int64_t replicas =
        IsEmpty(box) ? 1 : std::min(num_ranks, Uniform(1, 3, random));
    const int64_t first = Uniform(0, num_ranks - 1, random);
    for (int64_t i = 0; i < replicas; ++i) {
      ranks[(first + i) % num_ranks].shards.push_back(InfoOf(array, box, i));
    }
  }
}

// Lists the arrays on all ranks, each cut in its own way, in random order.
inline std::vector<RankShards> RandomCut(const std::vector<StoredArray>& arrays,
                                         int num_ranks, Random& random) {
  std::vector<RankShards> ranks(num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) ranks[rank].node = rank / 4;
  for (const StoredArray& array : arrays) {
    if (Uniform(0, 2, random) == 0) {
      CutIrregularly(array, ranks, random);
      continue;
    }
    const Layout layout =
        RandomLayout(RandomMesh(num_ranks, random), array.shape.size(), random);
    for (int rank = 0; rank < num_ranks; ++rank) {
      Box box = layout.LocalBox(array.shape, rank).value();
      ranks[rank].shards.push_back(
          InfoOf(array, std::move(box), layout.Replica(rank)));
    }
  }
  for (RankShards& rank : ranks) {
    std::shuffle(rank.shards.begin(), rank.shards.end(), random);
  }
  return ranks;
}

// Boxes that overlap each other, some of them empty.
inline std::vector<RankShards> RandomWants(
    const std::vector<StoredArray>& arrays, int num_ranks, Random& random) {
  std::vector<RankShards> wanted(num_ranks);
  for (RankShards& rank : wanted) {
    const int64_t count = Uniform(0, 4, random);
    for (int64_t i = 0; i < count; ++i) {
      const auto last = static_cast<int64_t>(arrays.size()) - 1;
      const StoredArray& array = arrays[Uniform(0, last, random)];
      Box box = WholeBox(array.shape);
      for (size_t axis = 0; axis < box.shape.size(); ++axis) {
        box.offset[axis] = Uniform(0, array.shape[axis], random);
        box.shape[axis] =
            Uniform(0, array.shape[axis] - box.offset[axis], random);
      }
      rank.shards.push_back(InfoOf(array, std::move(box)));
    }
  }
  return wanted;
}

// The bytes of a whole array: any two arrays differ, and so do any two places.
inline std::string ContentOf(const StoredArray& array) {
  Random random(std::hash<std::string>()(array.key));
  std::string bytes(static_cast<size_t>(ArrayBytes(array)), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

// The bytes of the piece `box` (an io box) of an array.
inline std::string PieceOf(const StoredArray& array, const Box& box) {
  const std::string whole = ContentOf(array);
  const int64_t size = IoElementSize(array.dtype);
  std::string piece;
  ForEachRun(box, box, WholeBox(IoShape(array)), [&](const ElementRun& run) {
    piece.append(whole, run.b * size, run.length * size);
  });
  return piece;
}

// Where the datasets lie, and what is in the files.
struct SimulatedFiles {
  SavedCheckpoint index;
  std::vector<std::string> bytes;   // of each file
  std::vector<std::string> writes;  // how often each of them was written
};

inline int64_t DatasetBytes(const StoredDataset& dataset, int64_t size) {
  int64_t elements = NumElements(dataset.box.shape);
  if (!dataset.chunk.empty()) {
    elements = NumElements(ChunkGrid(dataset)) * NumElements(dataset.chunk);
  }
  return elements * size;
}

// Lays the datasets one after the other and carries out all orders.
inline SimulatedFiles SimulateSave(const SavePlan& plan,
                                   const std::vector<RankShards>& ranks) {
  SimulatedFiles files{
      .index = {.arrays = plan.arrays,
                .datasets = plan.datasets,
                .files = plan.files},
      .bytes = std::vector<std::string>(plan.files.size(), "header"),
      .writes = {}};
  for (StoredDataset& dataset : files.index.datasets) {
    const int64_t size = IoElementSize(plan.arrays[dataset.array].dtype);
    std::string& bytes = files.bytes[dataset.file];
    dataset.offset = static_cast<int64_t>(bytes.size());
    bytes.append(DatasetBytes(dataset, size), '\0');
  }
  for (const std::string& bytes : files.bytes) {
    files.writes.emplace_back(bytes.size(), '\0');
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<ShardInfo>& shards = ranks[rank].shards;
    std::vector<std::string> pieces(shards.size());
    for (const WriteOrder& order : plan.ranks[rank].orders) {
      const StoredDataset& dataset = files.index.datasets[order.dataset];
      const StoredArray& array = plan.arrays[dataset.array];
      const Box box = IoBox(shards[order.shard]);
      std::string& piece = pieces[order.shard];
      if (piece.empty()) piece = PieceOf(array, box);
      const int64_t size = IoElementSize(array.dtype);
      ForEachRun(order.box, box, order.extent.box, [&](const ElementRun& run) {
        const int64_t to = dataset.offset + order.extent.offset + run.b * size;
        for (int64_t i = 0; i < run.length * size; ++i) {
          files.bytes[dataset.file].at(to + i) = piece.at(run.a * size + i);
          ++files.writes[dataset.file].at(to + i);
        }
      });
    }
  }
  return files;
}

// Each dataset holds the content of its box; no byte is written twice.
inline void ExpectContent(const SavePlan& plan, const SimulatedFiles& files) {
  for (const StoredDataset& dataset : files.index.datasets) {
    const StoredArray& array = plan.arrays[dataset.array];
    const int64_t size = IoElementSize(array.dtype);
    const std::string expected = PieceOf(array, dataset.box);
    ForEachExtent(dataset, dataset.box, size, [&](const Extent& extent) {
      const Box box = *Intersect(extent.box, dataset.box);
      ForEachRun(box, dataset.box, extent.box, [&](const ElementRun& run) {
        const int64_t at = dataset.offset + extent.offset + run.b * size;
        ASSERT_EQ(files.bytes[dataset.file].substr(at, run.length * size),
                  expected.substr(run.a * size, run.length * size));
      });
    });
  }
  for (const std::string& writes : files.writes) {
    for (char count : writes) ASSERT_LE(count, 1);
  }
}

}  // namespace belay

#endif  // BELAY_TESTS_MODEL_TESTING_H_
