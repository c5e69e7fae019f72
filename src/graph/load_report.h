// Makes the report of a restore from the matches of all ranks.

#ifndef BELAY_GRAPH_LOAD_REPORT_H_
#define BELAY_GRAPH_LOAD_REPORT_H_

#include <string>
#include <string_view>
#include <vector>

#include "belay/objects/load_status.h"
#include "belay/status.h"
#include "graph/graph_match.h"
#include "graph/object_graph.h"

namespace belay {

// Combines the matches of ranks with one stored graph into a report.
// Errors: DataLoss - a rank matched another graph.
StatusOr<LoadReport> MakeLoadReport(const ObjectGraph& saved,
                                    const std::vector<RankMatch>& ranks);

// Returns " [ranks 1, 2]", or "" for all ranks of the report.
std::string RanksText(const std::vector<int>& ranks, const LoadReport& report);

template <typename Archive>
void Fields(Archive& archive, MatchedValue& value) {
  archive(value.stored_key, value.key);
}
template <typename Archive>
void Fields(Archive& archive, MissingValue& value) {
  archive(value.key, value.ranks);
}
template <typename Archive>
void Fields(Archive& archive, UnusedValue& value) {
  archive(value.stored_key, value.object, value.cause);
}
template <typename Archive>
void Fields(Archive& archive, DifferentValue& value) {
  archive(value.key, value.stored_key, value.needed, value.found, value.ranks);
}
template <typename Archive>
void Fields(Archive& archive, LoadReport& report) {
  archive(report.ranks, report.num_objects, report.matched, report.missing,
          report.unused, report.incompatible, report.converted, report.skipped,
          report.defaulted, report.deferred, report.unmatched_objects,
          report.warnings);
}

}  // namespace belay

#endif  // BELAY_GRAPH_LOAD_REPORT_H_
