#include "belay/manager/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace belay::job_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Table = std::map<std::string, std::string>;

constexpr double kNow = 1700000000;

StatusOr<JobEnvironment> Read(const Table& table) {
  return ReadJobEnvironment(
      [&](const char* name) {
        const auto found = table.find(name);
        return found == table.end() ? nullptr : found->second.c_str();
      },
      kNow);
}

// As seen in an sbatch script of Slurm 22.05 with 2 nodes.
Table Batch() {
  return {{"SLURM_JOB_ID", "42"},       {"SLURM_JOBID", "42"},
          {"SLURM_JOB_NAME", "train"},  {"SLURM_JOB_NODELIST", "n[1-2]"},
          {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_NNODES", "2"},
          {"SLURM_NTASKS", "4"},        {"SLURM_TASKS_PER_NODE", "2(x2)"},
          {"SLURM_PROCID", "0"},        {"SLURM_NODEID", "0"},
          {"SLURM_LOCALID", "0"}};
}

Table With(Table table, const Table& more) {
  for (const auto& [name, value] : more) table[name] = value;
  return table;
}

// Under srun --mpi=pmix there is no variable of Open MPI.
Table Step() {
  return With(Batch(), {{"SLURM_STEP_ID", "0"},
                        {"SLURM_STEP_NUM_TASKS", "4"},
                        {"SLURM_STEP_NUM_NODES", "2"},
                        {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"},
                        {"SLURM_PROCID", "3"},
                        {"PMIX_RANK", "3"},
                        {"PMIX_NAMESPACE", "slurm.pmix.42.0"}});
}

TEST(JobTest, NoVariables) {
  const auto job = Read({});
  ASSERT_EQ(job.status(), absl::OkStatus());
  EXPECT_EQ(job->launcher, Launcher::kNone);
  EXPECT_EQ(job->restart_count, 0);
  EXPECT_EQ(job->end_time, std::nullopt);
  EXPECT_THAT(job->notes, IsEmpty());
  EXPECT_EQ(JobText(*job), "no batch job");
}

TEST(JobTest, Mpirun) {
  const auto job = Read({{"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_RANK", "1"},
                         {"PMIX_NAMESPACE", "2347368449"}});
  EXPECT_EQ(job->launcher, Launcher::kMpirun);
  EXPECT_EQ(job->num_tasks, 4);
  EXPECT_THAT(job->notes, IsEmpty());
  EXPECT_EQ(JobText(*job), "no batch job (mpirun, 4 tasks)");
}

TEST(JobTest, MpirunInABatchJob) {
  const auto job = Read(With(
      Batch(), {{"OMPI_COMM_WORLD_SIZE", "3"}, {"SLURM_RESTART_COUNT", "2"}}));
  EXPECT_EQ(job->launcher, Launcher::kMpirunInSlurm);
  EXPECT_EQ(job->job_id, "42");
  EXPECT_EQ(job->num_tasks, 3);
  EXPECT_EQ(job->num_nodes, 2);
  EXPECT_EQ(job->node_list, "n[1-2]");
  EXPECT_EQ(job->restart_count, 2);
  EXPECT_EQ(job->step_id, "");
  EXPECT_THAT(job->tasks_per_node, ElementsAre(2, 2));
  EXPECT_THAT(job->notes, IsEmpty());
  EXPECT_EQ(JobText(*job),
            "Slurm job 42 \"train\" (mpirun in a Slurm job, 2 nodes, 3 tasks, "
            "restart 2)");
}

// On the other nodes a rank is a child of mpirun's daemon, a task of a step of
// one task per node.
TEST(JobTest, MpirunOnTheOtherNodes) {
  const auto job = Read(With(Batch(), {{"OMPI_COMM_WORLD_SIZE", "4"},
                                       {"SLURM_STEP_ID", "0"},
                                       {"SLURM_NTASKS", "1"},
                                       {"SLURM_STEP_NUM_TASKS", "1"},
                                       {"SLURM_TASKS_PER_NODE", "1"},
                                       {"PMIX_NAMESPACE", "2347368449"}}));
  EXPECT_EQ(job->launcher, Launcher::kMpirunInSlurm);
  EXPECT_EQ(job->num_tasks, 4);
  EXPECT_EQ(job->step_id, "");
  EXPECT_THAT(job->tasks_per_node, IsEmpty());
  EXPECT_THAT(job->notes, IsEmpty());
}

TEST(JobTest, Srun) {
  const auto job = Read(Step());
  EXPECT_EQ(job->launcher, Launcher::kSrun);
  EXPECT_EQ(job->step_id, "0");
  EXPECT_EQ(job->num_tasks, 4);
  EXPECT_THAT(job->tasks_per_node, ElementsAre(2, 2));
  EXPECT_THAT(job->notes, IsEmpty());
}

TEST(JobTest, AnArray) {
  const auto job = Read(With(
      Step(), {{"SLURM_ARRAY_JOB_ID", "40"}, {"SLURM_ARRAY_TASK_ID", "7"}}));
  EXPECT_EQ(job->array_job_id, "40");
  EXPECT_EQ(job->array_task_id, "7");
  EXPECT_THAT(JobText(*job), HasSubstr("task 7 of array 40"));
  const auto half = Read(With(Step(), {{"SLURM_ARRAY_TASK_ID", "7"}}));
  EXPECT_EQ(half->array_task_id, "");
  EXPECT_THAT(half->notes,
              ElementsAre(HasSubstr("SLURM_ARRAY_TASK_ID is invalid")));
}

// srun below an mpirun inherits the variables of Open MPI.
TEST(JobTest, InheritedVariablesOfAnotherLauncher) {
  const auto job = Read(With(Step(), {{"OMPI_COMM_WORLD_SIZE", "1"}}));
  EXPECT_EQ(job->launcher, Launcher::kSrun);
  EXPECT_EQ(job->num_tasks, 4);
  EXPECT_THAT(job->notes,
              ElementsAre("OMPI_COMM_WORLD_SIZE (1) is inherited from an "
                          "mpirun around srun: SLURM_NTASKS (4) counts"));
}

TEST(JobTest, SrunWithoutPmix) {
  Table table = Step();
  table.erase("PMIX_RANK");
  table.erase("PMIX_NAMESPACE");
  EXPECT_THAT(Read(table)->notes, ElementsAre(HasSubstr("srun --mpi=pmix")));
}

TEST(JobTest, TasksPerNode) {
  Table table = Step();
  table.erase("SLURM_STEP_NUM_NODES");
  const auto tasks = [&](const std::string& text) {
    return Read(With(table, {{"SLURM_STEP_TASKS_PER_NODE", text}}));
  };
  EXPECT_THAT(tasks("1(x3),1")->tasks_per_node, ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(tasks("4")->tasks_per_node, ElementsAre(4));
  EXPECT_THAT(tasks("3,1")->tasks_per_node, ElementsAre(3, 1));
  for (const char* text : {"x", "2(x2", "2(x)", "(x2)", "-2,6", "2,,2",
                           "1(x99999999999)", "1(x2147483647)", "3(x2)"}) {
    const auto job = tasks(text);
    EXPECT_THAT(job->tasks_per_node, IsEmpty()) << text;
    EXPECT_THAT(job->notes,
                ElementsAre(HasSubstr("SLURM_STEP_TASKS_PER_NODE is invalid")))
        << text;
  }
}

TEST(JobTest, ValuesThatAreNotSound) {
  for (const char* text : {"-1", "many", "99999999999999999999", "1.5", " 1"}) {
    const auto job = Read(With(Step(), {{"SLURM_RESTART_COUNT", text}}));
    EXPECT_EQ(job->restart_count, 0);
    EXPECT_THAT(job->notes,
                ElementsAre("SLURM_RESTART_COUNT is invalid (need a number "
                            "from 0 to 2147483647, found \"" +
                            std::string(text) + "\"): left out"));
  }
  const auto nodes = Read(With(Step(), {{"SLURM_JOB_NUM_NODES", "0"}}));
  EXPECT_EQ(nodes->num_nodes, 2);  // as SLURM_NNODES says
  EXPECT_THAT(nodes->notes, ElementsAre(HasSubstr("SLURM_JOB_NUM_NODES")));
  const auto tasks = Read(With(Step(), {{"SLURM_NTASKS", "5"}}));
  EXPECT_EQ(tasks->num_tasks, 4);
  EXPECT_THAT(tasks->notes,
              ElementsAre(HasSubstr("SLURM_NTASKS is invalid (need "
                                    "SLURM_STEP_NUM_TASKS, which is 4, found "
                                    "\"5\")")));
  const auto id = Read(With(Batch(), {{"SLURM_JOB_ID", "4x2"}}));
  EXPECT_EQ(id->job_id, "");
  EXPECT_THAT(id->notes, ElementsAre(HasSubstr("found \"4x2\"")));
}

TEST(JobTest, MissingVariables) {
  Table table = Step();
  table.erase("SLURM_JOB_ID");
  EXPECT_EQ(Read(table)->job_id, "42");  // the old name
  table.erase("SLURM_JOBID");
  const auto job = Read(table);
  EXPECT_EQ(job->job_id, "");
  EXPECT_THAT(job->notes,
              ElementsAre(HasSubstr("SLURM_STEP_ID is invalid (need "
                                    "SLURM_JOB_ID beside it, found \"0\")"),
                          HasSubstr("SLURM_JOB_NODELIST")));
  Table nodes = Step();
  nodes.erase("SLURM_JOB_NUM_NODES");
  nodes.erase("SLURM_NNODES");
  EXPECT_THAT(Read(nodes)->notes,
              ElementsAre(HasSubstr("SLURM_JOB_NUM_NODES is not set")));
}

TEST(JobTest, EndTime) {
  const auto job = Read({{"BELAY_JOB_END_TIME", "1700000060"}});
  EXPECT_EQ(job->end_time, kNow + 60);
  EXPECT_TRUE(job->end_time_is_fixed);
  const auto slurm = Read(With(Step(), {{"SLURM_JOB_END_TIME", "1700000030"}}));
  EXPECT_EQ(slurm->end_time, kNow + 30);
  EXPECT_FALSE(slurm->end_time_is_fixed);
  // A host whose clock is behind that of the controller.
  const auto behind =
      Read(With(Step(), {{"SLURM_JOB_START_TIME", "1700000100"},
                         {"SLURM_JOB_END_TIME", "1700000400"}}));
  EXPECT_EQ(behind->end_time, kNow + 300);
  EXPECT_THAT(behind->notes,
              ElementsAre(HasSubstr("the clock of this host is behind")));
  // A job that is started again inherits what was exported for the first.
  const auto old = Read({{"BELAY_JOB_END_TIME", "1600000000"}});
  EXPECT_EQ(old->end_time, std::nullopt);
  EXPECT_THAT(old->notes,
              ElementsAre(HasSubstr("(need a time after 1700000000, found "
                                    "\"1600000000\")")));
  EXPECT_THAT(Read(With(Step(), {{"SLURM_JOB_END_TIME", "soon"}}))->notes,
              ElementsAre(HasSubstr("SLURM_JOB_END_TIME")));
  for (const char* text : {"tomorrow", "-5", "12h", "nan", "inf"}) {
    EXPECT_EQ(Read({{"BELAY_JOB_END_TIME", text}}).status(),
              absl::InvalidArgumentError(
                  "read BELAY_JOB_END_TIME: not a time (need seconds since "
                  "1970, found \"" +
                  std::string(text) + "\")"));
  }
}

TEST(JobTest, Device) {
  const auto job = Read(Step());
  EXPECT_EQ(DeviceText(JobDevice(*job, 1, 3)),
            "/job:train/replica:1/task:3/device:CPU:0");
  EXPECT_EQ(DeviceText(JobDevice({}, 0, 2)),
            "/job:belay/replica:0/task:2/device:CPU:0");
  // A name of one's own counts first, also without a batch job.
  EXPECT_EQ(Read({{"BELAY_JOB_NAME", "mine"}})->job_name, "mine");
  EXPECT_EQ(Read(With(Step(), {{"BELAY_JOB_NAME", "mine"}}))->job_name, "mine");
  EXPECT_EQ(Read({{"SLURM_JOB_NAME", "stray"}})->job_name, "");
  const DeviceSpec odd = JobDevice({.job_name = "a/b:c"}, 0, 0);
  EXPECT_EQ(ParseDevice(DeviceText(odd)).value(), odd);
}

}  // namespace
}  // namespace belay::job_test
