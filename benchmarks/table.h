// The table that a person reads and the JSON that a program reads.

#ifndef BELAY_BENCHMARKS_TABLE_H_
#define BELAY_BENCHMARKS_TABLE_H_

#include <optional>
#include <string>
#include <vector>

#include "belay/status.h"
#include "race.h"

namespace belay::bench {

// A comparison with its results: in memory, where most bars hold, and on disk.
struct Line {
  std::string name;
  std::optional<double> bar;
  bool on_disk = false;  // the bar holds there
  std::optional<Ratio> memory;
  std::optional<Ratio> disk;
};

// Returns false if the line has a bar and misses it. Local.
bool IsOk(const Line& line);

// Returns what is printed above the table: what is measured and how, and the
// column names. Local.
std::string TableHead(const Context& context, bool with_disk);

// Returns the line as it is printed, without a line break. Local.
std::string FormatLine(const Line& line, bool with_disk);

// Writes a list of {name, ratio, bar, ok, detail, min, max}; results on disk
// have "@disk" at the end of their name, and no bar unless it holds there.
// Local.
// Errors: Internal - the file cannot be written.
Status WriteJson(const std::string& path, const std::vector<Line>& lines);

}  // namespace belay::bench

#endif  // BELAY_BENCHMARKS_TABLE_H_
