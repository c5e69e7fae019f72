#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "belay/version.h"
#include "commands.h"
#include "flags.h"
#include "json_output.h"
#include "number_text.h"
#include "steps.h"

namespace belay::tools {
namespace {

// The arguments of all commands; each command uses its own.
struct Arguments {
  std::string path, key, other;
  std::optional<int64_t> step;
  bool json = false;
  ListOptions list;
  VerifyOptions verify;
  SafetensorsArguments safetensors;
  CopyArguments copy;
  ShowOptions show;
  DiffOptions diff;
  GraphOptions graph;
  PlanOptions plan;
  SimulateOptions simulate;
};

// Adds a command; `run` returns the exit code.
template <typename Run>
CLI::App* AddCommand(CLI::App& app, const char* name, const char* description,
                     Arguments& arguments, int& code, Run run) {
  CLI::App* command = app.add_subcommand(name, description);
  command->add_flag("--json", arguments.json,
                    "Print one JSON object, also in case of an error");
  command->callback([&arguments, &code, run] { code = run(arguments); });
  return command;
}

// Returns `options` with the flag --json, which all commands have.
template <typename Options>
Options WithJson(Options options, const Arguments& arguments) {
  options.json = arguments.json;
  return options;
}

// Adds a command that reads one checkpoint.
template <typename Run>
CLI::App* AddReader(CLI::App& app, const char* name, const char* description,
                    Arguments& arguments, int& code, Run run) {
  const auto run_on_step = [run](Arguments a) {
    StatusOr<std::string> path = FindStep(a.path, a.step);
    if (!path.ok()) return Fail(path.status(), a.json);
    a.path = *std::move(path);
    return run(a);
  };
  CLI::App* command =
      AddCommand(app, name, description, arguments, code, run_on_step);
  command
      ->add_option("DIR", arguments.path,
                   "A step directory, or a directory of steps (the newest)")
      ->required();
  AddStepOption(command, arguments.step);
  return command;
}

void AddReaders(CLI::App& app, Arguments& arguments, int& code) {
  AddReader(
      app, "ls", "List the arrays of a checkpoint", arguments, code,
      [](const Arguments& a) { return List(a.path, WithJson(a.list, a)); })
      ->add_flag("--shards", arguments.list.shards,
                 "Show which file holds which piece, and who wrote it");
  AddCommand(app, "steps", "List the steps of a directory", arguments, code,
             [](const Arguments& a) { return ListStepsOf(a.path, a.json); })
      ->add_option("DIR", arguments.path, "A directory of steps")
      ->required();
  CLI::App* verify = AddReader(
      app, "verify",
      "Read every byte and compare it with its checksum, and look for "
      "the arrays as other programs do",
      arguments, code, [](const Arguments& a) {
        VerifyOptions options = WithJson(a.verify, a);
        options.step = a.step;
        return Verify(a.path, options);
      });
  verify->add_flag("-q,--quiet", arguments.verify.quiet, "Print damage only");
  verify
      ->add_flag("--all", arguments.verify.all,
                 "Verify all steps of the directory")
      ->excludes("--step");
  AddShowOptions(
      AddReader(app, "show", "Print the values of an array", arguments, code,
                [](const Arguments& a) {
                  return Show(a.path, a.key, WithJson(a.show, a));
                }),
      arguments.key, arguments.show);
  AddGraphOptions(
      AddReader(app, "graph", "Show the objects of a checkpoint as a tree",
                arguments, code,
                [](const Arguments& a) {
                  return Graph(a.path, WithJson(a.graph, a));
                }),
      arguments.graph);
  AddPlanOptions(
      AddReader(
          app, "plan",
          "Tell what a restore would read, without touching the data",
          arguments, code,
          [](const Arguments& a) { return Plan(a.path, WithJson(a.plan, a)); }),
      arguments.plan);
}

void AddOthers(CLI::App& app, Arguments& arguments, int& code) {
  AddDiffOptions(
      AddCommand(app, "diff", "Compare two checkpoints", arguments, code,
                 [](const Arguments& a) {
                   return Diff(a.path, a.other, WithJson(a.diff, a));
                 }),
      arguments.path, arguments.other, arguments.diff);
  AddSimulateOptions(
      AddCommand(
          app, "simulate",
          "Tell what saving and restoring a model would do, without it",
          arguments, code,
          [](const Arguments& a) { return Simulate(WithJson(a.simulate, a)); }),
      arguments.simulate);
  AddExportOptions(
      AddCommand(app, "export",
                 "Write a checkpoint as safetensors; also under mpirun",
                 arguments, code,
                 [](const Arguments& a) {
                   const SafetensorsArguments& files = a.safetensors;
                   return Export(files.from, files.export_step, files.to,
                                 files.metadata, files.export_options, a.json);
                 }),
      arguments.safetensors);
  AddImportOptions(
      AddCommand(app, "import",
                 "Save safetensors files as a checkpoint; also under mpirun",
                 arguments, code,
                 [](const Arguments& a) {
                   const SafetensorsArguments& files = a.safetensors;
                   return Import(files.from, files.to, files.import_step,
                                 files.import_options, a.json);
                 }),
      arguments.safetensors);
}

void AddCopies(CLI::App& app, Arguments& arguments, int& code) {
  const auto run = [](const Arguments& a) { return Copy(WithJson(a.copy, a)); };
  AddCopyOptions(
      AddCommand(app, "copy",
                 "Save a step, or a part of it, as another; also under mpirun",
                 arguments, code, run),
      arguments.copy);
  AddConvertOptions(
      AddCommand(app, "convert",
                 "Save a step with arrays renamed, split, joined, transposed; "
                 "also under mpirun",
                 arguments, code, run),
      arguments.copy);
}

// Adds the examples that --help and the man page show for each command.
void AddExamples(CLI::App& app) {
  const std::pair<const char*, const char*> kExamples[] = {
      {"ls", "belay ls run\nbelay ls run --step 42 --shards"},
      {"steps", "belay steps run"},
      {"verify",
       "belay verify run/step_00000042\nbelay verify --all --quiet run"},
      {"show",
       "belay show run model/w --box 0,4:-\nbelay show run model.w --stats"},
      {"graph", "belay graph run --depth 2"},
      {"plan",
       "belay plan run --ranks 64 --rows\n"
       "belay plan run --ranks 8 --layout \"[x,-] on x=2,y=4\""},
      {"diff",
       "belay diff run other\n"
       "belay diff run/step_00000041 run/step_00000042 --tolerance 1e-6"},
      {"simulate",
       "belay simulate --model llama3-8b --from fsdp=64 --to tp=8,dp=8"},
      {"export",
       "belay export run model.safetensors --keys 'model/.*'\n"
       "mpirun -n 4 belay export run exported --max-file-bytes 5GiB"},
      {"import", "belay import model.safetensors run --step 0"},
      {"copy",
       "belay copy run small --leave-out 'adam/.*' --dtype '.*=bf16'\n"
       "mpirun -n 4 belay copy run packed --step 42 --deflate 4"},
      {"convert", "belay convert rules.json run converted"},
  };
  for (const auto& [command, examples] : kExamples) {
    app.get_subcommand(command)->footer(absl::StrCat(
        "Examples:\n  ", absl::StrReplaceAll(examples, {{"\n", "\n  "}})));
  }
}

// Prints the existing commands, and the argument that is not one of them.
void PrintCommands(const CLI::App& app, int argc, char** argv) {
  std::vector<std::string> names;
  const auto all = [](const CLI::App*) { return true; };
  for (const CLI::App* command : app.get_subcommands(all)) {
    names.push_back(command->get_name());
  }
  if (argc > 1 && argv[1][0] != '-') {
    std::cerr << "There is no command " << QuotedText(argv[1]) << ". ";
  }
  std::cerr << "The commands are " << absl::StrJoin(names, ", ") << ".\n";
}

// True if the two words differ by one letter inserted, deleted or replaced, or
// by two letters swapped.
bool IsSlip(std::string_view a, std::string_view b) {
  if (a.size() < b.size()) std::swap(a, b);
  size_t same = 0;
  while (same < b.size() && a[same] == b[same]) ++same;
  const std::string_view rest = a.substr(same), other = b.substr(same);
  if (rest.empty()) return false;
  if (a.size() != b.size()) return rest.substr(1) == other;
  if (rest.substr(1) == other.substr(1)) return true;
  return rest.size() > 1 && rest[0] == other[1] && rest[1] == other[0] &&
         rest.substr(2) == other.substr(2);
}

// Returns a guess of what is meant by the first unknown flag.
std::string CloseFlag(const std::vector<std::string>& extras,
                      const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  for (const std::string& word : extras) {
    if (chosen.empty() || !word.starts_with("--")) continue;
    const std::string asked = word.substr(0, word.find('='));
    for (const CLI::Option* option : chosen.front()->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        if (!IsSlip(asked, absl::StrCat("--", name))) continue;
        return absl::StrCat("; close to it: \"--", name, "\"");
      }
    }
  }
  return "";
}

// CLI11 lists unexpected arguments from the last to the first.
std::string ReasonOf(const CLI::ParseError& error, const CLI::App& app) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) {
    return error.what();
  }
  const std::vector<std::string> extras = app.remaining(true);
  std::string reason =
      absl::StrCat("Not expected: ", absl::StrJoin(extras, " "));
  if (std::ranges::find(extras, "--step") != extras.end()) {
    reason += ". Give the directory of the step, such as run/step_00000004";
  }
  return reason + CloseFlag(extras, app);
}

// Prints what is wrong with the arguments. Returns 2.
int Refuse(const CLI::ParseError& error, const CLI::App& app, int argc,
           char** argv) {
  const std::string reason = ReasonOf(error, app);
  const bool json = std::any_of(argv + 1, argv + argc, [](const char* word) {
    return std::string_view(word) == "--json";
  });
  if (json) PrintError(absl::InvalidArgumentError(reason));
  std::cerr << PrintableText(reason)
            << "\nRun with --help for more information.\n";
  if (app.get_subcommands().empty()) PrintCommands(app, argc, argv);
  return 2;
}

int Main(int argc, char** argv) {
  CLI::App app("Look into belay checkpoints, and plan them.", "belay");
  app.set_version_flag("--version", BELAY_VERSION);
  app.require_subcommand(1);
  Arguments arguments;
  int code = 0;
  AddReaders(app, arguments, code);
  AddOthers(app, arguments, code);
  AddCopies(app, arguments, code);
  AddExamples(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // also --help and --version
    if (error.get_exit_code() == 0) return app.exit(error);
    return Refuse(error, app, argc, argv);
  } catch (const std::bad_alloc&) {
    return Fail(absl::ResourceExhaustedError(
        "not enough memory for what the checkpoint holds"));
  }
  return code;
}

}  // namespace
}  // namespace belay::tools

int main(int argc, char** argv) {
  const int code = belay::tools::Main(argc, argv);
  // Output that could not be written is an error.
  std::cout.flush();
  if (std::cout.good() && std::fflush(stdout) == 0 && !std::ferror(stdout)) {
    return code;
  }
  return belay::tools::Fail(
      absl::UnavailableError("write the output: it could not all be written"));
}
