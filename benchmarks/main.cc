// belay_bench: compares the times of belay, plain calls and handwritten HDF5
// code.
//
//   mpirun -n 4 belay_bench [--json FILE] [--only PREFIX] ...
//
// Exit codes: 0 success; 1 a failure or a wrong byte; 2 a bar was missed with
// --strict.

#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "belay/comm.h"
#include "race.h"
#include "table.h"
#include "workloads.h"

namespace belay::bench {
namespace {

// The maximum space that a run needs on the medium.
constexpr double kNeededBytes = 3.0 * (1 << 30);
// The process id follows.
constexpr absl::string_view kFolderPrefix = "belay_bench.";

struct Flags {
  std::string json;
  std::string only;
  std::string dir = "/dev/shm";
  std::string disk = std::filesystem::is_directory("build") ? "build" : ".";
  std::string model = BELAY_BENCH_MODEL;
  int reps = 7;
  double scale = 1;
  bool strict = false;
  bool stages = false;
};

void AddFlags(CLI::App& app, Flags& flags) {
  app.add_option("--json", flags.json, "also write the results to this file");
  app.add_option("--only", flags.only, "only lines that start with this");
  app.add_option("--dir", flags.dir, "folder in memory; '' skips it")
      ->capture_default_str();
  app.add_option("--disk", flags.disk, "folder on disk; '' skips it")
      ->capture_default_str();
  app.add_option("--reps", flags.reps, "repetitions that count")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--scale", flags.scale, "multiplies sizes and counts")
      ->capture_default_str()
      ->check(CLI::Range(1e-4, 1.0));
  app.add_option("--model", flags.model, "TSV file of the model's tensors")
      ->capture_default_str();
  app.add_flag("--stages", flags.stages, "add belay's time per stage");
  app.add_flag("--strict", flags.strict, "exit with 2 if a bar is missed");
}

// Lists leftovers of killed runs, which are costly if they are in memory.
void NameRemains(const std::string& parent) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(parent, error)) {
    const std::string name = entry.path().filename();
    int pid = 0;
    if (absl::StartsWith(name, kFolderPrefix) &&
        absl::SimpleAtoi(name.substr(kFolderPrefix.size()), &pid) &&
        kill(pid, 0) != 0 && errno == ESRCH) {
      std::fprintf(stderr, "belay_bench: remains of a killed run: %s\n",
                   entry.path().c_str());
    }
  }
}

// Makes a new folder in `parent`, with the same name on all ranks.
StatusOr<Medium> MakeMedium(const Context& context, const std::string& name,
                            const std::string& parent, bool durable) {
  int64_t pid = getpid();
  MPI_Bcast(&pid, 1, MPI_INT64_T, 0, context.comm->raw());
  Medium medium{.name = name,
                .dir = absl::StrCat(parent, "/", kFolderPrefix, pid),
                .durable = durable};
  if (context.comm->rank() == 0) NameRemains(parent);
  std::error_code error;
  std::filesystem::create_directories(medium.dir, error);
  const auto space = std::filesystem::space(medium.dir, error);
  Status status;
  if (error) {
    status = absl::InternalError(
        absl::StrCat("create \"", medium.dir, "\": ", error.message()));
  } else if (space.available < kNeededBytes * context.scale) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("use \"", parent, "\": no space left (need ",
                     static_cast<int64_t>(kNeededBytes * context.scale),
                     " bytes, found ", space.available, ")"));
  }
  status = AllOk(*context.comm, status);
  if (!status.ok()) return status;
  return medium;
}

StatusOr<std::vector<Medium>> MakeMedia(const Context& context,
                                        const Flags& flags) {
  std::vector<Medium> media;
  const auto add = [&](const char* name, const std::string& parent,
                       bool durable) -> Status {
    if (parent.empty()) return absl::OkStatus();
    StatusOr<Medium> medium = MakeMedium(context, name, parent, durable);
    if (medium.ok()) media.push_back(*std::move(medium));
    return medium.status();
  };
  Status status = add("memory", flags.dir, false);
  if (status.ok()) status = add("disk", flags.disk, true);
  if (!status.ok()) return status;
  return media;
}

void RemoveContents(const Context& context, const Medium& medium) {
  MPI_Barrier(context.comm->raw());
  std::error_code error;
  if (context.comm->rank() == 0) {
    for (const auto& entry :
         std::filesystem::directory_iterator(medium.dir, error)) {
      std::filesystem::remove_all(entry, error);
    }
  }
  MPI_Barrier(context.comm->raw());
}

void RemoveMedia(const Context& context, const std::vector<Medium>& media) {
  for (const Medium& medium : media) {
    RemoveContents(context, medium);
    std::error_code error;
    if (context.comm->rank() == 0) std::filesystem::remove(medium.dir, error);
  }
}

// Returns the workloads, with only those comparisons whose name starts with
// `prefix`.
std::vector<Workload> Select(const std::string& prefix) {
  std::vector<Workload> workloads = AllWorkloads();
  for (Workload& workload : workloads) {
    std::erase_if(workload.comparisons, [&](const Comparison& comparison) {
      return !absl::StartsWith(comparison.name, prefix);
    });
  }
  std::erase_if(workloads, [](const Workload& workload) {
    return workload.comparisons.empty();
  });
  return workloads;
}

void PrintProgress(const Context& context, const Workload& workload,
                   const Medium& medium) {
  if (context.comm->rank() != 0) return;
  std::fprintf(stderr, "# %s (%s)\n", workload.title.c_str(),
               medium.name.c_str());
}

StatusOr<std::vector<Line>> RunWorkload(const Context& context,
                                        const std::vector<Medium>& media,
                                        const Workload& workload) {
  std::vector<Line> lines;
  for (const Comparison& comparison : workload.comparisons) {
    lines.push_back({.name = comparison.name, .on_disk = comparison.on_disk});
    if (context.scale == 1) lines.back().bar = comparison.bar;
  }
  for (const Medium& medium : media) {
    if (!workload.uses_files && &medium != &media.front()) break;
    PrintProgress(context, workload, medium);
    StatusOr<std::vector<Ratio>> ratios = RunRace(context, medium, workload);
    RemoveContents(context, medium);
    if (!ratios.ok()) return ratios.status();
    for (size_t i = 0; i < lines.size(); ++i) {
      const bool on_disk = medium.durable && workload.uses_files;
      (on_disk ? lines[i].disk : lines[i].memory) = (*ratios)[i];
    }
  }
  return lines;
}

void PrintError(const Context& context, const std::string& what,
                const Status& status) {
  std::fprintf(stderr, "belay_bench: FAILED on rank %d: %s: %s\n",
               context.comm->rank(), what.c_str(), status.ToString().c_str());
}

int RunAll(const Context& context, const std::vector<Medium>& media,
           const Flags& flags) {
  const bool talks = context.comm->rank() == 0;
  const bool with_disk = !flags.disk.empty();
  if (talks) std::printf("%s", TableHead(context, with_disk).c_str());
  std::vector<Line> all;
  bool failed = false;
  bool missed = false;
  for (const Workload& workload : Select(flags.only)) {
    StatusOr<std::vector<Line>> lines = RunWorkload(context, media, workload);
    if (!lines.ok()) {
      PrintError(context, workload.title, lines.status());
      failed = true;
      continue;
    }
    for (const Line& line : *lines) {
      if (talks) std::printf("%s\n", FormatLine(line, with_disk).c_str());
      missed = missed || !IsOk(line);
      all.push_back(line);
    }
    std::fflush(stdout);
  }
  if (talks && !flags.json.empty()) {
    Status status = WriteJson(flags.json, all);
    if (!status.ok()) PrintError(context, "results", status);
    failed = failed || !status.ok();
  }
  if (failed) return 1;
  return missed && flags.strict ? 2 : 0;
}

int RunBench(const Flags& flags) {
  StatusOr<Comm> comm = Comm::Duplicate(MPI_COMM_WORLD);
  if (!comm.ok()) return 1;
  const Context context{.comm = &*comm,
                        .reps = flags.reps,
                        .scale = flags.scale,
                        .model_file = flags.model,
                        .stages = flags.stages};
  StatusOr<std::vector<Medium>> media = MakeMedia(context, flags);
  if (!media.ok()) {
    PrintError(context, "prepare", media.status());
    return 1;
  }
  const int code = RunAll(context, *media, flags);
  RemoveMedia(context, *media);
  return comm->Close().ok() ? code : 1;
}

// Every rank reads the same command line; rank 0 prints help and errors.
int ParseAndRun(int argc, char** argv) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  CLI::App app("Times belay against plain calls and HDF5 by hand.");
  Flags flags;
  AddFlags(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (rank == 0) return app.exit(error);
    return error.get_exit_code();
  }
  return RunBench(flags);
}

}  // namespace
}  // namespace belay::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int code = belay::bench::ParseAndRun(argc, argv);
  MPI_Finalize();
  return code;
}
