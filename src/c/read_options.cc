// Which options there are for which call.

#include "absl/strings/str_format.h"
#include "c/option_reader.h"

namespace belay::c {
namespace {

void ReadSave(OptionReader& reader, SaveOptions& options) {
  reader.ReadWord("file_layout", options.file_layout,
                  {{"shared", FileLayout::kShared},
                   {"per_node", FileLayout::kPerNode},
                   {"per_task", FileLayout::kPerTask}});
  reader.ReadWord(
      "array_layout", options.array_layout,
      {{"auto", ArrayLayout::kAuto}, {"canonical", ArrayLayout::kCanonical}});
  reader.ReadShardingPolicy("max_shard_size", options.sharding_policy);
  reader.ReadWord("transfer", options.transfer,
                  {{"auto", Transfer::kAuto},
                   {"collective", Transfer::kCollective},
                   {"independent", Transfer::kIndependent},
                   {"hdf5", Transfer::kHdf5},
                   {"two_phase", Transfer::kTwoPhase}});
  reader.Read("float32_as_bfloat16", options.float32_as_bfloat16);
  reader.Read("strict_dtype", options.strict_dtype);
  reader.Read("overwrite", options.overwrite);
  reader.Read("checksums", options.checksums);
  reader.Read("check_replicas", options.check_replicas);
  reader.Read("max_bytes_in_flight", options.max_bytes_in_flight);
  reader.Read("durable", options.durable);
  reader.Read("read_back", options.read_back);
  reader.Read("deadline_seconds", options.deadline_seconds);
}

void ReadPolicy(OptionReader& reader, const std::string& name,
                MismatchPolicy& policy) {
  reader.ReadWord(name, policy,
                  {{"error", MismatchPolicy::kError},
                   {"warn", MismatchPolicy::kWarn},
                   {"collect", MismatchPolicy::kCollect},
                   {"ignore", MismatchPolicy::kIgnore}});
}

void ReadAsync(OptionReader& reader, AsyncOptions& options) {
  reader.Read("max_staging_bytes", options.max_staging_bytes);
  reader.Read("initial_staging_bytes", options.initial_staging_bytes);
  reader.Read("max_bytes_per_second", options.max_bytes_per_second);
}

void ReadManager(OptionReader& reader, ManagerOptions& options) {
  reader.Read("prefix", options.prefix);
  reader.Read("save_interval_steps", options.save_interval_steps);
  reader.Read("save_first_step", options.save_first_step);
  reader.Read("tolerated_failures", options.tolerated_failures);
  reader.ReadSignals("stop_signals", options.stop_signals);
  reader.Read("stop_at_time_limit", options.stop_at_time_limit);
  reader.Read("time_limit_poll_seconds", options.time_limit_poll_seconds);
  reader.Read("end_time", options.end_time);
  reader.Read("final_save_margin", options.final_save_margin);
  reader.Read("max_to_keep", options.max_to_keep);
  reader.Read("keep_period", options.keep_period);
  reader.Read("keep_time_interval", options.keep_time_interval);
  reader.Read("keep_checkpoint_every_n_hours",
              options.keep_checkpoint_every_n_hours);
  reader.Read("read_only", options.read_only);
  reader.Read("remove_leftovers", options.remove_leftovers);
  reader.ReadWord("restore_match", options.restore_match,
                  {{"anything", RestoreMatch::kAnything},
                   {"nontrivial", RestoreMatch::kNontrivial},
                   {"existing_objects", RestoreMatch::kExistingObjects},
                   {"consumed", RestoreMatch::kConsumed}});
  reader.ReadWord("newer_steps", options.newer_steps,
                  {{"refuse", NewerSteps::kRefuse},
                   {"set_aside", NewerSteps::kSetAside},
                   {"delete", NewerSteps::kDelete}});
}

}  // namespace

Status ReadSaveOptions(const belay_options* given, SaveOptions& options) {
  OptionReader reader(given);
  ReadSave(reader, options);
  return reader.Finish();
}

Status ReadRestoreOptions(const belay_options* given, RestoreOptions& options) {
  OptionReader reader(given);
  reader.Read("allow_dtype_cast", options.allow_dtype_cast);
  reader.Read("strict_dtype", options.strict_dtype);
  reader.Read("allow_shape_mismatch", options.allow_shape_mismatch);
  ReadPolicy(reader, "missing", options.missing);
  if (options.missing == MismatchPolicy::kIgnore) {
    options.missing = MismatchPolicy::kCollect;  // GiveCounts needs the keys
  }
  ReadPolicy(reader, "unexpected", options.unexpected);
  ReadPolicy(reader, "mismatched", options.mismatched);
  reader.Read("checksums", options.checksums);
  reader.ReadWord("read_sharing", options.read_sharing,
                  {{"auto", ReadSharing::kAuto},
                   {"each_rank", ReadSharing::kEachRank},
                   {"once", ReadSharing::kOnce}});
  reader.Read("max_bytes_in_flight", options.max_bytes_in_flight);
  reader.Read("deadline_seconds", options.deadline_seconds);
  return reader.Finish();
}

// Their only one is read by DeadlineOf.
Status CheckCommOptions(const belay_options* given) {
  OptionReader reader(given);
  double seconds = 0;
  reader.Read("deadline_seconds", seconds);
  Status status = reader.Finish();
  if (status.ok() && !(seconds >= 0)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "option \"deadline_seconds\": out of range (need at least 0, found %g)",
        seconds));
  }
  return status;
}

Status ReadAsyncOptions(const belay_options* given, AsyncOptions& options) {
  OptionReader reader(given);
  ReadAsync(reader, options);
  return reader.Finish();
}

Status ReadManagerOptions(const belay_options* given, ManagerOptions& options) {
  OptionReader reader(given);
  ReadManager(reader, options);
  ReadSave(reader, options.save);
  bool is_async = false;
  AsyncOptions async;
  reader.Read("async_save", is_async);
  ReadAsync(reader, async);
  if (is_async) options.async = async;
  return reader.Finish();
}

}  // namespace belay::c
