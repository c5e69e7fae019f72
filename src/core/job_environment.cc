#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <utility>

#include "core/integers.h"
#include "core/process.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

constexpr int64_t kMaxCount = std::numeric_limits<int32_t>::max();
constexpr const char* kEndTime = "BELAY_JOB_END_TIME";

// A process's environment variables, and notes on invalid ones.
struct JobVariables {
  const VariableLookup& lookup;
  std::vector<std::string>& notes;

  std::string Text(const char* name) const {
    return VariableText(lookup, name);
  }
  bool Has(const char* name) const { return !Text(name).empty(); }

  void NoteBad(const char* name, std::string_view need,
               std::string_view instead) {
    notes.push_back(Cat(name, " is invalid (need ", need, ", found \"",
                        Text(name), "\"): ", instead));
  }

  // Returns a count of at least `low`; nothing if it is absent or invalid.
  std::optional<int64_t> Count(const char* name, int64_t low) {
    if (!Has(name)) return std::nullopt;
    const std::optional<int64_t> count = ParseDigits(Text(name), kMaxCount);
    if (count && *count >= low) return count;
    NoteBad(name, Cat("a number from ", low, " to ", kMaxCount), "left out");
    return std::nullopt;
  }
};

// Parses Slurm's notation: 2, 2, 2, 1 is "2(x3),1".
std::optional<std::vector<int64_t>> ParseTasksPerNode(std::string_view text) {
  constexpr size_t kMaxNodes = 1 << 24;
  std::vector<int64_t> tasks;
  for (const std::string_view part : Split(text, ',')) {
    std::string_view count = part;
    std::optional<int64_t> times = 1;
    if (const size_t at = part.find("(x"); at != std::string_view::npos) {
      if (!part.ends_with(')')) return std::nullopt;
      count = part.substr(0, at);
      times = ParseDigits(part.substr(at + 2, part.size() - at - 3), kMaxCount);
    }
    const std::optional<int64_t> each = ParseDigits(count, kMaxCount);
    if (!each || !times || tasks.size() + *times > kMaxNodes) {
      return std::nullopt;
    }
    tasks.insert(tasks.end(), *times, *each);
  }
  return tasks;
}

// The PMIx namespace identifies the launcher even if the process inherits
// variables of another launcher. Without it, mpirun takes precedence: the
// daemons of mpirun are tasks of a Slurm step.
Launcher FindLauncher(JobVariables& variables, bool in_slurm) {
  const bool has_open_mpi = variables.Has("OMPI_COMM_WORLD_SIZE");
  const bool is_launched_by_slurm =
      variables.Text("PMIX_NAMESPACE").starts_with("slurm.");
  if (is_launched_by_slurm && has_open_mpi) {
    variables.notes.push_back(
        Cat("OMPI_COMM_WORLD_SIZE (", variables.Text("OMPI_COMM_WORLD_SIZE"),
            ") is inherited from an mpirun around srun: SLURM_NTASKS (",
            variables.Text("SLURM_NTASKS"), ") counts"));
  }
  if (has_open_mpi && !is_launched_by_slurm) {
    return in_slurm ? Launcher::kMpirunInSlurm : Launcher::kMpirun;
  }
  const bool is_task =
      variables.Has("SLURM_STEP_ID") && variables.Has("SLURM_PROCID");
  return is_launched_by_slurm || is_task ? Launcher::kSrun : Launcher::kNone;
}

void ReadJobId(JobVariables& variables, JobEnvironment& job) {
  job.job_id = SlurmJobId(variables.lookup);
  job.job_name = JobName(variables.lookup);
  if (job.job_id.empty()) {
    for (const char* name : {"SLURM_STEP_ID", "SLURM_JOB_NODELIST"}) {
      if (!variables.Has(name)) continue;
      variables.NoteBad(name, "SLURM_JOB_ID beside it",
                        "not taken for a Slurm job");
    }
    return;
  }
  if (!ParseDigits(job.job_id, std::numeric_limits<int64_t>::max())) {
    variables.notes.push_back(
        Cat("SLURM_JOB_ID is invalid (need a number, found \"", job.job_id,
            "\"): not taken for a Slurm job"));
    job.job_id.clear();
    return;
  }
  job.array_job_id = variables.Text("SLURM_ARRAY_JOB_ID");
  job.array_task_id = variables.Text("SLURM_ARRAY_TASK_ID");
  if (job.array_job_id.empty() != job.array_task_id.empty()) {
    variables.NoteBad(
        job.array_job_id.empty() ? "SLURM_ARRAY_TASK_ID" : "SLURM_ARRAY_JOB_ID",
        "both numbers of an array's task", "not taken for an array job");
    job.array_job_id.clear();
    job.array_task_id.clear();
  }
  job.restart_count = variables.Count("SLURM_RESTART_COUNT", 0).value_or(0);
  job.node_list = variables.Text("SLURM_JOB_NODELIST");
  if (job.node_list.empty()) job.node_list = variables.Text("SLURM_NODELIST");
  std::optional<int64_t> nodes = variables.Count("SLURM_JOB_NUM_NODES", 1);
  if (!nodes) nodes = variables.Count("SLURM_NNODES", 1);
  job.num_nodes = nodes.value_or(0);
  if (!nodes) {
    variables.notes.emplace_back(
        "SLURM_JOB_NUM_NODES is not set: the number of nodes is not known");
  }
}

// Ignores counts that contradict the number of nodes or tasks.
void ReadTasksPerNode(const char* name, std::optional<int64_t> nodes,
                      JobVariables& variables, JobEnvironment& job) {
  if (!variables.Has(name)) return;
  auto tasks = ParseTasksPerNode(variables.Text(name));
  if (!tasks) {
    variables.NoteBad(name, "counts such as \"2(x3),1\"", "left out");
    return;
  }
  const int64_t sum = std::accumulate(tasks->begin(), tasks->end(), int64_t{0});
  if (nodes && *nodes != static_cast<int64_t>(tasks->size())) {
    variables.NoteBad(name, Cat("a count for each of ", *nodes, " nodes"),
                      "left out");
  } else if (job.launcher == Launcher::kSrun && job.num_tasks != 0 &&
             sum != job.num_tasks) {
    variables.NoteBad(name, Cat("counts with the sum ", job.num_tasks),
                      "left out");
  } else {
    job.tasks_per_node = *std::move(tasks);
  }
}

// Under mpirun, the variables of a Slurm step describe mpirun's daemons.
void ReadTasks(JobVariables& variables, JobEnvironment& job) {
  const bool in_step = variables.Has("SLURM_STEP_ID");
  if (job.launcher == Launcher::kMpirun ||
      job.launcher == Launcher::kMpirunInSlurm) {
    job.num_tasks = variables.Count("OMPI_COMM_WORLD_SIZE", 1).value_or(0);
    if (!in_step && !job.job_id.empty()) {
      ReadTasksPerNode(
          "SLURM_TASKS_PER_NODE",
          job.num_nodes == 0 ? std::nullopt : std::optional(job.num_nodes),
          variables, job);
    }
    return;
  }
  if (job.launcher != Launcher::kSrun) return;
  job.step_id = variables.Text("SLURM_STEP_ID");
  const auto of_step = variables.Count("SLURM_STEP_NUM_TASKS", 1);
  const auto tasks = variables.Count("SLURM_NTASKS", 1);
  job.num_tasks = of_step.value_or(tasks.value_or(0));
  if (of_step && tasks && *of_step != *tasks) {
    variables.NoteBad("SLURM_NTASKS",
                      Cat("SLURM_STEP_NUM_TASKS, which is ", *of_step),
                      "the one of the step counts");
  }
  ReadTasksPerNode(variables.Has("SLURM_STEP_TASKS_PER_NODE")
                       ? "SLURM_STEP_TASKS_PER_NODE"
                       : "SLURM_TASKS_PER_NODE",
                   variables.Count("SLURM_STEP_NUM_NODES", 1), variables, job);
  if (job.num_tasks > 1 && !variables.Has("PMIX_RANK")) {
    variables.notes.push_back(Cat(
        "srun has started ", job.num_tasks,
        " tasks without PMIx (PMIX_RANK is not set), so each may be an MPI job "
        "of its own: start them with srun --mpi=pmix"));
  }
}

// Parses a time in seconds since 1970.
std::optional<double> ParseTime(std::string_view text) {
  const auto seconds = ParseNumber<double>(text);
  return seconds && std::isfinite(*seconds) && *seconds >= 0 ? seconds
                                                             : std::nullopt;
}

Status ReadEndTime(double now, JobVariables& variables, JobEnvironment& job) {
  if (variables.Has(kEndTime)) {
    const std::string text = variables.Text(kEndTime);
    const std::optional<double> end = ParseTime(text);
    if (!end) {
      return absl::InvalidArgumentError(
          Cat("read ", kEndTime,
              ": not a time (need seconds since 1970, found \"", text, "\")"));
    }
    if (*end > now) {
      job.end_time = end;
      job.end_time_is_fixed = true;
      return absl::OkStatus();
    }
    variables.NoteBad(kEndTime, Cat("a time after ", static_cast<int64_t>(now)),
                      "left out, it may be that of an earlier job");
  }
  // Only newer versions of Slurm set SLURM_JOB_END_TIME.
  if (!variables.Has("SLURM_JOB_END_TIME")) return absl::OkStatus();
  const std::optional<double> end =
      ParseTime(variables.Text("SLURM_JOB_END_TIME"));
  const double start =
      ParseTime(variables.Text("SLURM_JOB_START_TIME")).value_or(now);
  if (end && *end > now && start > now) {
    // The job cannot last longer than its whole time, whatever the clock says.
    job.end_time = *end - (start - now);
    variables.NoteBad("SLURM_JOB_START_TIME",
                      Cat("a time up to ", static_cast<int64_t>(now)),
                      "the clock of this host is behind; SLURM_JOB_END_TIME is "
                      "taken as that much earlier");
  } else if (end && *end > now) {
    job.end_time = end;
  } else {
    variables.NoteBad("SLURM_JOB_END_TIME",
                      Cat("a time after ", static_cast<int64_t>(now)),
                      "left out");
  }
  return absl::OkStatus();
}

}  // namespace

std::string LauncherText(Launcher launcher) {
  constexpr const char* kTexts[] = {"none", "mpirun", "srun",
                                    "mpirun in a Slurm job"};
  const auto number = static_cast<size_t>(launcher);
  return number < std::size(kTexts) ? kTexts[number] : kTexts[0];
}

StatusOr<JobEnvironment> ReadJobEnvironment() {
  return ReadJobEnvironment([](const char* name) { return std::getenv(name); },
                            UnixTime());
}

StatusOr<JobEnvironment> ReadJobEnvironment(const VariableLookup& lookup,
                                            double now) {
  JobEnvironment job;
  JobVariables variables{.lookup = lookup, .notes = job.notes};
  BELAY_RETURN_IF_ERROR(ReadEndTime(now, variables, job));
  ReadJobId(variables, job);
  job.launcher = FindLauncher(variables, !job.job_id.empty());
  ReadTasks(variables, job);
  return job;
}

DeviceSpec JobDevice(const JobEnvironment& job, int replica, int rank) {
  std::string name =
      job.job_name.empty() ? std::string(kDefaultJob) : job.job_name;
  std::ranges::replace_if(
      name, [](char c) { return c == '/' || c == ':'; }, '_');
  return RankDevice(name, replica, rank);
}

std::string JobText(const JobEnvironment& job) {
  std::vector<std::string> more;
  if (job.launcher != Launcher::kNone) {
    more.push_back(LauncherText(job.launcher));
  }
  if (job.num_nodes != 0) more.push_back(CountText(job.num_nodes, "node"));
  if (job.num_tasks != 0) more.push_back(CountText(job.num_tasks, "task"));
  if (!job.array_job_id.empty()) {
    more.push_back(
        Cat("task ", job.array_task_id, " of array ", job.array_job_id));
  }
  if (job.restart_count > 0) {
    more.push_back(Cat("restart ", job.restart_count));
  }
  std::string text =
      job.job_id.empty() ? "no batch job" : Cat("Slurm job ", job.job_id);
  if (!job.job_name.empty()) text += Cat(" \"", job.job_name, "\"");
  if (!more.empty()) text += Cat(" (", absl::StrJoin(more, ", "), ")");
  return text;
}

}  // namespace belay
