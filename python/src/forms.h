// The Python forms of the values of a step: the kinds of containers and of
// their keys. They are stored as values without arrays under ".python", one for
// each container or key that needs it, with the form as typestr:
//
//   .python/kind/KEY         "tuple", {"deque": 5}, "numpy", ...
//   .python/empty/KEY        the same of a container without elements
//   .python/ints/KEY         "int": names like "7" are ints
//   .python/tensors/KEY      "tensor": arrays right below are of PyTorch
//   .python/name/KEY/NAME    JSON: the key of a dict that NAME stands for
//   .python/order/KEY/HASH   JSON: names of an OrderedDict, in order
//
// KEY and NAME are escaped (standard::PartName). Ranks that hold different
// values list different forms, and the checkpoint has those of all ranks.

#ifndef BELAY_PYTHON_FORMS_H_
#define BELAY_PYTHON_FORMS_H_

#include <pybind11/pybind11.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "belay/extend/type_handler.h"
#include "belay/handlers/value_tree.h"
#include "plan/stored_values.h"

namespace belay::python {

namespace py = pybind11;

// Returns the key under which a form of a container, or of a name in it, is
// stored.
std::string FormKey(std::string_view what, std::string_view container);
std::string FormKey(std::string_view what, std::string_view container,
                    std::string_view name);

// Represents a form in a State.
struct NoValue {};

// Returns a handler that stores a NoValue, without arrays, with this typestr.
TypeHandlerPtr FormHandler(std::string typestr);

// Returns whether str(int(name)) is the name.
bool IsIntName(std::string_view name);

// Returns whether a list with `count` stored elements may have length `length`.
// Elements that are None have no array, but a malicious file may name any
// number.
bool IsLengthOf(int64_t count, int64_t length);

struct StoredForms {
  // The fields of stored structs by their keys, such as "id:i64 x:f64[3]".
  std::map<std::string, std::string> fields;
  std::map<std::string, std::string> kinds;  // by key
  std::set<std::string> ints, tensors, empty, nones;
  // By container.
  std::map<std::string, std::map<std::string, std::string>> names;
  std::map<std::string, std::vector<std::string>> orders;
  // By container, the names of values without arrays.
  std::map<std::string, std::set<std::string>> inside;

  // Records a stored value if it is a form or a None.
  void Take(std::string_view key, const std::string& typestr);
  // Call it when all values are recorded.
  void Finish();
  // Moves the forms of a whole checkpoint out of its tree.
  void TakeFrom(ValueTree& tree);
  // Returns whether there is a container or None at the key.
  bool Has(const std::string& key) const {
    return empty.contains(key) || nones.contains(key) || inside.contains(key);
  }
};

// Functions of belay._kinds.
py::object Kinds(const char* function);

// Calls one of them with a form from a checkpoint. Throws a StatusError with
// code DataLoss if the form makes it raise.
py::object FromStored(const char* function, const std::string& form);

// Returns the kind of the container `value`, which is not one of the four most
// common ones, and whether a restore creates exactly its class.
std::pair<std::string, bool> KindOf(py::handle value);

// Returns `values`, a list or a dict, as the container of this kind.
py::object Made(const std::string& kind, py::object values);

// Returns `values` in a new container of the class of `given`.
py::object Like(py::handle given, py::object values);

}  // namespace belay::python

#endif  // BELAY_PYTHON_FORMS_H_
