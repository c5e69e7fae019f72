// Fed: a byte that says which message about objects follows, and the message. A
// graph, a match or a report that can be read is sent and read again as it was,
// and a graph can be listed and cut into entries.
#include <cstddef>
#include <cstdint>
#include <string>

#include "belay/objects/object_info.h"
#include "fuzz_input.h"
#include "fuzz_target.h"
#include "graph/graph_match.h"
#include "graph/load_report.h"
#include "graph/object_graph.h"

namespace belay::fuzz_object_graph {
namespace {

// Who lists objects looks at this first.
constexpr int64_t kMaxPathBytes = int64_t{32} << 20;

void ReadGraph(std::string_view message) {
  const StatusOr<ObjectGraph> graph = DecodeGraph(message);
  if (!graph.ok()) return;
  const StatusOr<ObjectGraph> again = DecodeGraph(EncodeGraph(*graph));
  Require(again.ok() && *again == *graph, "a graph comes back as it was");
  const StatusOr<ObjectGraph> joined =
      DecodeGraph(absl::StrJoin(CutGraph(*graph), ""));
  Require(joined.ok() && *joined == *graph, "the entries of a graph make it");
  Require(GraphFingerprint(*again) == GraphFingerprint(*graph),
          "equal graphs have equal fingerprints");
  if (!CheckGraph(*graph).ok()) return;
  if (PathBytes(*graph) <= kMaxPathBytes) {
    Require(ListObjects(*graph).size() == graph->nodes.size(),
            "each object is listed");
  }
  Require(ObjectNames(*graph).size() == graph->nodes.size(),
          "each object has a name");
  Require(HaveValues(*graph).size() == graph->nodes.size(),
          "each object is asked for its values");
}

void ReadReport(std::string_view message) {
  const auto report = Decode<LoadReport>(message);
  if (!report) return;
  const std::string bytes = Encode(*report);
  const auto again = Decode<LoadReport>(bytes);
  Require(again && Encode(*again) == bytes, "a report comes back as it was");
}

void ReadMatch(std::string_view message) {
  const auto match = Decode<RankMatch>(message);
  if (!match) return;
  const std::string bytes = Encode(*match);
  const auto again = Decode<RankMatch>(bytes);
  Require(again && Encode(*again) == bytes, "a match comes back as it was");
}

void Run(std::string_view input) {
  FuzzInput in(input);
  switch (in.Number<uint8_t>() % 4) {
    case 0:
      return ReadReport(in.Rest());
    case 1:
      return ReadMatch(in.Rest());
    default:
      return ReadGraph(in.Rest());
  }
}

const RegisterFuzzTarget kTarget({"object_graph", Run});

}  // namespace
}  // namespace belay::fuzz_object_graph
