// Converts keyword arguments to options of belay.

#ifndef BELAY_PYTHON_OPTIONS_H_
#define BELAY_PYTHON_OPTIONS_H_

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "belay/arrays/dtype.h"
#include "belay/manager/manager_options.h"
#include "belay/options.h"
#include "belay/values/async_options.h"
#include "core/option_table.h"
#include "errors.h"

namespace belay::python {

// Throws a StatusError that names an option, what it accepts and what it got.
[[noreturn]] void ThrowNeeded(const std::string& name,
                              const std::string& needed, py::handle found);

// Returns what an option of this C++ type accepts, such as "a list of str".
template <typename T>
std::string NeededFor() {
  using Text = std::string;
  if constexpr (std::is_same_v<T, bool>) {
    return "True or False";
  } else if constexpr (std::is_integral_v<T>) {
    const auto bits = std::to_string(8 * sizeof(T) - 1);
    return "an int from -2**" + bits + " to 2**" + bits + " - 1";
  } else if constexpr (std::is_floating_point_v<T>) {
    return "a float";
  } else if constexpr (std::is_same_v<T, Text>) {
    return "a str";
  } else if constexpr (std::is_same_v<T, std::vector<Text>>) {
    return "a list of str";
  } else if constexpr (std::is_same_v<T, std::map<Text, Text>>) {
    return "a dict of str to str";
  } else if constexpr (std::is_same_v<T, std::map<Text, double>>) {
    return "a dict of str to float";
  } else if constexpr (requires { typename T::mapped_type; }) {
    return "a dict";
  } else if constexpr (requires { std::declval<T>().has_value(); }) {
    return NeededFor<typename T::value_type>() + ", or None";
  } else {
    return "a list of int";
  }
}

// Reads keyword arguments one by one. Throws a StatusError for a value of the
// wrong type, and at the end for a name that was not read.
class OptionReader {
 public:
  explicit OptionReader(const py::dict& given)
      : given_(given.attr("copy")().cast<py::dict>()) {}

  // Reads all options of a struct that exist in Python.
  template <typename Options>
  void ReadAll(Options& options) {
    ForEachOption<Options>([&](const auto& row) {
      auto& field = options.*row.field;
      if constexpr (std::is_same_v<decltype(field), std::vector<int>&>) {
        ReadSignals(row.name, field);
      } else if constexpr (requires { this->Read(row.name, field); }) {
        if (!row.is_only_cpp()) Read(row.other_name(), field);
      }
    });
  }

  // Sets `field` if the option is given.
  template <typename T>
  requires(!HasWords<T> && !kIsOnlyCpp<T> &&
           !OptionGroup<T>) void Read(const char* name, T& field) {
    const py::object value = Take(name);
    if (!value) return;
    py::detail::make_caster<T> caster;
    const bool is_flag = std::is_same_v<T, bool>;  // accepts only bool
    if (!caster.load(value, !is_flag)) {
      ThrowNeeded(name, NeededFor<T>(), value);
    }
    field = py::detail::cast_op<T>(std::move(caster));
  }
  template <HasWords T>
  void Read(const char* name, T& field) {
    std::vector<std::pair<const char*, T>> values;
    for (const char* const word : ListWords(field)) {
      values.emplace_back(word, static_cast<T>(values.size()));
    }
    ReadNamed(name, field, values);
  }
  // Numbers, or names such as "SIGUSR1".
  void ReadSignals(const char* name, std::vector<int>& signals);
  using BeforeCommit = decltype(SaveOptions::before_commit);
  void Read(const char* name, BeforeCommit& call);
  using AfterCommit = decltype(SaveOptions::after_commit);
  void Read(const char* name, AfterCommit& call);
  void Read(const char* name, std::vector<SaveArgsFor>& args);
  void Read(const char* name, std::vector<RestoreArgsFor>& args);
  void Read(const char* name, ShardingPolicy& policy);
  // Options of a manager.
  template <OptionGroup T>
  void Read(const char*, T& options) {
    ReadAll(options);
  }
  void Read(const char* name, SaveOptions& save);
  void Read(const char* name, std::optional<AutoInterval>& interval);
  void Read(const char* name, std::optional<AsyncOptions>& async);
  void Read(const char* name, std::function<void(int64_t, int64_t)>& progress);

  // Sets `field` to the entry of `values` that the option names.
  template <typename T>
  void ReadNamed(const char* name, T& field,
                 const std::vector<std::pair<const char*, T>>& values) {
    const py::object value = Take(name);
    if (!value) return;
    std::string known;
    for (const auto& [text, one] : values) {
      if (py::isinstance<py::str>(value) &&
          std::string(py::str(value)) == text) {
        field = one;
        return;
      }
      known += std::string(known.empty() ? "\"" : ", \"") + text + "\"";
    }
    ThrowNeeded(name, "one of " + known, value);
  }

  // Returns the value of an option; null if it is not given.
  py::object Take(const char* name);

  // Throws if options are left.
  void Finish() const;

 private:
  py::dict given_;
  std::vector<std::string> known_;
};

// Returns a path from a str or an os.PathLike.
std::string PathOf(py::handle path, const char* argument = "directory");

// Returns the dtype with that name, belay's or NumPy's.
DType DTypeNamed(py::handle name);

// Returns a step number, or nothing for None.
std::optional<int64_t> StepOf(py::handle step);
// The same, but None is an error.
int64_t NumberedStepOf(py::handle step);

}  // namespace belay::python

#endif  // BELAY_PYTHON_OPTIONS_H_
