// Races: compares several ways to move the same bytes, timed in turns.
//
// A workload makes contenders (belay with some options, plain pwrite,
// handwritten HDF5 code) over the same warm buffers, and names the comparisons
// between them. Every contender runs once per repetition, in rotating order. A
// ratio is taken between two runs of the same repetition, so a slow moment of
// the machine affects both. To add a workload, write a function that returns
// one and list it in workloads.h.

#ifndef BELAY_BENCHMARKS_RACE_H_
#define BELAY_BENCHMARKS_RACE_H_

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "belay/comm.h"
#include "belay/status.h"

namespace belay::bench {

// Where the files go.
struct Medium {
  std::string name;
  std::string dir;
  // Sync before the end of the timed part, for both belay and the baseline.
  bool durable = false;
};

struct Context {
  const Comm* comm = nullptr;
  int reps = 7;
  // Multiplies sizes or counts; bars apply only to 1.
  double scale = 1;
  // The TSV file of the model workloads.
  std::string model_file;
  // Add the time of each stage of belay's last run to the detail.
  bool stages = false;
};

// One way to move the bytes. Every function is called by all ranks together
// and may return another Status on each.
struct Contender {
  std::string name;
  std::function<Status()> run;    // timed
  std::function<Status()> check;  // untimed, after the first run; may be empty
  std::function<Status()> clean;  // untimed, after every run; may be empty
  // Returns a short description of the last run; may be empty.
  std::function<std::string()> detail;
  // Returns the bytes that a rank sent for planning in the last run; may be
  // empty.
  std::function<int64_t()> planning_bytes;
  std::function<Status()> prepare;  // untimed, before every run; may be empty
};

// A line of the table: the time of `contender` divided by the time of
// `baseline` or, if there is no baseline, by a limit; or bytes divided by a
// limit.
struct Comparison {
  std::string name;
  std::string contender;
  std::string baseline;  // empty: use the limit
  std::optional<double> bar;
  double limit_ms = 0;
  double limit_bytes = 0;  // if above 0: limit of planning_bytes
  bool on_disk = false;    // the bar applies on disk, not in memory
};

struct Workload {
  std::string title;
  std::vector<Comparison> comparisons;
  // False: it runs once, without a medium.
  bool uses_files = true;
  // Makes buffers and contenders. May leave files in medium.dir, which is
  // cleared after the workload.
  std::function<StatusOr<std::vector<Contender>>(const Context&, const Medium&)>
      make;
};

// One measured comparison.
struct Ratio {
  double median = 0;
  double min = 0;
  double max = 0;
  std::string detail;
};

// Runs the contenders that the workload's comparisons need, and returns one
// ratio for each comparison. The first repetition warms up, checks contents and
// is not counted. Collective.
// Errors: any failure of a contender or a wrong byte, named on the rank that
//   saw it; other ranks get Internal.
StatusOr<std::vector<Ratio>> RunRace(const Context& context,
                                     const Medium& medium,
                                     const Workload& workload);

// A barrier in which ranks sleep. If there are more ranks than cores, polling
// ranks would take the cores from those that still work. Collective.
void WaitForAll(MPI_Comm comm);

// Returns OK if all ranks pass OK, else an error on every rank. Collective.
Status AllOk(const Comm& comm, const Status& status);

}  // namespace belay::bench

#endif  // BELAY_BENCHMARKS_RACE_H_
