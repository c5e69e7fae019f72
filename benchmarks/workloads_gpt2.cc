// GPT-2 small with AdamW in mixed precision: per tensor bf16 weights, an f32
// master copy and two f32 moments, and one step counter.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "contenders.h"
#include "workload/model_spec.h"
#include "workload/rank_state.h"
#include "workload/simulate.h"
#include "workloads.h"

namespace belay::bench {
namespace {

// At scale 1 every axis is halved, which keeps the structure of the model at
// 1/4 of its size.
int64_t DivisorOf(const Context& context) {
  return std::max<int64_t>(1, std::llround(2 / std::sqrt(context.scale)));
}

StatusOr<std::shared_ptr<Arrays>> MakeGpt2(const Context& context,
                                           const Parallelism& parallelism) {
  StatusOr<ModelSpec> model = ReadModel(context.model_file);
  if (!model.ok()) return model.status();
  StatusOr<std::vector<RankShards>> states =
      RankStates(Divided(*std::move(model), DivisorOf(context)), parallelism);
  if (!states.ok()) return states.status();
  StatusOr<SimulatedSave> save = SimulateSave(*states, FileLayout::kShared);
  if (!save.ok()) return save.status();
  auto arrays = std::make_shared<Arrays>();
  for (ShardInfo& shard : (*states)[context.comm->rank()].shards) {
    AddPiece(*arrays, {.key = std::move(shard.key),
                       .dtype = shard.dtype,
                       .global_shape = std::move(shard.global_shape),
                       .box = std::move(shard.box),
                       .replica = shard.replica});
  }
  arrays->unique_bytes = save->bytes;
  AllocateAndFill(*arrays, context.comm->size());
  return arrays;
}

}  // namespace

Workload SaveGpt2() {
  return {
      .title = "save GPT-2 with AdamW, TP 2 x DP 2",
      .comparisons = {{"save.gpt2", "belay", "pwrite", 1.3},
                      {"save.gpt2.next", "belay.next", "pwrite", {}},
                      {"save.gpt2.canonical", "belay.canonical", "pwrite", {}}},
      .make = [](const Context& context,
                 const Medium& medium) -> StatusOr<std::vector<Contender>> {
        const int ranks = context.comm->size();
        const int tp = ranks % 2 == 0 ? 2 : 1;
        StatusOr<std::shared_ptr<Arrays>> arrays =
            MakeGpt2(context, {.tp = tp, .dp = ranks / tp});
        if (!arrays.ok()) return arrays.status();
        return std::vector<Contender>{
            PlainWrite(context, medium, *arrays),
            BelaySave("belay", context, medium, *arrays),
            BelaySave("belay.next", context, medium, *arrays, {}, true),
            BelaySave("belay.canonical", context, medium, *arrays,
                      {.array_layout = ArrayLayout::kCanonical})};
      }};
}

// The time that a trainer waits for a save in the background, compared with the
// unavoidable copy and with a save in the foreground.
Workload AsyncGpt2() {
  return {.title =
              "save GPT-2 with AdamW in the background, until the call returns",
          .comparisons = {{"async.stall.gpt2", "belay.async", "memcpy", 1.25},
                          {"async.stall.gpt2.save", "belay.async", "belay.next",
                           0.25},
                          {"async.stall.first", "belay.async.first", "memcpy",
                           3.0}},
          .make = [](const Context& context,
                     const Medium& medium) -> StatusOr<std::vector<Contender>> {
            const int ranks = context.comm->size();
            const int tp = ranks % 2 == 0 ? 2 : 1;
            StatusOr<std::shared_ptr<Arrays>> arrays =
                MakeGpt2(context, {.tp = tp, .dp = ranks / tp});
            if (!arrays.ok()) return arrays.status();
            return std::vector<Contender>{
                MemoryCopy(*arrays),
                BelaySave("belay.next", context, medium, *arrays, {}, true),
                BelayAsyncSave("belay.async", context, medium, *arrays, true),
                BelayAsyncSave("belay.async.first", context, medium, *arrays,
                               false)};
          }};
}

// The time after the call: until the step is committed, and the wait of a
// trainer that lets the thread copy while it computes.
Workload AsyncGpt2AfterTheCall() {
  return {
      .title =
          "save GPT-2 with AdamW in the background, while all cores but "
          "one compute",
      .comparisons = {{"async.commit", "belay.async.commit", "belay.next", 1.3},
                      {"async.lazy", "belay.async.lazy", "compute", 1.1}},
      .make = [](const Context& context,
                 const Medium& medium) -> StatusOr<std::vector<Contender>> {
        const int ranks = context.comm->size();
        const int tp = ranks % 2 == 0 ? 2 : 1;
        StatusOr<std::shared_ptr<Arrays>> arrays =
            MakeGpt2(context, {.tp = tp, .dp = ranks / tp});
        if (!arrays.ok()) return arrays.status();
        auto computing = std::make_shared<Computing>(*context.comm);
        // Longer than the copy takes, so it can be hidden.
        constexpr double kSecondsPerByte = 1e-9;
        const double seconds =
            kSecondsPerByte *
            static_cast<double>((*arrays)->buffer.size() * ranks);
        const int pieces = PiecesFor(*context.comm, *computing, seconds);
        return std::vector<Contender>{
            BelaySave("belay.next", context, medium, *arrays, {}, true),
            BelayAsyncCommit("belay.async.commit", context, medium, *arrays,
                             computing),
            ComputeOnly("compute", computing, pieces),
            BelayLazySave("belay.async.lazy", context, medium, *arrays,
                          computing, pieces)};
      }};
}

// The wait of a trainer that saves more often than the disk can write, with all
// cores busy.
Workload AsyncGpt2BeforeTheEnd() {
  return {
      .title =
          "save GPT-2 with AdamW in the background while the save before is "
          "being written",
      .comparisons = {{"async.wait", "belay.async.wait", "belay.next", 1.1}},
      .make = [](const Context& context,
                 const Medium& medium) -> StatusOr<std::vector<Contender>> {
        const int ranks = context.comm->size();
        const int tp = ranks % 2 == 0 ? 2 : 1;
        StatusOr<std::shared_ptr<Arrays>> arrays =
            MakeGpt2(context, {.tp = tp, .dp = ranks / tp});
        if (!arrays.ok()) return arrays.status();
        auto computing = std::make_shared<Computing>(*context.comm, true);
        return std::vector<Contender>{
            BelaySave("belay.next", context, medium, *arrays, {}, true),
            BelayAsyncWait("belay.async.wait", context, medium, *arrays,
                           computing)};
      }};
}

Workload RestoreGpt2() {
  return {.title = "restore GPT-2 with AdamW, saved by rows, in TP",
          .comparisons = {{"restore.gpt2", "belay", "pread", {}},
                          {"restore.gpt2.each", "belay.each", "pread", {}},
                          {"restore.gpt2.rows", "belay", "belay.each", 1.0}},
          .make = [](const Context& context,
                     const Medium& medium) -> StatusOr<std::vector<Contender>> {
            const int ranks = context.comm->size();
            StatusOr<std::shared_ptr<Arrays>> rows =
                MakeGpt2(context, {.fsdp = ranks});
            if (!rows.ok()) return rows.status();
            StatusOr<std::shared_ptr<Arrays>> parts =
                MakeGpt2(context, {.tp = ranks});
            if (!parts.ok()) return parts.status();
            StatusOr<std::string> dir = SaveForRestore(context, medium, *rows);
            if (!dir.ok()) return dir.status();
            StatusOr<Contender> plain = PlainRead(context, medium, *rows);
            if (!plain.ok()) return plain.status();
            return std::vector<Contender>{
                *std::move(plain), BelayRestore("belay", context, *dir, *parts),
                BelayRestore("belay.each", context, *dir, *parts,
                             {.read_sharing = ReadSharing::kEachRank})};
          }};
}

// Measures the cost of another partition: the same ranks restore the same
// values from a checkpoint that was saved in their own partition, and from one
// in another.
Workload ReshardGpt2() {
  return {.title = "restore GPT-2 with AdamW from another cut",
          .comparisons = {{"reshard.fsdp.tp", "fsdp as tp2", "tp2", 1.3},
                          {"reshard.tp.fsdp", "tp4 as fsdp", "fsdp", 1.3}},
          .make = [](const Context& context,
                     const Medium& medium) -> StatusOr<std::vector<Contender>> {
            const int ranks = context.comm->size();
            const int two = ranks % 2 == 0 ? 2 : 1;
            const int four = ranks % 4 == 0 ? 4 : two;
            std::vector<std::shared_ptr<Arrays>> cuts;
            std::vector<std::string> dirs;
            for (const auto& [name, cut] :
                 std::vector<std::pair<std::string, Parallelism>>{
                     {"fsdp", {.fsdp = ranks}},
                     {"tp2", {.tp = two, .dp = ranks / two}},
                     {"tp4", {.tp = four, .dp = ranks / four}}}) {
              StatusOr<std::shared_ptr<Arrays>> arrays = MakeGpt2(context, cut);
              if (!arrays.ok()) return arrays.status();
              const auto dir = SaveForRestore(context, medium, *arrays, name);
              if (!dir.ok()) return dir.status();
              cuts.push_back(*std::move(arrays));
              dirs.push_back(*dir);
            }
            return std::vector<Contender>{
                BelayRestore("tp2", context, dirs[1], cuts[1]),
                BelayRestore("fsdp as tp2", context, dirs[0], cuts[1]),
                BelayRestore("fsdp", context, dirs[0], cuts[0]),
                BelayRestore("tp4 as fsdp", context, dirs[2], cuts[0])};
          }};
}

Workload SaveZero() {
  return {.title = "save GPT-2 with AdamW in ZeRO-1, whose cuts are in rows",
          .comparisons = {{"save.zero", "zero", "fsdp", 1.1}},
          .make = [](const Context& context,
                     const Medium& medium) -> StatusOr<std::vector<Contender>> {
            const int ranks = context.comm->size();
            StatusOr<std::shared_ptr<Arrays>> zero =
                MakeGpt2(context, {.dp = ranks, .zero = true});
            if (!zero.ok()) return zero.status();
            StatusOr<std::shared_ptr<Arrays>> fsdp =
                MakeGpt2(context, {.fsdp = ranks});
            if (!fsdp.ok()) return fsdp.status();
            return std::vector<Contender>{
                BelaySave("zero", context, medium, *zero),
                BelaySave("fsdp", context, medium, *fsdp)};
          }};
}

}  // namespace belay::bench
