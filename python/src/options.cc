#include "options.h"

#include <algorithm>

#include "arrays.h"
#include "callbacks.h"
#include "core/keys.h"
#include "sharding.h"

namespace belay::python {
namespace {

// Parses the save arguments of one entry of `args`.
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

// Parses the restore arguments of one entry of `args`.
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

// Reads the entries of `args`, {"keys": {"name": value}}, in order.
template <typename For, typename Convert>
void ReadArgs(OptionReader& reader, const char* name, std::vector<For>& args,
              Convert convert) {
  const py::object given = reader.Take(name);
  if (!given) return;
  const bool is_dict = py::isinstance<py::dict>(given);
  if (!is_dict) ThrowNeeded(name, "a dict of str to dicts", given);
  for (const auto& [keys, entry] : py::dict(given)) {
    if (!py::isinstance<py::dict>(entry)) {
      ThrowNeeded(Cat(name, "[", std::string(py::repr(keys)), "]"), "a dict",
                  entry);
    }
    For one{.keys = py::str(keys), .args = {}};
    one.args = convert(py::reinterpret_borrow<py::object>(entry));
    args.push_back(std::move(one));
  }
}

}  // namespace

py::object OptionReader::Take(const char* name) {
  if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
    known_.emplace_back(name);
  }
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

// Numbers, or names such as "SIGUSR1".
void OptionReader::ReadSignals(const char* name, std::vector<int>& signals) {
  const py::object given = Take(name);
  if (!given) return;
  const auto refuse = [&](py::handle found) {
    ThrowNeeded(name,
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

void OptionReader::Read(const char* name, BeforeCommit& call) {
  const py::object function = TakeFunction(*this, name);
  if (!function) return;
  call = [call = Callback(function)](const std::string& directory,
                                     int64_t step) {
    return call(directory, step);
  };
}

void OptionReader::Read(const char* name, AfterCommit& call) {
  const py::object function = TakeFunction(*this, name);
  if (!function) return;
  call = [call = Callback(function)](const SaveResult& result) {
    const Status status = call(result);
    if (!status.ok()) throw StatusError(status);  // belay logs its text
  };
}

void OptionReader::Read(const char* name, std::vector<SaveArgsFor>& args) {
  ReadArgs(*this, name, args, SaveArgsOf);
}

void OptionReader::Read(const char* name, std::vector<RestoreArgsFor>& args) {
  ReadArgs(*this, name, args, RestoreArgsOf);
}

void OptionReader::Read(const char*, ShardingPolicy& policy) {
  ReadShardingPolicy(*this, policy);
}

void OptionReader::Read(const char*, SaveOptions& save) { ReadAll(save); }

void OptionReader::Read(const char*, std::optional<AutoInterval>& interval) {
  bool is_given = false;
  ForEachOption<AutoInterval>([&](const auto& row) {
    is_given |= given_.contains(row.name) && !given_[row.name].is_none();
  });
  AutoInterval given;
  ReadAll(given);
  if (is_given) interval = given;
}

// A bool, or a dict of options.
void OptionReader::Read(const char* name, std::optional<AsyncOptions>& async) {
  const py::object given = Take(name);
  if (!given) return;
  if (PyBool_Check(given.ptr()) != 0) {
    if (given.cast<bool>()) async.emplace();
    return;
  }
  if (!py::isinstance<py::dict>(given)) {
    ThrowNeeded(name, "a bool, or a dict of options", given);
  }
  OptionReader inner(given.cast<py::dict>());
  inner.ReadAll(async.emplace());
  inner.Finish();
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
