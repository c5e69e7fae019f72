// The batch job of this program, as described by environment variables.

#ifndef BELAY_MANAGER_JOB_H_
#define BELAY_MANAGER_JOB_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "belay/arrays/device.h"
#include "belay/status.h"

namespace belay {

// What started this process.
enum class Launcher : uint8_t {
  kNone = 0,           // none that belay knows
  kMpirun = 1,         // Open MPI's mpirun
  kSrun = 2,           // srun: the process is a task of a Slurm step
  kMpirunInSlurm = 3,  // mpirun in a Slurm job
};

// Returns "none", "mpirun", "srun" or "mpirun in a Slurm job". Local.
std::string LauncherText(Launcher launcher);

// Unknown strings are empty, unknown numbers 0 and unknown lists empty.
//
// It has no rank: under mpirun in a Slurm job, SLURM_PROCID, SLURM_NODEID and
// SLURM_LOCALID are those of the batch script, 0 on every rank. Ask MPI.
struct JobEnvironment {
  Launcher launcher = Launcher::kNone;
  std::string job_id;  // of Slurm; each task of a job array has its own
  // BELAY_JOB_NAME, or else the name of the Slurm job.
  std::string job_name;
  std::string step_id;  // under srun
  std::string array_job_id;
  std::string array_task_id;
  int64_t restart_count = 0;  // how often Slurm has restarted the job
  int64_t num_nodes = 0;      // of the job
  std::string node_list;      // of the job, such as "n[1-3,7]"
  int64_t num_tasks = 0;      // started together by the launcher
  // One for each node: of the step under srun, of the job in its batch script.
  std::vector<int64_t> tasks_per_node;
  // When the job must end, in seconds since 1970, if a variable says so.
  std::optional<double> end_time = std::nullopt;
  // Set by BELAY_JOB_END_TIME: no other source is queried.
  bool end_time_is_fixed = false;
  // Missing, absurd or contradictory variables, and what is used instead.
  std::vector<std::string> notes;
};

// Returns the value of a variable, or null if it is not set.
using VariableLookup = std::function<const char*(const char* name)>;

// Reads the environment variables of this process. Local. Invalid variables of
// Slurm are not errors: `notes` names them and their values, and they are
// ignored. BELAY_JOB_END_TIME says when the job ends, in seconds since 1970,
// and overrides Slurm. If that time has passed, the variable is left over from
// an earlier job, and `notes` says so.
// Errors: InvalidArgument - BELAY_JOB_END_TIME is not a finite number of at
//   least 0.
StatusOr<JobEnvironment> ReadJobEnvironment();

// The same for other variables, at the time `now` in seconds since 1970. Local.
StatusOr<JobEnvironment> ReadJobEnvironment(const VariableLookup& lookup,
                                            double now);

// Returns the device of an MPI rank, /job:J/replica:R/task:T/device:CPU:0,
// where J is the name of the job, or "belay" if it has none. A slash or a colon
// in the name becomes an underscore. Local. Save uses it for the parts of the
// device that a shard does not set itself.
DeviceSpec JobDevice(const JobEnvironment& job, int replica, int rank);

// Returns one line about the job, such as `Slurm job 42 "train" (srun, 4 nodes,
// 8 tasks, restart 1)`. Local.
std::string JobText(const JobEnvironment& job);

}  // namespace belay

#endif  // BELAY_MANAGER_JOB_H_
