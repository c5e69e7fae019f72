#include "big_int.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "belay/state.h"
#include "errors.h"

namespace belay::python {
namespace {

class IntCellHandler : public Handler<IntCell> {
 public:
  std::string typestr() const override { return std::string(kBigIntTypestr); }
  bool HasFinalize() const override { return false; }
  // Ints of at most 64 bits are stored as numbers.
  bool Accepts(const StoredValue&) const override { return true; }

  Status ListForSave(IntCell& cell, State& parts) const override {
    if (cell.digits) {
      parts.Add("", *cell.digits);
    } else {
      parts.Add("", cell.number);
    }
    return absl::OkStatus();
  }

  Status ListForRestore(IntCell& cell, const StoredValue& stored,
                        State& parts) const override {
    cell.digits.reset();
    if (stored.typestr == kBigIntTypestr) cell.digits.emplace();
    return ListForSave(cell, parts);
  }
};

}  // namespace

IntCell IntCellOf(py::handle number) {
  IntCell cell;
  int overflow = 0;
  cell.number = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow == 0) return cell;
  const auto digits =
      py::reinterpret_steal<py::str>(PyNumber_ToBase(number.ptr(), 10));
  if (!digits) throw py::error_already_set();
  cell.digits = std::string(digits);
  return cell;
}

py::object IntOf(const IntCell& cell) {
  if (!cell.digits) return py::int_(cell.number);
  PyObject* const number =
      MayBeBigInt(*cell.digits)
          ? PyLong_FromString(cell.digits->c_str(), nullptr, 10)
          : nullptr;
  if (number != nullptr) return py::reinterpret_steal<py::object>(number);
  PyErr_Clear();
  throw StatusError(absl::DataLossError(
      "an int is stored as \"" + *cell.digits + "\", which is not an int"));
}

bool MayBeBigInt(std::string_view text) {
  constexpr size_t kFewestDigits = 19;  // of 2**63
  if (text.starts_with('-')) text.remove_prefix(1);
  return text.size() >= kFewestDigits &&
         std::all_of(text.begin(), text.end(),
                     [](char one) { return one >= '0' && one <= '9'; });
}

TypeHandlerPtr IntHandler() {
  static const TypeHandlerPtr handler =
      std::make_shared<const IntCellHandler>();
  return handler;
}

}  // namespace belay::python
