// belay_micro: the inner loops that every byte goes through, in one process.
// Compare bytes_per_second with that of BM_Memcpy in the same run.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "belay/arrays/box.h"
#include "core/checksum.h"
#include "core/strided_copy.h"

namespace belay {
namespace {

std::vector<char> Bytes(int64_t size) {
  std::vector<char> bytes(size);
  for (int64_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 131);
  return bytes;
}

void BM_Memcpy(benchmark::State& state) {
  const std::vector<char> from = Bytes(state.range(0));
  std::vector<char> to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Memcpy)->Arg(4 << 10)->Arg(1 << 20)->Arg(64 << 20);

void BM_CrcRegister(benchmark::State& state) {
  const std::vector<char> bytes = Bytes(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(CrcRegister(0, bytes.data(), bytes.size()));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_CrcRegister)->Arg(64)->Arg(4 << 10)->Arg(1 << 20)->Arg(64 << 20);

void BM_CrcRegisterPortable(benchmark::State& state) {
  const std::vector<char> bytes = Bytes(state.range(0));
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        CrcRegisterPortable(0, bytes.data(), bytes.size()));
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_CrcRegisterPortable)->Arg(1 << 20);

// Sums a quarter of an array of 64 MiB: runs of the given length with gaps of
// three times that length, as for one of four ranks.
void BM_BlockSumStrided(benchmark::State& state) {
  constexpr int64_t kArrayBytes = int64_t{64} << 20;
  const int64_t run = state.range(0);
  const std::vector<char> bytes = Bytes(kArrayBytes / 4);
  std::vector<uint32_t> registers(NumBlocks(kArrayBytes));
  for (auto _ : state) {
    BlockSum sum(kArrayBytes, registers);
    for (int64_t i = 0; i * run < kArrayBytes / 4; ++i) {
      sum.Add(4 * i * run, bytes.data() + i * run, run);
    }
    sum.Flush();
  }
  state.SetBytesProcessed(state.iterations() * kArrayBytes / 4);
}
BENCHMARK(BM_BlockSumStrided)
    ->Arg(16)
    ->Arg(256)
    ->Arg(4 << 10)
    ->Arg(64 << 10)
    ->Arg(16 << 20);

// Visits the runs of a quarter of the columns of a matrix with `rows` rows.
void BM_ForEachRun(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const Shape shape = {rows, 4096};
  const Box whole = WholeBox(shape);
  const Box box = {.offset = {0, 1024}, .shape = {rows, 1024}};
  for (auto _ : state) {
    int64_t sum = 0;
    ForEachRun(box, box, whole,
               [&](const ElementRun& run) { sum += run.b + run.length; });
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(state.iterations() * rows);
}
BENCHMARK(BM_ForEachRun)->Arg(1)->Arg(1 << 16);

// The same with four axes.
void BM_ForEachRun4d(benchmark::State& state) {
  const Box whole = WholeBox({32, 32, 32, 32});
  const Box box = {.offset = {8, 8, 8, 8}, .shape = {16, 16, 16, 16}};
  for (auto _ : state) {
    int64_t sum = 0;
    ForEachRun(box, box, whole,
               [&](const ElementRun& run) { sum += run.b + run.length; });
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(state.iterations() * 16 * 16 * 16);
}
BENCHMARK(BM_ForEachRun4d);

}  // namespace
}  // namespace belay

BENCHMARK_MAIN();
