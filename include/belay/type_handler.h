// How values of a C++ type of the program's own are stored.
//
//   class MaskHandler : public belay::Handler<Mask> {
//    public:
//     std::string typestr() const override { return "mask"; }
//     Status ListForSave(Mask& mask, State& parts) const override {
//       parts.AddReplicated("", {mask.size()}, mask.data());
//       return absl::OkStatus();
//     }
//     Status ListForRestore(Mask& mask, const StoredValue& stored,
//                           State& parts) const override {
//       const ValuePart* part = stored.Find("");
//       if (part == nullptr || part->shape.size() != 1) {
//         return absl::FailedPreconditionError("no mask is stored");
//       }
//       mask.Resize(part->shape[0]);
//       return ListForSave(mask, parts);
//     }
//   };
//   RegisterTypeHandler<Mask>(std::make_shared<MaskHandler>());
//
// A handler says which arrays a value consists of; belay stores them. It never
// calls MPI or HDF5, and ranks may list different pieces.

#ifndef BELAY_TYPE_HANDLER_H_
#define BELAY_TYPE_HANDLER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <vector>

#include "belay/box.h"
#include "belay/dtype.h"
#include "belay/status.h"

namespace belay {

class State;

// An array that a value is stored in.
struct ValuePart {
  std::string name;  // behind the key of the value; "": under the key itself
  DType dtype = DType::kU8;
  Shape shape;  // of the whole array
  int64_t bytes = 0;

  friend bool operator==(const ValuePart&, const ValuePart&) = default;
};

// The typestr of a stored array that needs no handler, and of arrays below a
// key of which the checkpoint says nothing more.
inline constexpr std::string_view kScalarTypestr = "scalar";
inline constexpr std::string_view kArrayTypestr = "array";
inline constexpr std::string_view kStringTypestr = "string";
inline constexpr std::string_view kGroupTypestr = "group";
// Those of nothing, of a map and of a list, which may be empty.
inline constexpr std::string_view kNoneTypestr = "None";
inline constexpr std::string_view kDictTypestr = "Dict";
inline constexpr std::string_view kListTypestr = "List";

// What a checkpoint says of a value, without its bytes.
struct StoredValue {
  std::string key;
  std::string typestr;  // of the handler that has stored it, or one of these
  std::vector<ValuePart> parts;  // ascending by name
  // Those inside this one that have a handler of their own, with whole keys.
  std::vector<StoredValue> values;

  // Returns the part of that name, or null. Local.
  const ValuePart* Find(std::string_view name) const;

  friend bool operator==(const StoredValue&, const StoredValue&) = default;
};

// A value of the program, borrowed, and its C++ type. What is const can be
// saved, for which handlers only read, and not restored.
struct ValueRef {
  void* address = nullptr;
  std::type_index type = typeid(void);
  bool is_const = false;

  // Returns the value, or null if it is no T. Local.
  template <typename T>
  T* As() const {
    return type == typeid(T) ? static_cast<T*>(address) : nullptr;
  }
};

// Refers to an object. Local.
template <typename T>
ValueRef RefTo(T& object) {
  return {const_cast<void*>(static_cast<const void*>(std::addressof(object))),
          typeid(T), std::is_const_v<T>};
}

// The functions may be called from several threads at once, for other values.
// What they return or throw is the error of the save or the restore, on all
// ranks. Local.
class TypeHandler {
 public:
  virtual ~TypeHandler() = default;

  // Returns the name that is stored beside each value; it stays the same for
  // ever, and is unique in a registry.
  virtual std::string typestr() const = 0;

  // Adds what the value consists of, under keys that are relative to its own:
  // "" is the value itself. Other values may be parts as well. What is added is
  // borrowed until the save has returned; State::Own holds on to the rest.
  virtual Status ListValueForSave(const ValueRef& value,
                                  State& parts) const = 0;

  // Adds what is wanted of the parts that are stored, perhaps after making room
  // in the value, which may be another size, or cut otherwise, than before.
  virtual Status ListValueForRestore(const ValueRef& value,
                                     const StoredValue& stored,
                                     State& parts) const = 0;

  // Called when all that was listed is there. What it adds to `more` is read
  // next, then it is called again; `round` counts the calls, from 0. What the
  // value has kept is found by more.Owned.
  virtual Status ValueReceived(const ValueRef& value, const StoredValue& stored,
                               int round, State& more) const;

  // Whether this handler can restore a value that is stored like that: those
  // with its own typestr, and arrays that had no handler.
  virtual bool Accepts(const StoredValue& stored) const;

  // Rank 0 only. Called once for each save that has stored a value with this
  // handler, when all bytes are in `directory`, before it gets its last name.
  // It may look at the files there, but must leave them as they are: what it
  // adds is no part of the checkpoint, and nothing keeps or checks it.
  virtual Status Finalize(const std::string& directory) const;

  // Returns the bytes of all parts that this rank lists for a save.
  virtual StatusOr<int64_t> MemorySize(const ValueRef& value) const;
};

// A handler for values of one type. Local.
template <typename T>
class Handler : public TypeHandler {
 public:
  // ListValueForSave, ListValueForRestore and ValueReceived of a T.
  virtual Status ListForSave(T& value, State& parts) const = 0;
  virtual Status ListForRestore(T& value, const StoredValue& stored,
                                State& parts) const = 0;
  virtual Status Received(T&, const StoredValue&, int, State&) const {
    return absl::OkStatus();
  }

  Status ListValueForSave(const ValueRef& value, State& parts) const final {
    return With(value, [&](T& it) { return ListForSave(it, parts); });
  }
  Status ListValueForRestore(const ValueRef& value, const StoredValue& stored,
                             State& parts) const final {
    return With(value,
                [&](T& it) { return ListForRestore(it, stored, parts); });
  }
  Status ValueReceived(const ValueRef& value, const StoredValue& stored,
                       int round, State& more) const final {
    return With(value,
                [&](T& it) { return Received(it, stored, round, more); });
  }

 private:
  template <typename Function>
  Status With(const ValueRef& value, Function function) const {
    if (T* it = value.As<T>()) return function(*it);
    return absl::InvalidArgumentError(
        "the handler \"" + typestr() +
        "\" is for another type than this value's: make it a TypeHandler, or "
        "its entry for one type");
  }
};

using TypeHandlerPtr = std::shared_ptr<const TypeHandler>;

// The handler that belay itself has for a class template, such as
// std::optional; it is used where the registry has none. Local.
template <typename T>
struct StandardHandler {
  static TypeHandlerPtr Get() { return nullptr; }
};

}  // namespace belay

#endif  // BELAY_TYPE_HANDLER_H_
