// Ints of any size: those beyond 64 bits are stored as their decimal digits.

#ifndef BELAY_PYTHON_BIG_INT_H_
#define BELAY_PYTHON_BIG_INT_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "belay/extend/type_handler.h"

namespace belay::python {

namespace py = pybind11;

// The typestr of a string that holds an int.
inline constexpr std::string_view kBigIntTypestr = "int";

// An int of a state.
struct IntCell {
  int64_t number = 0;
  // Decimal digits, if the int has more than 64 bits.
  std::optional<std::string> digits = std::nullopt;
};

IntCell IntCellOf(py::handle number);

// Throws a StatusError if the digits are not a decimal number.
py::object IntOf(const IntCell& cell);

// Returns whether a string may be the digits of an int beyond 64 bits.
bool MayBeBigInt(std::string_view text);

// Returns the handler that stores cells beyond 64 bits and restores all cells.
TypeHandlerPtr IntHandler();

}  // namespace belay::python

#endif  // BELAY_PYTHON_BIG_INT_H_
