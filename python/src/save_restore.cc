#include "save_restore.h"

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <utility>

#include "belay/save_restore.h"
#include "belay/values/restore_args.h"
#include "belay/values/restore_values.h"
#include "callbacks.h"
#include "comm.h"
#include "errors.h"
#include "mpi/collective.h"
#include "options.h"
#include "state.h"

namespace belay::python {
namespace {

SaveResult SaveState(py::handle comm, py::handle directory, py::handle step,
                     py::handle state, const py::dict& given) {
  KeptComm& kept = KeptCommOf(comm, DeadlineOf(given));
  const CommUse use(kept.is_in_use);
  const ReleaseAtEnd release(kept.saved);
  BoundState* bound = nullptr;
  SaveOptions options;
  std::string path;
  int64_t number = 0;
  const Call call =
      CallOn(kept.comm, DeadlineOf(given), "save", directory, step);
  PrepareTogether(call, [&] {
    path = PathOf(directory);
    number = NumberedStepOf(step);
    OptionReader reader(given);
    reader.ReadAll(options);
    reader.Finish();
    bound = &kept.saved.Bind(state, kept.comm);
  });
  options.cache = &kept.cache;
  return UnlockedWithCallbacks(call, [&] {
    return Save(kept.comm, path, number, bound->state(), options);
  });
}

// Puts the restored values into the program's arrays and a new structure, and
// agrees on success. Collective.
py::object FinishTogether(const Call& call, const RestoreResult& result,
                          const std::function<py::object()>& state) {
  py::object restored;
  PrepareTogether(call, [&] { restored = RestoreResultOf(result, state()); });
  return restored;
}

// The arguments of both kinds of restore.
struct RestoreArguments {
  std::string path;
  std::optional<int64_t> step;
  RestoreOptions options;
};

RestoreArguments ArgumentsOf(py::handle directory, py::handle step,
                             const py::dict& given) {
  RestoreArguments arguments{PathOf(directory), StepOf(step), {}};
  OptionReader reader(given);
  reader.ReadAll(arguments.options);
  reader.Finish();
  return arguments;
}

// Appends a text with its length before it, to join several texts.
void PutText(const std::string& text, std::string& all) {
  all += std::to_string(text.size()) + " " + text;
}

std::string GetText(std::string_view& all) {
  const size_t space = all.find(' ');
  const size_t size = std::stoull(std::string(all.substr(0, space)));
  std::string text(all.substr(space + 1, size));
  all.remove_prefix(space + 1 + size);
  return text;
}

// Returns the forms of the values of a step; rank 0 reads them. Collective.
StoredForms FormsTogether(const Call& call, const std::string& path) {
  std::string lines;
  PrepareTogether(call, [&] {
    if (call.comm.rank() != 0) return;
    const auto reader = Unlocked([&] {
      const std::lock_guard lock(Hdf5Mutex());
      return CheckpointReader::Open(path);
    });
    for (const ArrayInfo& array : reader.info().arrays) {
      if (array.fields.empty()) continue;
      PutText(array.key, lines);
      PutText(array.fields, lines);
    }
    PutText("", lines);
    for (const ValueInfo& value : reader.Values()) {
      if (!IsFormKey(value.key) && value.typestr != kNoneTypestr) continue;
      PutText(value.key, lines);
      PutText(value.typestr, lines);
    }
  });
  CommContext context = ContextOf(call, "forms");
  Unlocked([&] { return Broadcast(context, lines); });
  StoredForms forms;
  std::string_view rest = lines;
  for (std::string key = GetText(rest); !key.empty(); key = GetText(rest)) {
    forms.fields[key] = GetText(rest);
  }
  while (!rest.empty()) {
    const std::string key = GetText(rest);
    forms.Take(key, GetText(rest));
  }
  forms.Finish();
  return forms;
}

// Returns whether a tree may have structs: bytes with more than one axis.
bool MayHaveStructs(const ValueTree& tree) {
  const bool has_bytes = tree.tensor && tree.tensor->dtype() == DType::kU8 &&
                         tree.tensor->shape().size() > 1;
  return has_bytes || std::any_of(tree.items.begin(), tree.items.end(),
                                  [](const ValueTree& item) {
                                    return MayHaveStructs(item);
                                  });
}

// Restores all values on every rank. Collective.
py::object RestoreAll(const Call& call, const RestoreArguments& arguments) {
  // ChooseStep also returns the number and the path of the step.
  const ChosenStep chosen = Unlocked([&] {
    return ChooseStep(call.comm, arguments.path, arguments.step,
                      arguments.options);
  });
  ValueTree tree = Unlocked([&] {
    return RestoreTree(call.comm, chosen.path(), kLatestStep,
                       arguments.options);
  });
  StoredForms forms;
  if (MayHaveStructs(tree)) {
    forms = FormsTogether(call, chosen.path());
  }
  forms.TakeFrom(tree);
  RestoreResult result;
  result.path = chosen.path();
  result.step = chosen.step();
  return FinishTogether(call, result, [&] { return ObjectOf(tree, forms); });
}

std::function<void(std::vector<std::string>)> RebindOf(BoundState& bound,
                                                       py::handle state) {
  return [&bound, state](std::vector<std::string> keys) {
    bound.BindStored(state, std::move(keys));
  };
}

// Like Unlocked. If Python code of the state raised an exit, such as a
// KeyboardInterrupt, raises that instead of the error that it caused.
template <typename F>
auto UnlockedOrExit(F function) {
  auto result = WithoutLock(std::move(function));
  if (!result.ok()) ThrowPendingExit();
  return ValueOrThrow(std::move(result));
}

// If `state` is None, restores all values.
py::object RestoreState(py::handle comm, py::handle directory, py::handle state,
                        py::handle step, const py::dict& given) {
  KeptComm& kept = KeptCommOf(comm, DeadlineOf(given));
  const CommUse use(kept.is_in_use);
  BoundState bound(Purpose::kRestore, kept.comm);
  RestoreArguments arguments;
  const Call call =
      CallOn(kept.comm, DeadlineOf(given), "restore", directory, step);
  PrepareTogether(call, [&] {
    arguments = ArgumentsOf(directory, step, given);
    if (!state.is_none()) bound.Bind(state);
  });
  const MismatchPolicy asked = arguments.options.missing;
  AgreeOnState(call, state.is_none() ? nullptr : &bound, RebindOf(bound, state),
               arguments.options);
  if (state.is_none()) return RestoreAll(call, arguments);
  RestoreResult result = UnlockedOrExit([&] {
    return Restore(kept.comm, arguments.path, arguments.step, bound.state(),
                   arguments.options);
  });
  TakeAbsent(asked, bound, result);
  TakeForms(call, result, bound);
  return FinishTogether(call, result, [&] { return bound.Rebuild(); });
}

py::object RestoreLatest(py::handle comm, py::handle directory,
                         py::handle state, const py::dict& given) {
  KeptComm& kept = KeptCommOf(comm, DeadlineOf(given));
  const CommUse use(kept.is_in_use);
  BoundState bound(Purpose::kRestore, kept.comm);
  RestoreArguments arguments;
  const Call call = CallOn(kept.comm, DeadlineOf(given),
                           "restore the latest step of", directory);
  PrepareTogether(call, [&] {
    arguments = ArgumentsOf(directory, py::none(), given);
    bound.Bind(state);
  });
  const MismatchPolicy asked = arguments.options.missing;
  AgreeOnState(call, &bound, RebindOf(bound, state), arguments.options);
  std::optional<RestoreResult> result = UnlockedOrExit([&] {
    return RestoreLatest(kept.comm, arguments.path, bound.state(),
                         arguments.options);
  });
  if (!result) return py::none();
  TakeAbsent(asked, bound, *result);
  TakeForms(call, *result, bound);
  return FinishTogether(call, *result, [&] { return bound.Rebuild(); });
}

// Returns the lines of all ranks, without duplicates. Each line ends with a
// newline. Collective.
std::set<std::string> UnionOf(CommContext& context, const std::string& mine) {
  const std::vector<std::string> all =
      Unlocked([&] { return AllGather(context, mine); });
  std::set<std::string> texts;
  for (const std::string& of_rank : all) {
    std::istringstream lines(of_rank);
    for (std::string line; std::getline(lines, line);) texts.insert(line);
  }
  return texts;
}

// Returns the numbers that every rank has. Collective.
std::set<uint64_t> CommonOf(CommContext& context,
                            const std::set<uint64_t>& mine) {
  std::string own;
  for (const uint64_t number : mine) own += std::to_string(number) + "\n";
  const std::vector<std::string> all =
      Unlocked([&] { return AllGather(context, own); });
  std::map<uint64_t, int> ranks;
  for (const std::string& of_rank : all) {
    std::istringstream numbers(of_rank);
    for (uint64_t number = 0; numbers >> number;) ++ranks[number];
  }
  std::set<uint64_t> common;
  for (const auto& [number, count] : ranks) {
    if (count == context.size()) common.insert(number);
  }
  return common;
}

std::function<Status(const StoredStep&)> RebindAtOpen(
    std::function<void(std::vector<std::string>)> rebind) {
  return [rebind = std::move(rebind)](const StoredStep& stored) {
    std::vector<std::string> keys;
    keys.reserve(stored.arrays.size());
    for (const StepArray& array : stored.arrays) keys.push_back(array.key);
    const py::gil_scoped_acquire lock;
    try {
      rebind(std::move(keys));
    } catch (const StatusError& error) {
      return error.status();
    } catch (const py::error_already_set& error) {
      return StatusOfCallback(error);
    }
    return absl::OkStatus();
  };
}

}  // namespace

void AgreeOnState(const Call& call, BoundState* bound,
                  std::function<void(std::vector<std::string> keys)> rebind,
                  RestoreOptions& options) {
  CommContext context = ContextOf(call, "state");
  std::string mine;
  if (bound != nullptr) {
    for (const std::string& prefix : bound->optional()) {
      mine += KeyPrefix(prefix) + "\n";
    }
  }
  const int64_t rank = context.rank(), size = context.size();
  // The lowest rank without a state, the lowest with one, and whether any rank
  // has optional keys and open ends.
  int64_t words[] = {bound == nullptr ? rank : size,
                     bound != nullptr ? rank : size, mine.empty() ? 1 : 0,
                     bound == nullptr || bound->open_ends().empty() ? 1 : 0};
  Unlocked([&] { return MinAll(context, words); });
  const auto& [without, with, no_optional, no_ends] = words;
  if (with == size) return;
  if (without != size) {
    ThrowInvalid("restore: rank " + std::to_string(without) +
                 " passes no state, but rank " + std::to_string(with) +
                 " does; pass one on all ranks or on none");
  }
  std::set<uint64_t> agreed;
  if (no_ends == 0) {
    agreed = CommonOf(context, bound->open_ends());
    // A list of numbers may be stored as one array.
    options.on_open = RebindAtOpen(std::move(rebind));
  }
  bound->set_agreed_ends(std::move(agreed));
  if (no_optional != 0) return;
  for (const std::string& keys : UnionOf(context, mine)) {
    options.args.push_back({keys, {.allow_missing = true}});
  }
  if (options.missing == MismatchPolicy::kIgnore) {
    options.missing = MismatchPolicy::kCollect;
  }
}

void TakeAbsent(MismatchPolicy asked, BoundState& bound,
                RestoreResult& result) {
  result.missing = bound.TakeMissing(std::move(result.missing));
  if (asked == MismatchPolicy::kIgnore) result.missing.clear();
}

void TakeForms(const Call& call, const RestoreResult& result,
               BoundState& bound) {
  CommContext context = ContextOf(call, "forms");
  int64_t any = bound.needs_forms() ? 1 : 0;
  Unlocked([&] { return MaxAll(context, {&any, 1}); });
  if (any == 0) return;
  bound.set_forms(FormsTogether(call, result.path));
}

void DefineSaveRestore(py::module_& module) {
  module.def("save", &SaveState);
  module.def("restore", &RestoreState);
  module.def("restore_latest", &RestoreLatest);
  module.def("step_path", [](py::handle directory, int64_t step) {
    return StepPath(PathOf(directory), step);
  });
  module.def("list_steps", [](py::handle directory, const std::string& prefix) {
    const std::string path = PathOf(directory);
    return Unlocked([&] { return ListSteps(path, prefix); });
  });
}

}  // namespace belay::python
