#include "flags.h"

#include "absl/strings/str_format.h"

namespace belay::tools {
namespace {

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

}  // namespace

void AddStepOption(CLI::App* command, std::optional<int64_t>& step) {
  command->add_option("--step", step, "This step of a directory of steps")
      ->check(kNotNegative);
}

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

void AddExportOptions(CLI::App* command, SafetensorsArguments& arguments) {
  ExportOptions& options = arguments.export_options;
  command
      ->add_option("DIR", arguments.from,
                   "A step directory, or a directory of steps (the newest)")
      ->required();
  command
      ->add_option("OUT", arguments.to,
                   "The file to make, X.safetensors, or a directory for "
                   "model.safetensors")
      ->required();
  AddStepOption(command, arguments.export_step);
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
}

void AddImportOptions(CLI::App* command, SafetensorsArguments& arguments) {
  ImportOptions& options = arguments.import_options;
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
}

void AddCopyOptions(CLI::App* command, CopyArguments& arguments) {
  command
      ->add_option("FROM", arguments.from,
                   "A step directory, or a directory of steps (the newest)")
      ->required();
  command->add_option("DIR", arguments.to, "The directory of steps to copy to")
      ->required();
  AddStepOption(command, arguments.step);
  command
      ->add_option("--to-step", arguments.to_step,
                   "The number of the copy; without it, that of the step")
      ->check(kNotNegative);
  command
      ->add_option("--keys", arguments.keys,
                   "Only what these regular expressions match as a whole")
      ->allow_extra_args(false);
  command
      ->add_option("--leave-out", arguments.leave_out,
                   "Not what these regular expressions match as a whole")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--dtype", arguments.dtypes,
          "KEYS=DTYPE: store what the expression matches as this "
          "dtype, such as .*=bf16. A pattern converts values of the "
          "dtype's kind only, so this one leaves integers and bools as "
          "they are; a KEY without wildcards converts that value")
      ->allow_extra_args(false);
  command->add_flag("--strict-dtype", arguments.strict_dtype,
                    "Fail if --dtype changes a value by more than rounding, "
                    "instead of a warning");
  command
      ->add_option("--deflate", arguments.deflate,
                   "Compress all arrays with this level")
      ->check(CLI::Range(0, 9));
  command
      ->add_option("--files", arguments.files,
                   "One shared file, one per node or one per task")
      ->capture_default_str()
      ->check(CLI::IsMember({"shared", "node", "task"}));
  command->add_option("--scratch", arguments.scratch,
                      "A directory for what does not fit into memory");
  command->add_flag("--overwrite", arguments.overwrite,
                    "Replace a step of that number");
}

void AddConvertOptions(CLI::App* command, CopyArguments& arguments) {
  command
      ->add_option("RULES", arguments.rules,
                   "A JSON file that says which arrays are made of which")
      ->required();
  AddCopyOptions(command, arguments);
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
  simulate
      ->add_option("--ranks-per-node", options.ranks_per_node,
                   "The ranks of each node")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  simulate
      ->add_option("--pad-vocabulary", options.pad_vocabulary,
                   "Pad it to a multiple of this for each rank of tp")
      ->check(CLI::Range(0, 1 << 20));
}

}  // namespace belay::tools
