// The batch job that a program runs in, as far as its variables tell.

#ifndef BELAY_JOB_H_
#define BELAY_JOB_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "belay/device.h"
#include "belay/status.h"

namespace belay {

// What started this process.
enum class Launcher : uint8_t {
  kNone = 0,           // nothing that is known here
  kMpirun = 1,         // Open MPI's mpirun
  kSrun = 2,           // srun: the process is a task of a Slurm step
  kMpirunInSlurm = 3,  // mpirun in a Slurm job
};

// "none", "mpirun", "srun", "mpirun in a Slurm job". Local.
std::string LauncherText(Launcher launcher);

// Texts are empty, numbers 0 and lists empty where nothing is known.
//
// It tells no rank: under mpirun in a Slurm job, SLURM_PROCID, SLURM_NODEID and
// SLURM_LOCALID are those of the batch script, 0 on every rank. Ask MPI.
struct JobEnvironment {
  Launcher launcher = Launcher::kNone;
  std::string job_id;  // of Slurm; each task of an array has its own
  // BELAY_JOB_NAME, or else that of Slurm's job.
  std::string job_name;
  std::string step_id;  // under srun
  std::string array_job_id;
  std::string array_task_id;
  int64_t restart_count = 0;  // how often Slurm has started the job anew
  int64_t num_nodes = 0;      // of the job
  std::string node_list;      // of the job, such as "n[1-3,7]"
  int64_t num_tasks = 0;      // that the launcher has started together
  // On each node: of the step under srun, of the job in its batch script.
  std::vector<int64_t> tasks_per_node;
  // When the job has to end, in seconds since 1970, if a variable tells.
  std::optional<double> end_time = std::nullopt;
  // BELAY_JOB_END_TIME has told it: nobody else is to be asked.
  bool end_time_is_fixed = false;
  // What is missing, absurd or contradicts itself, and what is taken instead.
  std::vector<std::string> notes;
};

// Returns the value of a variable, null if it is not set.
using VariableLookup = std::function<const char*(const char* name)>;

// Reads the variables of this process. Local. Variables of Slurm that are not
// sound are no errors: `notes` names them and their values, and what they would
// have told is left out. BELAY_JOB_END_TIME, in seconds since 1970, says when
// the job ends where there is no Slurm. One that has passed is left over from
// an earlier job, and is noted.
// Errors: InvalidArgument - BELAY_JOB_END_TIME is no number.
StatusOr<JobEnvironment> ReadJobEnvironment();

// The same for other variables, at the time `now` in seconds since 1970. Local.
StatusOr<JobEnvironment> ReadJobEnvironment(const VariableLookup& lookup,
                                            double now);

// Returns the device of an MPI rank, /job:J/replica:R/task:T/device:CPU:0,
// where J is the name of the job, or "belay" if it has none. A slash or a colon
// in the name becomes an underscore. Local. Save gives it to every shard, as
// far as the shard does not name its device itself.
DeviceSpec JobDevice(const JobEnvironment& job, int replica, int rank);

// Returns the job in one line, such as `Slurm job 42 "train" (srun, 4 nodes, 8
// tasks, restart 1)`. Local.
std::string JobText(const JobEnvironment& job);

}  // namespace belay

#endif  // BELAY_JOB_H_
