// Descriptions of objects, for saving and restoring them by name.
//
//   struct Dense {
//     std::vector<float> kernel, bias;
//     int64_t steps = 0;
//     void Track(belay::Tracker& tracker) {
//       tracker.Value("kernel", {128, 64}, kernel);
//       tracker.Value("bias", bias);
//       tracker.Child("steps", steps);
//     }
//   };
//
// One function describes an object for both save and restore; no base class is
// needed. Describing does no I/O and reads no values. The described objects are
// borrowed until the save or the restore returns.
//
// An object is identified by its address, an array by its address and shape. An
// object that is reached by two paths is one object, and objects may refer to
// each other in cycles. A piece that is given by a pointer and has no elements
// on this rank has no address to identify it; the ranks that hold elements
// determine which array it belongs to. Mistakes such as a null child or a
// duplicate name are collected and returned by the save or the restore.

#ifndef BELAY_OBJECTS_TRACKABLE_H_
#define BELAY_OBJECTS_TRACKABLE_H_

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/layout.h"
#include "belay/extend/type_handler.h"
#include "belay/objects/tracked_value.h"
#include "belay/rows.h"
#include "belay/status.h"

namespace belay {

class GraphBuilder;
class Tracker;

// For objects that the program holds by pointers to a base class. All other
// objects need only a member function Track.
class Trackable {
 public:
  virtual ~Trackable() = default;

  // Describes the object. Local.
  virtual void Track(Tracker& tracker) = 0;
};

template <typename T>
concept NotTrackedValue = !std::convertible_to<T, TrackedValue>;

class ObjectRef;
template <typename T>
concept NotObjectRef = !std::same_as<std::remove_cvref_t<T>, ObjectRef>;

// A type whose values are stored by a handler (type_handler.h).
template <typename T>
concept HandledType = std::is_class_v<T>;

// Any object that can be tracked, borrowed:
//   - a value: anything that a TrackedValue can be constructed from
//   - an object with a member Track(Tracker&), such as a Trackable
//   - a function of a Tracker&, which describes an object without an address:
//     each use is a separate object. It is called later, so its captures must
//     live as long as the objects do
//   - a range of these, whose children are named "0", "1", ..., or a map, whose
//     keys name its children
//   - a pointer to one of these: raw, unique, shared or optional. It is
//     borrowed like an object and followed each time the objects are described,
//     so its target may change. Only a raw pointer may be a temporary; it is
//     copied
//   - any other class: a value that needs a handler for its type
// Other types do not compile.
class ObjectRef {
 public:
  // Refers to nothing.
  ObjectRef() = default;
  template <NotObjectRef T>
  ObjectRef(T&& object);

  // Follows its pointers to their current target on this rank. The other
  // functions require that this was called. Local.
  void Follow(int rank) {
    while (follow_ != nullptr) *this = follow_();
    if (value_ != nullptr) id_ = value_->id(rank);
  }
  // Returns whether this refers to nothing. Local.
  bool is_null() const { return track_ == nullptr; }
  const ObjectId& id() const { return id_; }
  // Returns whether this is a value without an identity on this rank. Local.
  bool is_empty() const { return value_ != nullptr && id_.address == nullptr; }
  // Describes the object. Local.
  void Track(Tracker& tracker) const { track_(tracker); }

 private:
  template <typename Key>
  static std::string NameOf(const Key& key) {
    if constexpr (std::integral<Key>) {
      return std::to_string(key);
    } else {
      return std::string(std::string_view(key));
    }
  }

  // T is Tracker, which is incomplete here.
  template <typename R, typename T>
  static void TrackRange(R& range, T& tracker) {
    if constexpr (requires { typename R::mapped_type; }) {
      for (auto& [key, object] : range) tracker.Child(NameOf(key), object);
    } else {
      int64_t position = 0;
      for (auto& object : range) {
        tracker.Child(std::to_string(position++), object);
      }
    }
  }

  // Set for a pointer, which has neither `value_` nor `track_`.
  std::function<ObjectRef()> follow_;
  std::shared_ptr<const TrackedValue> value_;  // its id depends on the rank
  ObjectId id_;
  std::function<void(Tracker&)> track_;
};

// Collects the description of one object. A name must not be empty; '/', '.'
// and any UTF-8 are allowed. The names of values are separate from those of
// children.
class Tracker {
 public:
  // Adds a value of the object. Local.
  void Value(std::string_view name, const TrackedValue& value);
  // Adds an array that every rank holds in full, equal on all ranks. Local.
  void Value(std::string_view name, const Shape& shape, const Memory& memory) {
    Value(name, TrackedValue(shape, memory));
  }
  // Adds this rank's piece of an array that is laid out on a mesh. Local.
  void Value(std::string_view name, const Layout& layout,
             const Shape& global_shape, const Memory& memory) {
    Value(name, TrackedValue(layout, global_shape, memory));
  }

  // Adds a value of any other class, for the handler of its type. Local.
  template <NotTrackedValue T>
  void Value(std::string_view name, T&& value) {
    using U = std::remove_reference_t<T>;
    constexpr bool kGoes = std::convertible_to<U&, TrackedValue>;
    if constexpr (kGoes) tracking::RequireThatItLasts<T, false>();
    static_assert(kGoes || !std::is_arithmetic_v<U>,
                  "belay has no DType for this C++ type");
    static_assert(kGoes || (HandledType<U> && std::is_lvalue_reference_v<T>),
                  "belay has no value of this type: it stores numbers of at "
                  "most 8 bytes, texts, contiguous ranges of numbers, and "
                  "objects of classes that have a handler, none of them "
                  "temporary");
    if constexpr (!kGoes) {
      HandledValue(name, RefTo(value),
                   StandardHandler<std::remove_const_t<U>>::Get());
    }
  }

  // Adds a value that is separate on each rank, as State::AddPerRank does.
  // Local.
  template <PerRankValue T>
  void PerRank(std::string_view name, T& value,
               const PerRankOptions& options = {}) {
    RowsShard(name, PerRankOf(value, options));
  }
  // Adds the rows of an array that this rank holds, as State::AddRows does.
  // Local.
  template <RowRange R>
  void Rows(std::string_view name, R& rows,
            const RowsOptions<std::remove_cv_t<std::ranges::range_value_t<R>>>&
                options = {}) {
    RowsShard(name, RowsOf(rows, options));
  }

  // Adds rows with global ids, as State::AddRowsById does. Local.
  template <IdRange Ids, RowRange R>
  void RowsById(std::string_view name, const Ids& ids, R& rows,
                const IdOptions& options = {}) {
    RowsShard(name, RowsByIdOf(ids, rows, options));
  }
  // Does not compile: the ids must not be a temporary. Local.
  template <LastingIds Ids, RowRange R>
  void RowsById(std::string_view name, const Ids&& ids, R& rows,
                const IdOptions& options = {}) = delete;

  // Adds state that only the program can read, such as that of a random
  // generator, equal on all ranks. A save calls `get`, a restore calls `set`.
  // Local.
  void Bytes(std::string_view name, std::function<StatusOr<std::string>()> get,
             std::function<Status(const std::string&)> set);

  // Adds an object that this one holds or refers to. Local.
  void Child(std::string_view name, ObjectRef object);

  // Adds the state that this object, an optimizer, keeps for a variable. The
  // variable must be tracked as a child of some object. `slot` has no other
  // path and no children. Local.
  void Slot(std::string_view name, ObjectRef variable, ObjectRef slot);

  // Returns the rank that describes the object. Local.
  int rank() const;

 private:
  friend class GraphBuilder;
  void RowsShard(std::string_view name, Shard shard);
  void HandledValue(std::string_view name, const ValueRef& value,
                    TypeHandlerPtr handler);
  explicit Tracker(GraphBuilder& builder) : builder_(builder) {}

  GraphBuilder& builder_;
};

// Name of the value of a child that is itself a value.
inline constexpr std::string_view kVariableValue = "VARIABLE_VALUE";

// Implementation details: how ObjectRef classifies types.
namespace tracking {

template <typename T>
concept HasTrack = requires(T& object, Tracker& tracker) {
  object.Track(tracker);
};
template <typename T>
concept IsFunction = std::is_invocable_v<T&, Tracker&>;
template <typename T>
concept IsPointer = std::is_pointer_v<T> || requires(T& pointer) {
  { *pointer } -> std::same_as<typename T::element_type&>;
  static_cast<bool>(pointer);
} || requires(T& optional) {
  { *optional } -> std::same_as<typename T::value_type&>;
  optional.has_value();
};
template <typename T>
concept HoldsObjects = std::ranges::range<T> &&
    std::is_lvalue_reference_v<std::ranges::range_reference_t<T>>;
// For a forwarding reference T&&: a temporary pointer that may own its object.
template <typename T>
concept IsTemporaryOwner =
    !std::is_lvalue_reference_v<T> && IsPointer<std::remove_const_t<T>> &&
    !std::is_pointer_v<T>;

}  // namespace tracking

template <NotObjectRef T>
ObjectRef::ObjectRef(T&& object) {
  using U = std::remove_reference_t<T>;
  constexpr bool kLasts = std::is_lvalue_reference_v<T>;
  if constexpr (std::same_as<std::remove_const_t<U>, TrackedValue> ||
                (ElementRange<U> &&
                 (std::ranges::view<U> ||
                  (!kLasts && std::ranges::borrowed_range<T>)))) {
    value_ = std::make_shared<const TrackedValue>(std::forward<T>(object));
    track_ = [value = value_](Tracker& tracker) {
      tracker.Value(kVariableValue, *value);
    };
  } else if constexpr (tracking::IsPointer<std::remove_const_t<U>>) {
    static_assert(!tracking::IsTemporaryOwner<T>,
                  "belay borrows what it tracks: a temporary pointer may own "
                  "its object, so give belay one that lasts, or a plain one");
    const auto lead = [](auto& pointer) {
      return pointer ? ObjectRef(*pointer) : ObjectRef();
    };
    if constexpr (kLasts) {
      follow_ = [lead, &object] { return lead(object); };
    } else {
      follow_ = [lead, object] { return lead(object); };
    }
  } else if constexpr (tracking::HasTrack<U> && kLasts) {
    id_ = IdOf(object);
    track_ = [&object](Tracker& tracker) { object.Track(tracker); };
  } else if constexpr (tracking::IsFunction<std::remove_const_t<U>>) {
    track_ = std::forward<T>(object);
  } else if constexpr (std::is_constructible_v<TrackedValue, U&> && kLasts) {
    id_ = TrackedValue(object).id(0);  // whole, so the same on all ranks
    track_ = [&object](Tracker& tracker) {
      tracker.Value(kVariableValue, TrackedValue(object));
    };
  } else if constexpr (tracking::HoldsObjects<U> && kLasts &&
                       !std::is_const_v<U>) {
    id_ = IdOf(object);
    track_ = [&object](Tracker& tracker) { TrackRange(object, tracker); };
  } else if constexpr (!kLasts && (tracking::HasTrack<U> ||
                                   std::is_constructible_v<TrackedValue, U&> ||
                                   tracking::HoldsObjects<U>)) {
    tracking::RequireThatItLasts<T, kLasts>();
  } else if constexpr (HandledType<U> && kLasts) {
    id_ = IdOf(object);
    track_ = [&object](Tracker& tracker) {
      tracker.Value(kVariableValue, object);
    };
  } else {
    static_assert(!std::is_arithmetic_v<U>,
                  "belay has no DType for this C++ type");
    static_assert(std::is_arithmetic_v<U>,
                  "belay cannot track this type: it needs a member "
                  "Track(belay::Tracker&), or to be a value, a container or a "
                  "pointer that belay knows, and not temporary");
  }
}

}  // namespace belay

#endif  // BELAY_OBJECTS_TRACKABLE_H_
