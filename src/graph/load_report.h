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

// Puts together what ranks found about one stored graph: of one rank its own
// report, of all of them the merged one.
// Errors: DataLoss - a rank speaks of another graph.
StatusOr<LoadReport> MakeLoadReport(const ObjectGraph& saved,
                                    const std::vector<RankMatch>& ranks);

// A report as bytes for other ranks, and back.
// Errors: DataLoss - not such bytes.
std::string EncodeLoadReport(const LoadReport& report);
StatusOr<LoadReport> DecodeLoadReport(std::string_view bytes);

}  // namespace belay

#endif  // BELAY_GRAPH_LOAD_REPORT_H_
