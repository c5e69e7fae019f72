#include <string>
#include <utility>

#include "contenders.h"
#include "workloads.h"

namespace belay::bench {
namespace {

constexpr double kMaxPlanningBytes = 64;  // per rank

std::shared_ptr<Arrays> Thousand(const Context& context) {
  return MakeVectors(context, Scaled(context, 1000), 64 << 10);
}

std::shared_ptr<Arrays> TenThousand(const Context& context) {
  return MakeVectors(context, Scaled(context, 10000), 4 << 10);
}

std::vector<Contender> MakeSaves(const Context& context, const Medium& medium,
                                 const std::shared_ptr<Arrays>& arrays) {
  return {PlainWrite(context, medium, arrays),
          BelaySave("belay.first", context, medium, arrays),
          BelaySave("belay.next", context, medium, arrays, {}, true),
          HandmadeHdf5(context, medium, arrays)};
}

// The second and later saves of `count` arrays of 64 bytes; the bytes that a
// rank sends for planning must not depend on their number.
Workload PlanningBytes(const std::string& number, int64_t count) {
  return {.title = "agree on the structure of " + number + " arrays",
          .comparisons = {{.name = "plan.bytes.next." + number,
                           .contender = "belay.next",
                           .baseline = "",
                           .bar = 1.0,
                           .limit_bytes = kMaxPlanningBytes}},
          .make = [count](const Context& context, const Medium& medium)
              -> StatusOr<std::vector<Contender>> {
            return std::vector<Contender>{BelaySave(
                "belay.next", context, medium,
                MakeVectors(context, Scaled(context, count), 64), {}, true)};
          }};
}

Workload RestoreSmall(const std::string& number, const std::string& kib,
                      std::shared_ptr<Arrays> (*make)(const Context&),
                      double bar) {
  return {
      .title = "restore " + number + " arrays of " + kib + " KiB",
      .comparisons = {{"restore.small." + number, "belay", "pread", bar}},
      .make = [make](const Context& context,
                     const Medium& medium) -> StatusOr<std::vector<Contender>> {
        const auto arrays = make(context);
        StatusOr<Contender> plain = PlainRead(context, medium, arrays);
        if (!plain.ok()) return plain.status();
        StatusOr<std::string> dir = SaveForRestore(context, medium, arrays);
        if (!dir.ok()) return dir.status();
        return std::vector<Contender>{
            *std::move(plain), BelayRestore("belay", context, *dir, arrays)};
      }};
}

}  // namespace

Workload PlanningBytes10() { return PlanningBytes("10", 10); }
Workload PlanningBytes1000() { return PlanningBytes("1000", 1000); }
Workload PlanningBytes100000() { return PlanningBytes("100000", 100000); }

Workload Save1000() {
  return {.title = "save 1,000 arrays of 64 KiB",
          .comparisons =
              {{"save.small.1000.first", "belay.first", "pwrite", 1.8},
               {"save.small.1000.next", "belay.next", "pwrite", 1.6},
               {"hdf5.small.1000", "belay.next", "HDF5 by hand", 0.25},
               {"hdf5.small.1000.first", "belay.first", "HDF5 by hand", {}}},
          .make = [](const Context& context,
                     const Medium& medium) -> StatusOr<std::vector<Contender>> {
            return MakeSaves(context, medium, Thousand(context));
          }};
}

Workload AsyncSmall() {
  return {.title =
              "save 10,000 arrays of 4 KiB in the background, until the "
              "call returns",
          .comparisons = {{"async.stall.small.10000", "belay.async", "memcpy",
                           2.5}},
          .make = [](const Context& context, const Medium& medium) {
            const auto arrays = TenThousand(context);
            return StatusOr<std::vector<Contender>>(std::vector<Contender>{
                MemoryCopy(arrays),
                BelayAsyncSave("belay.async", context, medium, arrays, true)});
          }};
}

Workload Save10000() {
  return {
      .title = "save 10,000 arrays of 4 KiB",
      .comparisons = {{"save.small.10000.first", "belay.first", "pwrite", 4.0},
                      {"save.small.10000.next", "belay.next", "pwrite", 4.0}},
      .make = [](const Context& context,
                 const Medium& medium) -> StatusOr<std::vector<Contender>> {
        return MakeSaves(context, medium, TenThousand(context));
      }};
}

Workload Restore1000() { return RestoreSmall("1000", "64", Thousand, 1.6); }

Workload Restore10000() { return RestoreSmall("10000", "4", TenThousand, 5); }

}  // namespace belay::bench
