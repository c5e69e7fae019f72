// different_calls DIR A B: rank 0 makes the call A, the others the call B, and
// each program ends on its error. Judged from outside: it ends with an error
// that says so or by the deadline, and neither crashes nor hangs.

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "belay/async_saver.h"
#include "belay/check.h"
#include "belay/checkpoint_manager.h"
#include "belay/save_restore.h"
#include "belay/variable/sharded_variable_ops.h"
#include "manager_program.h"

namespace belay::testing {
namespace {

constexpr double kSeconds = 1;

using Calls = std::map<std::string, std::function<Status()>>;

// What all calls are made of. Step 1 is there.
struct Job {
  explicit Job(const std::string& in) : dir(in), run(in + "/run") {
    if (WorldRank() == 0) {
      std::filesystem::remove_all(dir);
      std::filesystem::create_directories(dir);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    Check(Save(comm(), run, 1, program.state(), save));
    ManagerOptions options{.save = save};
    manager.emplace(Check(CheckpointManager::Create(
        program.checkpoint(), dir + "/managed", options)));
    Check(manager->Save(1));
    saver.emplace(comm());
    variable.emplace(Check(
        CreateShardedVariable(comm(), "v", DType::kF32, {8}, FixedShards(2),
                              {.deadline_seconds = kSeconds})));
  }

  const Comm& comm() const { return program.comm(); }

  std::string dir;
  std::string run;
  Program program;
  SaveOptions save{.durable = false, .deadline_seconds = kSeconds};
  RestoreOptions restore{.deadline_seconds = kSeconds};
  std::optional<CheckpointManager> manager;
  std::optional<AsyncSaver> saver;
  std::optional<ShardedVariable> variable;
};

// Makes the call of a loop three times: some tell only the next one.
Status Thrice(const std::function<Status(int64_t)>& call) {
  for (int64_t step = 2; step < 5; ++step) {
    const Status status = call(step);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Of functions, of a Checkpoint and of a saver. They borrow the job.
Calls PlainCalls(Job& job) {
  const auto save_to = [&job](const std::string& dir) {
    return Save(job.comm(), dir, 2, job.program.state(), job.save).status();
  };
  const State& state = job.program.state();
  return {
      {"save", [&, save_to] { return save_to(job.run); }},
      {"save_elsewhere",
       [&, save_to] { return save_to(job.dir + "/elsewhere"); }},
      {"restore",
       [&] {
         return Restore(job.comm(), job.run, 1, state, job.restore).status();
       }},
      {"restore_latest",
       [&] {
         return RestoreLatest(job.comm(), job.run, state, job.restore).status();
       }},
      {"choose",
       [&] {
         return ChooseStep(job.comm(), job.run, 1, job.restore).status();
       }},
      {"checkpoint_save",
       [&] {
         return job.program.checkpoint()
             .Save(job.dir + "/objects", job.save)
             .status();
       }},
      {"async_save",
       [&] {
         const Status begun =
             job.saver->Save(job.dir + "/async", 2, state, job.save).status();
         return begun.ok() ? job.saver->Wait().status() : begun;
       }},
      {"split", [&] { return job.comm().Split(0).status(); }},
  };
}

// The same of variables.
Calls VariableCalls(Job& job) {
  return {
      {"read",
       [&] {
         return Read(job.comm(), *job.variable, {}, kEveryRank,
                     {.deadline_seconds = kSeconds})
             .status();
       }},
      {"assign",
       [&] {
         return Assign(job.comm(), *job.variable, UpdateOp::kUpdate,
                       Tensor(DType::kF32, {8}),
                       {.deadline_seconds = kSeconds});
       }},
  };
}

// The same of managers.
Calls ManagerCalls(Job& job) {
  CheckpointManager& manager = *job.manager;
  return {
      {"manager_create",
       [&] {
         return CheckpointManager::Create(job.program.checkpoint(),
                                          job.dir + "/other",
                                          {.save = job.save})
             .status();
       }},
      {"manager_save",
       [&] {
         return Thrice(
             [&](int64_t step) { return manager.Save(step).status(); });
       }},
      {"should_save",
       [&] {
         return Thrice(
             [&](int64_t step) { return manager.ShouldSave(step).status(); });
       }},
      {"manager_restore",
       [&] { return manager.RestoreLatest(job.restore).status(); }},
      {"reload", [&] { return manager.Reload(); }},
      {"delete", [&] { return manager.Delete(1); }},
      {"wait", [&] { return manager.WaitForNewStep(1, 0.1, 0.01).status(); }},
  };
}

Calls AllCalls(Job& job) {
  Calls all = PlainCalls(job);
  all.merge(VariableCalls(job));
  all.merge(ManagerCalls(job));
  return all;
}

}  // namespace
}  // namespace belay::testing

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) return 2;
  MPI_Init(&argc, &argv);
  {
    belay::testing::Job job(argv[1]);
    const auto calls = belay::testing::AllCalls(job);
    if (argc == 2) {  // for whoever tries all pairs
      for (const auto& [name, call] : calls) std::puts(name.c_str());
      return 0;
    }
    const auto call =
        calls.find(argv[belay::testing::WorldRank() == 0 ? 2 : 3]);
    if (call == calls.end()) return 2;
    belay::Check(call->second());
  }
  std::fputs("no rank has noticed\n", stderr);
  MPI_Finalize();
  return 0;
}
