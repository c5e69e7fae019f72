// Choosing the chunks of many arrays, without their values: layers of a model,
// split into 8 parts by rows or by columns, with many lengths that have few
// divisors.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contenders.h"
#include "plan/chunks.h"
#include "workloads.h"

namespace belay::bench {
namespace {

constexpr int64_t kChunksArrays = 100000;
constexpr int64_t kParts = 8;
constexpr int64_t kElementSize = 2;
constexpr int64_t kChunksChunkBytes = int64_t{4} << 20;
constexpr double kChunksLimitMs = 200;  // 2 us per array

// Returns the shard of an array. There are 6 arrays per layer; no two layers
// have the same lengths.
Shape ShardOf(int64_t array) {
  const int64_t layer = array / 6;
  const int64_t hidden = 64 * (layer + 12);
  const std::vector<Shape> shards = {
      {50257, hidden / kParts},       // an embedding, split by columns
      {3 * hidden / kParts, hidden},  // attention, split by rows
      {hidden, 4 * hidden / kParts},  // feed-forward, split by columns
      {4 * hidden / kParts + 1, hidden + 1},
      {1009 + layer, 1013 + layer},
      {12345679 + layer}};
  return shards[array % 6];
}

std::vector<ChunkRequest> Requests(int64_t count) {
  std::vector<ChunkRequest> requests;
  for (int64_t i = 0; i < count; ++i) {
    const Shape shard = ShardOf(i);
    Shape array = shard;
    array[i % array.size()] *= kParts;
    requests.push_back({.key = absl::StrCat("array_", i),
                        .global_shape = std::move(array),
                        .shard_shape = shard,
                        .element_size = kElementSize,
                        .chunk_byte_size = kChunksChunkBytes});
  }
  return requests;
}

// Checks that each chunk has at least half of the allowed size or is its whole
// shard.
Status CheckSizes(const std::vector<ChunkRequest>& requests,
                  const std::vector<Shape>& chunks) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const int64_t bytes = NumElements(chunks[i]) * kElementSize;
    const bool is_large =
        chunks[i] == requests[i].shard_shape || bytes >= kChunksChunkBytes / 2;
    if (is_large && bytes <= kChunksChunkBytes) continue;
    return absl::InternalError(
        absl::StrCat("chunk of another size (need ", kChunksChunkBytes / 2,
                     " to ", kChunksChunkBytes, " bytes, found ", bytes, ")"));
  }
  return absl::OkStatus();
}

Contender Chunks(const Context& context, int64_t count) {
  struct Run {
    std::vector<ChunkRequest> requests;
    std::vector<Shape> chunks;
  };
  const auto run = std::make_shared<Run>();
  if (context.comm->rank() == 0) run->requests = Requests(count);
  run->chunks.resize(run->requests.size());
  return {
      .name = "belay",
      .run = [run]() -> Status {
        for (size_t i = 0; i < run->requests.size(); ++i) {
          StatusOr<Shape> chunk = ExactChunkShape(run->requests[i]);
          if (!chunk.ok()) return chunk.status();
          run->chunks[i] = *std::move(chunk);
        }
        return absl::OkStatus();
      },
      .check = [run] { return CheckSizes(run->requests, run->chunks); },
      .clean = nullptr,
      .detail = [run] { return absl::StrCat(run->chunks.size(), " arrays"); }};
}

}  // namespace

Workload ChooseChunks() {
  return {.title = "choose the chunks of 100,000 arrays",
          .comparisons = {{.name = "plan.chunks.100000",
                           .contender = "belay",
                           .baseline = "",
                           .bar = 1.0,
                           .limit_ms = kChunksLimitMs}},
          .uses_files = false,
          .make = [](const Context& context,
                     const Medium&) -> StatusOr<std::vector<Contender>> {
            return std::vector<Contender>{
                Chunks(context, Scaled(context, kChunksArrays))};
          }};
}

}  // namespace belay::bench
