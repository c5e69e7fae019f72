#include "belay/reader/copy_checkpoint.h"

#include <filesystem>
#include <system_error>

#include "belay/reader/step_pin.h"
#include "format/paths.h"
#include "graph/graph_match.h"
#include "graph/live_graph.h"
#include "graph/merge.h"
#include "restore/restore_stages.h"
#include "save/save.h"
#include "state/copy_plan.h"
#include "storage/mapped_file.h"
#include "storage/metadata_file.h"

namespace belay {
namespace {

// The state of a copy on one rank. Neither copied nor moved.
struct CopyRun {
  const std::string& from;
  const std::string& dir;
  std::optional<int64_t> to_step;
  const CopyOptions& options;
  std::optional<StepPin> pin = {};        // rank 0 only
  std::optional<ObjectGraph> graph = {};  // rank 0 only
  Metadata metadata = {};                 // rank 0 only; of the source
  std::vector<KeyRows> rows = {};         // rank 0 only; for the copied arrays
  uint64_t graph_fingerprint = 0;
  CopyPlan plan = {};
  // This rank's part.
  CopiedPieces pieces = {};
  ScratchMemory memory = {};
  std::map<std::string, RestoreChoice, std::less<>> choices = {};
  State to_save = {};
  CopyResult result = {};
};

Status CopyError(const CopyRun& run, const Status& status) {
  return AddPrefix(status, "copy \"", run.from, "\"");
}

// Checks the options. Collective; agreed.
Agreed<> Begin(CommContext& context, const CopyRun& run) {
  const CopyOptions& options = run.options;
  Status status;
  if (run.dir.empty()) {
    status =
        CopyError(run, absl::InvalidArgumentError(
                           "no destination directory is given (found \"\")"));
  }
  status.Update(CheckSaveOptions(Cat("copy \"", run.from, "\""), options.save));
  BELAY_RETURN_IF_AGREED(Agree(context, status));
  WireWriter keys, rules, target;
  keys(options.keys, options.leave_out);
  for (const ConversionRule& rule : options.rules) {
    rules(rule.keys, rule.key, rule.value.ToString());
  }
  target(run.dir, run.to_step);
  return AgreeOnArguments(context, "copy",
                          {{"the directory or the step", target.Take()},
                           {"the option keys or leave_out", keys.Take()},
                           {"the option rules", rules.Take()},
                           {"the option scratch", options.scratch}});
}

// Checks that the copy does not replace the step that it reads; it may replace
// any other step. Rank 0 only.
Status CheckIsElsewhere(const CopyRun& run, const OpenedStep& opened) {
  const std::string& path = opened.source.path;
  const std::string to =
      StepPath(run.dir, run.to_step.value_or(opened.saved.step));
  std::error_code unknown;  // a missing path is not the source
  if (!std::filesystem::equivalent(path, to, unknown)) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("\"", to,
                                        "\" is the source of the copy; copy to "
                                        "another directory or another number"));
}

// Returns the rows per rank that a copy keeps: those of arrays that are copied
// unchanged, or that rules merely rename. Rank 0 only.
StatusOr<std::vector<KeyRows>> SelectRows(const CopyRun& run,
                                          const SavedCheckpoint& saved) {
  BELAY_ASSIGN_OR_RETURN(const RuleValues rules,
                         RuleValues::Create(run.options.rules));
  std::map<std::string, std::string> sources;  // per key of the copy
  for (const MadeArray& made : run.plan.made) {
    const Transform value =
        rules.ValueFor(static_cast<size_t>(made.rule), made.matched);
    if (const std::string* key = FindStoredKey(value)) sources[made.key] = *key;
  }
  for (const StoredValue& value : run.plan.values) {
    sources[value.key] = value.key;
  }
  std::map<std::string, RowRanks> stored;
  for (KeyRows& rows : ListKeyRows(saved)) {
    stored.emplace(std::move(rows.key), std::move(rows.ranks));
  }
  std::vector<KeyRows> rows;
  for (const auto& [key, source] : sources) {
    const auto found = stored.find(source);
    if (found != stored.end()) rows.push_back({key, found->second});
  }
  return rows;
}

// Pins the step and plans the copy. Rank 0 only.
StatusOr<std::string> PlanOnRoot(CopyRun& run, const OpenedStep& opened) {
  BELAY_RETURN_IF_ERROR(CheckIsElsewhere(run, opened));
  const std::string& path = opened.source.path;
  StatusOr<StepPin> pin = StepPin::Take(path);
  // A file system without locks has no manager that could delete the step.
  if (pin.ok()) {
    run.pin.emplace(*std::move(pin));
  } else if (pin.status().code() != absl::StatusCode::kUnimplemented) {
    return pin.status();
  }
  BELAY_ASSIGN_OR_RETURN(run.metadata, ReadMetadataFile(path));
  const SavedCheckpoint& saved = opened.saved;
  BELAY_ASSIGN_OR_RETURN(
      run.plan,
      PlanCopy(saved, run.options, AttributeKey(kSaveCounter, kVariableValue)));
  if (run.plan.values.empty() && run.plan.made.empty() &&
      run.plan.num_left_out > 0) {
    return absl::InvalidArgumentError(
        Cat("keys and leave_out select nothing (need at least 1 of ",
            run.plan.num_left_out, " values, found 0)"));
  }
  const bool has_graph = !saved.graph.node_parent.empty();
  if (has_graph) {
    BELAY_ASSIGN_OR_RETURN(run.graph, CopiedGraph(saved, run.plan));
  }
  WireWriter out;
  out(has_graph && !run.graph.has_value(),
      run.graph ? GraphFingerprint(*run.graph) : uint64_t{0}, saved.step, path,
      run.plan);
  BELAY_ASSIGN_OR_RETURN(run.rows, SelectRows(run, saved));
  return out.Take();
}

// Plans the copy, in the stage "metadata". Collective; agreed.
Agreed<> Plan(CopyRun& run, RestoreFrame& frame, const OpenedStep& opened) {
  frame.stages.Enter("metadata");
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string bytes, FromRoot(frame.context, [&] {
        StatusOr<std::string> planned =
            CatchBadAlloc("the metadata of all values", [&] {
              return CatchExceptions([&] { return PlanOnRoot(run, opened); });
            });
        if (!planned.ok()) planned = CopyError(run, planned.status());
        return planned;
      }));
  WireReader in(bytes);
  in(run.result.without_objects, run.graph_fingerprint, run.result.saved.step,
     run.result.from, run.plan);
  run.result.num_values = std::ssize(run.plan.values);
  run.result.num_made = std::ssize(run.plan.made);
  run.result.num_used = run.plan.num_used;
  run.result.num_left_out = run.plan.num_left_out;
  return {};
}

// Sets the sources of the keys that rules create.
Status Choose(CopyRun& run) {
  BELAY_ASSIGN_OR_RETURN(const RuleValues rules,
                         RuleValues::Create(run.options.rules));
  for (const MadeArray& made : run.plan.made) {
    TakeFrom(rules.ValueFor(static_cast<size_t>(made.rule), made.matched),
             run.choices[made.key]);
  }
  return absl::OkStatus();
}

// Allocates memory for this rank's part.
Status TakeMine(CopyRun& run, const CommContext& context) {
  CutForCopy(run.plan, context.rank(), context.size(), run.pieces);
  run.result.bytes = run.pieces.total_bytes;
  BELAY_ASSIGN_OR_RETURN(
      run.memory, ScratchMemory::Take(run.pieces.bytes, run.options.scratch));
  PlaceIn(run.memory.data(), run.pieces);
  return Choose(run);
}

// Reads this rank's part like a restore. Collective; agreed.
Agreed<> Read(CopyRun& run, RestoreFrame& frame, const OpenedStep& opened) {
  const Status mine =
      CatchExceptions([&] { return TakeMine(run, frame.context); });
  BELAY_RETURN_IF_AGREED(Agree(frame.context, CopyError(run, mine)));
  const auto choose = [&](std::string_view key) {
    const auto found = run.choices.find(key);
    return found == run.choices.end() ? RestoreChoice{} : found->second;
  };
  // There may be very many values, so only one list of them exists at a time:
  // for reading, then for saving.
  StatusOr<ValuesToRead> values = CatchExceptions([&] {
    return ChooseValues(ListForReading(run.pieces), *frame.handlers, choose);
  });
  BELAY_RETURN_IF_AGREED(ReadValues(frame, opened, std::move(values)));
  const Status listed = CatchExceptions([&] {
    run.to_save = ListForCopy(run.plan, run.pieces);
    run.plan = {};
    return absl::OkStatus();
  });
  return Agree(frame.context, CopyError(run, listed));
}

// Does everything before the save, which has a deadline of its own. Collective.
Agreed<> ReadSource(const Comm& comm, std::optional<int64_t> step,
                    CopyRun& run) {
  const RestoreSource source = MakeSource(run.from, step);
  const RestoreOptions options{
      .checksums = run.options.checksums,
      .deadline_seconds = run.options.save.deadline_seconds};
  RestoreFrame frame(comm, source.path, options);
  frame.may_read_nothing = true;
  BELAY_RETURN_IF_AGREED(BeginRestore(frame, source));
  BELAY_RETURN_IF_AGREED(Begin(frame.context, run));
  BELAY_ASSIGN_OR_RETURN_AGREED(const OpenedStep opened,
                                OpenStep(frame, source));
  BELAY_RETURN_IF_AGREED(Plan(run, frame, opened));
  return Read(run, frame, opened);
}

}  // namespace

StatusOr<CopyResult> CopyCheckpoint(const Comm& comm, const std::string& from,
                                    std::optional<int64_t> step,
                                    const std::string& dir,
                                    std::optional<int64_t> to_step,
                                    const CopyOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "copy", from));
  CopyRun run{.from = from, .dir = dir, .to_step = to_step, .options = options};
  BELAY_RETURN_IF_AGREED(ReadSource(comm, step, run));
  const int64_t number = to_step.value_or(run.result.saved.step);
  SaveOptions save = options.save;
  save.check_replicas = false;  // each piece exists only once
  save.cache = nullptr;
  if (save.metadata.empty()) save.metadata = run.metadata;
  BELAY_ASSIGN_OR_RETURN_AGREED(
      run.result.saved, SaveAt(comm,
                               {.path = StepPath(dir, number),
                                .step = number,
                                .state = run.to_save,
                                .spent = &run.to_save,
                                .graph = run.graph ? &*run.graph : nullptr,
                                .graph_fingerprint = run.graph_fingerprint,
                                .rows = std::move(run.rows),
                                .keeps_layouts = true,
                                .progress = ProgressUpTo(run.pieces.array_bytes,
                                                         options.progress)},
                               save));
  return std::move(run.result);
}

}  // namespace belay
