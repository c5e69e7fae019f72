// The report of a restore, from what the ranks found.

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

// Errors: DataLoss - the bytes are damaged.
// Returns " [ranks 1, 2]", or "" for all ranks of the report.
std::string RanksText(const std::vector<int>& ranks, const LoadReport& report);

std::string EncodeLoadReport(const LoadReport& report);
StatusOr<LoadReport> DecodeLoadReport(std::string_view bytes);

}  // namespace belay

#endif  // BELAY_GRAPH_LOAD_REPORT_H_
