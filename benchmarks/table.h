// Prints the results as a table, and writes them as JSON.

#ifndef BELAY_BENCHMARKS_TABLE_H_
#define BELAY_BENCHMARKS_TABLE_H_

#include <optional>
#include <string>
#include <vector>

#include "belay/status.h"
#include "race.h"

namespace belay::bench {

// A comparison with its results: in memory, where most bars apply, and on disk.
struct Line {
  std::string name;
  std::optional<double> bar;
  bool on_disk = false;  // the bar applies on disk
  std::optional<Ratio> memory;
  std::optional<Ratio> disk;
};

// Returns false if the line misses its bar. Local.
bool IsOk(const Line& line);

// Returns the text above the table: what is measured and how, and the column
// names. Local.
std::string TableHead(const Context& context, bool with_disk);

// Returns the line as it is printed, without a line break. Local.
std::string FormatLine(const Line& line, bool with_disk);

// Writes a list of {name, ratio, bar, ok, detail, min, max}; results on disk
// have "@disk" at the end of their name, and no bar unless it applies on disk.
// Local.
// Errors: Internal - the file cannot be written.
Status WriteJson(const std::string& path, const std::vector<Line>& lines);

}  // namespace belay::bench

#endif  // BELAY_BENCHMARKS_TABLE_H_
