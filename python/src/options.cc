#include "options.h"

#include "arrays.h"
#include "callbacks.h"
#include "core/keys.h"
#include "sharding.h"

namespace belay::python {
namespace {

// How the value of one entry of `args` is stored.
SaveArgs SaveArgsOf(const py::dict& given) {
  OptionReader reader(given);
  SaveArgs args;
  const py::object dtype = reader.Take("dtype");
  if (dtype) args.dtype = DTypeNamed(dtype);
  const auto shape = [&](const char* name, std::optional<Shape>& field) {
    const py::object value = reader.Take(name);
    if (!value) return;
    if (!PyTuple_Check(value.ptr()) && !PyList_Check(value.ptr())) {
      ThrowNeeded(name, "a tuple of int", value);
    }
    field = ShapeOf(value);
  };
  shape("write_chunk_shape", args.write_chunk_shape);
  shape("read_chunk_shape", args.read_chunk_shape);
  reader.Read("chunk_byte_size", args.chunk_byte_size);
  reader.Read("shard_axes", args.shard_axes);
  int level = 0;
  reader.Read("deflate", level);
  if (level != 0) args.filters = Deflate(level);
  reader.Read("primary_replica", args.primary_replica);
  reader.Finish();
  return args;
}

// How the value of one entry of `args` is restored.
RestoreArgs RestoreArgsOf(const py::dict& given) {
  OptionReader reader(given);
  RestoreArgs args;
  reader.Read("skip", args.skip);
  reader.Read("stored_key", args.stored_key);
  reader.Read("allow_missing", args.allow_missing);
  reader.Read("allow_dtype_cast", args.allow_dtype_cast);
  reader.Read("allow_shape_mismatch", args.allow_shape_mismatch);
  reader.Finish();
  return args;
}

// The entries of `args`, {"keys": {"name": value}}, in order.
template <typename For, typename Convert>
void ReadArgs(OptionReader& reader, std::vector<For>& args, Convert convert) {
  const py::object given = reader.Take("args");
  if (!given) return;
  const bool is_dict = py::isinstance<py::dict>(given);
  if (!is_dict) ThrowNeeded("args", "a dict of str to dicts", given);
  for (const auto& [keys, entry] : py::dict(given)) {
    if (!py::isinstance<py::dict>(entry)) {
      ThrowNeeded("args[" + std::string(py::repr(keys)) + "]", "a dict", entry);
    }
    For one{.keys = py::str(keys), .args = {}};
    one.args = convert(py::reinterpret_borrow<py::object>(entry));
    args.push_back(std::move(one));
  }
}

void ReadCallbacks(OptionReader& reader, SaveOptions& options) {
  const py::object before = TakeFunction(reader, "before_commit");
  if (before) {
    options.before_commit = [call = Callback(before)](
                                const std::string& directory, int64_t step) {
      return call(directory, step);
    };
  }
  const py::object after = TakeFunction(reader, "after_commit");
  if (after) {
    options.after_commit = [call = Callback(after)](const SaveResult& result) {
      const Status status = call(result);
      if (!status.ok()) throw StatusError(status);  // belay logs its text
    };
  }
}

void ReadMismatch(OptionReader& reader, const char* name,
                  MismatchPolicy& policy) {
  reader.ReadNamed(name, policy,
                   {{"error", MismatchPolicy::kError},
                    {"warn", MismatchPolicy::kWarn},
                    {"collect", MismatchPolicy::kCollect},
                    {"ignore", MismatchPolicy::kIgnore}});
}

void ReadRetention(OptionReader& reader, ManagerOptions& options) {
  reader.Read("max_to_keep", options.max_to_keep);
  reader.Read("keep_period", options.keep_period);
  reader.Read("keep_time_interval", options.keep_time_interval);
  reader.Read("keep_checkpoint_every_n_hours",
              options.keep_checkpoint_every_n_hours);
  reader.Read("best_metric", options.best_metric);
  reader.Read("best_mode", options.best_mode);
  reader.Read("keep_checkpoints_without_metrics",
              options.keep_checkpoints_without_metrics);
}

// A bool, or a dict of options.
void ReadAsync(OptionReader& reader, ManagerOptions& options) {
  const py::object given = reader.Take("async_save");
  if (!given) return;
  if (PyBool_Check(given.ptr()) != 0) {
    if (given.cast<bool>()) options.async.emplace();
    return;
  }
  if (!py::isinstance<py::dict>(given)) {
    ThrowNeeded("async_save", "a bool, or a dict of options", given);
  }
  OptionReader inner(given.cast<py::dict>());
  ReadAsyncOptions(inner, options.async.emplace());
  inner.Finish();
}

// Numbers, or names such as "SIGUSR1".
void ReadSignals(OptionReader& reader, std::vector<int>& signals) {
  const py::object given = reader.Take("stop_signals");
  if (!given) return;
  const auto refuse = [&](py::handle found) {
    ThrowNeeded("stop_signals",
                "a list of signals, such as signal.SIGUSR1 or \"SIGUSR1\"",
                found);
  };
  if (!PyList_Check(given.ptr()) && !PyTuple_Check(given.ptr())) refuse(given);
  const py::object known = py::module_::import("signal").attr("Signals");
  signals.clear();
  for (const py::handle one : given) {
    py::object signal = py::reinterpret_borrow<py::object>(one);
    if (py::isinstance<py::str>(one)) {
      signal = py::dict(known.attr("__members__")).attr("get")(one);
    }
    py::detail::make_caster<int> number;
    if (PyBool_Check(one.ptr()) || !number.load(signal, true)) refuse(one);
    signals.push_back(py::detail::cast_op<int>(number));
  }
}

}  // namespace

py::object OptionReader::Take(const char* name) {
  known_.emplace_back(name);
  if (!given_.contains(name)) return {};
  py::object value = given_.attr("pop")(name);
  if (value.is_none()) return {};
  return value;
}

void OptionReader::Finish() const {
  for (const auto& item : given_) {
    std::string known;
    for (const std::string& name : known_) {
      known += (known.empty() ? "" : ", ") + name;
    }
    const std::string name = py::str(item.first);
    CloseKeys close(name);
    for (const std::string& other : known_) close.Offer(other);
    ThrowInvalid("unknown option " + std::string(py::repr(item.first)) +
                 " (there are " + known + ")" + close.Hint());
  }
}

void ThrowNeeded(const std::string& name, const std::string& needed,
                 py::handle found) {
  ThrowInvalid("option " + name + ": unusable value (need " + needed +
               ", found " + std::string(py::repr(found)) + ")");
}

void ReadFileLayout(OptionReader& reader, FileLayout& layout) {
  reader.ReadNamed("file_layout", layout,
                   {{"shared", FileLayout::kShared},
                    {"per_node", FileLayout::kPerNode},
                    {"per_task", FileLayout::kPerTask}});
}

void ReadReadSharing(OptionReader& reader, ReadSharing& sharing) {
  reader.ReadNamed("read_sharing", sharing,
                   {{"auto", ReadSharing::kAuto},
                    {"each_rank", ReadSharing::kEachRank},
                    {"once", ReadSharing::kOnce}});
}

void ReadSaveOptions(OptionReader& reader, SaveOptions& options) {
  ReadFileLayout(reader, options.file_layout);
  reader.ReadNamed(
      "array_layout", options.array_layout,
      {{"auto", ArrayLayout::kAuto}, {"canonical", ArrayLayout::kCanonical}});
  ReadShardingPolicy(reader, options.sharding_policy);
  ReadArgs(reader, options.args, SaveArgsOf);
  reader.Read("float32_as_bfloat16", options.float32_as_bfloat16);
  reader.Read("strict_dtype", options.strict_dtype);
  reader.Read("overwrite", options.overwrite);
  reader.Read("checksums", options.checksums);
  reader.Read("check_replicas", options.check_replicas);
  reader.Read("metadata", options.metadata);
  reader.ReadNamed("transfer", options.transfer,
                   {{"auto", Transfer::kAuto},
                    {"collective", Transfer::kCollective},
                    {"independent", Transfer::kIndependent},
                    {"hdf5", Transfer::kHdf5},
                    {"two_phase", Transfer::kTwoPhase}});
  reader.Read("max_bytes_in_flight", options.max_bytes_in_flight);
  reader.Read("durable", options.durable);
  reader.Read("read_back", options.read_back);
  reader.Read("mpi_io_hints", options.mpi_io_hints);
  ReadCallbacks(reader, options);
  reader.Read("deadline_seconds", options.deadline_seconds);
}

void ReadRestoreOptions(OptionReader& reader, RestoreOptions& options) {
  reader.Read("allow_dtype_cast", options.allow_dtype_cast);
  reader.Read("strict_dtype", options.strict_dtype);
  reader.Read("allow_shape_mismatch", options.allow_shape_mismatch);
  ReadMismatch(reader, "missing", options.missing);
  ReadMismatch(reader, "unexpected", options.unexpected);
  ReadMismatch(reader, "mismatched", options.mismatched);
  ReadArgs(reader, options.args, RestoreArgsOf);
  reader.Read("checksums", options.checksums);
  ReadReadSharing(reader, options.read_sharing);
  reader.Read("primary_replica", options.primary_replica);
  reader.Read("max_bytes_in_flight", options.max_bytes_in_flight);
  reader.Read("deadline_seconds", options.deadline_seconds);
}

void ReadManagerOptions(OptionReader& reader, ManagerOptions& options) {
  reader.Read("prefix", options.prefix);
  reader.Read("save_interval_steps", options.save_interval_steps);
  reader.Read("save_on_steps", options.save_on_steps);
  reader.Read("save_first_step", options.save_first_step);
  double mtbf = 0;
  reader.Read("mtbf_seconds", mtbf);
  if (mtbf != 0) options.auto_interval = AutoInterval{.mtbf_seconds = mtbf};
  if (options.auto_interval) {
    reader.Read("overhead_budget", options.auto_interval->overhead_budget);
  }
  ReadAsync(reader, options);
  reader.Read("tolerated_failures", options.tolerated_failures);
  ReadSignals(reader, options.stop_signals);
  reader.Read("stop_at_time_limit", options.stop_at_time_limit);
  reader.Read("end_time", options.end_time);
  reader.Read("final_save_margin", options.final_save_margin);
  ReadRetention(reader, options);
  reader.Read("read_only", options.read_only);
  reader.Read("remove_leftovers", options.remove_leftovers);
  reader.ReadNamed("restore_match", options.restore_match,
                   {{"anything", RestoreMatch::kAnything},
                    {"nontrivial", RestoreMatch::kNontrivial},
                    {"existing", RestoreMatch::kExistingObjects},
                    {"consumed", RestoreMatch::kConsumed}});
  reader.ReadNamed("newer_steps", options.newer_steps,
                   {{"refuse", NewerSteps::kRefuse},
                    {"set_aside", NewerSteps::kSetAside},
                    {"delete", NewerSteps::kDelete}});
  ReadSaveOptions(reader, options.save);
  options.metadata = std::move(options.save.metadata);
  options.save.metadata = {};
}

void ReadAsyncOptions(OptionReader& reader, AsyncOptions& options) {
  reader.Read("max_staging_bytes", options.max_staging_bytes);
  reader.Read("initial_staging_bytes", options.initial_staging_bytes);
  reader.Read("max_bytes_per_second", options.max_bytes_per_second);
  reader.ReadNamed(
      "snapshot", options.snapshot,
      {{"in_call", SnapshotMode::kInCall}, {"lazy", SnapshotMode::kLazy}});
}

std::string PathOf(py::handle path, const char* argument) {
  const bool is_path = PyUnicode_Check(path.ptr()) ||
                       PyBytes_Check(path.ptr()) ||
                       py::hasattr(path, "__fspath__");
  if (!is_path) {
    ThrowInvalid(std::string(argument) +
                 ": need a str, bytes or os.PathLike (found " + Shown(path) +
                 ")");
  }
  return py::module_::import("os").attr("fsencode")(path).cast<std::string>();
}

DType DTypeNamed(py::handle name) {
  if (py::isinstance<py::str>(name)) {
    const StatusOr<DType> dtype = ParseDType(std::string(py::str(name)));
    if (dtype.ok()) return *dtype;
  }
  std::optional<DType> dtype;
  try {
    const py::object type = py::module_::import("numpy").attr("dtype")(name);
    dtype = DTypeOfNumpy(type.cast<py::dtype>());
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) throw;
  }
  if (dtype) return *dtype;
  ThrowNeeded("dtype",
              "the name of a dtype that belay stores, such as \"float32\" or "
              "\"bf16\"",
              name);
}

std::optional<int64_t> StepOf(py::handle step) {
  if (step.is_none()) return std::nullopt;
  // True would be step 1.
  const auto index = py::reinterpret_steal<py::object>(
      PyBool_Check(step.ptr()) ? nullptr : PyNumber_Index(step.ptr()));
  int overflow = index ? 0 : 1;
  PyErr_Clear();
  int64_t number = -1;
  if (index) number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow == 0) return number;
  ThrowInvalid("step: need an int from 0 to 2**63 - 1 (found " + Shown(step) +
               ")");
}

int64_t NumberedStepOf(py::handle step) {
  const std::optional<int64_t> number = StepOf(step);
  if (number) return *number;
  ThrowInvalid(
      "step: need an int from 0 to 2**63 - 1 (found None); only a restore, "
      "which "
      "reads the newest step then, and CheckpointManager.save, which takes the "
      "number after the last one, go without");
}

}  // namespace belay::python
