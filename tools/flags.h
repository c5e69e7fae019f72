// The flags of the sub-commands, each of which fills in its options.

#ifndef BELAY_TOOLS_FLAGS_H_
#define BELAY_TOOLS_FLAGS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/safetensors.h"
#include "commands.h"

namespace belay::tools {

// The arguments of `belay export` and `belay import`.
struct SafetensorsArguments {
  std::string from, to;
  std::vector<std::string> metadata;
  std::optional<int64_t> export_step;
  int64_t import_step = 0;
  ExportOptions export_options;
  ImportOptions import_options;
};

// Adds `--step` to a command that takes a directory of steps.
void AddStepOption(CLI::App* command, std::optional<int64_t>& step);
void AddShowOptions(CLI::App* show, std::string& key, ShowOptions& options);
void AddDiffOptions(CLI::App* diff, std::string& a, std::string& b,
                    DiffOptions& options);
void AddGraphOptions(CLI::App* graph, GraphOptions& options);
void AddPlanOptions(CLI::App* plan, PlanOptions& options);
void AddSimulateOptions(CLI::App* simulate, SimulateOptions& options);
void AddCopyOptions(CLI::App* command, CopyArguments& arguments);
void AddConvertOptions(CLI::App* command, CopyArguments& arguments);
void AddExportOptions(CLI::App* command, SafetensorsArguments& arguments);
void AddImportOptions(CLI::App* command, SafetensorsArguments& arguments);

}  // namespace belay::tools

#endif  // BELAY_TOOLS_FLAGS_H_
