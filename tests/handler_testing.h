// Types of a program's own, and their handlers.

#ifndef BELAY_TESTS_HANDLER_TESTING_H_
#define BELAY_TESTS_HANDLER_TESTING_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "belay/extend/type_handler.h"
#include "belay/extend/type_handler_registry.h"
#include "belay/state.h"

namespace belay::testing {

// A polynomial: its coefficients, and the name of its variable.
struct Polynomial {
  std::vector<double> coefficients;
  std::string variable = "x";

  friend bool operator==(const Polynomial&, const Polynomial&) = default;
};

class PolynomialHandler : public Handler<Polynomial> {
 public:
  explicit PolynomialHandler(std::string name = "polynomial")
      : name_(std::move(name)) {}
  std::string typestr() const override { return name_; }

  Status ListForSave(Polynomial& value, State& parts) const override {
    parts.Add("coefficients", value.coefficients);
    parts.Add("variable", value.variable);
    return absl::OkStatus();
  }
  Status ListForRestore(Polynomial& value, const StoredValue& stored,
                        State& parts) const override {
    const ValuePart* part = stored.Find("coefficients");
    if (part == nullptr || part->shape.size() != 1) {
      return absl::FailedPreconditionError("no polynomial is stored");
    }
    value.coefficients.resize(static_cast<size_t>(part->shape[0]));
    return ListForSave(value, parts);
  }

 private:
  std::string name_;
};

// A type whose handler does what a test wants.
struct Odd {
  std::vector<float> values = std::vector<float>(4);
};

class OddHandler : public Handler<Odd> {
 public:
  using List = std::function<Status(Odd&, State&)>;

  explicit OddHandler(List save, List restore = nullptr)
      : save_(std::move(save)), restore_(std::move(restore)) {}
  std::string typestr() const override { return "odd"; }

  Status ListForSave(Odd& value, State& parts) const override {
    return save_(value, parts);
  }
  Status ListForRestore(Odd& value, const StoredValue&,
                        State& parts) const override {
    return restore_ ? restore_(value, parts) : save_(value, parts);
  }

 private:
  List save_, restore_;
};

// A registry of these.
inline TypeHandlerRegistry RegistryOf(
    std::initializer_list<HandlerEntry> entries) {
  return CreateTypeHandlerRegistry(entries).value();
}

inline TypeHandlerRegistry Polynomials() {
  return RegistryOf(
      {EntryFor<Polynomial>(std::make_shared<PolynomialHandler>())});
}

}  // namespace belay::testing

#endif  // BELAY_TESTS_HANDLER_TESTING_H_
