// Handlers of random engines, such as std::mt19937; state.h includes this.
//
//   std::mt19937_64 engine;  // equal on all ranks
//   state.Add("engine", engine);
//
// Stored as the text that the engine writes to a stream, which another standard
// library may not read. The typestr contains the first number of a
// default-constructed engine, so a restore into a different type of engine is
// an error.

#ifndef BELAY_HANDLERS_RANDOM_HANDLERS_H_
#define BELAY_HANDLERS_RANDOM_HANDLERS_H_

#include <concepts>
#include <iosfwd>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "belay/extend/state.h"
#include "belay/extend/type_handler.h"
#include "belay/state.h"
#include "belay/status.h"

namespace belay {
namespace standard {

// True if the standard library detects every text that is not a valid state of
// the engine. For engines with an index into a table (std::ranlux24,
// std::knuth_b, and adaptors of them) it accepts any index. Local.
template <typename T>
consteval bool ReadsAnyTextSafely() {
  if constexpr (
      requires { T::short_lag; } || requires { T::table_size; }) {
    return false;
  } else if constexpr (requires(const T& engine) { engine.base(); }) {
    return ReadsAnyTextSafely<
        std::remove_cvref_t<decltype(std::declval<const T&>().base())>>();
  } else {
    return true;
  }
}

// std::mt19937 and other engines of the standard library or of a program.
template <typename T>
concept RandomEngine = std::default_initializable<T> && std::copyable<T> &&
    ReadsAnyTextSafely<T>() &&
    requires(T& engine, std::ostream& out, std::istream& in) {
  requires std::unsigned_integral<typename T::result_type>;
  { engine() } -> std::same_as<typename T::result_type>;
  engine.discard(1);
  engine.seed();
  out << engine;
  in >> engine;
};

// Returns what `write` writes to a stream. Local.
std::string StreamText(void (*write)(std::ostream&, const void*),
                       const void* object);
// Calls `read` to read an object from a text, all of which it must consume.
// Local.
// Errors: FailedPrecondition - `read` fails, or leaves a part of the text.
Status ReadStreamText(const std::string& text,
                      void (*read)(std::istream&, void*), void* object);

// Stores an engine as a string. Local.
template <RandomEngine T>
class RandomEngineHandler final : public Handler<T> {
 public:
  std::string typestr() const override {
    static const std::string kTypestr =
        "random_engine " + std::to_string(T()());
    return kTypestr;
  }
  bool HasFinalize() const override { return false; }
  bool Accepts(const StoredValue& stored) const override {
    return stored.typestr == typestr();
  }
  Status ListForSave(T& engine, State& parts) const override {
    const auto write = [](std::ostream& out, const void* object) {
      out << *static_cast<const T*>(object);
    };
    parts.Add(
        "",
        Own(parts, std::make_shared<std::string>(StreamText(write, &engine))));
    return absl::OkStatus();
  }
  Status ListForRestore(T&, const StoredValue&, State& parts) const override {
    parts.Add("", Own(parts, std::make_shared<std::string>()));
    return absl::OkStatus();
  }
  Status Received(T& engine, const StoredValue&, int,
                  State& more) const override {
    T found;
    Status status = ReadStreamText(
        Owned<std::string>(more, 0),
        [](std::istream& in, void* object) { in >> *static_cast<T*>(object); },
        &found);
    if (status.ok()) engine = found;
    return status;
  }
};

}  // namespace standard

// Local.
template <standard::RandomEngine T>
struct StandardHandler<T> {
  static TypeHandlerPtr Get() {
    return standard::Shared<standard::RandomEngineHandler<T>>();
  }
};

}  // namespace belay

#endif  // BELAY_HANDLERS_RANDOM_HANDLERS_H_
