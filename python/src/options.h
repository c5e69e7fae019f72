// Keyword arguments as options of belay.

#ifndef BELAY_PYTHON_OPTIONS_H_
#define BELAY_PYTHON_OPTIONS_H_

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "belay/manager/manager_options.h"
#include "belay/options.h"
#include "belay/values/async_options.h"
#include "errors.h"

namespace belay::python {

// Reads keyword arguments one by one. Throws a StatusError for a value of the
// wrong type, and at the end for a name that nobody has read.
class OptionReader {
 public:
  explicit OptionReader(const py::dict& given)
      : given_(given.attr("copy")().cast<py::dict>()) {}

  // Sets `field` if the option is given.
  template <typename T>
  void Read(const char* name, T& field) {
    const py::object value = Take(name);
    if (!value) return;
    py::detail::make_caster<T> caster;
    const bool is_flag = std::is_same_v<T, bool>;  // takes no other type
    if (!caster.load(value, !is_flag)) ThrowType(name, value);
    field = py::detail::cast_op<T>(std::move(caster));
  }

  // Sets `field` to the one of `values` that the option names.
  template <typename T>
  void ReadNamed(const char* name, T& field,
                 std::initializer_list<std::pair<const char*, T>> values) {
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
    ThrowInvalid(std::string("option ") + name + ": need one of " + known +
                 " (found " + std::string(py::repr(value)) + ")");
  }

  // Returns the value of an option; null if it is not given.
  py::object Take(const char* name);

  // Throws if options are left.
  void Finish() const;

 private:
  [[noreturn]] static void ThrowType(const char* name, const py::object& value);

  py::dict given_;
  std::vector<std::string> known_;
};

// Read one option.
void ReadFileLayout(OptionReader& reader, FileLayout& layout);
void ReadReadSharing(OptionReader& reader, ReadSharing& sharing);

// Reads the options of a save; those that are left are for the caller.
void ReadSaveOptions(OptionReader& reader, SaveOptions& options);
void ReadRestoreOptions(OptionReader& reader, RestoreOptions& options);
void ReadManagerOptions(OptionReader& reader, ManagerOptions& options);
void ReadAsyncOptions(OptionReader& reader, AsyncOptions& options);

// A directory: a str or an os.PathLike.
std::string PathOf(py::handle path);

// A whole number, or none.
std::optional<int64_t> StepOf(py::handle step);

}  // namespace belay::python

#endif  // BELAY_PYTHON_OPTIONS_H_
