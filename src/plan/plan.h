// Plans as plain values: which rank writes or reads which bytes where. Rank 0
// makes them with the pure functions of save_planner.h and restore_planner.h,
// from descriptions of all ranks' shards.
//
// Boxes in orders are io boxes: array boxes, except that a string of n bytes is
// treated as an array of n single bytes.

#ifndef BELAY_PLAN_PLAN_H_
#define BELAY_PLAN_PLAN_H_

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "belay/arrays/device.h"
#include "belay/options.h"
#include "belay/values/save_args.h"
#include "plan/stored_objects.h"
#include "plan/stored_values.h"

namespace belay {

struct ShardInfo {
  std::string key;
  DType dtype = DType::kU8;
  bool from_rank0 = false;    // as in Shard
  bool on_all_ranks = false;  // every rank must hold the key
  Shape global_shape;
  Box box;
  int64_t replica = 0;
  int64_t string_bytes = 0;  // length of a string; 0 for other dtypes
  std::string layout = {};   // as text; "": unknown
  // How its device differs from DefaultDevice (shards.h), as text.
  std::string device = {};
  std::string fields = {};  // as in StoredArray

  friend bool operator==(const ShardInfo&, const ShardInfo&) = default;
};

struct RankShards {
  int32_t node = 0;  // ranks with the same number share a node
  std::vector<ShardInfo> shards;
  std::vector<ListedValue> values;             // values with handlers
  std::string job = std::string(kDefaultJob);  // of the rank's devices
};

struct StoredArray {
  std::string key;
  DType dtype = DType::kU8;
  Shape shape;
  int64_t string_bytes = 0;
  std::string args = {};    // save arguments, as text; "": none
  std::string layout = {};  // as text; "": unknown, or stored in the graph
  // The fields of the structs (core/struct_text.h) whose bytes form the last
  // axis; "": not an array of structs.
  std::string fields = {};

  friend bool operator==(const StoredArray&, const StoredArray&) = default;
};

// A dataset of a data file: the piece `box` of an array, contiguous or in
// chunks.
struct StoredDataset {
  int32_t array = 0;
  int32_t file = 0;
  Box box;              // io box
  Shape chunk;          // empty: contiguous
  int64_t offset = -1;  // of its first byte in the file; -1: not known yet
  int32_t group = 0;    // of the sharding policy
  int32_t task = -1;    // the only rank that wrote it; -1: several, or unknown
  // The filters of its chunks. Only HDF5 knows where filtered chunks are, so
  // the offset stays -1.
  std::vector<Filter> filters = {};
  std::string path = {};  // in its file; only for stored datasets with filters

  friend bool operator==(const StoredDataset&, const StoredDataset&) = default;
};

// Returns true if any dataset has filters.
bool HasFilters(absl::Span<const StoredDataset> datasets);

struct StoredFile {
  std::string name;
  int32_t creator = 0;  // the rank that creates the skeleton
  int64_t bytes = 0;    // size, known once the skeleton exists
  int32_t num_writers = 0;
  int32_t team = 0;    // the team of ranks that writes it
  int32_t rounds = 0;  // the maximum over all ranks

  friend bool operator==(const StoredFile&, const StoredFile&) = default;
};

// A region of a file that holds the elements of `box`, row-major: a contiguous
// dataset, or one chunk, which may extend past the array.
struct Extent {
  Box box;
  int64_t offset = 0;  // bytes; in a SavePlan relative to the dataset
};

// A rank writes the part `box` of a shard into an extent.
struct WriteOrder {
  int32_t shard = 0;
  int32_t dataset = 0;
  int32_t round = 0;        // number within its file
  int64_t first_block = 0;  // the array's first checksum block
  Box box;
  Extent extent;  // the whole dataset if it has filters
};

// The writes of a rank, to all files or to one file.
struct RankWrites {
  int64_t bytes = 0;
  std::vector<WriteOrder> orders;  // ascending by dataset, then box
};

// Consecutive shards of one rank that other ranks hold as well.
struct ReplicaRange {
  int32_t first = 0;
  int32_t count = 0;
  int64_t weight = 0;  // 1, or 1 - n for the first of n holders

  friend bool operator==(const ReplicaRange&, const ReplicaRange&) = default;
};

struct ReplicaCheck {
  std::vector<ReplicaRange> ranges;  // ascending
  // The number of replicated boxes of all ranks, and the largest number of
  // replicated bytes on any rank. Both are equal on all ranks.
  int64_t num_boxes = 0;
  int64_t most_bytes = 0;
};

struct SavePlan {
  FileLayout file_layout = FileLayout::kShared;
  std::vector<StoredArray> arrays;      // ascending by key
  std::vector<StoredDataset> datasets;  // ascending by file, array, box
  std::vector<StoredFile> files;        // ascending by team
  std::vector<RankWrites> ranks;
  // The team of each rank; -1: none, because the rank writes no files.
  std::vector<int32_t> teams;
  // The largest number of orders of any rank, for each dataset.
  std::vector<int32_t> calls;
  int64_t rounds = 0;  // the sum over a team's files, maximum over all teams
  int64_t num_blocks = 0;
  std::vector<std::string> warnings;   // about the sharding policy or layout
  std::vector<ReplicaCheck> replicas;  // per rank
};

// The contents of an index.
struct SavedCheckpoint {
  int64_t step = 0;
  int64_t time = 0;  // when it was saved, in seconds since 1970
  int format_major = 1;
  int format_minor = 0;
  FileLayout file_layout = FileLayout::kShared;
  bool has_checksums = false;
  std::vector<StoredArray> arrays;
  std::vector<StoredDataset> datasets;  // ascending by array
  std::vector<StoredFile> files;
  std::vector<uint32_t> checksums;  // per block of every array, in order
  StoredGraph graph;
  StoredValues values;
  std::vector<StoredRows> rows;  // ascending by array
};

// A rank reads the part `box` of an extent into a shard.
struct ReadOrder {
  int32_t shard = 0;
  int32_t file = 0;
  // The array's first checksum block in this restore; -1: another order adds
  // these bytes to the checksum.
  int64_t first_block = -1;
  Box box;
  Extent extent;  // offset from the start of the file, or of a filtered dataset
  // The position in the stream of bytes that this rank reads for other ranks;
  // -1: only this shard needs the bytes.
  int64_t position = -1;
  int32_t filtered = -1;  // index in RestorePlan::filtered; -1: no filters
};

// A shard takes the part of `box` that it wants from a stream, which holds
// `box` dense and row-major. The rank that reads the stream takes its own part
// in the same way.
struct Delivery {
  int32_t shard = 0;
  int32_t reader = 0;    // the rank that reads the stream
  int64_t position = 0;  // in that stream
  int64_t bytes = 0;     // of the box
  Box box;
};

// A part of a stream that the reading rank sends to another node, where one
// rank receives it for all ranks of that node.
struct Transit {
  int32_t peer = 0;  // the other rank of the transfer
  int64_t position = 0;
  int64_t bytes = 0;
};

// A dataset with filters, which is read by HDF5.
struct FilteredDataset {
  std::string path;  // in its file
  DType dtype = DType::kU8;
  Box box;  // the piece of the array
  std::vector<Filter> filters;
  std::string fields = {};  // as in StoredArray
};

// The length of a string that a shard wants.
struct TextLength {
  int32_t shard = 0;
  int64_t bytes = 0;
};

struct RankReads {
  std::vector<ReadOrder> orders;
  std::vector<TextLength> texts;     // for all strings that the rank wants
  std::vector<Delivery> deliveries;  // ascending by position
};

// The transfers of a rank between nodes, ascending by position.
struct RankTransits {
  std::vector<Transit> sends;
  std::vector<Transit> receives;
};

struct RestorePlan {
  std::vector<RankReads> ranks;
  std::vector<int32_t> arrays;  // the arrays to read, as numbered in the index
  std::vector<int64_t> first_blocks;      // of each array, in this restore
  std::vector<FilteredDataset> filtered;  // the datasets with filters to read
  int64_t num_blocks = 0;
  int64_t bytes = 0;
  // Bytes that ranks read for other ranks, and the length of the longest
  // stream; both are 0 if each rank reads for itself.
  int64_t delivered_bytes = 0;
  int64_t stream_bytes = 0;
  ReadSharing sharing = ReadSharing::kEachRank;  // never kAuto
  std::string note;                              // the reason for `sharing`
};

// Returns the size of one io element in bytes; 1 for strings.
int64_t IoElementSize(DType dtype);
// Returns the shape, or {string_bytes} for a string.
Shape IoShape(const StoredArray& array);
int64_t ArrayBytes(const StoredArray& array);
// Returns the mesh layout of each array as text; "" if it is unknown.
std::vector<std::string> FindLayouts(const SavedCheckpoint& saved);
Box IoBox(const ShardInfo& shard);

// Return the number of chunks per axis, and the extent of the chunk at a grid
// position. Require a chunked dataset.
Shape ChunkGrid(const StoredDataset& dataset);
Extent ChunkExtent(const StoredDataset& dataset, const Shape& position,
                   int64_t element_size);

// Returns the chunks that overlap `piece`, as a box of grid positions. Requires
// a chunked dataset, and a piece that is not empty.
Box FindChunks(const StoredDataset& dataset, const Box& piece);

// Calls `visit` with each extent that holds a part of `box`, ascending, with
// offsets relative to the dataset. Does not collect the extents: a file of a
// few bytes can claim to have billions of chunks.
void ForEachExtent(const StoredDataset& dataset, const Box& box,
                   int64_t element_size,
                   absl::FunctionRef<void(Extent&)> visit);

// Like ForEachExtent, but stops at the first error and returns it.
Status TryForEachExtent(const StoredDataset& dataset, const Box& box,
                        int64_t element_size,
                        absl::FunctionRef<Status(Extent&)> visit);

// Returns the files [first, second) of a team.
std::pair<int32_t, int32_t> FindTeamFiles(const SavePlan& plan, int32_t team);

// Describes the work of each rank: `writes "w" and 12 more datasets`.
std::vector<std::string> DescribeWork(const SavePlan& plan);

// Moves the writes of a rank out of the plan, split by the files of its team.
// Dataset numbers become relative to the first dataset of their file.
std::vector<RankWrites> TakeWritesByFile(SavePlan& plan, int32_t rank);

// Fields of messages between ranks.
template <typename Archive>
void Fields(Archive& archive, Extent& extent) {
  archive(extent.box, extent.offset);
}
template <typename Archive>
void Fields(Archive& archive, WriteOrder& order) {
  archive(order.shard, order.dataset, order.round, order.first_block, order.box,
          order.extent);
}
template <typename Archive>
void Fields(Archive& archive, RankWrites& writes) {
  archive(writes.bytes, writes.orders);
}
template <typename Archive>
void Fields(Archive& archive, ReplicaRange& range) {
  archive(range.first, range.count, range.weight);
}
template <typename Archive>
void Fields(Archive& archive, ReplicaCheck& check) {
  archive(check.num_boxes, check.most_bytes, check.ranges);
}
template <typename Archive>
void Fields(Archive& archive, Filter& filter) {
  archive(filter.id, filter.parameters);
}
template <typename Archive>
void Fields(Archive& archive, FilteredDataset& dataset) {
  archive(dataset.path, dataset.dtype, dataset.box, dataset.filters,
          dataset.fields);
}
template <typename Archive>
void Fields(Archive& archive, TextLength& text) {
  archive(text.shard, text.bytes);
}
template <typename Archive>
void Fields(Archive& archive, ReadOrder& order) {
  archive(order.shard, order.file, order.first_block, order.box, order.extent,
          order.position, order.filtered);
}
template <typename Archive>
void Fields(Archive& archive, Delivery& delivery) {
  archive(delivery.shard, delivery.reader, delivery.position, delivery.bytes,
          delivery.box);
}
template <typename Archive>
void Fields(Archive& archive, RankReads& reads) {
  archive(reads.texts, reads.orders, reads.deliveries);
}
template <typename Archive>
void Fields(Archive& archive, Transit& transit) {
  archive(transit.peer, transit.position, transit.bytes);
}
template <typename Archive>
void Fields(Archive& archive, RankTransits& transits) {
  archive(transits.sends, transits.receives);
}

}  // namespace belay

#endif  // BELAY_PLAN_PLAN_H_
