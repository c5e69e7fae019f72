#include <CLI/CLI.hpp>

#include "absl/strings/str_format.h"
#include "belay/safetensors.h"
#include "belay/version.h"
#include "commands.h"

namespace {

namespace tools = belay::tools;
using belay::tools::DiffOptions;
using belay::tools::GraphOptions;
using belay::tools::PlanOptions;
using belay::tools::ShowOptions;
using belay::tools::SimulateOptions;

// CLI11's own check prints the largest double with all its digits.
const CLI::Validator kNotNegative(
    [](std::string& text) -> std::string {
      double value = 0;
      if (!CLI::detail::lexical_cast(text, value)) {
        return absl::StrFormat("\"%s\" is not a number", text);
      }
      if (value >= 0) return "";
      return absl::StrFormat("need at least 0, found %s", text);
    },
    "AT LEAST 0");

void AddShowOptions(CLI::App* show, std::string& key, ShowOptions& options) {
  show->add_option("KEY", key,
                   "The key of the array, or the path of a value as belay "
                   "graph shows it, such as model.w")
      ->required();
  show->add_option("--box", options.box,
                   "Only this box: \"offset,length\" for each axis, or \"-\" "
                   "for the whole axis, with ':' between them, as in 0,4:-");
  show->add_flag("--stats", options.statistics,
                 "Add minimum, maximum, mean and counts of zeros, NaN and "
                 "infinities; reads the whole box");
  show->add_option("--max", options.max,
                   "Abbreviate what has more elements, or a text of more bytes")
      ->capture_default_str()
      ->check(kNotNegative);
}

void AddDiffOptions(CLI::App* diff, std::string& a, std::string& b,
                    DiffOptions& options) {
  diff->add_option("A", a, "A step directory, or a directory of steps")
      ->required();
  diff->add_option("B", b, "The same")->required();
  diff->add_flag("--keys", options.keys_only,
                 "Compare keys, dtypes and shapes, but no values");
  diff->add_option("--tolerance", options.tolerance,
                   "Numbers may differ by that much; without it, not in a bit")
      ->check(kNotNegative);
}

void AddGraphOptions(CLI::App* graph, GraphOptions& options) {
  graph
      ->add_option("--depth", options.depth,
                   "Show so many levels below the root, and how much is left "
                   "out")
      ->check(kNotNegative);
  graph
      ->add_flag("--values,!--no-values", options.values,
                 "Show values, or only the objects that hold them")
      ->default_str("true");
}

void AddPlanOptions(CLI::App* plan, PlanOptions& options) {
  plan->add_option("--ranks", options.ranks, "The ranks of the restore")
      ->required()
      ->check(CLI::Range(1, 1 << 20));
  CLI::Option* replicas = plan->add_option(
      "--replicas", options.replicas,
      "So many groups of ranks want the same, each array cut by rows over the "
      "ranks of a group; without it, every rank wants everything");
  plan->add_flag(
          "--rows", [&options](int64_t) { options.replicas = 1; },
          "The same as --replicas 1")
      ->excludes(replicas);
  plan->add_option("--layout", options.layout,
                   "The cut of arrays with as many axes, such as \"[x,-] on "
                   "x=2,y=4\"; others are whole")
      ->excludes(replicas);
  plan->add_option("--read", options.read,
                   "Who reads what several want: each rank, one of them (once) "
                   "or what is better (auto)")
      ->capture_default_str();
  plan->add_option("--primary-replica", options.primary_replica,
                   "Only this replica reads");
  plan->add_option("--max-bytes-in-flight", options.max_bytes_in_flight,
                   "As in RestoreOptions")
      ->capture_default_str();
}

// What belay export and belay import are asked for.
struct SafetensorsArguments {
  std::string from, to;
  std::vector<std::string> metadata;
  std::optional<int64_t> export_step;
  int64_t import_step = 0;
  belay::ExportOptions export_options;
  belay::ImportOptions import_options;
};

CLI::App* AddExport(CLI::App& app, SafetensorsArguments& arguments) {
  CLI::App* command = app.add_subcommand(
      "export", "Write a checkpoint as safetensors; also under mpirun");
  belay::ExportOptions& options = arguments.export_options;
  command
      ->add_option("DIR", arguments.from,
                   "A step directory, or a directory of steps (the newest)")
      ->required();
  command
      ->add_option("OUT", arguments.to,
                   "The file to make, X.safetensors, or a directory for "
                   "model.safetensors")
      ->required();
  command
      ->add_option("--step", arguments.export_step,
                   "This step of a directory of steps")
      ->check(kNotNegative);
  command
      ->add_option("--max-file-bytes", options.max_file_bytes,
                   "Cut the export into files of at most so many bytes (more "
                   "for a tensor that does not fit), such as 5GB or 512MiB, "
                   "with an index")
      ->transform(CLI::AsSizeValue(true));
  command
      ->add_option("--keys", options.keys,
                   "Only what these regular expressions match as a whole")
      ->allow_extra_args(false);
  command
      ->add_option("--metadata", arguments.metadata,
                   "NAME=TEXT for the metadata of the files, such as format=pt")
      ->allow_extra_args(false);
  command->add_flag(
      "--leave-out-others", options.leave_out_others,
      "Leave out what safetensors has no form for: strings, c128");
  command->add_flag("--overwrite", options.overwrite,
                    "Replace an export of that name");
  return command;
}

CLI::App* AddImport(CLI::App& app, SafetensorsArguments& arguments) {
  CLI::App* command = app.add_subcommand(
      "import", "Save safetensors files as a checkpoint; also under mpirun");
  belay::ImportOptions& options = arguments.import_options;
  command
      ->add_option("IN", arguments.from,
                   "A safetensors file, an index of several, or a directory of "
                   "them")
      ->required();
  command->add_option("DIR", arguments.to, "The directory of steps")
      ->required();
  command->add_option("--step", arguments.import_step, "The number of the step")
      ->capture_default_str()
      ->check(kNotNegative);
  command
      ->add_option("--keys", options.keys,
                   "Only tensors whose names these regular expressions match "
                   "as a whole")
      ->allow_extra_args(false);
  command
      ->add_flag("--metadata,!--no-metadata", options.metadata,
                 "Take the metadata along")
      ->default_str("true");
  command->add_flag("--leave-out-others", options.leave_out_others,
                    "Leave out tensors of a dtype that belay does not have");
  command->add_flag("--overwrite", options.save.overwrite,
                    "Replace a step of that number");
  return command;
}

void AddSimulateOptions(CLI::App* simulate, SimulateOptions& options) {
  simulate
      ->add_option("--model", options.model,
                   "A model that is known by name, such as llama3-8b or "
                   "gpt2-xl.mcore, or a table of tensors")
      ->required();
  simulate
      ->add_option("--from", options.from,
                   "The ranks of the save: tp, pp, dp, fsdp, ep and zero, as "
                   "in tp=8,pp=4,dp=16,zero=1")
      ->required();
  simulate->add_option("--to", options.to,
                       "The ranks of a restore of it; without it, only the "
                       "save");
  simulate
      ->add_option("--divide", options.divide,
                   "Make all lengths shorter by this")
      ->check(CLI::Range(1, 1 << 20));
  simulate->add_flag("--weights", options.weights,
                     "Without the state of the optimizer");
  simulate
      ->add_option("--files", options.files,
                   "One shared file, one per node or one per task")
      ->capture_default_str();
  simulate->add_option("--read", options.read, "As for belay plan")
      ->capture_default_str();
  simulate->add_option("--ranks-per-node", options.ranks_per_node)
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  simulate
      ->add_option("--pad-vocabulary", options.pad_vocabulary,
                   "Pad it to a multiple of this for each rank of tp")
      ->check(CLI::Range(0, 1 << 20));
  simulate->add_flag("--json", options.json, "For programs");
}

// What all commands are asked for; each uses its own.
struct Arguments {
  std::string path, key, other;
  bool quiet = false;
  bool shards = false;
  SafetensorsArguments safetensors;
  ShowOptions show;
  DiffOptions diff;
  GraphOptions graph;
  PlanOptions plan;
  SimulateOptions simulate;
};

// A command that looks at one checkpoint; `run` returns the exit code.
template <typename Run>
CLI::App* AddReader(CLI::App& app, const char* name, const char* description,
                    Arguments& arguments, int& code, Run run) {
  CLI::App* command = app.add_subcommand(name, description);
  command
      ->add_option("DIR", arguments.path,
                   "A step directory, or a directory of steps (the newest)")
      ->required();
  command->callback([&arguments, &code, run] { code = run(arguments); });
  return command;
}

void AddReaders(CLI::App& app, Arguments& arguments, int& code) {
  AddReader(app, "ls", "List the arrays of a checkpoint", arguments, code,
            [](const Arguments& a) { return tools::List(a.path, a.shards); })
      ->add_flag("--shards", arguments.shards,
                 "Show which file holds which piece, and who wrote it");
  AddReader(app, "verify",
            "Read every byte and compare it with its checksum, and look for "
            "the arrays as other programs do",
            arguments, code,
            [](const Arguments& a) { return tools::Verify(a.path, a.quiet); })
      ->add_flag("-q,--quiet", arguments.quiet, "Print damage only");
  AddShowOptions(
      AddReader(app, "show", "Print the values of an array", arguments, code,
                [](const Arguments& a) {
                  return tools::Show(a.path, a.key, a.show);
                }),
      arguments.key, arguments.show);
  AddGraphOptions(
      AddReader(
          app, "graph", "Show the objects of a checkpoint as a tree", arguments,
          code,
          [](const Arguments& a) { return tools::Graph(a.path, a.graph); }),
      arguments.graph);
  AddPlanOptions(
      AddReader(app, "plan",
                "Tell what a restore would read, without touching the data",
                arguments, code,
                [](const Arguments& a) { return tools::Plan(a.path, a.plan); }),
      arguments.plan);
}

void AddOthers(CLI::App& app, Arguments& arguments, int& code) {
  CLI::App* diff = app.add_subcommand("diff", "Compare two checkpoints");
  AddDiffOptions(diff, arguments.path, arguments.other, arguments.diff);
  diff->callback([&] {
    code = tools::Diff(arguments.path, arguments.other, arguments.diff);
  });
  CLI::App* simulate = app.add_subcommand(
      "simulate",
      "Tell what saving and restoring a model would do, without it");
  AddSimulateOptions(simulate, arguments.simulate);
  simulate->callback([&] { code = tools::Simulate(arguments.simulate); });
  SafetensorsArguments& files = arguments.safetensors;
  AddExport(app, files)->callback([&] {
    code = tools::Export(files.from, files.export_step, files.to,
                         files.metadata, files.export_options);
  });
  AddImport(app, files)->callback([&] {
    code = tools::Import(files.from, files.to, files.import_step,
                         files.import_options);
  });
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Look into belay checkpoints, and plan them.", "belay");
  app.set_version_flag("--version", BELAY_VERSION);
  app.require_subcommand(1);
  Arguments arguments;
  int code = 0;
  AddReaders(app, arguments, code);
  AddOthers(app, arguments, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {  // --help and --version too
    return app.exit(error) == 0 ? 0 : 2;
  }
  return code;
}
