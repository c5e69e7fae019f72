#include "save_restore.h"

#include <mpi.h>

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
#include "key_check.h"
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
  PrepareTogether(kept.comm, DeadlineOf(given), [&] {
    path = PathOf(directory);
    number = NumberedStepOf(step);
    OptionReader reader(given);
    ReadSaveOptions(reader, options);
    reader.Finish();
    bound = &kept.saved.Bind(state, kept.comm.rank());
  });
  WarnOfOtherKeys(kept.comm, path, *bound, kept.saved);
  options.cache = &kept.cache;
  return UnlockedWithCallbacks(kept.comm, DeadlineOf(given), [&] {
    return Save(kept.comm, path, number, bound->state(), options);
  });
}

// Lets the program's arrays and a new structure take what was restored; agrees
// that this has worked. Collective.
py::object FinishTogether(const Comm& comm, double deadline_seconds,
                          const RestoreResult& result,
                          const std::function<py::object()>& state) {
  py::object restored;
  PrepareTogether(comm, deadline_seconds,
                  [&] { restored = RestoreResultOf(result, state()); });
  return restored;
}

// What both kinds of restore read.
struct RestoreCall {
  std::string path;
  std::optional<int64_t> step;
  RestoreOptions options;
};

RestoreCall CallOf(py::handle directory, py::handle step,
                   const py::dict& given) {
  RestoreCall call{PathOf(directory), StepOf(step), {}};
  OptionReader reader(given);
  ReadRestoreOptions(reader, call.options);
  reader.Finish();
  return call;
}

// Texts as one: the length of each goes before it.
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

// The forms of the values of a step, which rank 0 reads. Collective.
StoredForms FormsTogether(const Comm& comm, double deadline_seconds,
                          const std::string& path) {
  std::string lines;
  PrepareTogether(comm, deadline_seconds, [&] {
    if (comm.rank() != 0) return;
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
  auto size = static_cast<int64_t>(lines.size());
  WithoutLock([&] {
    MPI_Bcast(&size, 1, MPI_INT64_T, 0, comm.raw());
    lines.resize(static_cast<size_t>(size));
    MPI_Bcast(lines.data(), static_cast<int>(size), MPI_CHAR, 0, comm.raw());
  });
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

// Whether a tree may have structs: bytes with more than one axis.
bool MayHaveStructs(const ValueTree& tree) {
  const bool has_bytes = tree.tensor && tree.tensor->dtype() == DType::kU8 &&
                         tree.tensor->shape().size() > 1;
  return has_bytes || std::any_of(tree.items.begin(), tree.items.end(),
                                  [](const ValueTree& item) {
                                    return MayHaveStructs(item);
                                  });
}

// Every rank gets all values. Collective.
py::object RestoreAll(const Comm& comm, const RestoreCall& call,
                      double deadline_seconds) {
  // The number and the path of the step come with the choice.
  const ChosenStep chosen = Unlocked(
      [&] { return ChooseStep(comm, call.path, call.step, call.options); });
  ValueTree tree = Unlocked([&] {
    return RestoreTree(comm, chosen.path(), kLatestStep, call.options);
  });
  StoredForms forms;
  if (MayHaveStructs(tree)) {
    forms = FormsTogether(comm, deadline_seconds, chosen.path());
  }
  forms.TakeFrom(tree);
  RestoreResult result;
  result.path = chosen.path();
  result.step = chosen.step();
  return FinishTogether(comm, deadline_seconds, result,
                        [&] { return ObjectOf(tree, forms); });
}

std::function<void(std::vector<std::string>)> RebindOf(BoundState& bound,
                                                       py::handle state) {
  return [&bound, state](std::vector<std::string> keys) {
    bound.BindStored(state, std::move(keys));
  };
}

// As Unlocked; an exit that Python code of the state has asked for, such as a
// KeyboardInterrupt, goes before the error that it has become.
template <typename F>
auto UnlockedOrExit(F function) {
  auto result = WithoutLock(std::move(function));
  if (!result.ok()) ThrowPendingExit();
  return ValueOrThrow(std::move(result));
}

// A state of None stands for all values.
py::object RestoreState(py::handle comm, py::handle directory, py::handle state,
                        py::handle step, const py::dict& given) {
  KeptComm& kept = KeptCommOf(comm, DeadlineOf(given));
  const CommUse use(kept.is_in_use);
  BoundState bound(Purpose::kRestore, kept.comm.rank());
  RestoreCall call;
  PrepareTogether(kept.comm, DeadlineOf(given), [&] {
    call = CallOf(directory, step, given);
    if (!state.is_none()) bound.Bind(state);
  });
  const MismatchPolicy asked = call.options.missing;
  AgreeOnState(kept.comm, state.is_none() ? nullptr : &bound,
               RebindOf(bound, state), call.options);
  if (state.is_none()) return RestoreAll(kept.comm, call, DeadlineOf(given));
  RestoreResult result = UnlockedOrExit([&] {
    return Restore(kept.comm, call.path, call.step, bound.state(),
                   call.options);
  });
  TakeAbsent(asked, bound, result);
  TakeForms(kept.comm, DeadlineOf(given), result, bound);
  return FinishTogether(kept.comm, DeadlineOf(given), result,
                        [&] { return bound.Rebuild(); });
}

py::object RestoreLatest(py::handle comm, py::handle directory,
                         py::handle state, const py::dict& given) {
  KeptComm& kept = KeptCommOf(comm, DeadlineOf(given));
  const CommUse use(kept.is_in_use);
  BoundState bound(Purpose::kRestore, kept.comm.rank());
  RestoreCall call;
  PrepareTogether(kept.comm, DeadlineOf(given), [&] {
    call = CallOf(directory, py::none(), given);
    bound.Bind(state);
  });
  const MismatchPolicy asked = call.options.missing;
  AgreeOnState(kept.comm, &bound, RebindOf(bound, state), call.options);
  std::optional<RestoreResult> result = UnlockedOrExit([&] {
    return RestoreLatestOrNothing(kept.comm, call.path, bound.state(),
                                  call.options);
  });
  if (!result) return py::none();
  TakeAbsent(asked, bound, *result);
  TakeForms(kept.comm, DeadlineOf(given), *result, bound);
  return FinishTogether(kept.comm, DeadlineOf(given), *result,
                        [&] { return bound.Rebuild(); });
}

// The elements of all ranks, of which they have so many. Collective.
template <typename T>
std::vector<T> GatherAll(const Comm& comm, std::span<const T> mine,
                         const std::vector<int>& counts, MPI_Datatype type) {
  std::vector<int> starts;
  int total = 0;
  for (const int count : counts) {
    starts.push_back(total);
    total += count;
  }
  std::vector<T> all(static_cast<size_t>(total));
  const py::gil_scoped_release unlock;
  MPI_Allgatherv(mine.data(), static_cast<int>(mine.size()), type, all.data(),
                 counts.data(), starts.data(), type, comm.raw());
  return all;
}

// The texts of all ranks, which end with a newline each, without duplicates.
// Collective.
std::set<std::string> UnionOf(const Comm& comm, const std::string& mine,
                              const std::vector<int>& sizes) {
  const std::vector<char> all = GatherAll<char>(comm, mine, sizes, MPI_CHAR);
  std::set<std::string> texts;
  std::istringstream lines(std::string(all.begin(), all.end()));
  for (std::string line; std::getline(lines, line);) texts.insert(line);
  return texts;
}

// Those numbers that every rank has, of which they have so many. Collective.
std::set<uint64_t> CommonOf(const Comm& comm, const std::set<uint64_t>& mine,
                            const std::vector<int>& counts) {
  const std::vector<uint64_t> own(mine.begin(), mine.end());
  std::map<uint64_t, int> ranks;
  for (const uint64_t number :
       GatherAll<uint64_t>(comm, own, counts, MPI_UINT64_T)) {
    ++ranks[number];
  }
  std::set<uint64_t> common;
  for (const auto& [number, count] : ranks) {
    if (count == comm.size()) common.insert(number);
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

void AgreeOnState(const Comm& comm, BoundState* bound,
                  std::function<void(std::vector<std::string> keys)> rebind,
                  RestoreOptions& options) {
  constexpr int kNoState = -1;
  std::string mine;
  if (bound != nullptr) {
    for (const std::string& prefix : bound->optional()) {
      mine += KeyPrefix(prefix) + "\n";
    }
  }
  const int words[] = {
      bound != nullptr ? static_cast<int>(mine.size()) : kNoState,
      bound != nullptr ? static_cast<int>(bound->open_ends().size()) : 0};
  std::vector<int> all(2 * static_cast<size_t>(comm.size()));
  {
    const py::gil_scoped_release unlock;
    MPI_Allgather(words, 2, MPI_INT, all.data(), 2, MPI_INT, comm.raw());
  }
  std::vector<int> sizes, ends;
  for (size_t i = 0; i < all.size(); i += 2) {
    sizes.push_back(all[i]);
    ends.push_back(all[i + 1]);
  }
  const auto without = std::find(sizes.begin(), sizes.end(), kNoState);
  const auto with = std::find_if(sizes.begin(), sizes.end(),
                                 [](int one) { return one != kNoState; });
  if (without == sizes.end()) {
    std::set<uint64_t> agreed = CommonOf(comm, bound->open_ends(), ends);
    // A list of numbers may be stored as one array.
    const bool any_ends =
        std::any_of(ends.begin(), ends.end(), [](int end) { return end > 0; });
    if (any_ends) options.on_open = RebindAtOpen(std::move(rebind));
    bound->set_agreed_ends(std::move(agreed));
    if (std::count(sizes.begin(), sizes.end(), 0) == comm.size()) return;
    for (const std::string& keys : UnionOf(comm, mine, sizes)) {
      options.args.push_back({keys, {.allow_missing = true}});
    }
    if (options.missing == MismatchPolicy::kIgnore) {
      options.missing = MismatchPolicy::kCollect;
    }
  } else if (with != sizes.end()) {
    ThrowInvalid("restore: rank " + std::to_string(without - sizes.begin()) +
                 " passes no state, but rank " +
                 std::to_string(with - sizes.begin()) +
                 " does; pass one on all ranks or on none");
  }
}

void TakeAbsent(MismatchPolicy asked, BoundState& bound,
                RestoreResult& result) {
  result.missing = bound.TakeMissing(std::move(result.missing));
  if (asked == MismatchPolicy::kIgnore) result.missing.clear();
}

void TakeForms(const Comm& comm, double deadline_seconds,
                const RestoreResult& result, BoundState& bound) {
  const int mine = bound.needs_forms() ? 1 : 0;
  int any = 0;
  WithoutLock(
      [&] { MPI_Allreduce(&mine, &any, 1, MPI_INT, MPI_MAX, comm.raw()); });
  if (any == 0) return;
  bound.set_forms(FormsTogether(comm, deadline_seconds, result.path));
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
