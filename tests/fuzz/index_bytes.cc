#include "index_bytes.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "belay/objects/object_info.h"
#include "format/bounded_file.h"
#include "format/file_reader.h"
#include "format/paths.h"
#include "format/stored_columns.h"
#include "fuzz_input.h"
#include "fuzz_target.h"
#include "graph/object_graph.h"
#include "hdf5_bytes.h"
#include "plan/restore_planner.h"
#include "plan/stored_arrays.h"
#include "plan/stored_values.h"

namespace belay {
namespace {

constexpr size_t kMaxPlannedArrays = 8;
// Who lists objects looks at this first.
constexpr int64_t kMaxPathBytes = int64_t{32} << 20;
constexpr size_t kMaxFoundValues = 4;
constexpr int64_t kMaxPlannedBytes = int64_t{4} << 20;
constexpr int64_t kMaxPlannedChunks = 4096;

template <typename T>
constexpr bool kIsText = std::is_same_v<T, std::string>;

template <typename T>
void ReadColumn(std::string_view bytes, int64_t width, std::vector<T>& column) {
  for (; std::ssize(bytes) >= width && width > 0; bytes.remove_prefix(width)) {
    if constexpr (kIsText<T>) {
      const std::string_view text = bytes.substr(0, width);
      column.emplace_back(text.substr(0, text.find_last_not_of('\0') + 1));
    } else {
      std::memcpy(&column.emplace_back(), bytes.data(), sizeof(T));
    }
  }
}

// The bytes of a dataset, if it has any.
std::optional<std::string_view> BytesOf(h5::FileReader& reader,
                                        const std::string& file,
                                        std::string_view path, int64_t& width) {
  const StatusOr<std::optional<h5::ContiguousDataset>> found =
      reader.Find(path);
  if (!found.ok() || !found->has_value()) return std::nullopt;
  const h5::ContiguousDataset& dataset = **found;
  width = static_cast<int64_t>(
      h5::MetadataReader(std::string_view(dataset.type).substr(4)).Number(4));
  if (dataset.bytes == 0) return std::string_view();
  return std::string_view(file).substr(dataset.offset, dataset.bytes);
}

void PutDigest(h5::FileReader& reader, std::string& file,
               const std::string& path, const void* digest, size_t bytes) {
  int64_t width = 0;
  const auto place = BytesOf(reader, file, path, width);
  if (!place || place->size() != bytes) return;
  std::memcpy(file.data() + (place->data() - file.data()), digest, bytes);
}

// Each of them is wanted as a whole, by two ranks.
void PlanArray(const SavedCheckpoint& saved, size_t array,
               const ArrayEntry& entry) {
  const StoredArray& stored = saved.arrays[array];
  if (ArrayBytes(stored) > kMaxPlannedBytes) return;
  for (const StoredDataset& dataset : entry.datasets) {
    if (dataset.chunk.empty()) continue;
    const StatusOr<int64_t> chunks = CheckedNumElements(ChunkGrid(dataset));
    if (!chunks.ok() || *chunks > kMaxPlannedChunks) return;
  }
  RankShards rank;
  rank.shards.push_back({.key = stored.key,
                         .dtype = stored.dtype,
                         .global_shape = stored.shape,
                         .box = WholeBox(stored.shape),
                         .string_bytes = stored.string_bytes,
                         .fields = stored.fields});
  const SavedCheckpoint one = IndexOfArray(saved, static_cast<int32_t>(array),
                                           entry, WholeBox(IoShape(stored)));
  const StatusOr<RestorePlan> plan = PlanRestore(one, {rank, rank});
  if (!plan.ok()) return;
  for (const RankReads& reads : plan->ranks) {
    for (const ReadOrder& order : reads.orders) {
      Require(order.shard == 0, "what is read belongs to a shard");
      Require(order.file >= 0 && order.file < std::ssize(one.files),
              "what is read lies in a file that is there");
      if (order.filtered >= 0) continue;
      const int64_t bytes =
          NumElements(order.extent.box.shape) * IoElementSize(stored.dtype);
      const int64_t size = one.files[At(order.file)].bytes;
      Require(order.extent.offset >= 0 && bytes <= size &&
                  order.extent.offset <= size - bytes,
              "what is read lies within its file");
    }
  }
}

// Whatever is listed can be asked for.
void CheckValues(const SavedCheckpoint& saved) {
  const std::vector<StoredValue> all = AllValues(saved);
  Require(ValuesAlone(saved).size() <= all.size(),
          "values that stand alone are some of all");
  for (size_t i = 0; i < all.size() && i < kMaxFoundValues; ++i) {
    Require(HasValue(saved, all[i].key), "a value that is listed is there");
    const StatusOr<std::vector<StoredValue>> found =
        FindValues(saved, {all[i].key}, {"none"});
    Require(found.ok() && !found->empty(), "a value that is listed is found");
  }
}

bool AreSame(const SavedCheckpoint& a, const SavedCheckpoint& b) {
  return a.step == b.step && a.time == b.time &&
         a.file_layout == b.file_layout && a.has_checksums == b.has_checksums &&
         a.arrays == b.arrays && a.datasets == b.datasets &&
         a.files == b.files && a.checksums == b.checksums &&
         a.graph == b.graph && a.values == b.values && a.rows == b.rows;
}

}  // namespace

IndexColumns ColumnsOfInput(std::string_view input) {
  IndexColumns columns;
  FuzzInput in(input);
  ForEachColumn(columns, [&](const char*, auto& column) {
    using T = typename std::decay_t<decltype(column)>::value_type;
    const auto rows = in.Number<uint16_t>();
    for (int row = 0; row < rows && !in.empty(); ++row) {
      if constexpr (kIsText<T>) {
        column.push_back(in.Text());
      } else {
        column.push_back(in.Number<T>());
      }
    }
  });
  return columns;
}

std::string InputOfColumns(const IndexColumns& columns) {
  FuzzInputWriter out;
  ForEachColumn(columns, [&](const char*, const auto& column) {
    using T = typename std::decay_t<decltype(column)>::value_type;
    out.Put(static_cast<uint16_t>(column.size()));
    for (const T& row : column) {
      if constexpr (kIsText<T>) {
        out.PutText(row);
      } else {
        out.Put(row);
      }
    }
  });
  return out.bytes();
}

void RepairIndex(std::string& file) {
  RepairHdf5(file, [&](h5::BoundedFile&, h5::FileReader& reader) {
    IndexColumns columns;
    ForEachColumn(columns, [&](const char* path, auto& column) {
      using T = typename std::decay_t<decltype(column)>::value_type;
      int64_t width = 0;
      const auto bytes = BytesOf(reader, file, path, width);
      if (bytes && (kIsText<T> || width == sizeof(T))) {
        ReadColumn(*bytes, width, column);
      }
    });
    const IndexDigest digest = ComputeDigest(ToStoredColumns(columns));
    const uint32_t both[] = {digest.structure, digest.values};
    PutDigest(reader, file, kDigestColumn, both, sizeof(both));
  });
}

void CheckIndex(const SavedCheckpoint& saved) {
  StatusOr<SavedCheckpoint> again = FromColumns(ToColumns(saved), "again");
  Require(again.ok(), "an index that was read can be written and read");
  // Paths are put in by those who read files.
  SavedCheckpoint before = saved;
  for (StoredDataset& dataset : before.datasets) dataset.path.clear();
  Require(AreSame(before, *again), "an index comes back as it was");
  const StatusOr<ObjectGraph> graph =
      FromStoredGraph(saved.graph, saved.arrays, saved.values);
  if (graph.ok() && PathBytes(*graph) <= kMaxPathBytes) {
    Require(ListObjects(*graph).size() == graph->nodes.size(),
            "each object is listed");
  }
  CheckValues(saved);
  FindLayouts(saved);
  const std::vector<std::string> paths = ObjectPaths(saved.arrays);
  std::vector<std::string> sorted = paths;
  std::sort(sorted.begin(), sorted.end());
  Require(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
          "no two arrays have the same path");
  const std::vector<ArrayEntry> entries = ArrayEntries(saved);
  for (size_t i = 0; i < entries.size() && i < kMaxPlannedArrays; ++i) {
    PlanArray(saved, i, entries[i]);
  }
}

}  // namespace belay
