#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "belay/reader/copy_checkpoint.h"
#include "commands.h"
#include "json_output.h"
#include "mpi_session.h"
#include "number_text.h"

namespace belay::tools {
namespace {

// Parses "KEYS=DTYPE", split at the last "=".
StatusOr<SaveArgsFor> DTypeEntry(const std::string& text) {
  const size_t at = text.rfind('=');
  if (at == text.npos) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "copy: --dtype has no dtype (need KEYS=DTYPE, such as \".*=bf16\", "
        "found \"%s\")",
        text));
  }
  const StatusOr<DType> dtype = ParseDType(text.substr(at + 1));
  if (dtype.ok()) return SaveArgsFor{text.substr(0, at), {.dtype = *dtype}};
  return absl::InvalidArgumentError(
      absl::StrCat("copy: --dtype: ", dtype.status().message()));
}

FileLayout LayoutNamed(const std::string& name) {
  return name == "node"   ? FileLayout::kPerNode
         : name == "task" ? FileLayout::kPerTask
                          : FileLayout::kShared;
}

StatusOr<CopyOptions> OptionsOf(const CopyArguments& arguments) {
  CopyOptions options{.keys = arguments.keys,
                      .leave_out = arguments.leave_out,
                      .scratch = arguments.scratch};
  if (!arguments.rules.empty()) {
    StatusOr<std::vector<ConversionRule>> rules =
        ReadConversionRules(arguments.rules, arguments.from, arguments.step);
    if (!rules.ok()) return rules.status();
    options.rules = *std::move(rules);
  }
  options.save.file_layout = LayoutNamed(arguments.files);
  options.save.strict_dtype = arguments.strict_dtype;
  options.save.overwrite = arguments.overwrite;
  for (const std::string& text : arguments.dtypes) {
    StatusOr<SaveArgsFor> entry = DTypeEntry(text);
    if (!entry.ok()) return entry.status();
    options.save.args.push_back(*std::move(entry));
  }
  if (arguments.deflate) {
    for (SaveArgsFor& entry : options.save.args) {
      entry.args.filters = Deflate(*arguments.deflate);
    }
    options.save.args.push_back(
        {".*", {.filters = Deflate(*arguments.deflate)}});
  }
  return options;
}

void PrintResult(const CopyResult& result) {
  Print("%s: step %d, %s, %s of \"%s\"\n", result.saved.path, result.saved.step,
        CountText(result.num_values + result.num_made, "value"),
        BytesText(result.bytes), PrintableName(result.from));
  if (result.num_made > 0) {
    Print("made by rules: %d, of %s that the copy does not have\n",
          result.num_made, CountText(result.num_used, "array"));
  }
  if (result.num_left_out > 0) Print("left out: %d\n", result.num_left_out);
  if (result.without_objects) {
    Print(
        "the objects are left out: the rules make keys that belong to none of "
        "them\n");
  }
  for (const std::string& warning : result.saved.warnings) {
    Print("%s\n", warning);
  }
}

Json ToJson(const CopyResult& result) {
  Json warnings = Json::array();
  for (const std::string& warning : result.saved.warnings) {
    warnings.push_back(TextJson(warning));
  }
  return {{"path", TextJson(result.saved.path)},
          {"step", result.saved.step},
          {"from", TextJson(result.from)},
          {"copied", result.num_values},
          {"made", result.num_made},
          {"used", result.num_used},
          {"left_out", result.num_left_out},
          {"bytes", result.bytes},
          {"without_objects", result.without_objects},
          {"warnings", warnings}};
}

}  // namespace

int Copy(const CopyArguments& arguments) {
  const MpiSession mpi;
  StatusOr<CopyOptions> options = OptionsOf(arguments);
  if (!mpi.IsFineEverywhere(options.ok())) {
    const Status status = options.ok() ? absl::FailedPreconditionError(
                                             "copy: another rank could not "
                                             "read the rules or the step")
                                       : options.status();
    return mpi.is_first() ? Fail(status, arguments.json) : 2;
  }
  const StatusOr<CopyResult> result =
      WithMpi(mpi, [&](const Comm& comm, ProgressBar& bar) {
        options->progress = [&](int64_t done, int64_t total) {
          bar.Show(done, total);
        };
        return CopyCheckpoint(comm, arguments.from, arguments.step,
                              arguments.to, arguments.to_step, *options);
      });
  return Finish(
      mpi, result, arguments.json,
      [](const CopyResult& done) { PrintResult(done); },
      [](const CopyResult& done) { return ToJson(done); });
}

}  // namespace belay::tools
