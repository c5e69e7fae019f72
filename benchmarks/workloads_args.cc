// Large arrays with save arguments: stored as another dtype, and in chunks.

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "contenders.h"
#include "workloads.h"

namespace belay::bench {
namespace {

constexpr int64_t kArgsArrays = 12;
constexpr int64_t kArgsBytes = int64_t{1} << 30;
constexpr int64_t kArgsColumns = 4096;
constexpr int64_t kArgsChunkBytes = int64_t{1} << 20;

std::shared_ptr<Arrays> Rows(const Context& context, DType dtype) {
  const int64_t rows =
      Scaled(context, kArgsBytes / kArgsArrays / (kArgsColumns * int64_t{4}));
  return MakeMatrices(context, kArgsArrays, rows, kArgsColumns, 0, dtype);
}

// Makes numbers that bf16 holds exactly, so that restored values can be
// compared.
std::shared_ptr<Arrays> RowsOfFewBits(const Context& context) {
  constexpr uint32_t kKept = 0xBFFF0000;  // no infinity, no NaN
  const auto arrays = Rows(context, DType::kF32);
  for (size_t i = 0; i + 4 <= arrays->buffer.size(); i += 4) {
    uint32_t bits = 0;
    std::memcpy(&bits, arrays->buffer.data() + i, 4);
    bits &= kKept;
    std::memcpy(arrays->buffer.data() + i, &bits, 4);
  }
  return arrays;
}

StatusOr<std::vector<Contender>> MakeSaves(const Context& context,
                                           const Medium& medium) {
  const auto f32 = RowsOfFewBits(context);
  const auto bf16 = Rows(context, DType::kBF16);
  return std::vector<Contender>{
      BelaySave("f32 as bf16", context, medium, f32,
                {.args = {{".*", {.dtype = DType::kBF16}}}}),
      BelaySave("bf16", context, medium, bf16),
      BelaySave("chunked", context, medium, f32,
                {.args = {{".*", {.chunk_byte_size = kArgsChunkBytes}}}}),
      BelaySave("contiguous", context, medium, f32)};
}

}  // namespace

Workload SaveWithArgs() {
  return {.title = "save 12 large arrays as another dtype, and in chunks",
          .comparisons = {{"save.cast", "f32 as bf16", "bf16", 1.2},
                          {"save.chunked", "chunked", "contiguous", 1.5}},
          .make = MakeSaves};
}

}  // namespace belay::bench
