#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "belay/version.h"
#include "commands.h"
#include "flags.h"
#include "json_output.h"
#include "number_text.h"

namespace belay::tools {
namespace {

// What all commands are asked for; each uses its own.
struct Arguments {
  std::string path, key, other;
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

// A command; `run` returns the exit code.
template <typename Run>
CLI::App* AddCommand(CLI::App& app, const char* name, const char* description,
                     Arguments& arguments, int& code, Run run) {
  CLI::App* command = app.add_subcommand(name, description);
  command->add_flag("--json", arguments.json,
                    "Print one JSON object, also in case of an error");
  command->callback([&arguments, &code, run] { code = run(arguments); });
  return command;
}

// `options` with the flag that all commands have.
template <typename Options>
Options WithJson(Options options, const Arguments& arguments) {
  options.json = arguments.json;
  return options;
}

// A command that looks at one checkpoint.
template <typename Run>
CLI::App* AddReader(CLI::App& app, const char* name, const char* description,
                    Arguments& arguments, int& code, Run run) {
  CLI::App* command = AddCommand(app, name, description, arguments, code, run);
  command
      ->add_option("DIR", arguments.path,
                   "A step directory, or a directory of steps (the newest)")
      ->required();
  return command;
}

void AddReaders(CLI::App& app, Arguments& arguments, int& code) {
  AddReader(
      app, "ls", "List the arrays of a checkpoint", arguments, code,
      [](const Arguments& a) { return List(a.path, WithJson(a.list, a)); })
      ->add_flag("--shards", arguments.list.shards,
                 "Show which file holds which piece, and who wrote it");
  AddReader(
      app, "verify",
      "Read every byte and compare it with its checksum, and look for "
      "the arrays as other programs do",
      arguments, code,
      [](const Arguments& a) { return Verify(a.path, WithJson(a.verify, a)); })
      ->add_flag("-q,--quiet", arguments.verify.quiet, "Print damage only");
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

// Says which commands there are, and what was taken for none.
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

// CLI11 lists what it did not expect from the last to the first.
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
  return reason;
}

// Says what is wrong with the arguments. Returns 2.
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // --help and --version too
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

int main(int argc, char** argv) { return belay::tools::Main(argc, argv); }
