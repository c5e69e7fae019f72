// The object graph of a large program on one rank, without its values: names
// and keys, fingerprint, and the merge with another rank's graph.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/objects/trackable.h"
#include "contenders.h"
#include "graph/live_graph.h"
#include "graph/merge.h"
#include "workloads.h"

namespace belay::bench {
namespace {

constexpr int64_t kValues = 100000;
constexpr int64_t kValuesOfLayer = 1000;
constexpr double kGraphLimitMs = 500;  // 5 us per value

// Layers of scalars; one rank has one value more than the other.
struct Program {
  explicit Program(int64_t count) : values(count) {}

  void Track(Tracker& tracker) {
    const auto size = static_cast<int64_t>(values.size());
    for (int64_t first = 0; first < size; first += kValuesOfLayer) {
      tracker.Child(absl::StrCat("layer_", first / kValuesOfLayer),
                    [this, first, size](Tracker& layer) {
                      const int64_t end =
                          std::min(first + kValuesOfLayer, size);
                      for (int64_t i = first; i < end; ++i) {
                        layer.Child(absl::StrCat("kernel_", i - first),
                                    values[static_cast<size_t>(i)]);
                      }
                    });
    }
  }

  std::vector<float> values;
};

Status NameAndMerge(Program& program, const ObjectGraph& other,
                    size_t& merged_nodes) {
  const StatusOr<LiveGraph> live = TrackObjects(program, 0);
  if (!live.ok()) return live.status();
  const StatusOr<MergedGraph> merged = MergeGraphs(
      {{.rank = 0, .graph = &live->graph}, {.rank = 1, .graph = &other}});
  if (!merged.ok()) return merged.status();
  merged_nodes = merged->graph.nodes.size();
  return absl::OkStatus();
}

Contender Graph(const Context& context, int64_t count) {
  struct Run {
    explicit Run(int64_t size) : mine(size), theirs(size + 1) {}
    Program mine, theirs;
    ObjectGraph other;
    size_t merged_nodes = 0;
  };
  const auto run = std::make_shared<Run>(count);
  const bool works = context.comm->rank() == 0;
  if (works) run->other = TrackObjects(run->theirs, 1)->graph;
  return {.name = "belay",
          .run = [run, works]() -> Status {
            if (!works) return absl::OkStatus();
            return NameAndMerge(run->mine, run->other, run->merged_nodes);
          },
          .check = [run, works]() -> Status {
            const size_t need = run->other.nodes.size();
            if (!works || run->merged_nodes == need) return absl::OkStatus();
            return absl::InternalError(absl::StrCat("another graph (need ",
                                                    need, " objects, found ",
                                                    run->merged_nodes, ")"));
          },
          .clean = nullptr,
          .detail =
              [run] {
                return absl::StrCat(run->mine.values.size(), " values, ",
                                    run->merged_nodes, " objects");
              }};
}

}  // namespace

Workload MergeObjectGraphs() {
  return {
      .title = "name, fingerprint and merge the graph of 100,000 values",
      .comparisons = {{.name = "graph.merge.100000",
                       .contender = "belay",
                       .baseline = "",
                       .bar = 1.0,
                       .limit_ms = kGraphLimitMs}},
      .uses_files = false,
      .make = [](const Context& context,
                 const Medium&) -> StatusOr<std::vector<Contender>> {
        return std::vector<Contender>{Graph(context, Scaled(context, kValues))};
      }};
}

}  // namespace belay::bench
