// Races: several ways to move the same bytes, timed in turns.
//
// A workload makes contenders (belay with some options, plain pwrite, HDF5 by
// hand) over the same warm buffers, and names the comparisons between them.
// Every contender runs once per repetition, the order rotates, and a ratio is
// taken between two runs of the same repetition: a slow moment of the machine
// hits both. To add a workload, write a function that returns one and list it
// in workloads.h.

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
  // Sync before the end of the timed part, belay and baseline alike.
  bool durable = false;
};

struct Context {
  const Comm* comm = nullptr;
  int reps = 7;
  // Multiplies sizes or counts; bars hold for 1 only.
  double scale = 1;
  // The TSV file of the model workloads.
  std::string model_file;
  // Add the seconds per stage of belay's last run to the detail.
  bool stages = false;
};

// One way to move the bytes. Every function is called by all ranks together
// and may return another Status on each.
struct Contender {
  std::string name;
  std::function<Status()> run;    // timed
  std::function<Status()> check;  // untimed, after the first run; may be empty
  std::function<Status()> clean;  // untimed, after every run; may be empty
  // What the last run did, in a few words; may be empty.
  std::function<std::string()> detail;
  // What a rank sent in the last run so that it could be planned; may be empty.
  std::function<int64_t()> planning_bytes;
  std::function<Status()> prepare;  // untimed, before every run; may be empty
};

// A line of the table: time of `contender` over time of `baseline`, or, where
// there is nothing to race against, over a limit; or bytes over a limit.
struct Comparison {
  std::string name;
  std::string contender;
  std::string baseline;  // empty: the limit
  std::optional<double> bar;
  double limit_ms = 0;
  double limit_bytes = 0;  // more than 0: of planning_bytes, not of time
  bool on_disk = false;    // the bar holds on disk, not in memory
};

struct Workload {
  std::string title;
  std::vector<Comparison> comparisons;
  // Without files it runs once, and on no medium.
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

// Runs what the workload's comparisons need and returns one ratio for each.
// The first repetition warms up, checks contents and is not counted.
// Collective.
// Errors: any failure of a contender or a wrong byte, named on the rank that
//   saw it; other ranks get Internal.
StatusOr<std::vector<Ratio>> RunRace(const Context& context,
                                     const Medium& medium,
                                     const Workload& workload);

// A barrier whose ranks sleep: where there are more ranks than cores, one that
// polls takes the cores of those that still work. Collective.
void WaitForAll(MPI_Comm comm);

// Returns OK if all ranks pass OK, else an error on every rank. Collective.
Status AllOk(const Comm& comm, const Status& status);

}  // namespace belay::bench

#endif  // BELAY_BENCHMARKS_RACE_H_
