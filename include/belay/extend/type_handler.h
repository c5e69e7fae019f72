// Handlers: how values of the program's own C++ types are stored.
//
//   class MaskHandler : public belay::Handler<Mask> {
//    public:
//     std::string typestr() const override { return "mask"; }
//     bool HasFinalize() const override { return false; }
//     Status ListForSave(Mask& mask, State& parts) const override {
//       parts.AddReplicated("", {mask.size()}, AtAddress(mask.data()));
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
// A handler lists the arrays that a value consists of; belay stores them. A
// handler never calls MPI or HDF5, and ranks may list different pieces.

#ifndef BELAY_EXTEND_TYPE_HANDLER_H_
#define BELAY_EXTEND_TYPE_HANDLER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/status.h"

namespace belay {

class State;

// One of the arrays that store a value.
struct ValuePart {
  std::string name;  // relative to the value's key; "": the key itself
  DType dtype = DType::kU8;
  Shape shape;  // of the whole array
  int64_t bytes = 0;

  friend bool operator==(const ValuePart&, const ValuePart&) = default;
};

// The typestrs of stored arrays that need no handler. "group" is for arrays
// below a key about which the checkpoint records nothing else.
inline constexpr std::string_view kScalarTypestr = "scalar";
inline constexpr std::string_view kArrayTypestr = "array";
inline constexpr std::string_view kStringTypestr = "string";
inline constexpr std::string_view kGroupTypestr = "group";
// The typestrs of an absent value, of a map and of a list. Maps and lists may
// be empty.
inline constexpr std::string_view kNoneTypestr = "None";
inline constexpr std::string_view kDictTypestr = "Dict";
inline constexpr std::string_view kListTypestr = "List";

// What a checkpoint records about a value, without its bytes.
struct StoredValue {
  std::string key;
  std::string typestr;  // of the handler that stored it, or one of the above
  std::vector<ValuePart> parts;  // ascending by name
  // Nested values with their own handlers, under their full keys.
  std::vector<StoredValue> values;

  // Returns the part of that name, or null. Local.
  const ValuePart* Find(std::string_view name) const;

  friend bool operator==(const StoredValue&, const StoredValue&) = default;
};

// A borrowed value of the program and its C++ type. A const value can be saved
// but not restored.
struct ValueRef {
  void* address = nullptr;
  std::type_index type = typeid(void);
  bool is_const = false;

  // Returns the value, or null if its type is not T. Local.
  template <typename T>
  T* As() const {
    return type == typeid(T) ? static_cast<T*>(address) : nullptr;
  }
};

// Returns a reference to an object. Local.
template <typename T>
ValueRef RefTo(T& object) {
  return {const_cast<void*>(static_cast<const void*>(std::addressof(object))),
          typeid(T), std::is_const_v<T>};
}

// Its functions may be called from several threads concurrently, for different
// values. An error that they return, or an exception that they throw, becomes
// the error of the save or the restore, on all ranks. Local.
class TypeHandler {
 public:
  virtual ~TypeHandler() = default;

  // Returns the name that is stored with each value. It must never change and
  // must be unique in a registry.
  virtual std::string typestr() const = 0;

  // Adds the parts of the value to `parts`, under keys relative to its own key;
  // "" is the value itself. Parts may be other values as well. Everything added
  // is borrowed until the save returns; Own keeps objects that the handler
  // creates alive.
  virtual Status ListValueForSave(const ValueRef& value,
                                  State& parts) const = 0;

  // Adds the stored parts that the restore must read. It may first resize the
  // value, whose size or partitioning may differ from that of the save.
  virtual Status ListValueForRestore(const ValueRef& value,
                                     const StoredValue& stored,
                                     State& parts) const = 0;

  // Called when everything that was listed has been read. Parts that it adds to
  // `more` are read next, and then it is called again; `round` counts the
  // calls, from 0. Owned<T>(more, i) (belay/extend/state.h) returns the objects
  // that were kept for the value.
  virtual Status ValueReceived(const ValueRef& value, const StoredValue& stored,
                               int round, State& more) const;

  // Returns whether this handler can restore this stored value: by default,
  // true for its own typestr and for arrays that had no handler.
  virtual bool Accepts(const StoredValue& stored) const;

  // Rank 0 only. Called once for each save that stored a value with this
  // handler, when all bytes are in `directory` and before the directory gets
  // its final name. It may read the files there but must not change them. Files
  // that it adds are not part of the checkpoint: nothing keeps or checks them.
  virtual Status Finalize(const std::string& directory) const;

  // Returns whether Finalize must be called; true by default. If no handler
  // needs it, a save in the background is committed by the thread that writes
  // it, and MPI_Finalize can finish it (docs/async.md). belay's own handlers
  // return false; a handler that does not override Finalize should do so as
  // well.
  virtual bool HasFinalize() const;

  // Returns the bytes of all parts that this rank lists for a save.
  virtual StatusOr<int64_t> MemorySize(const ValueRef& value) const;
};

// A handler for values of one type. Local.
template <typename T>
class Handler : public TypeHandler {
 public:
  // ListValueForSave, ListValueForRestore and ValueReceived, for a T.
  virtual Status ListForSave(T& value, State& parts) const = 0;
  virtual Status ListForRestore(T& value, const StoredValue& stored,
                                State& parts) const = 0;
  virtual Status Received(T& /*value*/, const StoredValue& /*stored*/,
                          int /*round*/, State& /*more*/) const {
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
    return absl::InvalidArgumentError("the handler \"" + typestr() +
                                      "\" handles another type than this "
                                      "value's: derive it from TypeHandler, "
                                      "or register it for one type only");
  }
};

using TypeHandlerPtr = std::shared_ptr<const TypeHandler>;

// Set this to true for a type of the standard library that belay has no handler
// for, if the program registers one:
//   template <>
//   inline constexpr bool belay::kHasRegisteredHandler<std::set<int>> = true;
template <typename T>
inline constexpr bool kHasRegisteredHandler = false;

// Implementation details.
namespace standard {

// Returns whether a type is from the standard library. Local.
template <typename T>
constexpr bool IsOfStd() {
  return std::string_view(__PRETTY_FUNCTION__).find("T = std::") !=
         std::string_view::npos;
}
// Returns whether a type is from Eigen. Local.
template <typename T>
constexpr bool IsOfEigen() {
  return std::string_view(__PRETTY_FUNCTION__).find("T = Eigen::") !=
         std::string_view::npos;
}

}  // namespace standard

// belay's own handler for a class template such as std::optional, used if the
// registry has none. For other types, the program must register a handler.
// Local.
template <typename T>
struct StandardHandler {
  static TypeHandlerPtr Get() {
    static_assert(!standard::IsOfStd<T>() || kHasRegisteredHandler<T>,
                  "belay has no handler for this type T of the standard "
                  "library: store what it holds in a type that belay knows "
                  "(docs/handlers.md), include belay/arrays/mdspan.h for a "
                  "std::mdspan, or register a handler and set "
                  "belay::kHasRegisteredHandler<T> to true");
    static_assert(!standard::IsOfEigen<T>() || kHasRegisteredHandler<T>,
                  "belay has no handler for this type T of Eigen: include "
                  "belay/arrays/eigen.h, which has those of matrices and "
                  "arrays, or register a handler and set "
                  "belay::kHasRegisteredHandler<T> to true");
    return nullptr;
  }
};

}  // namespace belay

#endif  // BELAY_EXTEND_TYPE_HANDLER_H_
